//! Partitions under each recovery method as subjects of the lab: no power cut leaves half of a transaction or of a
//! statement, an index that does not agree with its table, or a slot or page that nothing leads to.
//!
//! Some transactions move amounts between two tables, some need a longer log than there is, and some storages have
//! so small a medium that steps fill it. A subject may use more than one partition of a medium, in turns.

#![allow(dead_code, reason = "each test target has some of the subjects")]

mod open;
mod refusal;
mod steps;
mod storage;
mod watched;

use std::marker::PhantomData;

use halite_lab::{Action, Digest, Random, Refusal, Subject, World};
use halite_pmem::Medium;

use self::open::Open;
use self::refusal::refusal;
use self::steps::{Step, draw, draw_first, model};
pub(crate) use self::storage::{
    CowStorage, InPStorage, LogStorage, NvmCowStorage, NvmInPStorage, NvmLogStorage,
    SmallNvmInPStorage, Storage,
};
use halite_wal::Error as LogError;

/// How a method's storage is opened.
pub(crate) trait Storage {
    type Method: Method;

    /// The name of the subject.
    const NAME: &'static str;

    /// Bytes of the medium's pool.
    const CAPACITY: u64;

    fn open(medium: &Medium) -> Result<Self::Method>;
}

pub(crate) enum CowStorage {}

impl Storage for CowStorage {
    type Method = Cow;

    const NAME: &'static str = "table:cow";
    const CAPACITY: u64 = halite_pmem::UNIT;

    fn open(medium: &Medium) -> Result<Cow> {
        let disk = Disk::model(&DiskModel::of(medium.machine()));
        let options = cow_file::Options { page_len: 512, ..cow_file::Options::default() };
        match disk.list().is_ok_and(|names| names.iter().any(|(name, _)| name == "partition")) {
            true => Cow::open(&disk, "partition", options),
            false => Cow::create(&disk, "partition", 7, options),
        }
    }
}

pub(crate) enum InPStorage {}

impl Storage for InPStorage {
    type Method = InP;

    const NAME: &'static str = "table:inp";
    const CAPACITY: u64 = halite_pmem::UNIT;

    fn open(medium: &Medium) -> Result<InP> {
        let disk = Disk::model(&DiskModel::of(medium.machine()));
        let options = inp::Options {
            node_len: 256,
            memory_bytes: 16 << 20,
            log_file_bytes: 4 << 10,
            checkpoint_bytes: 1 << 10,
            step_bytes: 2_000,
        };
        match InP::is_there(&disk)? {
            true => InP::open(&disk, 7, options),
            false => InP::create(&disk, 7, options),
        }
    }
}

pub(crate) enum NvmInPStorage {}

impl Storage for NvmInPStorage {
    type Method = NvmInP;

    const NAME: &'static str = "table:nvm-inp";
    const CAPACITY: u64 = 32 << 20;

    fn open(medium: &Medium) -> Result<NvmInP> {
        let mut options = PoolOptions::default();
        (options.size_max, options.medium) = (Self::CAPACITY, Some(medium.clone()));
        let path = Path::new("pool");
        let segments = if Pool::exists(path, &options) {
            Segments::open(path, &options)?
        } else {
            let segments = Segments::create(path, &options)?;
            segments.install()?;
            segments
        };
        NvmInP::open(&segments.device(1), nvm_inp::Options { node_len: 256 })
    }
}

/// A step of a partition's user.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// A transaction, that commits or not, and then a sync or not.
    Transaction { seed: u64, commits: bool, syncs: bool },
    /// Creates or drops a secondary index.
    Index { is_there: bool },
    /// Removes all rows by a statement.
    Truncate,
    /// Gives the space of dropped things back.
    Reclaim,
    /// Shortens the recovery.
    Checkpoint,
}

/// A change of a row.
enum Write {
    Put { key: i32, group: i16, long: Vec<u8> },
    Group { key: i32, group: i16 },
    Long { key: i32, long: Vec<u8> },
    Remove { key: i32 },
}

const KEYS: u64 = 24;
const INDEX: &str = "by_long";

fn draw(random: &mut Random) -> Step {
    match random.below(20) {
        0 => Step::Index { is_there: random.below(2) == 0 },
        1 => Step::Truncate,
        2 => Step::Reclaim,
        3 => Step::Checkpoint,
        _ => Step::Transaction {
            seed: random.next(),
            commits: random.below(6) > 0,
            syncs: random.below(3) > 0,
        },
    }
}

fn writes(seed: u64) -> Vec<Write> {
    let mut random = Random::new(seed);
    let is_run = random.below(3) == 0;
    let from = random.below(KEYS);
    let removes = random.below(4) == 0;
    let count = 1 + random.below(if is_run { 14 } else { 5 });
    let write = |number: u64, random: &mut Random| {
        let key = if is_run { (from + number) % KEYS } else { random.below(KEYS) } as i32;
        let group = random.below(3) as i16;
        let len = [3, 30, 300, 3_000][random.below(4) as usize];
        let long = vec![random.below(200) as u8; len];
        match random.below(8) {
            _ if removes => Write::Remove { key },
            0 => Write::Remove { key },
            1 | 2 => Write::Group { key, group },
            3 => Write::Long { key, long },
            _ => Write::Put { key, group, long },
        }
    };
    (0..count).map(|number| write(number, &mut random)).collect()
}

fn schema() -> TableSchema {
    let builder = TableSchema::builder("t")
        .column("key", Type::Int32)
        .column("group", Type::Int16)
        .nullable("long", Type::Bytes(3_000));
    builder.primary_key(["key"]).index("by_group", ["group"]).build().expect("it is right")
}

fn group_of(key: i32) -> Vec<u8> {
    format!("group of row {key:03}").into_bytes()
}

fn long_of(key: i32) -> Vec<u8> {
    format!("long of row {key:03}").into_bytes()
}

fn digest(group: i16) -> Digest {
    Digest::of(&group.to_le_bytes())
}

/// A partition, opened.
pub(crate) struct Open<M> {
    partition: Partition<M>,
    /// A step failed in the midst: what it wrote cannot be told from what there was before.
    has_failed: bool,
}

impl<M: Method> Open<M> {
    fn table(&self) -> Result<Table> {
        self.partition.catalog().table("t").map(|table| Table::clone(table))
    }

    fn run(&mut self, seed: u64, commits: bool) -> Result<()> {
        let table = self.table()?;
        let key_of = |key: i32| table.schema().primary_key().encode(&values![key]);
        self.partition.begin()?;
        for write in writes(seed) {
            match write {
                Write::Put { key, group, long } => {
                    let row = Row::from_values(table.schema(), &values![key, group, &long[..]])?;
                    self.partition.delete(&table, &key_of(key)?)?;
                    self.partition.insert(&table, &row)?;
                }
                Write::Group { key, group } => {
                    let changes = [Change::new(1, group)];
                    self.partition.update(&table, &key_of(key)?, &changes)?;
                }
                Write::Long { key, long } => {
                    let changes = [Change::new(2, &long[..])];
                    self.partition.update(&table, &key_of(key)?, &changes)?;
                }
                Write::Remove { key } => drop(self.partition.delete(&table, &key_of(key)?)?),
            }
        }
        match commits {
            true => self.partition.commit().map(drop),
            false => self.partition.abort(),
        }
    }

    fn apply(&mut self, step: &Step) -> Result<()> {
        match *step {
            Step::Transaction { seed, commits, syncs } => {
                if let Err(error) = self.run(seed, commits) {
                    // A failed commit has ended it.
                    let _ = self.partition.abort();
                    return Err(error);
                }
                if syncs { self.partition.sync().map(drop) } else { Ok(()) }
            }
            Step::Index { is_there } => {
                let has = self.table()?.schema().index(INDEX).is_ok();
                match (has, is_there) {
                    (false, true) => {
                        self.partition.create_index("t", INDEX, &["group", "key"], true).map(drop)
                    }
                    (true, false) => self.partition.drop_index("t", INDEX),
                    _ => self.partition.sync().map(drop),
                }
            }
            Step::Truncate => self.partition.truncate_table("t").map(drop),
            Step::Reclaim => {
                self.partition.reclaim()?;
                self.partition.sync().map(drop)
            }
            Step::Checkpoint => self.partition.checkpoint(),
        }
    }

    fn world(&self) -> Result<World> {
        let table = self.table()?;
        let mut world = World::new();
        let visit = |_: &[u8], row: halite_table::RowRef<'_>| {
            let long = row.long_bytes(2)?.unwrap_or_default();
            let (key, group) = (row.int(0)? as i32, row.int(1)? as i16);
            world.insert(group_of(key), digest(group));
            world.insert(long_of(key), Digest::of(long));
            Ok(ControlFlow::Continue(()))
        };
        self.partition.scan(&table, None, &KeyRange::all(), Direction::Forward, visit)?;
        if table.schema().index(INDEX).is_ok() {
            world.insert(INDEX.into(), Digest::of(&[]));
        }
        Ok(world)
    }
}

/// The subject of a method.
pub(crate) struct Methods<S> {
    name: &'static str,
    partitions: usize,
    _storage: PhantomData<fn() -> S>,
}

impl<S: Storage> Methods<S> {
    /// One partition.
    pub(crate) const NEW: Self = Self { name: S::NAME, partitions: 1, _storage: PhantomData };

    /// Some partitions of one medium, which take steps in turns. Each becomes durable by itself.
    pub(crate) const fn in_turns(name: &'static str, partitions: usize) -> Self {
        Self { name, partitions, _storage: PhantomData }
    }
}

impl<S: Storage> Subject for Methods<S> {
    type Step = Step;
    type Open = Open<S::Method>;

    fn name(&self) -> &str {
        self.name
    }

    fn capacity(&self) -> u64 {
        S::CAPACITY
    }

    fn history(&self, random: &mut Random) -> Vec<Action<Step>> {
        let draw = |random: &mut Random| draw_first(random, self.partitions, S::FILLS);
        let action = |random: &mut Random| match random.below(100) {
            0..8 => Action::Reopen,
            8..14 => Action::Kill,
            14..20 => Action::KillWithin(None, random.below(20) as u32),
            20..36 => Action::KillWithin(Some(draw(random)), random.below(60) as u32),
            _ => Action::Step(draw(random)),
        };
        (0..1 + random.below(12)).map(|_| action(random)).collect()
    }

    fn afterlife(&self, random: &mut Random) -> Vec<Step> {
        (0..random.below(3)).map(|_| draw(random, self.partitions)).collect()
    }

    fn open(&self, medium: &Medium) -> Result<Self::Open, Refusal> {
        let methods = match self.partitions {
            1 => S::open(medium).map(|method| vec![method]),
            count => S::open_all(medium, count),
        };
        methods.and_then(Open::new).map_err(|error| refusal(&error))
    }

    fn apply(&self, open: &mut Self::Open, step: &Step) -> Result<(), String> {
        open.apply(step)
    }

    fn model(&self, world: &mut World, step: &Step) -> bool {
        model(world, step)
    }

    fn part_of(&self, name: &[u8]) -> usize {
        usize::from(name[0] - b'0')
    }

    fn parts_of(&self, world: &World, step: &Step) -> Option<(Vec<usize>, bool)> {
        if self.partitions == 1 {
            return None;
        }
        Some((vec![step.partition], model(&mut World::clone(world), step)))
    }

    fn world(&self, open: &mut Self::Open) -> Result<World, Refusal> {
        open.world()
    }

    fn look_up(&self, open: &mut Self::Open, name: &[u8]) -> Result<Option<Digest>, Refusal> {
        self.world(open).map(|mut world| world.remove(name))
    }

    fn verify(&self, open: &mut Self::Open) -> Result<(), Refusal> {
        open.verify()
    }
}

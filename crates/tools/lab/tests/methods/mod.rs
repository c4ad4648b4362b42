//! Partitions under each recovery method as subjects of the lab: no power cut leaves half of a transaction or of a
//! statement, an index that does not agree with its table, or a slot or page that nothing leads to.

use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::path::Path;

use halite_alloc::{Error as SpaceError, Segments};
use halite_disk::{Disk, DiskModel};
use halite_lab::{Action, Digest, Random, Refusal, Subject, World};
use halite_pmem::{Medium, Pool, PoolOptions};
use halite_table::index::{Direction, Error as IndexError, cow_file};
use halite_table::method::cow::Cow;
use halite_table::method::nvm_inp::{self, NvmInP};
use halite_table::{
    Catalog, Change, Error, KeyRange, Method, Partition, Result, Row, Table, TableSchema, Type,
    values,
};

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
pub(crate) struct Methods<S>(PhantomData<fn() -> S>);

impl<S> Methods<S> {
    pub(crate) const NEW: Self = Self(PhantomData);
}

fn refusal(error: &Error) -> Refusal {
    let is_named = match error {
        Error::Heap(error) => named(error),
        Error::Index(error) => match &**error {
            IndexError::Heap(error) => named(error),
            IndexError::Damaged { .. }
            | IndexError::DamagedNode { .. }
            | IndexError::Foreign { .. } => Some(true),
            _ => Some(false),
        },
        Error::Damaged { .. } => Some(true),
        _ => Some(false),
    };
    match is_named {
        None => Refusal::UnsafeShutdown,
        Some(true) => Refusal::Named(error.to_string()),
        Some(false) => Refusal::Failed(error.to_string()),
    }
}

/// Whether a heap's error names damage; `None` for an unsafe shutdown.
fn named(error: &SpaceError) -> Option<bool> {
    match error {
        SpaceError::UnsafeShutdown { .. } => None,
        SpaceError::Damaged { .. }
        | SpaceError::Foreign { .. }
        | SpaceError::NotObjects { .. }
        | SpaceError::FutureVersion { .. } => Some(true),
        _ => Some(false),
    }
}

impl<S: Storage> Subject for Methods<S> {
    type Step = Step;
    type Open = Open<S::Method>;

    fn name(&self) -> &str {
        S::NAME
    }

    fn capacity(&self) -> u64 {
        S::CAPACITY
    }

    fn history(&self, random: &mut Random) -> Vec<Action<Step>> {
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
        (0..random.below(3)).map(|_| draw(random)).collect()
    }

    fn open(&self, medium: &Medium) -> Result<Self::Open, Refusal> {
        let open = || {
            let mut partition = Partition::new(S::open(medium)?)?;
            if partition.catalog().version() == Catalog::new().version() {
                partition.create_table(schema())?;
            }
            Ok(Open { partition, has_failed: false })
        };
        open().map_err(|error| refusal(&error))
    }

    fn apply(&self, open: &mut Self::Open, step: &Step) -> Result<(), String> {
        let done = open.apply(step);
        open.has_failed |= done.is_err();
        done.map_err(|error| error.to_string())
    }

    fn model(&self, world: &mut World, step: &Step) -> bool {
        match step {
            Step::Transaction { commits: false, syncs, .. } => return *syncs,
            Step::Transaction { seed, syncs, .. } => {
                for write in writes(*seed) {
                    match write {
                        Write::Put { key, group, long } => {
                            world.insert(group_of(key), digest(group));
                            world.insert(long_of(key), Digest::of(&long));
                        }
                        Write::Group { key, group } if world.contains_key(&group_of(key)) => {
                            world.insert(group_of(key), digest(group));
                        }
                        Write::Long { key, long } if world.contains_key(&group_of(key)) => {
                            world.insert(long_of(key), Digest::of(&long));
                        }
                        Write::Group { .. } | Write::Long { .. } => {}
                        Write::Remove { key } => {
                            world.remove(&group_of(key));
                            world.remove(&long_of(key));
                        }
                    }
                }
                return *syncs;
            }
            Step::Index { is_there: true } => drop(world.insert(INDEX.into(), Digest::of(&[]))),
            Step::Index { is_there: false } => drop(world.remove(INDEX.as_bytes())),
            Step::Truncate => world.retain(|name, _| *name == *INDEX.as_bytes()),
            Step::Reclaim | Step::Checkpoint => {}
        }
        true
    }

    fn world(&self, open: &mut Self::Open) -> Result<World, Refusal> {
        if open.has_failed {
            return Err(Refusal::Failed("a step failed: open it again".to_owned()));
        }
        open.world().map_err(|error| refusal(&error))
    }

    fn look_up(&self, open: &mut Self::Open, name: &[u8]) -> Result<Option<Digest>, Refusal> {
        self.world(open).map(|mut world| world.remove(name))
    }

    fn verify(&self, open: &mut Self::Open) -> Result<(), Refusal> {
        open.partition.verify().map(drop).map_err(|error| refusal(&error))
    }
}

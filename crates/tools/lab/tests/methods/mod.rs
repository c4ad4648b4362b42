//! Partitions under each recovery method as subjects of the lab: no power cut leaves half of a transaction or of a
//! statement, an index that does not agree with its table, or a slot or page that nothing leads to.
//!
//! Some transactions move amounts between two tables, some need a longer log than there is, and some storages have
//! so small a medium that steps fill it. A subject may use more than one partition of a medium, in turns.

#![allow(dead_code, reason = "each test target has some of the subjects")]

mod open;
mod refusal;
mod steps;

mod watched;

use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;

use halite_alloc::Segments;
use halite_disk::{Disk, DiskModel};
use halite_lab::{Action, Digest, Random, Refusal, Subject, World};
use halite_pmem::{Medium, Pool, PoolOptions};
use halite_table::index::cow_file;
use halite_table::method::cow::Cow;
use halite_table::method::inp::{self, InP};
use halite_table::method::log_structured::{self, LogStructured};
use halite_table::method::nvm_cow::{self, NvmCow};
use halite_table::method::nvm_inp::{self, NvmInP};
use halite_table::{Method, Result};

use self::open::Open;
use self::refusal::refusal;
use self::steps::{Step, draw, draw_first, model};
use halite_table::method::nvm_log::{self, NvmLog};
use halite_table::{
    Catalog, Change, Error, KeyRange, Method, Partition, Result, Row, Table, TableSchema, Type,
    values,
};
use halite_wal::Error as LogError;
use halite_wal::{Error as LogError, Shape};
use watched::Watched;

/// How a method's storage is opened.
pub(crate) trait Storage {
    type Method: Method;

    /// The name of the subject.
    const NAME: &'static str;

    /// Bytes of the medium's pool.
    const CAPACITY: u64;

    /// Whether that is so little that steps fill it. What is refused then is an error that `refusal.rs` knows.
    const FILLS: bool = false;

    fn open(medium: &Medium) -> Result<Self::Method>;

    /// Opens some partitions of one medium, for [`Methods::in_turns`].
    fn open_all(medium: &Medium, count: usize) -> Result<Vec<Self::Method>> {
        assert_eq!(count, 1, "this storage has one partition");
        Ok(vec![Self::open(medium)?])
    }
}

pub(crate) enum CowStorage {}

impl CowStorage {
    fn open_file(disk: &Disk, name: &str) -> Result<Cow> {
        let options = cow_file::Options { page_len: 512, ..cow_file::Options::default() };
        match disk.list().is_ok_and(|names| names.iter().any(|(there, _)| there == name)) {
            true => Cow::open(disk, name, options),
            false => Cow::create(disk, name, 7, options),
        }
    }
}

impl Storage for CowStorage {
    type Method = Cow;

    const NAME: &'static str = "table:cow";
    const CAPACITY: u64 = halite_pmem::UNIT;

    fn open(medium: &Medium) -> Result<Cow> {
        Self::open_file(&Disk::model(&DiskModel::of(medium.machine())), "partition")
    }

    fn open_all(medium: &Medium, count: usize) -> Result<Vec<Cow>> {
        let disk = Disk::model(&DiskModel::of(medium.machine()));
        (0..count).map(|number| Self::open_file(&disk, &format!("partition {number}"))).collect()
    }
}

/// The segments of the pool on a medium.
fn segments(medium: &Medium, capacity: u64) -> Result<Arc<Segments>> {
    let mut options = PoolOptions::default();
    (options.size_max, options.medium) = (capacity, Some(medium.clone()));
    let path = Path::new("pool");
    if Pool::exists(path, &options) {
        return Ok(Segments::open(path, &options)?);
    }
    let segments = Segments::create(path, &options)?;
    segments.install()?;
    Ok(segments)
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
            checkpoint_bytes: 4 << 10,
            step_bytes: 2_000,
        };
        match InP::is_there(&disk)? {
            true => InP::open(&disk, 7, options),
            false => InP::create(&disk, 7, options),
        }
    }
}

pub(crate) enum NvmInPStorage {}

/// Short nodes and a short log, so that a history has divided nodes, and transactions that need a longer log.
const NVM_INP: nvm_inp::Options = nvm_inp::Options { node_len: 256, log_len: 768 };

impl Storage for NvmInPStorage {
    type Method = NvmInP;

    const NAME: &'static str = "table:nvm-inp";
    const CAPACITY: u64 = 32 << 20;

    fn open(medium: &Medium) -> Result<NvmInP> {
        NvmInP::open(&segments(medium, Self::CAPACITY)?.device(1), NVM_INP)
    }

    fn open_all(medium: &Medium, count: usize) -> Result<Vec<NvmInP>> {
        let segments = segments(medium, Self::CAPACITY)?;
        let device = |number| NvmInP::open(&segments.device(number), NVM_INP);
        (1..).take(count).map(device).collect()
    }
}

/// A partition under NVM-InP in a pool without much room.
pub(crate) enum SmallNvmInPStorage {}
pub(crate) enum LogStorage {}

impl Storage for LogStorage {
    type Method = LogStructured;

    const NAME: &'static str = "table:log";
    const CAPACITY: u64 = halite_pmem::UNIT;

    fn open(medium: &Medium) -> Result<LogStructured> {
        let disk = Disk::model(&DiskModel::of(medium.machine()));
        // A history has some flushes and compactions.
        let options = log_structured::Options {
            memtable_bytes: 1_500,
            table_bytes: 2_000,
            fanout: 2,
            level0_max: 2,
            step_bytes: 1_000,
            cache_bytes: 256 << 10,
            log: Shape { file_bytes: 8 << 10, kept_bytes: 8 << 10 },
            ..log_structured::Options::default()
        };
        match disk.list().is_ok_and(|names| names.iter().any(|(name, _)| name == "MANIFEST")) {
            true => LogStructured::open(&disk, options),
            false => LogStructured::create(&disk, 7, options),
        }
        let segments = segments(medium, Self::CAPACITY)?;
        let segments = pool(medium, Self::CAPACITY)?;
        NvmInP::open(&segments.device(1), nvm_inp::Options { node_len: 256 })
    }
}

pub(crate) enum NvmLogStorage {}

impl Storage for NvmLogStorage {
    type Method = NvmLog;

    const NAME: &'static str = "table:nvm-log";
    const CAPACITY: u64 = 32 << 20;

    /// With memtables that some rows fill, and steps of a few keys.
    fn open(medium: &Medium) -> Result<NvmLog> {
        let segments = segments(medium, Self::CAPACITY)?;
        let options =
            nvm_log::Options { node_len: 256, memtable_bytes: 2_000, fanout: 2, step_keys: 5 };
        NvmLog::open(&segments.device(1), options)
    }
}

/// The segments of a heap's pool.
fn segments(medium: &Medium, capacity: u64) -> Result<Arc<Segments>, SpaceError> {
    let mut options = PoolOptions::default();
    (options.size_max, options.medium) = (capacity, Some(medium.clone()));
    let path = Path::new("pool");
    if Pool::exists(path, &options) {
        return Segments::open(path, &options);
pub(crate) enum NvmCowStorage {}

impl Storage for NvmCowStorage {
    type Method = Watched;

    const NAME: &'static str = "table:nvm-cow";
    const CAPACITY: u64 = 32 << 20;

    fn open(medium: &Medium) -> Result<Watched> {
        let segments = pool(medium, Self::CAPACITY)?;
        let options = nvm_cow::Options { node_len: 256 };
        NvmCow::open(&segments.device(1), options).map(Watched::new)
    }
}

/// The pool of a medium, which is made if it is not there.
fn pool(medium: &Medium, size_max: u64) -> Result<Arc<Segments>> {
    let mut options = PoolOptions::default();
    (options.size_max, options.medium) = (size_max, Some(medium.clone()));
    let path = Path::new("pool");
    if Pool::exists(path, &options) {
        return Ok(Segments::open(path, &options)?);
    }
    let segments = Segments::create(path, &options)?;
    segments.install()?;
    Ok(segments)
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

impl Storage for SmallNvmInPStorage {
    type Method = NvmInP;

    const NAME: &'static str = "table:nvm-inp-small";
    const CAPACITY: u64 = 8 << 20;
    const FILLS: bool = true;

    fn open(medium: &Medium) -> Result<NvmInP> {
        NvmInP::open(&segments(medium, Self::CAPACITY)?.device(1), NVM_INP)
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
        Error::Damaged { .. }
        | Error::Foreign { .. }
        | Error::Log(LogError::Damaged { .. } | LogError::Missing { .. }) => Some(true),
        Error::Damaged { .. } | Error::Foreign { .. } | Error::Version { .. } => Some(true),
        Error::Run(error) => Some(error.file().is_some()),
        Error::Log(error) => {
            Some(matches!(error, LogError::Damaged { .. } | LogError::Missing { .. }))
        }
        _ => Some(false),
    };
    match is_named {
        None => Refusal::UnsafeShutdown,
        Some(true) => Refusal::Named(error.to_string()),
        Some(false) => Refusal::Failed(error.to_string()),
    }
}

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

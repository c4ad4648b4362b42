//! The storage of each recovery method on a medium, with sizes so small that a short history reaches all of it.

use std::path::Path;
use std::sync::Arc;

use halite_alloc::Segments;
use halite_disk::{Disk, DiskModel};
use halite_pmem::{Medium, Pool, PoolOptions};
use halite_table::index::cow_file;
use halite_table::method::cow::Cow;
use halite_table::method::inp::{self, InP};
use halite_table::method::log_structured::{self, LogStructured};
use halite_table::method::nvm_cow::{self, NvmCow};
use halite_table::method::nvm_inp::{self, NvmInP};
use halite_table::method::nvm_log::{self, NvmLog};
use halite_table::method::nvm_wbl::{self, NvmWbl};
use halite_table::{Error, Method, Result};
use halite_wal::Shape;

use super::watched::Watched;

/// How a method's storage is opened.
pub(crate) trait Storage {
    type Method: Method;

    /// The name of the subject.
    const NAME: &'static str;

    /// Bytes of the medium's pool.
    const CAPACITY: u64;

    /// Whether that is so little that steps fill it. What is refused then is an error that `refusal.rs` knows.
    const FILLS: bool = false;

    /// Whether histories are longer than others, with fewer crashes within: what they reach takes many steps.
    const IS_LONG: bool = false;

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
            true => Cow::open(disk, name, 7, options),
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
}

/// Loads of an opening at most: of the heap's roots, some 1,580, of an undo log, and some of the trees. Reading the rows
/// of a full pool takes some 200 more.
const LOADS_MAX: u64 = 1_720;

/// Opens a method whose recovery is about the transaction in flight alone: it may not read the rows that there are.
fn without_reading_rows<M>(segments: &Segments, open: impl FnOnce() -> Result<M>) -> Result<M> {
    let before = segments.pool().traffic().loads;
    let opened = open()?;
    let loads = segments.pool().traffic().loads - before;
    match loads {
        ..=LOADS_MAX => Ok(opened),
        _ => Err(Error::Lost { why: format!("the opening took {loads} loads").into() }),
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

impl Storage for SmallNvmInPStorage {
    type Method = NvmInP;

    const NAME: &'static str = "table:nvm-inp-small";
    const CAPACITY: u64 = 8 << 20;
    const FILLS: bool = true;

    fn open(medium: &Medium) -> Result<NvmInP> {
        let segments = segments(medium, Self::CAPACITY)?;
        without_reading_rows(&segments, || NvmInP::open(&segments.device(1), NVM_INP))
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
            true => LogStructured::open(&disk, 7, options),
            false => LogStructured::create(&disk, 7, options),
        }
    }
}

pub(crate) enum NvmCowStorage {}

impl Storage for NvmCowStorage {
    type Method = Watched<NvmCow>;

    const NAME: &'static str = "table:nvm-cow";
    const CAPACITY: u64 = 32 << 20;

    fn open(medium: &Medium) -> Result<Watched<NvmCow>> {
        let segments = segments(medium, Self::CAPACITY)?;
        let options = nvm_cow::Options { node_len: 256 };
        NvmCow::open(&segments.device(1), options).map(Watched::new)
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

/// NVM-Log with memtables that two rows fill, so that keys are in several of them at once.
pub(crate) enum DeepNvmLogStorage {}

impl Storage for DeepNvmLogStorage {
    type Method = NvmLog;

    const NAME: &'static str = "table:nvm-log-deep";
    const CAPACITY: u64 = 32 << 20;
    const IS_LONG: bool = true;

    fn open(medium: &Medium) -> Result<NvmLog> {
        let segments = segments(medium, Self::CAPACITY)?;
        let options =
            nvm_log::Options { node_len: 256, memtable_bytes: 300, fanout: 2, step_keys: 30 };
        NvmLog::open(&segments.device(1), options)
    }
}

pub(crate) enum NvmWblStorage {}

/// Short nodes and short steps, so that most groups take several, and a crash leaves gaps.
const NVM_WBL: nvm_wbl::Options = nvm_wbl::Options { node_len: 256, step: 8 };

impl Storage for NvmWblStorage {
    type Method = Watched<NvmWbl>;

    const NAME: &'static str = "table:nvm-wbl";
    const CAPACITY: u64 = 32 << 20;

    fn open(medium: &Medium) -> Result<Watched<NvmWbl>> {
        let segments = segments(medium, Self::CAPACITY)?;
        NvmWbl::open(&segments.device(1), NVM_WBL).map(Watched::new)
    }
}

/// A partition under NVM-WBL in a pool without much room.
pub(crate) enum SmallNvmWblStorage {}

impl Storage for SmallNvmWblStorage {
    type Method = NvmWbl;

    const NAME: &'static str = "table:nvm-wbl-small";
    const CAPACITY: u64 = 8 << 20;
    const FILLS: bool = true;

    fn open(medium: &Medium) -> Result<NvmWbl> {
        let segments = segments(medium, Self::CAPACITY)?;
        without_reading_rows(&segments, || NvmWbl::open(&segments.device(1), NVM_WBL))
    }
}

//! Options that only this engine has.

use std::path::PathBuf;

use halite_codec::Compression;
use halite_contract::{EngineOptions, OwnOptions};

use crate::experiments::Experiments;

/// Where a new store keeps the records committed last. A store keeps the choice that it was created with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durable {
    /// In the pool, unless that is an ordinary file: then in a log.
    #[default]
    Detect,
    /// In the pool's memtables; there is no log (Yan's XP).
    Pool,
    /// In a write-ahead log beside the levels; memtables are volatile (Yan's XS).
    Log,
}

/// Options of the LSM engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LsmOptions {
    /// The folder of the levels, on an SSD. `None`: `levels` beside the pool.
    pub levels: Option<PathBuf>,
    /// Where the records committed last are kept.
    pub durable: Durable,
    /// Bytes at which a memtable is full: 2 MiB at least, 1 GiB at most. `None`: 64 MiB, or an eighth of a smaller
    /// pool.
    pub memtable_bytes: Option<u64>,
    /// Bytes of memtables that the global indexes of all trees may have before the largest goes to the
    /// levels. `None`: three fifths of the pool's bytes beside memtables.
    pub global_index_bytes: Option<u64>,
    /// Bytes of a table of the levels; the first level has sixteen of them. `None`: 64 MiB.
    pub table_bytes: Option<u64>,
    /// Bytes of a value from which on it lies in a file of its own beside the levels. It is written once,
    /// even if the record that refers to it is rewritten. `None`: 1 MiB.
    pub large_value_bytes: Option<u64>,
    /// How tables written from now on are compressed. A build without the codec refuses it by
    /// [`Error::NotBuiltIn`](crate::Error::NotBuiltIn).
    pub compression: Compression,
    /// Bytes of DRAM that may hold what is read from the levels. Where memtables lie in persistent memory, blocks have all of
    /// it, and free zones there hold rows and more blocks. Where they have a log, or lie in a page cache, gets have half of
    /// it for rows, and a sixteenth of that more for the table that leads to them; with less than 32 MiB, blocks have all.
    pub cache_bytes: u64,
    /// Tables that may have a descriptor at once; others are opened when they are read. `None`: a quarter of the
    /// descriptors that the process may have when the store opens, 16 at least and 4,096 at most.
    pub tables_open_max: Option<usize>,
    /// Sorted runs of level zero, where there is a log, from which on they are merged into the level below.
    /// `None`: 4. A larger number means fewer writes, and more reads.
    pub level_zero_runs: Option<usize>,
    /// Batches of several threads that may be committed as one, with one fence. 1: each by itself.
    pub batches_max: usize,
    /// Choices that tests and measurements compare, and that no user has a reason to make.
    #[doc(hidden)]
    pub experiments: Experiments,
}

impl LsmOptions {
    /// Returns the options of this engine in an engine's options, or the defaults.
    #[must_use]
    pub fn of(options: &EngineOptions) -> Self {
        options.own.get()
    }
}

impl From<LsmOptions> for OwnOptions {
    fn from(options: LsmOptions) -> Self {
        Self::of(options)
    }
}

impl Default for LsmOptions {
    fn default() -> Self {
        Self {
            levels: None,
            durable: Durable::default(),
            memtable_bytes: None,
            global_index_bytes: None,
            table_bytes: None,
            large_value_bytes: None,
            compression: Compression::default(),
            cache_bytes: 256 << 20,
            tables_open_max: None,
            level_zero_runs: None,
            batches_max: 1,
            experiments: Experiments::default(),
        }
    }
}

//! Options that only this engine has.

use std::path::PathBuf;

use halite_codec::Compression;
use halite_contract::{EngineOptions, OwnOptions};
use halite_vdev::Topology;

/// Options of the Bε-tree engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BetreeOptions {
    /// The folder of the log and of the file that has the data, on an SSD or a disk. `None`: `betree` beside the pool.
    pub folder: Option<PathBuf>,
    /// The devices of a store that is made, the fastest class first. A store that exists knows its devices; those that it
    /// does not find are looked for at these places, too. `None`: the pool, if it is on persistent memory, and a file of
    /// the folder.
    ///
    /// A file without a folder before its name is one of the folder of the log, `pmem:` without a path is the store's pool.
    /// Where a disk takes the folder's place, it has all files.
    pub topology: Option<Topology>,
    /// Folders in which devices are looked for that are not where they were.
    pub search: Vec<PathBuf>,
    /// Bytes at which a memtable is full. `None`: 32 MiB.
    pub memtable_bytes: Option<u64>,
    /// Bytes that the buffer of a child collects before they go to it, where the child is a node. `None`: 8 MiB.
    pub buffer_bytes: Option<u64>,
    /// Bytes of a leaf; as many are collected for it before it is merged with them. `None`: 2 MiB.
    pub leaf_bytes: Option<u64>,
    /// Bytes of the parts in which runs are read and compressed. `None`: 16 KiB.
    pub part_bytes: Option<u32>,
    /// Children that a node has at most. `None`: 32.
    pub fanout: Option<usize>,
    /// Runs that a buffer has at most before they are merged: 1 merges at every arrival, as the classic tree does.
    /// `None`: 8.
    pub runs_max: Option<usize>,
    /// Bytes of a value from which on it lies in extents of its own. `None`: 64 KiB.
    pub large_value_bytes: Option<u64>,
    /// Bytes of log after which a checkpoint is due. `None`: four memtables.
    pub checkpoint_bytes: Option<u64>,
    /// How runs written from now on are compressed.
    pub compression: Compression,
    /// Bytes of DRAM that the cache of parts may take.
    pub cache_bytes: u64,
}

impl BetreeOptions {
    /// Returns the options of this engine in an engine's options, or the defaults.
    #[must_use]
    pub fn of(options: &EngineOptions) -> Self {
        options.own.get()
    }
}

impl From<BetreeOptions> for OwnOptions {
    fn from(options: BetreeOptions) -> Self {
        Self::of(options)
    }
}

impl Default for BetreeOptions {
    fn default() -> Self {
        Self {
            folder: None,
            topology: None,
            search: Vec::new(),
            memtable_bytes: None,
            buffer_bytes: None,
            leaf_bytes: None,
            part_bytes: None,
            fanout: None,
            runs_max: None,
            large_value_bytes: None,
            checkpoint_bytes: None,
            compression: Compression::default(),
            cache_bytes: 256 << 20,
        }
    }
}

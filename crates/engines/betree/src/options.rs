//! Options that only this engine has.

use std::path::PathBuf;
use std::time::Duration;

use halite_codec::Compression;
use halite_contract::{EngineOptions, OwnOptions};
use halite_vdev::Topology;

use crate::actions::MessageActions;
use crate::placement::Placement;

/// How messages come to the buffers of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Buffers {
    /// In extents of their own, which are written whole, as on devices of blocks.
    #[default]
    CopyOnWrite,
    /// In persistent memory, appended in place: behind the messages before, in the same extents, a line being the unit.
    /// Extents on other devices, and on vdevs with redundancy, are written whole.
    InPlace,
}

/// How data is chosen that moves between storage classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// The most frequently used data of the slower class takes the place of the least frequently used of the faster one.
    #[default]
    Lfu,
    /// Reinforcement learning: each class learns the value of its states, of the mean hotness of its data and of its
    /// occupancy, and data moves where the sum of the values rises (Zhang, Hellander and Toor, after Vengerov).
    Reinforcement,
}

/// Automatic migration between storage classes: every period, what is read often moves to a faster class, and what is
/// not, to a slower one. Classes without a size in the topology count as empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migration {
    /// The choice of what moves.
    pub policy: Policy,
    /// The time between two rounds.
    pub period: Duration,
    /// The time after an opening in which nothing moves, as what is used is not known yet.
    pub grace: Duration,
    /// The part of a class, in percent, up to which it is filled: above it, data moves to the next slower class, and new
    /// data goes there. At most 100.
    pub threshold_percent: u8,
    /// Bytes that a round moves at most.
    pub budget_bytes_per_round: u64,
}

impl Default for Migration {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            period: Duration::from_secs(30),
            grace: Duration::from_secs(300),
            threshold_percent: 95,
            budget_bytes_per_round: 256 << 20,
        }
    }
}

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
    /// Bytes that the buffer of a child collects before they go to it, where the child is a node. `None`: 8 MiB; 1 MiB
    /// where buffers are appended to in place.
    pub buffer_bytes: Option<u64>,
    /// Bytes of a leaf; as many are collected for it before it is merged with them, and twice as many where buffers are
    /// appended to in place. `None`: 2 MiB.
    pub leaf_bytes: Option<u64>,
    /// Bytes of the parts in which runs are read and compressed. `None`: 4 KiB.
    pub part_bytes: Option<u32>,
    /// Children that a node has at most. `None`: 32.
    pub fanout: Option<usize>,
    /// Runs that a buffer has at most before they are merged: 1 merges at every arrival, as the classic tree does.
    /// `None`: 8; 32 where buffers are appended to in place.
    pub runs_max: Option<usize>,
    /// How messages come to the buffers of nodes. In place writes fewer bytes, and takes more space and time of lookups.
    pub buffers: Buffers,
    /// Bytes of a value from which on it lies in extents of its own. `None`: 64 KiB.
    pub large_value_bytes: Option<u64>,
    /// Bytes of log after which a checkpoint is due. `None`: four memtables.
    pub checkpoint_bytes: Option<u64>,
    /// How runs written from now on are compressed.
    pub compression: Compression,
    /// Bytes of DRAM that the caches of nodes, of directories of runs and of parts may take together.
    pub cache_bytes: u64,
    /// The storage class of each kind of data. The store does not keep it: an opening may choose another one, which
    /// counts for what is written from then on.
    pub placement: Placement,
    /// Automatic migration between the storage classes. `None`: data moves only where it is written anew, or when
    /// [`Betree::migrate`](crate::Betree::migrate) is called.
    pub migration: Option<Migration>,
    /// The actions that datasets may have for their messages.
    pub actions: MessageActions,
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
            buffers: Buffers::default(),
            large_value_bytes: None,
            checkpoint_bytes: None,
            compression: Compression::default(),
            cache_bytes: 256 << 20,
            placement: Placement::default(),
            migration: None,
            actions: MessageActions::default(),
        }
    }
}

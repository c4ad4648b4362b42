//! Bytes and batches up to which a store takes something, or leaves it alone.

use halite_wal::Shape;

use crate::address::{ZONE, ZONES_MAX};
use crate::experiments::CommitPoints;

/// Batches that may be on their way at once.
pub(crate) const RING_CAPACITY: usize = 256;

/// The limits of a store.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    /// Bytes of zones at which a memtable is full.
    pub(crate) memtable_bytes: u64,
    /// Bytes of zones of all trees' global indexes at which the largest is frozen.
    pub(crate) global_index_bytes: u64,
    pub(crate) commit_points: CommitPoints,
    /// Bytes of a value from which on it is written to a file of its own.
    pub(crate) large_value_bytes: u64,
    /// Bytes of room in the pool below which no zones are added ahead, and memtables are merged too slowly.
    pub(crate) slow_below: u64,
    /// Bytes of the pool that are kept free while there are flushed memtables to give back.
    pub(crate) spare: u64,
    /// Bytes of the pool that writers leave to the work that makes room.
    pub(crate) reserve: u64,
    /// Bytes of the pool that puts leave to bookkeeping and removals.
    pub(crate) removals: u64,
    /// The lengths of the log's files.
    pub(crate) log: Shape,
}

/// The largest batch of a tree, and the largest memtable: a batch fits one, however little is left over in each zone.
pub(crate) const BATCH_BYTES_MAX: u64 = ZONE * ZONES_MAX as u64 / 2;

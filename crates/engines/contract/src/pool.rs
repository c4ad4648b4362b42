//! The state of a pool of devices, for administrators, and the findings of a pass over it.

use std::fmt;

use halite_vdev::{Arrangement, LeafPlace, LeafStatus, Position, Topology};

use crate::KeyRange;

/// The state of a storage pool.
#[derive(Debug, Clone)]
pub struct PoolStatus {
    /// Its devices, at the places where they are.
    pub topology: Topology,
    /// Its classes, the fastest first.
    pub classes: Vec<ClassStatus>,
    /// The last scrub, or the one that is under way.
    pub scrub: Option<ScrubReport>,
    /// The last resilver, or the one that is under way.
    pub resilver: Option<ScrubReport>,
}

/// The state of a storage class; all numbers are of bytes.
#[derive(Debug, Clone)]
pub struct ClassStatus {
    /// All space, with that for parity, as far as the devices have grown.
    pub capacity: u64,
    /// Space in use.
    pub used: u64,
    /// Freed space that waits for the next checkpoints.
    pub deferred: u64,
    /// Free space.
    pub free: u64,
    /// Data that all space holds.
    pub effective: u64,
    /// Data that the free space holds.
    pub effective_free: u64,
    /// Reads of nodes, parts and values since the store was opened, in place or from a device.
    pub reads: u64,
    /// The bytes of these.
    pub read_bytes: u64,
    /// Bytes that migration has moved to the class since then.
    pub migrated_in: u64,
    /// Bytes that migration has moved away.
    pub migrated_out: u64,
    /// The share of the free space, from 0 to 1, that has no room for an extent of the largest size.
    pub fragmentation: f64,
    /// Its vdevs.
    pub vdevs: Vec<VdevStatus>,
}

/// The state of a vdev.
#[derive(Debug, Clone)]
pub struct VdevStatus {
    /// How its leaves share the data.
    pub arrangement: Arrangement,
    /// Whether a leaf is not online, or missed writes.
    pub is_degraded: bool,
    /// Its leaves.
    pub leaves: Vec<PoolLeaf>,
}

/// A leaf of the pool.
#[derive(Debug, Clone)]
pub struct PoolLeaf {
    /// By which it is named.
    pub position: Position,
    /// The number that its labels have.
    pub guid: u64,
    /// Where it is, or was last.
    pub place: LeafPlace,
    /// Its state, whether it missed writes, and what it did.
    pub status: LeafStatus,
}

/// The place of a block in a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockPlace {
    /// The storage class.
    pub class: u8,
    /// The vdev's number in its class.
    pub vdev: u16,
    /// The block's number on the vdev.
    pub block: u64,
}

impl fmt::Display for BlockPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "class {}, vdev {}, block {}", self.class, self.vdev, self.block)
    }
}

/// Something that no device has any more, and no parity gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// The kind of the thing.
    pub what: &'static str,
    /// The place of its extent.
    pub address: BlockPlace,
    /// The dataset that it is of, or the snapshot, by its number; none, if it belongs to the store as a whole.
    pub dataset: Option<String>,
    /// Keys of which some are lost: all that are, are among them.
    pub keys: Option<KeyRange>,
    /// The reason: the state of each device.
    pub why: String,
}

/// A scrub or a resilver, from its begin on, also if it was interrupted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScrubReport {
    /// Whether it is through. If not, the next one goes on where it was stopped.
    pub is_complete: bool,
    /// Bytes of space in use that were read, with those of parity.
    pub bytes: u64,
    /// Extents of it.
    pub extents: u64,
    /// Replicas and columns of extents that were wrong, or not there. A resilver counts each extent once that a stale
    /// leaf has a part of: it writes all of them.
    pub damaged: u64,
    /// Those of them that are right again.
    pub repaired: u64,
    /// Extents that are lost.
    pub lost: u64,
    /// The lost extents, the first [`LOST_MAX`], as far as they were found since the store was opened.
    pub errors: Vec<Lost>,
    /// Seconds since 1970 at its end, or where it was stopped.
    pub second: u64,
}

/// How many errors are kept.
pub const LOST_MAX: usize = 1000;

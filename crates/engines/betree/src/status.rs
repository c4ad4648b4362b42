//! The state of a storage pool, for administrators.

use halite_vdev::{Arrangement, LeafPlace, LeafStatus, Position, Topology};

use crate::pass::ScrubReport;

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

//! The errors of vdevs.

use crate::{Extent, TopologyError};

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a vdev: the thing, the reason, the way out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A leaf, or the vdev that it is part of, cannot grow to the wanted length. It is usable as it was.
    #[error(
        "{leaf}: no space for {blocks} blocks of 4 KiB: {why}; make room, or add a vdev to the class"
    )]
    NoSpace {
        /// The leaf.
        leaf: String,
        /// Blocks that it was to have.
        blocks: u64,
        /// The limit.
        why: String,
    },

    /// An extent is not one of the vdev: a pointer to it is damaged.
    #[error(
        "{vdev}: there is no extent of {} blocks at block {}: {why}; the pointer to it is damaged",
        extent.blocks, extent.block
    )]
    OutOfBounds {
        /// The vdev or leaf.
        vdev: String,
        /// The extent.
        extent: Extent,
        /// Which bound it breaks.
        why: String,
    },

    /// No replica, and nothing that the parity reconstructs, passes the check of the extent.
    #[error(
        "the extent of {} blocks at block {} is damaged on every leaf ({}); restore it from a copy",
        extent.blocks, extent.block, found.join("; ")
    )]
    Damaged {
        /// The extent.
        extent: Extent,
        /// The failure of each leaf.
        found: Vec<String>,
    },

    /// More leaves failed or were away than the redundancy of the vdev covers.
    #[error(
        "cannot {action}, as more leaves are away than the vdev can do without ({}); bring them back, or replace them",
        failed.join("; ")
    )]
    TooFewLeaves {
        /// The attempted action.
        action: &'static str,
        /// The leaves and their failures.
        failed: Vec<String>,
    },

    /// A leaf is needed, as too few others have the data.
    #[error(
        "{leaf}: cannot be taken away: the other leaves do not have all data; resilver them first"
    )]
    Needed {
        /// The leaf.
        leaf: String,
    },

    /// There is no such leaf, or no device is behind it.
    #[error("the vdev has no device as its leaf {leaf}; replace the leaf")]
    NoLeaf {
        /// The number of the leaf.
        leaf: usize,
    },

    /// Space that is to be written belongs to an extent that is in use, or that a reader has pinned.
    #[error("{leaf}: block {block} is still in use by an extent; free that first")]
    Busy {
        /// The leaf.
        leaf: String,
        /// The first block.
        block: u64,
    },

    /// A leaf's device does not have what a leaf has.
    #[error("{leaf}: damaged: {why}; replace the leaf")]
    BadLeaf {
        /// The leaf.
        leaf: String,
        /// The defect.
        why: String,
    },

    /// Leaves do not make a vdev.
    #[error("these leaves are no vdev: {why}")]
    Shape {
        /// The defect, and the way out.
        why: String,
    },

    /// A label's payload is longer than its slot.
    #[error("a label has room for {max} bytes of payload, not for {len}")]
    LabelTooLong {
        /// Bytes of the payload.
        len: usize,
        /// Bytes that there are.
        max: usize,
    },

    /// A queued request panicked.
    #[error("a queued request panicked; mend the check that it was given")]
    Lost,

    /// The description of a pool is wrong.
    #[error(transparent)]
    Topology(#[from] TopologyError),

    /// An error of a file.
    #[error(transparent)]
    Disk(#[from] halite_disk::Error),

    /// An error of persistent memory.
    #[error(transparent)]
    Pool(#[from] halite_pmem::Error),

    /// An error of the space management of persistent memory.
    #[error(transparent)]
    Alloc(#[from] halite_alloc::Error),
}

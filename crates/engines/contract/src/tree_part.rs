//! The parts of a stored tree, for its engineers.

use crate::BlockPlace;

/// A part of a tree. A walk visits a node, then each slot of it with the slot's runs and what is below, from the first
/// key to the last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TreePart {
    /// A node.
    Node {
        /// Its level: 1 is the lowest.
        level: u8,
        /// Its slots, which follow.
        slots: usize,
        /// Where it is stored; `None` of a node that a checkpoint has yet to store.
        stored: Option<StoredPart>,
    },
    /// A part of a node's keys.
    Slot {
        /// The level of the node.
        level: u8,
        /// The number in the node, from 0 on.
        number: usize,
        /// The first key that it may have; `None` is the first of all.
        low: Option<Vec<u8>>,
        /// The first key behind it; `None` is behind all.
        high: Option<Vec<u8>>,
        /// The runs of its buffer, which follow, the newest first.
        runs: usize,
    },
    /// A sorted run of messages.
    Run {
        /// The level of the node.
        level: u8,
        /// Whether it is a leaf, and not part of a buffer.
        is_base: bool,
        /// Messages.
        messages: u64,
        /// Removed ranges of keys.
        deleted_ranges: u64,
        /// Bytes of keys and payloads, without compression.
        bytes: u64,
        /// Bytes of values in extents of their own, to which its messages refer.
        large_bytes: u64,
        /// Where it is stored.
        stored: StoredPart,
    },
}

/// Where a part of a tree is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredPart {
    /// The epoch in which it was written: each checkpoint, and each snapshot, ends one.
    pub birth: u64,
    /// Its extents, each with its blocks of 4 KiB.
    pub extents: Vec<(BlockPlace, u32)>,
}

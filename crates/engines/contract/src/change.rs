//! The change log as a stream.

use crate::{KeySpaceId, Result};

/// Changes of one partition, in the order in which they happened. The iterator ends at the durable end,
/// and may be asked again later: it goes on when there is more.
pub type Changes = Box<dyn Iterator<Item = Result<Change>> + Send>;

/// Where the changes of all partitions had come to at one point in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Positions {
    /// What the positions mean something in: another store has another, and so has the same one when its
    /// partitions have been changed.
    pub history: u128,
    /// By partition: where reading goes on behind that time.
    pub partitions: Vec<u64>,
}

/// What one write changed in one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The position behind it: where reading goes on.
    pub position: u64,
    /// In order. Empty if nothing of the write shows.
    pub ops: Vec<ChangeOp>,
}

/// A part of a [`Change`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeOp {
    /// A key space was made. Only the first partition tells; its id may have been that of one dropped
    /// before the store was opened last.
    CreateKeySpace {
        /// Its id.
        space: KeySpaceId,
        /// Its name.
        name: String,
    },
    /// A key space was dropped. Only the first partition tells.
    DropKeySpace {
        /// Its name.
        name: String,
    },
    /// A key was set.
    Put {
        /// The key space.
        space: KeySpaceId,
        /// The key.
        key: Vec<u8>,
        /// The value.
        value: Vec<u8>,
    },
    /// A key was set to a large value that is gone by now: the key was set again, or deleted. A later
    /// change says so.
    Superseded {
        /// The key space.
        space: KeySpaceId,
        /// The key.
        key: Vec<u8>,
    },
    /// A key was deleted.
    Delete {
        /// The key space.
        space: KeySpaceId,
        /// The key.
        key: Vec<u8>,
    },
    /// All keys of a range were deleted.
    DeleteRange {
        /// The key space.
        space: KeySpaceId,
        /// The first key.
        start: Vec<u8>,
        /// The first key behind the range; `None`: all from `start` on.
        end: Option<Vec<u8>>,
    },
}

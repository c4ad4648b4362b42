//! The change log as a stream.

use crate::{KeySpaceId, Result};

/// Changes of one partition, in the order in which they happened. The iterator ends at the durable end,
/// and may be asked again later: it goes on when there is more.
pub type Changes = Box<dyn Iterator<Item = Result<Change>> + Send>;

/// The ends of the changes of all partitions at one point in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Positions {
    /// The history in which the positions are valid: another store has another one, and so has the same
    /// store after its partitions have been changed.
    pub history: u128,
    /// The position of each partition behind that time, from which reading goes on.
    pub partitions: Vec<u64>,
}

/// The changes of one write in one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The position behind it: where reading goes on.
    pub position: u64,
    /// The operations in order; none if the write has no visible effect.
    pub ops: Vec<ChangeOp>,
}

/// A part of a [`Change`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeOp {
    /// A key space was made. Only the first partition reports it; its id may have been that of one dropped
    /// before the store was opened last.
    CreateKeySpace {
        /// Its id.
        space: KeySpaceId,
        /// Its name.
        name: String,
    },
    /// A key space was dropped. Only the first partition reports it.
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
    /// A key was set to a large value that is lost by now, because the key was set again, or deleted. A
    /// later change reports that.
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

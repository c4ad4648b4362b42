//! The findings of a scrub of an extent, the memory that it takes, and the report of a read that finds nothing good.

use halite_disk::AlignedBuffer;

use crate::{BLOCK, Error, Extent};

/// Memory for replicas of extents. Scrubs hand it on, because fresh memory for each extent costs as much as reading it.
pub struct ScrubMemory {
    /// For the replica that is read, and for one that was right.
    pub(crate) read: AlignedBuffer,
    pub(crate) right: AlignedBuffer,
}

impl Default for ScrubMemory {
    fn default() -> Self {
        let empty = || AlignedBuffer::zeroed(0, BLOCK);
        Self { read: empty(), right: empty() }
    }
}

impl ScrubMemory {
    /// Has room for a replica to be read.
    pub(crate) fn reserve(&mut self, len: usize) {
        if self.read.len() < len {
            self.read = AlignedBuffer::zeroed(len, BLOCK);
        }
    }
}

/// The damage that a scrub found, and its repairs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScrubResult {
    /// Leaves that gave wrong bytes, or none.
    pub damaged: Vec<usize>,
    /// Those of them that have the right bytes again, durably after the next sync.
    pub repaired: Vec<usize>,
}

/// The failure of each leaf, of an extent that could not be read.
pub(crate) struct Findings(Vec<String>);

impl Findings {
    pub(crate) fn new() -> Self {
        Self(Vec::new())
    }

    /// A leaf that could not be read.
    pub(crate) fn unread(&mut self, error: &Error) {
        self.0.push(error.to_string());
    }

    /// A leaf whose bytes are wrong.
    pub(crate) fn wrong(&mut self, leaf: &str) {
        self.0.push(format!("{leaf}: its bytes do not have their checksum"));
    }

    pub(crate) fn note(&mut self, what: String) {
        self.0.push(what);
    }

    /// The error of an extent that is lost.
    pub(crate) fn damaged(self, extent: Extent) -> Error {
        Error::Damaged { extent, found: self.0 }
    }
}

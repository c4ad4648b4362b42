//! Bytes that readers may see and that wait for a fence.

use std::sync::Arc;

use halite_pmem::{Flushed, Parcels, Published};

/// Bytes that readers may see and that are not yet durable.
pub(crate) struct Pending {
    published: Arc<Published>,
    start: u64,
    end: u64,
}

impl Pending {
    pub(crate) fn new(published: Arc<Published>, range: std::ops::Range<u64>) -> Self {
        Self { published, start: range.start, end: range.end }
    }

    pub(crate) fn flush(&self) -> Flushed {
        self.published.flush(self.start..self.end)
    }

    /// Joins `next` to this range if it goes on where this ends.
    pub(crate) fn extend(&mut self, next: &Self) -> bool {
        let goes_on = Arc::ptr_eq(&self.published, &next.published) && self.end == next.start;
        if goes_on {
            self.end = next.end;
        }
        goes_on
    }
}

/// A piece of a value that readers may see and that is not yet durable.
pub(crate) struct PendingPiece {
    segment: Arc<Parcels>,
    at: u64,
    len: u64,
}

impl PendingPiece {
    /// `len` bytes that are kept at `at` in a segment.
    pub(crate) fn new(segment: Arc<Parcels>, at: u64, len: u64) -> Self {
        Self { segment, at, len }
    }

    pub(crate) fn flush(&self) -> Flushed {
        self.segment.flush(self.at, self.len)
    }
}

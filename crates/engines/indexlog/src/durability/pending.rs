//! Bytes that readers may see and that wait for a fence.

use std::sync::Arc;

use halite_pmem::{Flushed, Published};

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

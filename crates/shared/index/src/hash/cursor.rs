//! Iteration over a snapshot.

use super::HashIndex;

/// A walk over all entries, in no order, in the state when it began.
pub struct HashCursor {
    index: HashIndex,
    /// The segment that comes next.
    segment: usize,
    /// The entries still to come of the segment before it.
    rest: std::vec::IntoIter<(u64, u64)>,
}

impl HashCursor {
    pub(super) fn new(index: HashIndex) -> Self {
        Self { index, segment: 0, rest: Vec::new().into_iter() }
    }

    /// The entry that `next` will return: its record can be brought into the cache meanwhile.
    pub fn peek(&mut self) -> Option<u64> {
        while self.rest.as_slice().is_empty() && self.segment < self.index.segment_count() {
            self.rest = self.index.segment(self.segment).entries().into_iter();
            self.segment += 1;
        }
        self.rest.as_slice().first().map(|(_, entry)| *entry)
    }
}

impl Iterator for HashCursor {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.peek()?;
        self.rest.next().map(|(_, entry)| entry)
    }
}

//! The space of a heap that may be given away: free chunks, and slabs that may have free slots.
//!
//! The search for a chunk, and within a slab for a slot, goes on behind the last one that was found, so that all space
//! wears alike. Slabs of a kind take turns.

use std::collections::{BTreeSet, HashMap, VecDeque};

use super::layout::{ChunkId, segment_of};
use super::slab::SlabKind;

/// Space in known segments; the others are not looked at yet.
#[derive(Default)]
pub(super) struct Space {
    free: BTreeSet<ChunkId>,
    cursor: ChunkId,
    /// Slabs that may have a free slot. A slab here may be another chunk by now.
    pub(super) slabs: HashMap<SlabKind, VecDeque<ChunkId>>,
    /// Slabs that may be empty.
    pub(super) empty: BTreeSet<ChunkId>,
    /// Slabs whose slots may not be read yet.
    pub(super) unread: Vec<ChunkId>,
    /// Segments, in the order in which they are to be looked at.
    unknown: VecDeque<u32>,
    /// Whether a segment was looked at.
    known: Vec<bool>,
}

impl Space {
    /// The space of a heap of so many segments, to be searched from one of them on.
    pub(super) fn of_unknown(segments: u32, first: u32) -> Self {
        let unknown = (first..segments).chain(0..first).collect();
        Self { unknown, known: vec![false; segments as usize], ..Self::default() }
    }

    /// The next segment to be looked at.
    pub(super) fn next_unknown(&mut self) -> Option<u32> {
        while self.unknown.front().is_some_and(|&segment| self.is_known(segment)) {
            self.unknown.pop_front();
        }
        self.unknown.front().copied()
    }

    pub(super) fn is_known(&self, segment: u32) -> bool {
        self.known[segment as usize]
    }

    pub(super) fn set_known(&mut self, segment: u32) {
        let segments = self.known.len().max(segment as usize + 1);
        self.known.resize(segments, false);
        self.known[segment as usize] = true;
    }

    pub(super) fn put(&mut self, id: ChunkId) {
        self.free.insert(id);
    }

    /// Takes so many chunks that follow each other in a segment out.
    pub(super) fn take(&mut self, count: u32) -> Option<ChunkId> {
        let first = self.run(count)?;
        for id in first..first + count {
            self.free.remove(&id);
        }
        self.cursor = first + count;
        Some(first)
    }

    /// Takes these chunks out, if all of them are free and of one segment.
    pub(super) fn take_at(&mut self, first: ChunkId, count: u32) -> bool {
        let Some(end) = first
            .checked_add(count)
            .filter(|&end| count > 0 && segment_of(first) == segment_of(end - 1))
        else {
            return false;
        };
        let are_free = (first..end).all(|id| self.free.contains(&id));
        if are_free {
            self.free.retain(|id| !(first..end).contains(id));
        }
        are_free
    }

    fn run(&self, count: u32) -> Option<ChunkId> {
        let (mut first, mut len) = (0, 0);
        // A run around the cursor is found from its beginning.
        let around = self.free.range(..self.cursor.saturating_add(count));
        for &id in self.free.range(self.cursor..).chain(around) {
            let goes_on = len > 0 && id == first + len && segment_of(id) == segment_of(first);
            (first, len) = if goes_on { (first, len + 1) } else { (id, 1) };
            if len == count {
                return Some(first);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_taken_in_turns_and_runs_stay_in_their_segment() {
        let mut space = Space::default();
        for id in 28..40 {
            space.put(id);
        }
        assert_eq!(space.take(1), Some(28));
        space.put(28);
        assert_eq!(space.take(1), Some(29), "the search goes on");
        space.put(29);
        assert_eq!(space.take(4), Some(32), "30 to 33 are in two segments");
        assert_eq!(space.take(4), Some(36));
        assert_eq!(space.take(4), Some(28), "the search begins again");
        assert_eq!(space.take(1), None);
    }

    #[test]
    fn unknown_segments_are_looked_at_in_a_circle() {
        let mut space = Space::of_unknown(4, 2);
        let mut order = Vec::new();
        while let Some(segment) = space.next_unknown() {
            assert!(!space.is_known(segment));
            space.set_known(segment);
            order.push(segment);
        }
        assert_eq!(order, [2, 3, 0, 1]);
    }
}

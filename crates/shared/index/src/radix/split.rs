//! Splitting a tree into ranges of about equal size.

use std::ops::Bound;

use super::{Direction, RadixTree, Records};

impl RadixTree {
    /// Returns at most `count - 1` keys, ascending, that split the tree's keys into ranges of about equal size:
    /// from one, inclusive, to the next. Walks through all nodes, and reads few records.
    #[must_use]
    pub fn split_keys(&self, records: &impl Records, count: usize) -> Vec<Vec<u8>> {
        let (keys, count) = (self.len(), count.max(1) as u64);
        let mut cursor =
            self.cursor(Bound::Unbounded, Bound::Unbounded, Direction::Ascending, u64::MAX);
        let mut splits = Vec::new();
        // The first range begins with the first key.
        let mut next = 1;
        let mut at = 0;
        while next < count
            && let Some(entry) = cursor.next(self, records)
        {
            if at > 0 && at >= keys * next / count {
                splits.push(records.key(entry).to_vec());
                while next < count && keys * next / count <= at {
                    next += 1;
                }
            }
            at += 1;
        }
        splits
    }
}

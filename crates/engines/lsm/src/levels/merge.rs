//! Many sources as one.

use std::cmp::Ordering;

use super::source::{Direction, Source};
use crate::sst::{Entry, Result, order};

/// The entries of all sources in one order. A binary heap has the sources by the entries that they are at.
///
/// Where two sources have an entry of the same key and sequence number, that of the earlier source comes
/// first; both come.
pub struct Merge<S> {
    sources: Vec<S>,
    /// Those that are at an entry: one stands before the two at twice its place.
    heap: Vec<usize>,
    direction: Direction,
}

impl<S: Source> Merge<S> {
    /// Merges sources, which all go in a direction.
    #[must_use]
    pub fn new(sources: Vec<S>, direction: Direction) -> Self {
        let heap = (0..sources.len()).filter(|at| sources[*at].entry().is_some()).collect();
        let mut merge = Self { sources, heap, direction };
        for at in (0..merge.heap.len() / 2).rev() {
            merge.sift(at);
        }
        merge
    }

    /// Whether one source's entry comes before another's.
    #[inline]
    fn is_before(&self, a: usize, b: usize) -> bool {
        let (Some(x), Some(y)) = (self.sources[a].entry(), self.sources[b].entry()) else {
            unreachable!("sources in the heap are at entries");
        };
        let order = order((x.key, x.sequence), (y.key, y.sequence));
        let order = if self.direction == Direction::Forward { order } else { order.reverse() };
        order.then(a.cmp(&b)) == Ordering::Less
    }

    /// Moves what is at a place down, until what it stands before comes after it.
    fn sift(&mut self, mut at: usize) {
        loop {
            let left = 2 * at + 1;
            let Some(&first) = self.heap.get(left) else { return };
            let right =
                self.heap.get(left + 1).is_some_and(|&second| self.is_before(second, first));
            let below = left + usize::from(right);
            if !self.is_before(self.heap[below], self.heap[at]) {
                return;
            }
            self.heap.swap(at, below);
            at = below;
        }
    }
}

impl<S: Source> Source for Merge<S> {
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        self.heap.first().and_then(|&source| self.sources[source].entry())
    }

    fn advance(&mut self) -> Result<()> {
        let Some(&source) = self.heap.first() else { return Ok(()) };
        if let Err(error) = self.sources[source].advance() {
            self.heap.clear();
            return Err(error);
        }
        if self.sources[source].entry().is_none() {
            self.heap.swap_remove(0);
        }
        self.sift(0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_set, vec};
    use proptest::prelude::*;

    use super::*;
    use crate::sst::PUT;

    struct List(Vec<(Vec<u8>, u64)>);

    impl Source for List {
        fn entry(&self) -> Option<Entry<'_>> {
            let (key, sequence) = self.0.last()?;
            Some(Entry { key, sequence: *sequence, kind: PUT, value: &[] })
        }

        fn advance(&mut self) -> Result<()> {
            self.0.pop();
            Ok(())
        }
    }

    proptest! {
        #[test]
        fn a_merge_has_all_entries_of_all_sources_in_order(
            lists in vec(btree_set((vec(0_u8..3, 0..4), 0_u64..5), 0..20), 0..9),
            reverse: bool,
        ) {
            let direction = if reverse { Direction::Reverse } else { Direction::Forward };
            let sort = |entries: &mut Vec<(Vec<u8>, u64)>| {
                entries.sort_by(|a, b| order((&a.0, a.1), (&b.0, b.1)));
                if reverse {
                    entries.reverse();
                }
            };
            let mut right: Vec<_> = lists.iter().flatten().cloned().collect();
            sort(&mut right);
            let sources = lists.into_iter().map(|list| {
                let mut list: Vec<_> = list.into_iter().collect();
                sort(&mut list);
                list.reverse();
                List(list)
            });
            let mut merge = Merge::new(sources.collect(), direction);
            let mut merged = Vec::new();
            while let Some(entry) = merge.entry() {
                merged.push((entry.key.to_vec(), entry.sequence));
                merge.advance().unwrap();
            }
            prop_assert_eq!(merged, right);
        }
    }
}

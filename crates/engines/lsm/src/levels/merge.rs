//! Many sources as one.

use std::cmp::Ordering;

use halite_index::LoserTree;
use halite_sst::{Entry, order};

use super::error::Result;
use super::source::{Direction, Source};

/// The entries of all sources in one order.
///
/// Where two sources have an entry of the same key and sequence number, that of the earlier source comes
/// first; both come.
pub struct Merge<S> {
    sources: Vec<S>,
    tree: LoserTree,
    direction: Direction,
    /// Whether a source has failed: nothing comes behind that.
    failed: bool,
}

impl<S: Source> Merge<S> {
    /// Merges sources, which all go in a direction.
    #[must_use]
    pub fn new(sources: Vec<S>, direction: Direction) -> Self {
        let tree = LoserTree::new(sources.len(), |a, b| is_before(&sources, direction, a, b));
        Self { sources, tree, direction, failed: false }
    }

    /// The source whose entry is the first of all.
    #[inline]
    fn first(&self) -> Option<usize> {
        if self.failed { None } else { self.tree.winner() }
    }
}

/// Whether the entry that source `a` is at comes before that of source `b`; sources that have ended come last.
#[inline]
fn is_before<S: Source>(sources: &[S], direction: Direction, a: usize, b: usize) -> bool {
    let by_source = a.cmp(&b);
    let order = match (sources[a].entry(), sources[b].entry()) {
        (Some(x), Some(y)) => {
            let order = order((x.key, x.sequence), (y.key, y.sequence));
            let order = if direction == Direction::Forward { order } else { order.reverse() };
            order.then(by_source)
        }
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => by_source,
    };
    order == Ordering::Less
}

impl<S: Source> Source for Merge<S> {
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        self.first().and_then(|source| self.sources[source].entry())
    }

    fn advance(&mut self) -> Result<()> {
        let Some(source) = self.first() else { return Ok(()) };
        if let Err(error) = self.sources[source].advance() {
            self.failed = true;
            return Err(error);
        }
        let Self { sources, tree, direction, .. } = self;
        tree.replay(|a, b| is_before(sources, *direction, a, b));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_set, vec};
    use proptest::prelude::*;

    use super::*;
    use halite_sst::PUT;

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

//! Tombstones of ranges of keys.
//!
//! A table has those that concern its range in a block of their own (`block_builder`): key = start, value = end.
//! They are *fragments*: two of them cover the same keys or none in common. So they are found by one binary
//! search, and cutting them at a key changes nothing.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::Parsed;
use crate::block::{Block, BlockCursor};
use crate::entry::RANGE_DELETE;
use halite_index::RangeDelete;
use halite_sim::cost;

/// Fragments of range deletes, in the order of their keys, and of the same keys the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeDeletes(Vec<RangeDelete>);

impl RangeDeletes {
    /// Fragments of range deletes that overlap in any way: of the same keys all that there are, which can be as many as
    /// the square of their number.
    #[must_use]
    pub fn fragments(deletes: Vec<RangeDelete>) -> Self {
        Self::fragments_with(deletes, |open, sequences| sequences.extend(open.keys().rev()))
    }

    /// Fragments of range deletes that overlap in any way: of the same keys the newest that each of the snapshots
    /// sees, and the newest of all. The snapshots ascend.
    #[must_use]
    pub fn fragments_seen(deletes: Vec<RangeDelete>, snapshots: &[u64]) -> Self {
        Self::fragments_with(deletes, |open, sequences| {
            let mut newest = open.keys().next_back();
            while let Some(&sequence) = newest {
                sequences.push(sequence);
                let older = snapshots.partition_point(|snapshot| *snapshot < sequence);
                let seen = older.checked_sub(1).map(|older| snapshots[older]);
                newest = seen.and_then(|seen| open.range(..=seen).next_back().map(|(at, _)| at));
            }
        })
    }

    /// Fragments with those sequences, the newest first, that are chosen of all that cover each.
    fn fragments_with(
        mut deletes: Vec<RangeDelete>,
        choose: impl Fn(&BTreeMap<u64, usize>, &mut Vec<u64>),
    ) -> Self {
        deletes.retain(|delete| delete.start < delete.end);
        let mut bounds: Vec<(&[u8], bool, u64)> = Vec::with_capacity(deletes.len() * 2);
        for delete in &deletes {
            bounds.push((&delete.start, true, delete.sequence));
            bounds.push((&delete.end, false, delete.sequence));
        }
        // Where some end and others begin, the ends come first.
        bounds.sort_unstable();
        // How many deletes of each sequence cover what begins at a bound.
        let mut open: BTreeMap<u64, usize> = BTreeMap::new();
        let (mut fragments, mut sequences) = (Vec::new(), Vec::new());
        let mut rest = &bounds[..];
        while let Some(&(start, ..)) = rest.first() {
            let here = rest.partition_point(|(bound, ..)| *bound == start);
            for &(_, begins, sequence) in &rest[..here] {
                cost::step();
                match open.entry(sequence) {
                    Entry::Vacant(vacant) => drop(vacant.insert(1)),
                    Entry::Occupied(mut count) if begins => *count.get_mut() += 1,
                    Entry::Occupied(count) if *count.get() == 1 => drop(count.remove()),
                    Entry::Occupied(mut count) => *count.get_mut() -= 1,
                }
            }
            rest = &rest[here..];
            let Some(&(end, ..)) = rest.first() else { break };
            choose(&open, &mut sequences);
            let fragment =
                |sequence| RangeDelete { start: start.into(), end: end.into(), sequence };
            fragments.extend(sequences.drain(..).inspect(|_| cost::step()).map(fragment));
        }
        Self(fragments)
    }

    /// Reads a table's block of them.
    pub(crate) fn read(block: Block) -> Parsed<Self> {
        let mut deletes: Vec<RangeDelete> = Vec::new();
        let mut cursor = BlockCursor::new(block);
        cursor.first()?;
        while let Some(entry) = cursor.entry() {
            let (start, end): (Box<[u8]>, Box<[u8]>) = (entry.key.into(), entry.value.into());
            let follows = deletes.last().is_none_or(|last| {
                last.end <= start
                    || (&last.start, &last.end) == (&start, &end) && last.sequence > entry.sequence
            });
            if entry.kind != RANGE_DELETE || start >= end || !follows {
                return Err("the range deletes are not in order");
            }
            deletes.push(RangeDelete { start, end, sequence: entry.sequence });
            cursor.forward()?;
        }
        Ok(Self(deletes))
    }

    /// The newest that covers a key and is not above a sequence number.
    #[must_use]
    pub fn covering(&self, key: &[u8], at: u64) -> Option<u64> {
        let rest = &self.0[self.0.partition_point(|delete| *delete.end <= *key)..];
        let same = &rest[..rest.partition_point(|delete| *delete.start <= *key)];
        let newest = same.get(same.partition_point(|delete| delete.sequence > at))?;
        Some(newest.sequence)
    }

    /// All of them.
    #[must_use]
    pub fn as_slice(&self) -> &[RangeDelete] {
        &self.0
    }

    /// All of them, to be changed or put together with others.
    #[must_use]
    pub fn into_vec(self) -> Vec<RangeDelete> {
        self.0
    }

    /// Those that concern keys from `from` on, below `to`.
    #[must_use]
    pub fn overlapping(&self, from: Option<&[u8]>, to: Option<&[u8]>) -> &[RangeDelete] {
        let is_before = |from: &[u8]| self.0.partition_point(|delete| *delete.end <= *from);
        let rest = &self.0[from.map_or(0, is_before)..];
        let is_within = |to: &[u8]| rest.partition_point(|delete| *delete.start < *to);
        &rest[..to.map_or(rest.len(), is_within)]
    }

    /// Those parts that lie between two keys.
    #[must_use]
    pub fn cut(&self, from: Option<&[u8]>, to: Option<&[u8]>) -> Self {
        let cut = |delete: &RangeDelete| {
            cost::step();
            let start = from.map_or(&*delete.start, |from| from.max(&delete.start));
            let end = to.map_or(&*delete.end, |to| to.min(&delete.end));
            (start < end).then(|| RangeDelete { start: start.into(), end: end.into(), ..*delete })
        };
        Self(self.overlapping(from, to).iter().filter_map(cut).collect())
    }

    /// Keeps those for which `keep` says so.
    pub fn retain(&mut self, keep: impl FnMut(&RangeDelete) -> bool) {
        self.0.retain(keep);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn fragments_cover_what_the_range_deletes_did(
            deletes in prop::collection::vec((0_u8..20, 0_u8..20, 1_u64..30), 0..12),
            cut in 0_u8..20,
        ) {
            let delete = |&(start, end, sequence): &(u8, u8, u64)| RangeDelete {
                start: [start].into(), end: [end].into(), sequence,
            };
            let fragments = RangeDeletes::fragments(deletes.iter().map(delete).collect());
            let seen = RangeDeletes::fragments_seen(deletes.iter().map(delete).collect(), &[5, 9, 20]);
            let (low, high) = (fragments.cut(None, Some(&[cut])), fragments.cut(Some(&[cut]), None));
            for key in 0..20 {
                for at in 0..30 {
                    let covers = |d: &&(u8, u8, u64)| d.0 <= key && key < d.1 && d.2 <= at;
                    let newest = deletes.iter().filter(covers).map(|d| d.2).max();
                    prop_assert_eq!(fragments.covering(&[key], at), newest);
                    if [5, 9, 20].contains(&at) {
                        prop_assert_eq!(seen.covering(&[key], at), newest);
                    }
                    let part = if key < cut { &low } else { &high };
                    prop_assert_eq!(part.covering(&[key], at), newest);
                }
            }
        }
    }

    #[test]
    fn nested_range_deletes_are_no_more_fragments_than_bounds() {
        let delete = |n: u16| RangeDelete {
            start: [0].into(),
            end: n.to_be_bytes().into(),
            sequence: n.into(),
        };
        let all = || (1..=10_000_u16).map(|n| delete(n * 3)).collect::<Vec<_>>();
        let seen = RangeDeletes::fragments_seen(all(), &[]);
        assert!(seen.as_slice().len() <= 20_000);
        assert_eq!(seen.covering(&3_000_u16.to_be_bytes(), u64::MAX), Some(30_000));
        let seen = RangeDeletes::fragments_seen(all(), &[9_000, 12_001]);
        assert_eq!(seen.covering(&3_000_u16.to_be_bytes(), 9_000), Some(9_000));
        assert_eq!(seen.covering(&3_000_u16.to_be_bytes(), 12_001), Some(12_000));
    }
}

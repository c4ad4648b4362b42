//! Tombstones of ranges of keys.
//!
//! A table has those that concern its range in a block of their own (`block_builder`): key = start, value = end.
//! They are *fragments*: two of them cover the same keys or none in common. So they are found by one binary
//! search, and cutting them at a key changes nothing.

use super::Parsed;
use super::block::{Block, BlockCursor};
use super::entry::RANGE_DELETE;

/// All keys from `start` up to, and without, `end` have no value from `sequence` on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeDelete {
    /// The first key.
    pub start: Box<[u8]>,
    /// Behind the last key: above `start`.
    pub end: Box<[u8]>,
    /// When it was written.
    pub sequence: u64,
}

/// Fragments of range deletes, in the order of their keys, and of the same keys the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeDeletes(Vec<RangeDelete>);

impl RangeDeletes {
    /// Fragments of range deletes that overlap in any way.
    #[must_use]
    pub fn fragments(mut deletes: Vec<RangeDelete>) -> Self {
        deletes.retain(|delete| delete.start < delete.end);
        deletes.sort_by(|a, b| a.start.cmp(&b.start));
        let mut bounds: Vec<_> =
            deletes.iter().flat_map(|delete| [delete.start.clone(), delete.end.clone()]).collect();
        bounds.sort_unstable();
        bounds.dedup();
        // Those that begin at or before the fragment and end behind it.
        let (mut fragments, mut open, mut next) = (Vec::new(), Vec::<usize>::new(), 0);
        for bounds in bounds.windows(2) {
            let [start, end] = bounds else { unreachable!("windows of two") };
            while deletes.get(next).is_some_and(|delete| delete.start <= *start) {
                open.push(next);
                next += 1;
            }
            open.retain(|&number| deletes[number].end > *start);
            let mut sequences: Vec<u64> =
                open.iter().map(|&number| deletes[number].sequence).collect();
            sequences.sort_unstable_by(|a, b| b.cmp(a));
            sequences.dedup();
            fragments.extend(sequences.into_iter().map(|sequence| RangeDelete {
                start: start.clone(),
                end: end.clone(),
                sequence,
            }));
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
        let first = self.0.partition_point(|delete| *delete.end <= *key);
        let same = self.0[first..].iter().take_while(|delete| *delete.start <= *key);
        same.map(|delete| delete.sequence).find(|&sequence| sequence <= at)
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

    /// Those parts that lie between two keys.
    pub(crate) fn cut(&self, from: Option<&[u8]>, to: Option<&[u8]>) -> Self {
        let cut = |delete: &RangeDelete| {
            let start = from.map_or(&*delete.start, |from| from.max(&delete.start));
            let end = to.map_or(&*delete.end, |to| to.min(&delete.end));
            (start < end).then(|| RangeDelete { start: start.into(), end: end.into(), ..*delete })
        };
        Self(self.0.iter().filter_map(cut).collect())
    }

    /// Keeps those for which `keep` says so.
    pub(crate) fn retain(&mut self, keep: impl FnMut(&RangeDelete) -> bool) {
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
            let (low, high) = (fragments.cut(None, Some(&[cut])), fragments.cut(Some(&[cut]), None));
            for key in 0..20 {
                for at in 0..30 {
                    let covers = |d: &&(u8, u8, u64)| d.0 <= key && key < d.1 && d.2 <= at;
                    let newest = deletes.iter().filter(covers).map(|d| d.2).max();
                    prop_assert_eq!(fragments.covering(&[key], at), newest);
                    let part = if key < cut { &low } else { &high };
                    prop_assert_eq!(part.covering(&[key], at), newest);
                }
            }
        }
    }
}

//! Ranges of keys that have no value.
//!
//! A list of them is sorted, disjoint, and joined where two touch: so a key is found by one binary search, and lists
//! that cover the same keys are equal.

use std::ops::Deref;
use std::sync::Arc;

/// The keys from `start` up to, and without, `end`; `None` is behind all keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeletedRange {
    pub(crate) start: Box<[u8]>,
    pub(crate) end: Option<Box<[u8]>>,
}

impl DeletedRange {
    /// Whether the range ends at or before a key.
    pub(crate) fn is_before(&self, key: &[u8]) -> bool {
        self.end.as_deref().is_some_and(|end| end <= key)
    }
}

/// Deleted ranges in order, shared by their readers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeletedRanges(Arc<[DeletedRange]>);

impl Default for DeletedRanges {
    fn default() -> Self {
        Self(Arc::new([]))
    }
}

impl Deref for DeletedRanges {
    type Target = [DeletedRange];

    fn deref(&self) -> &[DeletedRange] {
        &self.0
    }
}

/// Appends a range that begins no earlier than the last one, and joins the two if they overlap or touch.
pub(crate) fn push_joined(ranges: &mut Vec<DeletedRange>, range: DeletedRange) {
    match ranges.last_mut() {
        Some(last) if last.end.as_ref().is_none_or(|end| *end >= range.start) => {
            let is_longer = match (&last.end, &range.end) {
                (Some(end), Some(other)) => other > end,
                (Some(_), None) => true,
                (None, _) => false,
            };
            if is_longer {
                last.end = range.end;
            }
        }
        _ => ranges.push(range),
    }
}

impl DeletedRanges {
    /// The ranges, in the order of their starts; those that overlap or touch are joined.
    pub(crate) fn new(sorted: Vec<DeletedRange>) -> Self {
        let mut joined = Vec::with_capacity(sorted.len());
        for range in sorted {
            push_joined(&mut joined, range);
        }
        Self(joined.into())
    }

    /// The range that covers a key.
    #[inline]
    pub(crate) fn covering(&self, key: &[u8]) -> Option<&DeletedRange> {
        if self.0.is_empty() {
            return None;
        }
        let at = self.0.partition_point(|range| range.is_before(key));
        self.0.get(at).filter(|range| *range.start <= *key)
    }

    /// The parts of the ranges that lie in `lo..hi`.
    pub(crate) fn clip(&self, lo: &[u8], hi: Option<&[u8]>) -> Self {
        let from = self.0.partition_point(|range| range.is_before(lo));
        let rest = &self.0[from..];
        let to = hi.map_or(rest.len(), |hi| rest.partition_point(|range| *range.start < *hi));
        let within = &rest[..to];
        let is_cut =
            |range: &DeletedRange| *range.start < *lo || hi.is_some_and(|hi| !range.is_before(hi));
        if within.len() == self.0.len() && !within.iter().any(is_cut) {
            return self.clone();
        }
        let clipped = within.iter().map(|range| DeletedRange {
            start: lo.max(&range.start).into(),
            end: match (&range.end, hi) {
                (Some(end), Some(hi)) => Some(hi.min(end).into()),
                (None, Some(hi)) => Some(hi.into()),
                (end, None) => end.clone(),
            },
        });
        Self(clipped.filter(|range| !range.is_before(&range.start)).collect())
    }

    /// The ranges that cover the keys of both.
    pub(crate) fn union(&self, other: &Self) -> Self {
        match (self.is_empty(), other.is_empty()) {
            (true, _) => other.clone(),
            (_, true) => self.clone(),
            _ => {
                let mut all: Vec<DeletedRange> = self.iter().chain(other.iter()).cloned().collect();
                all.sort_by(|a, b| a.start.cmp(&b.start));
                Self::new(all)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ranges(of: Vec<(u8, Option<u8>)>) -> DeletedRanges {
        let mut of: Vec<_> =
            of.into_iter().filter(|(start, end)| end.is_none_or(|end| end > *start)).collect();
        of.sort_by_key(|(start, _)| *start);
        let range = |(start, end): (u8, Option<u8>)| DeletedRange {
            start: [start].into(),
            end: end.map(|end| [end].into()),
        };
        DeletedRanges::new(of.into_iter().map(range).collect())
    }

    proptest! {
        #[test]
        fn ranges_clipped_and_united_cover_the_same_keys(
            a in prop::collection::vec((0_u8..30, prop::option::weighted(0.9, 0_u8..32)), 0..6),
            b in prop::collection::vec((0_u8..30, prop::option::weighted(0.9, 0_u8..32)), 0..6),
            (lo, hi) in (0_u8..32, prop::option::of(0_u8..32)),
        ) {
            let covers = |of: &[(u8, Option<u8>)], key: u8| {
                of.iter().any(|(start, end)| *start <= key && end.is_none_or(|end| key < end))
            };
            let (left, right) = (ranges(a.clone()), ranges(b.clone()));
            let (both, clipped) = (left.union(&right), left.clip(&[lo], hi.as_ref().map(std::slice::from_ref)));
            for key in 0..34 {
                let is_within = lo <= key && hi.is_none_or(|hi| key < hi);
                prop_assert_eq!(left.covering(&[key]).is_some(), covers(&a, key));
                prop_assert_eq!(both.covering(&[key]).is_some(), covers(&a, key) || covers(&b, key));
                prop_assert_eq!(clipped.covering(&[key]).is_some(), is_within && covers(&a, key));
            }
            for list in [&left, &both, &clipped] {
                prop_assert!(list.iter().all(|range| !range.is_before(&range.start)));
                prop_assert!(list.windows(2).all(|two| two[0].end.as_ref() < Some(&two[1].start)));
                prop_assert!(list.iter().rev().skip(1).all(|range| range.end.is_some()));
            }
        }
    }
}

//! Bounds that divide keys into ranges.

use super::digits::{Digits, begins};
use super::item::{Item, head_of};
use crate::radix::sought::common_len;

/// Entries of a range, about: they are sorted in the cache.
const RANGE_LEN: usize = 16384;

/// Ranges at the most: to so many places items go at once.
const RANGES_MAX: usize = 1024;

const _: () = assert!(RANGES_MAX <= 1 << 16, "two bytes number a range");

/// The beginning of a range: the shortest key that separates the samples on both sides.
struct Bound {
    head: u128,
    key: Box<[u8]>,
}

impl Bound {
    #[inline]
    fn is_at_most(&self, item: &Item, key: &[u8]) -> bool {
        let head = item.head();
        if self.head != head { self.head < head } else { *self.key <= *key }
    }
}

/// The bounds that divide all keys into ranges.
pub(super) struct Bounds {
    /// The lower bounds of all ranges but the first.
    bounds: Vec<Bound>,
    digits: Digits,
    /// How many of them are below each digit, and below the end.
    below: Vec<usize>,
}

impl Bounds {
    /// Creates the bounds for so many keys, which are distributed as the samples.
    pub(super) fn new(mut samples: Vec<Box<[u8]>>, len: usize) -> Self {
        let ranges = (len / RANGE_LEN).clamp(1, RANGES_MAX);
        samples.sort_unstable();
        let mut bounds = Vec::new();
        let mut last = samples.first();
        for range in 1..ranges {
            let first = samples.get(range * samples.len() / ranges);
            let (Some(before), Some(first)) = (last, first) else { break };
            if before < first {
                // `first` is longer than their common prefix, because it is above `before`.
                let key: Box<[u8]> = first[..common_len(before, first) + 1].into();
                bounds.push(Bound { head: head_of(&key), key });
                last = Some(first);
            }
        }
        let head = |bound: Option<&Bound>| bound.map_or(0, |bound| bound.head);
        let digits = Digits::new(head(bounds.first()), head(bounds.last()), 4 * bounds.len());
        let mut below = vec![0; digits.len() + 1];
        bounds.iter().for_each(|bound| below[digits.of(bound.head)] += 1);
        begins(&mut below);
        Self { bounds, digits, below }
    }

    pub(super) fn ranges(&self) -> usize {
        self.bounds.len() + 1
    }

    /// A number of bytes that no key in a range has in common with one outside.
    pub(super) fn own_len(&self, range: usize) -> usize {
        let around = self.bounds[range.saturating_sub(1)..].iter().take(1 + range.min(1));
        around.map(|bound| bound.key.len()).max().unwrap_or(0)
    }

    /// The range of an item, given its whole key.
    #[inline]
    pub(super) fn range_of(&self, item: &Item, key: &[u8]) -> usize {
        let digit = self.digits.of(item.head());
        let (first, end) = (self.below[digit], self.below[digit + 1]);
        let same_digit = &self.bounds[first..end];
        first + same_digit.partition_point(|bound| bound.is_at_most(item, key))
    }
}

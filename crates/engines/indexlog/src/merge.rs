//! Scans of several partitions as one.

use std::cmp::Ordering;

use halite_contract::{Bytes, Direction, Result};

use crate::scan::RangeScan;

/// The pairs of scans of different keys, in the order of their keys: the smallest, or the largest, of
/// the scans' next keys is the next one.
///
/// With as few scans as there are partitions, looking at each of them is as fast as a heap.
pub(crate) struct Merge {
    scans: Vec<RangeScan>,
    /// The next pair of each scan that has not ended.
    heads: Vec<Option<Result<(Bytes, Bytes)>>>,
    direction: Direction,
}

impl Merge {
    pub(crate) fn new(mut scans: Vec<RangeScan>, direction: Direction) -> Self {
        let heads = scans.iter_mut().map(Iterator::next).collect();
        Self { scans, heads, direction }
    }

    /// Whether one pair comes before another. An error comes before all pairs.
    fn is_before(&self, a: &Result<(Bytes, Bytes)>, b: &Result<(Bytes, Bytes)>) -> bool {
        let (Ok((a, _)), Ok((b, _))) = (a, b) else { return a.is_err() };
        let order = a[..].cmp(&b[..]);
        order
            == if self.direction == Direction::Forward { Ordering::Less } else { Ordering::Greater }
    }
}

impl Iterator for Merge {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        let heads = self.heads.iter().enumerate();
        let (first, _) = heads
            .filter_map(|(at, head)| Some((at, head.as_ref()?)))
            .reduce(|best, other| if self.is_before(other.1, best.1) { other } else { best })?;
        let next = self.scans[first].next();
        std::mem::replace(&mut self.heads[first], next)
    }
}

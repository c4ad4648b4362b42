//! Redistributing the entries of neighbouring leaves: to make room, to split, to join.
//!
//! No key is read for that, as long as heads can tell where to cut: an entry that moves to a leaf with a
//! shorter `skip` gets a head of the bytes that the old leaf skipped and its old head.
//!
//! A cut is made, near the place where it would be even, where the separator is shortest. That keeps inner
//! nodes small, and prefixes long: a short separator is like a round number, and the keys between two round
//! numbers have more in common (Bayer and Unterauer's prefix B-trees).

use std::ops::Range;

use super::PartialLen;
use super::leaf::{Leaf, capacity, prepend};
use crate::FullKeys;
use crate::keys::{common_prefix, separator};

/// Neighbouring leaves, and their fences.
pub(crate) struct Run<'a> {
    partial: PartialLen,
    leaves: Vec<&'a Leaf>,
    /// The places where the entries of each leaf begin, and where the last end.
    starts: Vec<usize>,
    /// The low fence of each leaf.
    lows: Vec<Box<[u8]>>,
    /// The high fence of the last.
    high: Option<Box<[u8]>>,
}

/// Leaves, and the separators between them.
pub(crate) struct Arranged {
    pub(crate) leaves: Vec<Leaf>,
    /// One less than leaves.
    pub(crate) separators: Vec<Box<[u8]>>,
}

impl<'a> Run<'a> {
    pub(crate) fn new(
        partial: PartialLen,
        leaves: Vec<&'a Leaf>,
        lows: Vec<Box<[u8]>>,
        high: Option<Box<[u8]>>,
    ) -> Self {
        let mut starts = vec![0];
        for leaf in &leaves {
            starts.push(starts[starts.len() - 1] + leaf.len());
        }
        Self { partial, leaves, starts, lows, high }
    }

    pub(crate) fn len(&self) -> usize {
        self.starts[self.leaves.len()]
    }

    /// Returns where the entries of a leaf begin.
    pub(crate) fn start_of(&self, leaf: usize) -> usize {
        self.starts[leaf]
    }

    /// Redistributes the entries to `count` leaves, none of which is full then if there is room.
    ///
    /// # Errors
    /// Heads do not tell where to cut, and no key near there can be read.
    pub(crate) fn arrange<F: FullKeys>(
        &self,
        count: usize,
        keys: &F,
    ) -> Result<Arranged, F::Error> {
        let room = (capacity(self.partial) - 1).saturating_sub(self.len().div_ceil(count));
        let window = (capacity(self.partial) / 8).min(if count > 2 { room / 2 } else { room });
        let mut arranged = Arranged { leaves: Vec::new(), separators: Vec::new() };
        let mut ends = Vec::new();
        for number in 1..count {
            let (at, separator) = self.cut(self.len() * number / count, window, keys)?;
            ends.push(at);
            arranged.separators.push(separator);
        }
        ends.push(self.len());
        let mut start = 0;
        for (number, end) in ends.into_iter().enumerate() {
            let low = match number {
                0 => &self.lows[0],
                _ => &arranged.separators[number - 1],
            };
            let high = arranged.separators.get(number).or(self.high.as_ref());
            let base = high.map_or(0, |high| common_prefix(low, high));
            let mut leaf = self.deal(start..end, base);
            leaf.refine(base, keys);
            arranged.leaves.push(leaf);
            start = end;
        }
        Ok(arranged)
    }

    /// The prefix that all keys of a leaf have in common, as far as the leaf knows it.
    fn prefix(&self, leaf: usize) -> Vec<u8> {
        let mut prefix = self.lows[leaf][..self.leaves[leaf].base()].to_vec();
        prefix.extend_from_slice(self.leaves[leaf].guard());
        prefix
    }

    /// The leaf that has the entry at `at`.
    fn leaf_of(&self, at: usize) -> usize {
        self.starts.partition_point(|&start| start <= at) - 1
    }

    /// A place near `target` to cut at, and the separator of the keys there.
    fn cut<F: FullKeys>(
        &self,
        target: usize,
        window: usize,
        keys: &F,
    ) -> Result<(usize, Box<[u8]>), F::Error> {
        let near = target.saturating_sub(window).max(1)..(target + window + 1).min(self.len());
        let best = near
            .clone()
            .filter_map(|at| Some((self.separator_len(at)?, at.abs_diff(target), at)))
            .min();
        if let Some((len, _, at)) = best {
            return Ok((at, self.separator(at, len)));
        }
        let mut places: Vec<_> = near.collect();
        places.sort_by_key(|at| at.abs_diff(target));
        let mut result = self.read_separator(target, keys);
        for at in places {
            if result.is_ok() {
                break;
            }
            result = self.read_separator(at, keys);
        }
        result
    }

    /// The length of the separator in front of the entry at `at`, if the heads decide it.
    fn separator_len(&self, at: usize) -> Option<usize> {
        let leaf = self.leaf_of(at);
        if at == self.starts[leaf] {
            return Some(self.lows[leaf].len());
        }
        let at = at - self.starts[leaf];
        let differing = self.leaves[leaf].head(at - 1) ^ self.leaves[leaf].head(at);
        (differing != 0)
            .then(|| self.leaves[leaf].skip() + differing.leading_zeros() as usize / 8 + 1)
    }

    /// Returns that separator. The first byte in which two heads differ is not padding in the higher one, so it and
    /// all bytes before it are the key's.
    fn separator(&self, at: usize, len: usize) -> Box<[u8]> {
        let leaf = self.leaf_of(at);
        if at == self.starts[leaf] {
            return self.lows[leaf].clone();
        }
        let mut separator = self.prefix(leaf);
        let head = self.leaves[leaf].head(at - self.starts[leaf]);
        separator.extend_from_slice(&head.to_be_bytes()[..len - separator.len()]);
        separator.into()
    }

    /// The separator from the full keys. If those are not between their leaf's fences, they have changed,
    /// and the leaf's low fence is used instead: entries are lost, the tree is not.
    fn read_separator<F: FullKeys>(
        &self,
        at: usize,
        keys: &F,
    ) -> Result<(usize, Box<[u8]>), F::Error> {
        let leaf = self.leaf_of(at);
        let (low, high) = (&self.lows[leaf], self.lows.get(leaf + 1).or(self.high.as_ref()));
        let below = keys.with_key(self.entry(at - 1), <[u8]>::to_vec)?;
        let separator = keys.with_key(self.entry(at), |key| separator(&below, key))?;
        let is_within = separator > *low && high.is_none_or(|high| separator < *high);
        Ok((at, if is_within { separator } else { low.clone() }))
    }

    fn entry(&self, at: usize) -> u64 {
        let leaf = self.leaf_of(at);
        self.leaves[leaf].entry(at - self.starts[leaf])
    }

    /// A leaf of some of the entries, for fences that have `base` bytes in common.
    fn deal(&self, range: Range<usize>, base: usize) -> Leaf {
        if range.is_empty() {
            return Leaf::new(self.partial, &self.lows[0][..0], 0);
        }
        let from = self.leaf_of(range.start)..self.leaf_of(range.end - 1) + 1;
        let mut prefix = self.prefix(from.start);
        for leaf in from.clone().skip(1) {
            // An empty leaf between others has no prefix to compare.
            if self.leaves[leaf].len() > 0 {
                prefix.truncate(common_prefix(&prefix, &self.prefix(leaf)));
            }
        }
        let mut dealt = Leaf::new(self.partial, &prefix, base.min(prefix.len()));
        for leaf in from {
            let own_prefix = self.prefix(leaf);
            let moved = own_prefix.get(prefix.len()..).unwrap_or_default();
            let start = self.starts[leaf];
            for at in range.start.max(start)..range.end.min(self.starts[leaf + 1]) {
                let head =
                    self.partial.truncate(prepend(moved, self.leaves[leaf].head(at - start)));
                dealt.insert_head(dealt.len(), head, self.leaves[leaf].entry(at - start));
            }
        }
        dealt
    }
}

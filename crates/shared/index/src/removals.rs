//! Removals of key ranges that are still in memory.
//!
//! Their effect on the keys is a map: from each bound on, up to the next, the sequence of the newest removal. A
//! removal is newer than all before, so it replaces the content of the map in its range, and the map never has more
//! than two bounds a removal. Its earlier states stay, for readers of the past, and share their unchanged nodes
//! ([`PersistentMap`]). So the newest removal of a key as of a sequence is found by two searches, however
//! many removals there are; nested ones take no more room than others; and a scan takes one state along.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use halite_sim::cost;
use halite_sim::locks::RwLock;

use crate::PersistentMap;

/// Removals of a memtable from which on it is full, as the states that it keeps for them take DRAM, up to 2 KiB each.
pub const DELETES_MAX: usize = 16 << 10;

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

/// The removals of ranges of one table in memory.
#[derive(Default)]
pub struct Removals {
    len: AtomicUsize,
    state: RwLock<State>,
}

#[derive(Default)]
struct State {
    /// All of them, in the order of their sequences.
    all: Vec<RangeDelete>,
    /// The coverage from a sequence on, up to the next one's. The oldest first.
    versions: Vec<(u64, Coverage)>,
}

/// The newest removal of each key, in one state.
#[derive(Clone, Default)]
pub struct Coverage {
    /// From each key on, up to the next: the newest removal's sequence, or 0 where there is none.
    bounds: PersistentMap<Arc<[u8]>, u64>,
}

impl Coverage {
    /// The sequence of the newest removal of a key; 0 if there is none.
    pub fn of(&self, key: &[u8]) -> u64 {
        self.bounds.at_or_before(key).map_or(0, |(_, sequence)| *sequence)
    }

    /// Whether a removal that is newer than `then` has a key from `start` on, below `end`.
    pub fn has_since(&self, start: &[u8], end: &[u8], then: u64) -> bool {
        let mut within = self.bounds.iter_from(start).take_while(|(bound, _)| ***bound < *end);
        start < end && (self.of(start) > then || within.any(|(_, sequence)| *sequence > then))
    }

    /// The keys that a removal covers, from each `start` up to `end`, in their order; neighbours have different
    /// sequences.
    pub fn ranges(&self) -> impl Iterator<Item = (&Arc<[u8]>, &Arc<[u8]>, u64)> {
        let ends = self.bounds.iter().skip(1);
        let ranges = self.bounds.iter().zip(ends);
        // The last bound is the end of a removal: no removal covers what is behind it.
        ranges.filter_map(|((start, &sequence), (end, _))| {
            (sequence > 0).then_some((start, end, sequence))
        })
    }

    /// Adds a removal that is newer than all that are there.
    fn add(&mut self, delete: &RangeDelete) {
        let RangeDelete { start, end, sequence } = delete;
        if start >= end {
            return;
        }
        let behind = self.of(end);
        let is_bound = self.bounds.get(&**end).is_some();
        self.bounds.remove_range::<[u8]>(start, end);
        self.bounds.insert((&**start).into(), *sequence);
        if !is_bound {
            self.bounds.insert((&**end).into(), behind);
        }
    }
}

impl State {
    /// Adds a removal. An earlier state goes if `needed` says that no reader sees it: the state from the first
    /// sequence on, when there is one from the second.
    fn add(&mut self, delete: RangeDelete, needed: impl Fn(u64, u64) -> bool) {
        let sequence = delete.sequence;
        if self.all.last().is_some_and(|last| last.sequence > sequence) {
            return self.insert(delete);
        }
        let mut coverage =
            self.versions.last().map_or_else(Coverage::default, |(_, last)| last.clone());
        coverage.add(&delete);
        if let Some((last, _)) = self.versions.last()
            && !needed(*last, sequence)
        {
            self.versions.pop();
        }
        self.versions.push((sequence, coverage));
        self.all.push(delete);
    }

    /// Adds a removal that is older than another: newer ones are added again.
    #[cold]
    fn insert(&mut self, delete: RangeDelete) {
        let place = self.all.partition_point(|other| other.sequence <= delete.sequence);
        self.all.insert(place, delete);
        self.versions.clear();
        for delete in std::mem::take(&mut self.all) {
            self.add(delete, |_, _| true);
        }
    }

    /// The coverage of the removals up to a sequence.
    fn at(&self, sequence: u64) -> Option<&Coverage> {
        let is_newest = self.versions.last().is_none_or(|(newest, _)| *newest <= sequence);
        let after = match is_newest {
            true => self.versions.len(),
            false => self.versions.partition_point(|(from, _)| cost::counted(*from <= sequence)),
        };
        after.checked_sub(1).map(|last| &self.versions[last].1)
    }
}

impl Removals {
    /// Adds a removal; all its earlier states stay readable.
    pub fn add(&self, delete: RangeDelete) {
        self.add_all([delete], |_, _| true);
    }

    /// Adds removals, best in the order of their sequences. `needed` says whether a reader may see the state from one
    /// sequence on although there is a newer one.
    pub fn add_all(
        &self,
        deletes: impl IntoIterator<Item = RangeDelete>,
        needed: impl Fn(u64, u64) -> bool,
    ) {
        for delete in deletes {
            // The lock is taken for one at a time, so that no reader waits for many.
            let mut state = self.state.write();
            state.add(delete, &needed);
            self.len.store(state.all.len(), Ordering::Release);
        }
    }

    /// The newest sequence up to `at` at which a removal covers `key`; 0 if none does.
    #[inline]
    pub fn covering(&self, key: &[u8], at: u64) -> u64 {
        if self.is_empty() {
            return 0;
        }
        self.state.read().at(at).map_or(0, |coverage| coverage.of(key))
    }

    /// The coverage of the removals up to a sequence; `None` if there are none.
    pub fn at(&self, sequence: u64) -> Option<Coverage> {
        if self.is_empty() { None } else { self.state.read().at(sequence).cloned() }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// All of them, in the order of their sequences.
    pub fn all(&self) -> Vec<RangeDelete> {
        if self.is_empty() { Vec::new() } else { self.state.read().all.clone() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn delete(start: u16, end: u16, sequence: u64) -> RangeDelete {
        let (start, end) = (start.to_be_bytes().into(), end.to_be_bytes().into());
        RangeDelete { start, end, sequence }
    }

    proptest! {
        #[test]
        fn what_is_covered_is_what_a_walk_of_all_removals_finds(
            ranges in prop::collection::vec((0_u16..24, 0_u16..24), 0..24),
            order in any::<u64>(),
            kept in prop::collection::btree_set(1_u64..26, 0..6),
        ) {
            let all: Vec<_> =
                (1..).zip(&ranges).map(|(n, (start, end))| delete(*start, *end, n)).collect();
            let newest = |key: u16, at: u64| {
                let key = key.to_be_bytes();
                let covers = |d: &&RangeDelete| {
                    *d.start <= key[..] && key[..] < *d.end && d.sequence <= at
                };
                all.iter().filter(covers).map(|d| d.sequence).max().unwrap_or(0)
            };
            let (in_order, mixed, purged) =
                (Removals::default(), Removals::default(), Removals::default());
            in_order.add_all(all.clone(), |_, _| true);
            let mut shuffled = all.clone();
            shuffled.sort_by_key(|delete| delete.sequence.wrapping_mul(order | 1).rotate_left(17));
            shuffled.into_iter().for_each(|delete| mixed.add(delete));
            purged.add_all(all.clone(), |older, newer| kept.range(older..newer).next().is_some());
            for at in 0..26 {
                for key in 0..24_u16 {
                    let bytes = key.to_be_bytes();
                    prop_assert_eq!(in_order.covering(&bytes, at), newest(key, at));
                    prop_assert_eq!(mixed.covering(&bytes, at), newest(key, at));
                    let coverage = in_order.at(at).unwrap_or_default();
                    prop_assert_eq!(coverage.of(&bytes), newest(key, at));
                    let mut ranges = coverage.ranges();
                    let range = ranges.find(|(start, end, _)| ***start <= bytes[..] && bytes[..] < ***end);
                    prop_assert_eq!(range.map_or(0, |(_, _, sequence)| sequence), newest(key, at));
                    for end in key..24 {
                        let since = (key..end).any(|key| newest(key, at) > 7);
                        prop_assert_eq!(coverage.has_since(&bytes, &end.to_be_bytes(), 7), since);
                    }
                    if kept.contains(&at) || at as usize >= all.len() {
                        prop_assert_eq!(purged.covering(&bytes, at), newest(key, at));
                    }
                }
            }
            prop_assert_eq!(&in_order.all(), &all);
            prop_assert_eq!(&mixed.all(), &all);
            prop_assert_eq!(purged.all(), all);
        }
    }

    /// Steps of a lookup and of an addition, the most of some, after so many removals.
    fn steps(removals: u16, range: impl Fn(u16) -> (u16, u16)) -> u64 {
        let deletes = Removals::default();
        let add = |n: u16| {
            let (start, end) = range(n);
            cost::of(|| deletes.add(delete(start, end, n.into())))
        };
        let added = (1..=removals).map(add).skip(removals as usize / 2).max();
        let look = |n: u16| {
            cost::of(|| {
                deletes.covering(&n.to_be_bytes(), (n / 2).into());
            })
        };
        let looked = (1..=removals).map(look).max();
        added.max(looked).unwrap_or(0)
    }

    #[test]
    fn a_lookup_and_a_removal_take_steps_by_the_logarithm_of_the_removals() {
        let ranges: [fn(u16) -> (u16, u16); 5] = [
            |_| (0, u16::MAX),
            |n| (n * 2, n * 2 + 1),
            |n| (n, u16::MAX),
            |n| (u16::MAX / 2 - n, u16::MAX / 2 + n),
            |n| (n.wrapping_mul(31_153) / 2, n.wrapping_mul(31_153) / 2 + 9_000),
        ];
        for (number, range) in ranges.into_iter().enumerate() {
            let (few, many) = (steps(100, range), steps(10_000, range));
            assert!(many <= few * 4 + 60, "ranges {number}: {few} steps of 100, {many} of 10,000");
        }
    }
}

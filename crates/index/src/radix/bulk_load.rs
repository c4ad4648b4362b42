//! Bulk loading: a tree made of keys that are known all at once.
//!
//! Entries are gathered in [runs](GatheredRun), divided by ranges of keys that fit the cache, and sorted there; and
//! the tree is built from below: each node once, in the size that it needs. Nothing of that misses the
//! cache as inserts at random do.
//!
//! ```text
//!   runs          |dog cat|  |cow cattle|       older before newer
//!   ranges        |cat cow cattle|  |dog|       in that order; their bounds are found by samples of all
//!   sorted        |cat cattle cow|  |dog|       a range at a time, on all threads
//!   lengths of what neighbours have in common:   3  1  0
//!   nodes         closed from the right, when the next key has less in common than the node's level
//! ```
//!
//! A bound is no longer than it must be to part the keys on both sides: `d` does above. What keys of a range have
//! in common with keys outside is shorter than its bounds. So trees of keys that have as much in common as the longer
//! one's length are built with the range, and what is above them when all are there.

mod builder;
mod item;
mod ranges;

use std::sync::{Mutex, PoisonError};
use std::thread;

use super::{RadixTree, Records};
use crate::sync::Ordering;
use builder::{Builder, Subtree};
use item::Item;
use ranges::{Bounds, Digits, Divided, begins};

/// Entries that a tree is [made of](RadixTree::bulk_load), in any order of keys.
#[derive(Default)]
pub struct GatheredRun {
    items: Vec<Item>,
}

impl GatheredRun {
    /// Adds an entry. Of one key, later ones are newer.
    ///
    /// # Panics
    /// As [`RadixTree::insert`].
    pub fn push(&mut self, key: &[u8], entry: u64) {
        super::check(key, entry);
        self.items.push(Item::new(key, entry));
    }

    /// Entries in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

impl RadixTree {
    /// Makes an empty tree one of the newest entry of each key in `runs`: of one key, those in later runs are
    /// newer. On so many threads. A run has 24 bytes an entry, and as many are taken meanwhile.
    ///
    /// # Panics
    /// The tree is not empty.
    pub fn bulk_load(
        &self,
        records: &(impl Records + Sync),
        runs: Vec<GatheredRun>,
        threads: usize,
    ) {
        let bounds = Bounds::new(&runs, records);
        let divided = Divided::new(runs, &bounds, records, threads);
        let ranges = divided.ranges().into_iter().enumerate().collect();
        let subtrees = in_parallel(threads, ranges, |sorter: &mut Sorter, (range, items)| {
            let mut builder = Builder::new(&self.arena, records, bounds.own_len(range));
            let sorted = sorter.sort(items, records).iter();
            let keys = sorted.filter(|item| builder.push(&Subtree::of(item))).count();
            self.arena.count_keys(keys as u64);
            builder.finish()
        });
        let mut builder = Builder::new(&self.arena, records, 0);
        for subtree in subtrees.iter().flatten() {
            builder.push(subtree);
        }
        let Some(root) = builder.finish().pop() else { return };
        let seen = self.anchor.read().and_then(|seen| self.anchor.lock(seen));
        let locked = seen.ok().filter(|_| self.root.load(Ordering::Relaxed) == 0);
        assert!(locked.is_some(), "a tree that is bulk loaded is empty, and nobody else's");
        self.root.store(root.word(), Ordering::Release);
        drop(locked);
    }
}

/// Sorts a range at a time.
#[derive(Default)]
struct Sorter {
    sorted: Vec<Item>,
    /// Where what has each digit ends.
    ends: Vec<usize>,
}

impl Sorter {
    /// Items in order: by digits, of which there are about as many as items, then what has the same. Equal ones stay
    /// in their order.
    fn sort(&mut self, items: &[Item], records: &impl Records) -> &[Item] {
        let heads = || items.iter().map(Item::head);
        let (low, high) =
            heads().fold((u128::MAX, 0), |(low, high), head| (head.min(low), head.max(high)));
        if items.is_empty() {
            return &[];
        }
        let digits = Digits::new(low, high, items.len());
        self.ends.clear();
        self.ends.resize(digits.len(), 0);
        heads().for_each(|head| self.ends[digits.of(head)] += 1);
        begins(&mut self.ends);
        self.sorted.resize(items.len().max(self.sorted.len()), Item::default());
        let sorted = &mut self.sorted[..items.len()];
        for item in items {
            let end = &mut self.ends[digits.of(item.head())];
            sorted[*end] = *item;
            *end += 1;
        }
        let mut start = 0;
        for &end in &self.ends {
            let same = &mut sorted[start..end];
            if same.len() > 1 {
                // It is stable.
                same.sort_by(|one, other| one.cmp(other, records));
            }
            start = end;
        }
        sorted
    }
}

/// Does each job, on so many threads, each of which has a `T`; what they return, in order.
fn in_parallel<T: Default, J: Send, R: Send>(
    threads: usize,
    jobs: Vec<J>,
    work: impl Fn(&mut T, J) -> R + Sync,
) -> Vec<R> {
    let mut results: Vec<Option<R>> = jobs.iter().map(|_| None).collect();
    let threads = threads.min(jobs.len());
    let queue = Mutex::new(jobs.into_iter().zip(&mut results));
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let one = || {
        let mut own = T::default();
        while let Some((job, result)) = next() {
            *result = Some(work(&mut own, job));
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            // Without it, this thread does the more.
            let _ = thread::Builder::new().name("radix-load".into()).spawn_scoped(scope, one);
        }
        one();
    });
    drop(queue);
    results.into_iter().flatten().collect()
}

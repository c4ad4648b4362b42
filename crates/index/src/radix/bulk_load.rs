//! Bulk loading: a tree made of keys that are known all at once.
//!
//! Entries come in [runs](GatheredRun), on any thread, and are divided by ranges of keys that fit the cache. When
//! all are there they are sorted range by range, and the tree is built from below: each node once, in the size that it
//! needs. Nothing of that misses the cache as inserts at random do.
//!
//! ```text
//!   runs          |dog cat|  |cow cattle|
//!   ranges        |cat cow cattle|  |dog|       their bounds are found by samples
//!   sorted        |cat cattle cow|  |dog|       a range at a time, on all threads
//!   lengths of what neighbours have in common:   3  1  0
//!   nodes         closed from the right, when the next key has less in common than the node's level
//! ```
//!
//! A bound is no longer than it must be to part the samples on both sides: `d` does above. What keys of a range have
//! in common with keys outside is shorter than its bounds. So trees of keys that have as much in common as the longer
//! one's length are built with the range, and what is above them when all are there.

mod bounds;
mod builder;
mod digits;
mod item;
mod part;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use super::{RadixTree, Records};
use crate::sync::Ordering;
use bounds::Bounds;
use builder::{Builder, Subtree};
use digits::{Digits, begins};
use item::Item;
use part::Part;

/// Entries that are added to a [`BulkLoad`] together, in any order.
#[derive(Default)]
pub struct GatheredRun {
    items: Vec<Item>,
}

impl GatheredRun {
    /// Adds an entry.
    ///
    /// # Panics
    /// As [`RadixTree::insert`].
    pub fn push(&mut self, key: &[u8], entry: u64) {
        super::check(key, entry);
        self.items.push(Item::new(key, entry));
    }
}

/// The entries that a tree is [made of](RadixTree::bulk_load), divided by ranges of their keys.
pub struct BulkLoad {
    bounds: Bounds,
    /// Those that no thread adds to just now.
    parts: Mutex<Vec<Part>>,
    /// Runs that were added, for their memory.
    added: Mutex<Vec<GatheredRun>>,
}

impl BulkLoad {
    /// For about `len` entries, whose keys are distributed as the samples are: eight for each 16384 entries are
    /// enough, and none are needed for fewer. Others make it slower.
    #[must_use]
    pub fn new(samples: Vec<Box<[u8]>>, len: usize) -> Self {
        let bounds = Bounds::new(samples, len);
        Self { bounds, parts: Mutex::default(), added: Mutex::default() }
    }

    /// An empty run, in memory of one that was added before.
    #[must_use]
    pub fn run(&self) -> GatheredRun {
        locked(&self.added).pop().unwrap_or_default()
    }

    /// Adds the entries of a run, which `records` has: 24 bytes each.
    pub fn add(&self, mut run: GatheredRun, records: &impl Records) {
        let idle = locked(&self.parts).pop();
        let mut part = idle.unwrap_or_else(|| Part::new(self.bounds.ranges()));
        run.items.iter().for_each(|item| part.push(self.bounds.range_of(item, records), *item));
        locked(&self.parts).push(part);
        run.items.clear();
        locked(&self.added).push(run);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RadixTree {
    /// Makes an empty tree one of the newest version of each key in `load`, on so many threads.
    ///
    /// # Panics
    /// The tree is not empty.
    pub fn bulk_load(&self, records: &(impl Records + Sync), load: BulkLoad, threads: usize) {
        let BulkLoad { bounds, parts, .. } = load;
        let parts = parts.into_inner().unwrap_or_else(PoisonError::into_inner);
        let ranges = (0..bounds.ranges()).collect();
        let subtrees = in_parallel(threads, ranges, |sorter: &mut Sorter, range| {
            let mut builder = Builder::new(&self.arena, records, bounds.own_len(range));
            let sorted = sorter.sort(&parts, range, records).iter();
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
    /// A range's items in order: by digits, of which there are about as many as items, then what has the same.
    fn sort(&mut self, parts: &[Part], range: usize, records: &impl Records) -> &[Item] {
        let len = parts.iter().map(|part| part.len(range)).sum();
        if len == 0 {
            return &[];
        }
        let (mut low, mut high) = (u128::MAX, 0);
        each(parts, range, |item| (low, high) = (low.min(item.head()), high.max(item.head())));
        let digits = Digits::new(low, high, len);
        self.ends.clear();
        self.ends.resize(digits.len(), 0);
        each(parts, range, |item| self.ends[digits.of(item.head())] += 1);
        begins(&mut self.ends);
        self.sorted.resize(len.max(self.sorted.len()), Item::default());
        let sorted = &mut self.sorted[..len];
        each(parts, range, |item| {
            let end = &mut self.ends[digits.of(item.head())];
            sorted[*end] = item;
            *end += 1;
        });
        let mut start = 0;
        for &end in &self.ends {
            let same = &mut sorted[start..end];
            if same.len() > 1 {
                // Versions of a key mostly came in order, which a stable sort is fast at.
                same.sort_by(|one, other| one.cmp(other, records));
            }
            start = end;
        }
        sorted
    }
}

/// Shows the items that all parts have of a range.
#[inline]
fn each(parts: &[Part], range: usize, mut show: impl FnMut(Item)) {
    parts.iter().for_each(|part| part.each(range, &mut show));
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
    let next = || locked(&queue).next();
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

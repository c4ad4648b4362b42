//! Bulk loading: a tree of keys that are all known beforehand.
//!
//! Entries come from any [thread](Loader), and are divided by ranges of keys that fit the cache. When all
//! are there they are sorted range by range, and the tree is built from below: each node once, in the size
//! that it needs. None of these steps misses the cache as inserts at random do.
//!
//! ```text
//!   threads       |dog cat|  |cow cattle|
//!   ranges        |cat cow cattle|  |dog|       their bounds are found by samples
//!   sorted        |cat cattle cow|  |dog|       a range at a time, on all threads
//!   lengths of the neighbours' common prefixes:   3  1  0
//!   nodes         closed from the right, when the next key has less in common than the node's level
//! ```
//!
//! A bound is the shortest prefix that separates the samples on both sides: `d` above. The common prefix of
//! a key in a range with a key outside is shorter than the range's bounds. So subtrees of keys whose common
//! prefix is at least as long as the longer bound are built with the range, and the nodes above them when
//! all ranges are done.

mod bounds;
mod builder;
mod digits;
mod item;
mod part;

use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{RadixTree, Records};
use crate::parallel::map_with;
use crate::sync::Ordering;
use bounds::Bounds;
use builder::{Builder, Subtree};
use digits::{Digits, begins};
use item::Item;
use part::Part;

/// The entries that a tree is [made of](RadixTree::bulk_load), divided by ranges of their keys.
pub struct BulkLoad {
    bounds: Bounds,
    /// The parts to which no [`Loader`] adds at the moment.
    parts: Mutex<Vec<Part>>,
}

impl BulkLoad {
    /// Begins a load of about `len` entries, whose keys are distributed as the samples are: eight for each 16384
    /// entries are enough, and none are needed for fewer. A wrong number or distribution only makes it slower.
    #[must_use]
    pub fn new(samples: Vec<Box<[u8]>>, len: usize) -> Self {
        Self { bounds: Bounds::new(samples, len), parts: Mutex::default() }
    }

    /// A loader that adds entries, for one thread at a time.
    #[must_use]
    pub fn loader(&self) -> Loader<'_> {
        let idle = locked(&self.parts).pop();
        let part = idle.unwrap_or_else(|| Part::new(self.bounds.ranges()));
        Loader { load: self, part }
    }
}

/// Adds entries to a [`BulkLoad`].
pub struct Loader<'a> {
    load: &'a BulkLoad,
    part: Part,
}

impl Loader<'_> {
    /// Adds an entry, which takes 24 bytes.
    ///
    /// # Panics
    /// As [`RadixTree::insert`].
    #[inline]
    pub fn push(&mut self, key: &[u8], entry: u64) {
        super::check(key, entry);
        let item = Item::new(key, entry);
        self.part.push(self.load.bounds.range_of(&item, key), item);
    }
}

impl Drop for Loader<'_> {
    fn drop(&mut self) {
        locked(&self.load.parts).push(mem::take(&mut self.part));
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
        let BulkLoad { bounds, parts } = load;
        let mut parts = parts.into_inner().unwrap_or_else(PoisonError::into_inner);
        parts.iter_mut().for_each(Part::divide);
        let ranges = (0..bounds.ranges()).collect();
        let subtrees = map_with("radix-load", threads, ranges, |sorter: &mut Sorter, range| {
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
    items: Vec<Item>,
    sorted: Vec<Item>,
    /// Where the items of each digit end.
    ends: Vec<usize>,
}

impl Sorter {
    /// A range's items in order: by digits, of which there are about as many as items, then within each
    /// digit.
    fn sort(&mut self, parts: &[Part], range: usize, records: &impl Records) -> &[Item] {
        self.items.clear();
        for part in parts {
            part.of_range(range).for_each(|items| self.items.extend_from_slice(items));
        }
        let heads = || self.items.iter().map(Item::head);
        let (Some(low), Some(high)) = (heads().min(), heads().max()) else { return &[] };
        let digits = Digits::new(low, high, self.items.len());
        self.ends.clear();
        self.ends.resize(digits.len(), 0);
        heads().for_each(|head| self.ends[digits.of(head)] += 1);
        begins(&mut self.ends);
        self.sorted.resize(self.items.len().max(self.sorted.len()), Item::default());
        let sorted = &mut self.sorted[..self.items.len()];
        for item in &self.items {
            let end = &mut self.ends[digits.of(item.head())];
            sorted[*end] = *item;
            *end += 1;
        }
        let mut start = 0;
        for &end in &self.ends {
            let same = &mut sorted[start..end];
            if same.len() > 1 {
                // Versions of a key mostly came in order; a stable sort is fast then.
                same.sort_by(|one, other| one.cmp(other, records));
            }
            start = end;
        }
        sorted
    }
}

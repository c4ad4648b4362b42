//! Bulk loading: a tree made of keys that are known all at once.
//!
//! Entries are gathered in [runs](GatheredRun), divided by ranges of keys that fit the cache, and sorted there; and
//! the tree is built from below: each node once, in the size that it needs. Nothing of that misses the
//! cache as inserts at random do.
//!
//! ```text
//!   runs          |dog cat|  |cow cattle|       older before newer
//!   divided       |cat|dog|  |cattle|cow|       by the same bounds, found by samples of all
//!   sorted        |cat cattle|cow dog|          a range at a time, on all threads
//!   lengths of what neighbours have in common:   3  1  0
//!   nodes         closed from the right, when the next key has less in common than the node's level
//! ```

use std::cmp::Ordering::{self, Equal};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::arena::Arena;
use super::node::{LEVEL_MAX, Node};
use super::sought::{Sought, WINDOW, common_len};
use super::{RadixTree, Records};
use crate::sync::Ordering as MemoryOrdering;

/// Bytes of a key that are kept beside its entry. Only keys that have them in common are read.
const HEAD: usize = WINDOW;

/// Ranges of keys for each thread, as some take longer than others.
const RANGES: usize = 4;

/// Entries below which there is but one range.
const PARALLEL_MIN: usize = 4096;

/// Entries of a range that is sorted by itself: in the cache.
const RANGE_LEN: usize = 4096;

/// Ranges at the most: so many bounds are searched for each entry.
const RANGES_MAX: usize = 1024;

/// Keys that are looked at to find the bound of a range.
const SAMPLES: usize = 8;

/// Levels from the root down that are looked through for subtrees that threads build.
const CUT_LEVELS: usize = 8;

/// An entry and the beginning of its key.
#[derive(Clone, Copy, Default)]
struct Item {
    /// Big-endian, with zeros behind the key's end. In halves, so that an item takes 24 bytes.
    head: [u64; 2],
    /// In the top byte the key's length, if it is not above [`HEAD`], else one more than that.
    entry: u64,
}

const ENTRY: u64 = (1 << 56) - 1;

impl Item {
    fn new(key: &[u8], entry: u64) -> Self {
        let mut bytes = [0; HEAD];
        let len = key.len().min(HEAD);
        bytes[..len].copy_from_slice(&key[..len]);
        let head = u128::from_be_bytes(bytes);
        let len = key.len().min(HEAD + 1) as u64;
        Self { head: [(head >> 64) as u64, head as u64], entry: entry | len << 56 }
    }

    fn entry(&self) -> u64 {
        self.entry & ENTRY
    }

    /// The key's length up to one more than [`HEAD`].
    fn len(&self) -> usize {
        (self.entry >> 56) as usize
    }

    fn is_long(&self) -> bool {
        self.len() > HEAD
    }

    fn head(&self) -> u128 {
        u128::from(self.head[0]) << 64 | u128::from(self.head[1])
    }

    #[inline]
    fn cmp(&self, other: &Self, records: &impl Records) -> Ordering {
        let (head, others) = (self.head(), other.head());
        if head != others { head.cmp(&others) } else { self.cmp_behind(other, records) }
    }

    /// Compares keys whose heads are equal.
    #[cold]
    fn cmp_behind(&self, other: &Self, records: &impl Records) -> Ordering {
        self.len().cmp(&other.len()).then_with(|| match self.is_long() {
            true => records.key(self.entry()).cmp(records.key(other.entry())),
            false => Equal,
        })
    }

    /// How many bytes two keys have in common.
    fn common(&self, other: &Self, records: &impl Records) -> usize {
        let bytes = (self.head() ^ other.head()).leading_zeros() as usize / 8;
        let common = bytes.min(self.len()).min(other.len());
        if common == HEAD && self.is_long() && other.is_long() {
            return common_len(records.key(self.entry()), records.key(other.entry()));
        }
        common
    }

    fn byte(&self, level: usize, records: &impl Records) -> Option<u8> {
        if level < HEAD {
            return (level < self.len()).then(|| (self.head() >> (120 - level * 8)) as u8);
        }
        // A key that is no longer than its head ends there.
        self.is_long().then(|| records.key(self.entry()).get(level).copied()).flatten()
    }

    /// As [`Sought::window`].
    fn window(&self, level: usize, records: &impl Records) -> u128 {
        if level > HEAD {
            return Sought::new(records.key(self.entry())).window(level);
        }
        Sought::new(&self.head().to_be_bytes()).window(level)
    }
}

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
        let items = sorted(records, runs, threads);
        let mut cuts = Vec::new();
        let largest = match threads {
            0..=1 => items.len(),
            _ => (items.len() / threads / RANGES).max(PARALLEL_MIN),
        };
        cut(&items, 0..items.len(), largest, 0, records, &mut cuts);
        let subtrees = in_parallel(threads, cuts, |range| {
            let mut builder = Builder::new(&self.arena, records);
            let items = &items[range];
            items.iter().for_each(|item| builder.push(item, item, item.entry()));
            self.arena.count_keys(builder.keys);
            builder.finish().map(|(_, word)| (items, word))
        });
        let mut builder = Builder::new(&self.arena, records);
        for (items, word) in subtrees.into_iter().flatten() {
            builder.push(&items[0], &items[items.len() - 1], word);
        }
        let Some((_, word)) = builder.finish() else { return };
        let seen = self.anchor.read().and_then(|seen| self.anchor.lock(seen));
        let locked = seen.ok().filter(|_| self.root.load(MemoryOrdering::Relaxed) == 0);
        assert!(locked.is_some(), "a tree that is bulk loaded is empty, and nobody else's");
        self.root.store(word, MemoryOrdering::Release);
        drop(locked);
    }
}

/// Numbers heads by their first bits in which they differ: in order, and evenly, if the heads are.
struct Digits {
    low: u128,
    shift: u32,
    last: u128,
}

impl Digits {
    /// At least as many as `count`, if heads from `low` to `high` are as many.
    fn new(low: u128, high: u128, count: usize) -> Self {
        let span = high - low;
        let bits = usize::BITS - count.leading_zeros();
        let shift = (u128::BITS - span.leading_zeros()).saturating_sub(bits);
        Self { low, shift, last: span >> shift }
    }

    fn len(&self) -> usize {
        self.last as usize + 1
    }

    /// Of heads below and above, the first and the last.
    #[inline]
    fn of(&self, item: &Item) -> usize {
        (item.head().saturating_sub(self.low) >> self.shift).min(self.last) as usize
    }
}

/// Counts made the places at which each number begins.
fn begins(counts: &mut [usize]) {
    let mut begin = 0;
    counts.iter_mut().for_each(|count| begin += std::mem::replace(count, begin));
}

/// The first keys of all ranges but the first.
struct Bounds {
    items: Vec<Item>,
    digits: Digits,
    /// How many of them are below each digit, and below the end.
    below: Vec<usize>,
}

impl Bounds {
    fn new(runs: &[GatheredRun], total: usize, records: &impl Records) -> Self {
        let ranges = (total / RANGE_LEN).clamp(1, RANGES_MAX);
        let step = (total / ranges / SAMPLES).max(1);
        let samples = runs.iter().flat_map(|run| run.items.iter().step_by(step));
        let mut samples: Vec<Item> = samples.copied().collect();
        samples.sort_unstable_by(|one, other| one.cmp(other, records));
        let nth = |range: usize| samples.get(range * samples.len() / ranges);
        let items: Vec<Item> = (1..ranges).filter_map(nth).copied().collect();
        let head = |item: Option<&Item>| item.map_or(0, Item::head);
        let digits = Digits::new(head(items.first()), head(items.last()), 4 * items.len());
        let mut below = vec![0; digits.len() + 1];
        items.iter().for_each(|item| below[digits.of(item)] += 1);
        begins(&mut below);
        Self { items, digits, below }
    }

    fn ranges(&self) -> usize {
        self.items.len() + 1
    }

    #[inline]
    fn range_of(&self, item: &Item, records: &impl Records) -> usize {
        let digit = self.digits.of(item);
        let (first, end) = (self.below[digit], self.below[digit + 1]);
        let same_digit = &self.items[first..end];
        first + same_digit.partition_point(|bound| bound.cmp(item, records).is_le())
    }
}

/// A run whose items are divided by ranges of keys.
struct DividedRun {
    items: Vec<Item>,
    /// Where each range ends.
    ends: Vec<usize>,
}

impl DividedRun {
    /// Leaves the items of a range in their order.
    fn new(run: &GatheredRun, bounds: &Bounds, records: &impl Records) -> Self {
        let range_of = |item| bounds.range_of(item, records) as u16;
        let ranges: Vec<u16> = run.items.iter().map(range_of).collect();
        let mut ends = vec![0; bounds.ranges()];
        ranges.iter().for_each(|&range| ends[usize::from(range)] += 1);
        begins(&mut ends);
        let mut items = vec![Item::default(); run.len()];
        for (item, &range) in run.items.iter().zip(&ranges) {
            let end = &mut ends[usize::from(range)];
            items[*end] = *item;
            *end += 1;
        }
        Self { items, ends }
    }

    fn range(&self, number: usize) -> &[Item] {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.items[start..self.ends[number]]
    }
}

/// All items of runs in order; of equal keys, older ones first.
fn sorted(records: &(impl Records + Sync), runs: Vec<GatheredRun>, threads: usize) -> Vec<Item> {
    let total = runs.iter().map(GatheredRun::len).sum();
    let bounds = Bounds::new(&runs, total, records);
    let runs = in_parallel(threads, runs, |run| DividedRun::new(&run, &bounds, records));
    let mut items = vec![Item::default(); total];
    let mut rest = &mut items[..];
    let mut jobs = Vec::new();
    for range in 0..bounds.ranges() {
        let parts: Vec<_> = runs.iter().map(|run| run.range(range)).collect();
        let (mine, behind) = rest.split_at_mut(parts.iter().map(|part| part.len()).sum());
        rest = behind;
        jobs.push((parts, mine));
    }
    in_parallel(threads, jobs, |(parts, to)| sort_to(&parts, to, records));
    items
}

/// Sorts what lies in parts: by digits, of which there are about as many as items, then what has the same.
fn sort_to(parts: &[&[Item]], to: &mut [Item], records: &impl Records) {
    let items = || parts.iter().copied().flatten();
    let (low, high) = items()
        .fold((u128::MAX, 0), |(low, high), item| (item.head().min(low), item.head().max(high)));
    if to.is_empty() {
        return;
    }
    let digits = Digits::new(low, high, to.len());
    let mut ends = vec![0; digits.len()];
    items().for_each(|item| ends[digits.of(item)] += 1);
    begins(&mut ends);
    items().for_each(|item| {
        let end = &mut ends[digits.of(item)];
        to[*end] = *item;
        *end += 1;
    });
    let mut start = 0;
    for end in ends {
        // It is stable.
        to[start..end].sort_by(|one, other| one.cmp(other, records));
        start = end;
    }
}

/// Cuts sorted items into what is below nodes of a tree of them, until no part is longer than `largest`, or
/// the parts are deep.
fn cut(
    items: &[Item],
    range: Range<usize>,
    largest: usize,
    depth: usize,
    records: &impl Records,
    cuts: &mut Vec<Range<usize>>,
) {
    let all = &items[range.clone()];
    let (Some(first), Some(last)) = (all.first(), all.last()) else { return };
    if all.len() <= largest || depth == CUT_LEVELS || first.cmp(last, records).is_eq() {
        cuts.push(range);
        return;
    }
    let level = first.common(last, records);
    let mut begin = 0;
    while begin < all.len() {
        let byte = all[begin].byte(level, records);
        let len = all[begin..].partition_point(|item| item.byte(level, records) <= byte).max(1);
        let start = range.start + begin;
        cut(items, start..start + len, largest, depth + 1, records, cuts);
        begin += len;
    }
}

/// Does each job, on so many threads; what they return, in order.
fn in_parallel<J: Send, R: Send>(
    threads: usize,
    jobs: Vec<J>,
    work: impl Fn(J) -> R + Sync,
) -> Vec<R> {
    if threads <= 1 || jobs.len() <= 1 {
        return jobs.into_iter().map(work).collect();
    }
    let mut results: Vec<Option<R>> = jobs.iter().map(|_| None).collect();
    let threads = threads.min(jobs.len());
    let queue = Mutex::new(jobs.into_iter().zip(&mut results));
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let one = || {
        while let Some((job, result)) = next() {
            *result = Some(work(job));
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

/// Builds a tree of keys that come in order, from below and from the left.
struct Builder<'a, R> {
    arena: &'a Arena,
    records: &'a R,
    /// Nodes that may get more children: those above the last key, from the root down.
    open: Vec<Open>,
    /// Children of all open nodes, one node's behind the other's.
    children: Vec<(Option<u8>, u64)>,
    /// What came last, and the last key below it.
    last: Option<(Item, u64)>,
    /// Keys that came.
    keys: u64,
}

struct Open {
    level: usize,
    /// Where its children begin.
    start: usize,
}

impl<'a, R: Records> Builder<'a, R> {
    fn new(arena: &'a Arena, records: &'a R) -> Self {
        Self { arena, records, open: Vec::new(), children: Vec::new(), last: None, keys: 0 }
    }

    /// Adds what leads to the keys from `first` to `last`. A key that equals the last one takes its place.
    fn push(&mut self, first: &Item, last: &Item, word: u64) {
        self.keys += 1;
        let Some((before, _)) = self.last else {
            self.last = Some((*last, word));
            return;
        };
        if before.cmp(first, self.records).is_eq() {
            self.keys -= 1;
            self.last = Some((*last, word));
            return;
        }
        let level = before.common(first, self.records).min(LEVEL_MAX);
        let word_before = self.close_below(level);
        if self.open.last().is_none_or(|open| open.level < level) {
            self.open.push(Open { level, start: self.children.len() });
        }
        self.children.push((before.byte(level, self.records), word_before));
        self.last = Some((*last, word));
    }

    /// Closes the open nodes that are below a level. Returns what leads to them and the last key.
    fn close_below(&mut self, level: usize) -> u64 {
        let (item, mut word) = self.last.expect("something came");
        while let Some(open) = self.open.pop_if(|open| open.level > level) {
            self.children.push((item.byte(open.level, self.records), word));
            let window = item.window(open.level, self.records);
            word = Node::with(self.arena, open.level, window, &self.children[open.start..]);
            self.children.truncate(open.start);
        }
        word
    }

    /// What leads to everything, with the last key.
    fn finish(mut self) -> Option<(Item, u64)> {
        let (item, _) = self.last?;
        let mut word = self.close_below(0);
        if let Some(open) = self.open.pop() {
            // Of level 0: nothing is above it.
            self.children.push((item.byte(open.level, self.records), word));
            word = Node::with(self.arena, open.level, 0, &self.children);
        }
        Some((item, word))
    }
}

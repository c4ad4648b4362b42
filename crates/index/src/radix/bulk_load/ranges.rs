//! Entries divided by ranges of keys.

use std::mem::MaybeUninit;
use std::slice::IterMut;

use super::GatheredRun;
use super::in_parallel;
use super::item::{HEAD, Item, head_of};
use crate::large_pages;
use crate::radix::Records;

/// Entries of a range, about: they are sorted in the cache.
const RANGE_LEN: usize = 4096;

/// Ranges at the most: to so many places items go at once.
const RANGES_MAX: usize = 1024;

/// Keys that are looked at to find the bound of a range.
const SAMPLES: usize = 8;

/// Groups of runs for each thread, as some take longer than others.
const GROUPS: usize = 4;

/// Numbers heads by their first bits in which they differ: in order, and evenly, if the heads are.
pub(super) struct Digits {
    low: u128,
    shift: u32,
    last: u128,
}

impl Digits {
    /// At least as many as `count`, if heads from `low` to `high` are as many.
    pub(super) fn new(low: u128, high: u128, count: usize) -> Self {
        let span = high - low;
        let bits = usize::BITS - count.leading_zeros();
        let shift = (u128::BITS - span.leading_zeros()).saturating_sub(bits);
        Self { low, shift, last: span >> shift }
    }

    pub(super) fn len(&self) -> usize {
        self.last as usize + 1
    }

    /// Of heads below and above, the first and the last.
    #[inline]
    pub(super) fn of(&self, head: u128) -> usize {
        (head.saturating_sub(self.low) >> self.shift).min(self.last) as usize
    }
}

/// Counts made the places at which each number begins.
pub(super) fn begins(counts: &mut [usize]) {
    let mut begin = 0;
    counts.iter_mut().for_each(|count| begin += std::mem::replace(count, begin));
}

/// Where a range begins: at a key that is no longer than it must be.
struct Bound {
    head: u128,
    key: Box<[u8]>,
}

impl Bound {
    #[inline]
    fn is_at_most(&self, item: &Item, records: &impl Records) -> bool {
        let head = item.head();
        if self.head != head { self.head < head } else { self.is_at_most_behind(item, records) }
    }

    /// For keys whose heads are equal.
    #[cold]
    fn is_at_most_behind(&self, item: &Item, records: &impl Records) -> bool {
        if self.key.len() <= HEAD {
            return self.key.len() <= item.len();
        }
        item.is_long() && *self.key <= *records.key(item.entry())
    }
}

/// What parts all keys into ranges.
pub(super) struct Bounds {
    /// Those of all ranges but the first.
    bounds: Vec<Bound>,
    digits: Digits,
    /// How many of them are below each digit, and below the end.
    below: Vec<usize>,
}

impl Bounds {
    pub(super) fn new(runs: &[GatheredRun], records: &impl Records) -> Self {
        let total: usize = runs.iter().map(GatheredRun::len).sum();
        let ranges = (total / RANGE_LEN).clamp(1, RANGES_MAX);
        let step = (total / ranges / SAMPLES).max(1);
        let samples = runs.iter().flat_map(|run| run.items.iter().step_by(step));
        let mut samples: Vec<Item> = samples.copied().collect();
        samples.sort_unstable_by(|one, other| one.cmp(other, records));
        let mut bounds = Vec::new();
        let mut last = samples.first();
        for range in 1..ranges {
            let first = samples.get(range * samples.len() / ranges);
            let (Some(before), Some(first)) = (last, first) else { break };
            if before.cmp(first, records).is_lt() {
                let key = first.prefix(before.common(first, records) + 1, records);
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

    fn ranges(&self) -> usize {
        self.bounds.len() + 1
    }

    /// As many bytes as no key in a range has in common with one outside.
    pub(super) fn own_len(&self, range: usize) -> usize {
        let around = self.bounds[range.saturating_sub(1)..].iter().take(1 + range.min(1));
        around.map(|bound| bound.key.len()).max().unwrap_or(0)
    }

    #[inline]
    fn range_of(&self, item: &Item, records: &impl Records) -> usize {
        let digit = self.digits.of(item.head());
        let (first, end) = (self.below[digit], self.below[digit + 1]);
        let same_digit = &self.bounds[first..end];
        first + same_digit.partition_point(|bound| bound.is_at_most(item, records))
    }
}

/// Runs that follow each other.
struct Group {
    runs: Vec<GatheredRun>,
    /// Of each item.
    ranges: Vec<u16>,
    /// Items in each range.
    lens: Vec<usize>,
}

impl Group {
    fn new(runs: Vec<GatheredRun>, bounds: &Bounds, records: &impl Records) -> Self {
        let mut ranges = Vec::with_capacity(runs.iter().map(GatheredRun::len).sum());
        for run in &runs {
            ranges.extend(run.items.iter().map(|item| bounds.range_of(item, records) as u16));
        }
        let mut lens = vec![0; bounds.ranges()];
        ranges.iter().for_each(|&range| lens[usize::from(range)] += 1);
        Self { runs, ranges, lens }
    }

    /// Writes each item to the next place of its range. Returns how many those are.
    fn divide(&self, mut places: Vec<IterMut<'_, MaybeUninit<Item>>>) -> usize {
        let (mut ranges, mut written) = (self.ranges.iter(), 0);
        for run in &self.runs {
            for (item, &range) in run.items.iter().zip(&mut ranges) {
                if let Some(place) = places[usize::from(range)].next() {
                    place.write(*item);
                    written += 1;
                }
            }
        }
        written
    }
}

/// The items of runs, by ranges.
pub(super) struct Divided {
    items: Vec<Item>,
    /// Of each range.
    lens: Vec<usize>,
}

impl Divided {
    /// In a range, items stay in their order.
    pub(super) fn new(
        mut runs: Vec<GatheredRun>,
        bounds: &Bounds,
        records: &(impl Records + Sync),
        threads: usize,
    ) -> Self {
        let total = runs.iter().map(GatheredRun::len).sum();
        let group_len = runs.len().div_ceil(threads.max(1) * GROUPS).max(1);
        let mut groups = Vec::new();
        while !runs.is_empty() {
            groups.push(runs.drain(..group_len.min(runs.len())).collect());
        }
        let groups = in_parallel(threads, groups, |(), runs| Group::new(runs, bounds, records));
        let mut items = Vec::with_capacity(total);
        let mut free = &mut items.spare_capacity_mut()[..total];
        large_pages::advise(free.as_mut_ptr().cast(), size_of_val(free));
        let mut places: Vec<_> =
            groups.iter().map(|_| Vec::with_capacity(bounds.ranges())).collect();
        for range in 0..bounds.ranges() {
            for (group, places) in groups.iter().zip(&mut places) {
                let (mine, behind) = free.split_at_mut(group.lens[range]);
                places.push(mine.iter_mut());
                free = behind;
            }
        }
        let lens_of = |range| groups.iter().map(|group| group.lens[range]).sum();
        let lens = (0..bounds.ranges()).map(lens_of).collect();
        let jobs = groups.into_iter().zip(places).collect();
        let written = in_parallel(threads, jobs, |(), (group, places): (Group, _)| {
            // Its runs go with it.
            group.divide(places)
        });
        assert_eq!(written.into_iter().sum::<usize>(), total, "each item has a place");
        // SAFETY: as many places were written, each once.
        unsafe { items.set_len(total) };
        Self { items, lens }
    }

    pub(super) fn ranges(&self) -> Vec<&[Item]> {
        let mut rest = &self.items[..];
        let next = |&len: &usize| {
            let (range, behind) = rest.split_at(len);
            rest = behind;
            range
        };
        self.lens.iter().map(next).collect()
    }
}

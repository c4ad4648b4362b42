//! The allocatable view of one segment: which of its blocks are taken, and where runs of free ones are.
//!
//! Beside the bits it has a summary, which is exact: for each group of 512 blocks the longest free run in it, and the
//! largest of these. A search skips the groups that have no run as long as it needs by reading the summary (2 bytes a
//! group), and reads the bits of two groups at most: of the group that it starts in, where the longest run may lie
//! before the start, and of the first one behind it that has a run. Groups may be *kept*: only a search for these finds
//! blocks of theirs.
//!
//! The last segment of a vdev may have less than 2^18 blocks; the blocks behind its end count as taken for searches,
//! and are not set in the bits.

use std::ops::Range;

use super::bits::{Bits, SEGMENT, runs};

/// Blocks of a group: no extent crosses its end.
pub(crate) const GROUP: u32 = halite_vdev::SEGMENT_BLOCKS as u32;

/// Groups of a segment.
const GROUPS: u32 = SEGMENT / GROUP;

/// The allocatable view of a segment.
pub(crate) struct Bitmap {
    taken: Bits,
    /// Blocks that the segment has.
    len: u32,
    /// Blocks that are free.
    free: u32,
    /// The longest free run of each group.
    longest: Box<[u16; GROUPS as usize]>,
    /// The largest of these.
    longest_of_all: u16,
    /// The groups that are kept: a few.
    kept: Vec<u32>,
}

/// The free space of a part of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Statistics {
    /// Free blocks.
    pub(crate) free: u64,
    /// Free blocks in groups that have no free run for an extent of the most blocks.
    pub(crate) fragmented: u64,
    /// Runs of free blocks, which end where a group does.
    pub(crate) runs: u64,
    /// Blocks of the longest one.
    pub(crate) longest: u32,
}

impl Statistics {
    /// The statistics of two parts together.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            free: self.free + other.free,
            fragmented: self.fragmented + other.fragmented,
            runs: self.runs + other.runs,
            longest: self.longest.max(other.longest),
        }
    }

    /// The share of the free blocks, from 0 to 1, that lie in groups without a free run for an extent of the most
    /// blocks.
    pub(crate) fn fragmentation(self) -> f64 {
        if self.free == 0 { 0.0 } else { self.fragmented as f64 / self.free as f64 }
    }
}

impl Bitmap {
    /// The view of a segment of `len` blocks, some of them taken; none of those lies behind the end.
    pub(crate) fn new(taken: Bits, len: u32) -> Self {
        assert!(len <= SEGMENT && !taken.has_any(len..SEGMENT), "taken blocks exist");
        let free = len - taken.count();
        let longest = Box::new([0; GROUPS as usize]);
        let mut bitmap = Self { taken, len, free, longest, longest_of_all: 0, kept: Vec::new() };
        bitmap.summarize(0..SEGMENT);
        bitmap
    }

    /// Blocks that the segment has.
    #[cfg(test)]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Blocks that are free.
    pub(crate) fn free(&self) -> u32 {
        self.free
    }

    /// Blocks of the longest free run in a group.
    pub(crate) fn longest(&self) -> u16 {
        self.longest_of_all
    }

    /// Blocks of the longest free run in a group that is not kept.
    pub(crate) fn longest_not_kept(&self) -> u16 {
        if self.kept.is_empty() {
            return self.longest_of_all;
        }
        let lengths = (0..GROUPS).zip(&*self.longest).filter(|(group, _)| !self.is_kept(*group));
        lengths.map(|(_, longest)| *longest).max().unwrap_or(0)
    }

    /// Keeps these groups, and no others.
    pub(crate) fn keep(&mut self, groups: Vec<u32>) {
        self.kept = groups;
    }

    /// The groups that are kept.
    pub(crate) fn kept(&self) -> &[u32] {
        &self.kept
    }

    fn is_kept(&self, group: u32) -> bool {
        self.kept.contains(&group)
    }

    /// Blocks of a group that are free.
    pub(crate) fn free_of(&self, group: u32) -> u32 {
        let words = blocks_of(group).step_by(u64::BITS as usize).map(|at| at / u64::BITS);
        words.map(|at| self.free_word(at as usize).count_ones()).sum()
    }

    /// The groups that have blocks.
    pub(crate) fn groups(&self) -> Range<u32> {
        0..self.len.div_ceil(GROUP)
    }

    /// Gives the segment more blocks, which are free.
    pub(crate) fn grow(&mut self, len: u32) {
        assert!((self.len..=SEGMENT).contains(&len), "a segment grows up to its size");
        let added = self.len..len;
        self.len = len;
        self.free += added.len() as u32;
        self.summarize(added);
    }

    /// Whether these blocks exist and are free.
    pub(crate) fn is_free(&self, blocks: Range<u32>) -> bool {
        blocks.end <= self.len && !self.taken.has_any(blocks)
    }

    /// The first run of `count` free blocks from a block on that does not cross the end of a group, and lies in none that is
    /// kept.
    pub(crate) fn find(&self, from: u32, count: u32) -> Option<u32> {
        self.find_by(|at| self.free_word(at), from, count)
    }

    /// [`Bitmap::find`], which reads the free blocks by a function.
    fn find_by(&self, free_word: impl Fn(usize) -> u64, from: u32, count: u32) -> Option<u32> {
        let has = |group: &u32| {
            u32::from(self.longest[*group as usize]) >= count && !self.is_kept(*group)
        };
        let find_in = |within| find_in(&free_word, within, count);
        let first = from / GROUP;
        let in_first = if has(&first) { find_in(from..blocks_of(first).end) } else { None };
        in_first.or_else(|| find_in(blocks_of((first + 1..GROUPS).find(has)?)))
    }

    /// A run of `count` free blocks in a group that is kept.
    pub(crate) fn find_kept(&self, count: u32) -> Option<u32> {
        let mut kept = self.kept.iter();
        kept.find_map(|group| find_in(|at| self.free_word(at), blocks_of(*group), count))
    }

    /// Takes blocks that are free.
    pub(crate) fn take(&mut self, blocks: Range<u32>) {
        assert!(self.is_free(blocks.clone()), "blocks are taken once");
        self.free -= blocks.len() as u32;
        self.taken.set(blocks.clone());
        self.summarize(blocks);
    }

    /// Makes blocks free that are taken.
    pub(crate) fn release(&mut self, blocks: Range<u32>) {
        assert!(self.taken.has_all(blocks.clone()), "taken blocks are released once");
        self.free += blocks.len() as u32;
        self.taken.clear(blocks.clone());
        self.summarize(blocks);
    }

    /// Its free space.
    pub(crate) fn statistics(&self) -> Statistics {
        let mut statistics = Statistics {
            free: self.free.into(),
            longest: self.longest_of_all.into(),
            ..Statistics::default()
        };
        for group in 0..GROUPS {
            let mut free = 0;
            for run in runs(|at| self.free_word(at), blocks_of(group)) {
                statistics.runs += 1;
                free += run.len() as u64;
            }
            if u32::from(self.longest[group as usize]) < halite_vdev::EXTENT_BLOCKS_MAX {
                statistics.fragmented += free;
            }
        }
        statistics
    }

    /// The free blocks of a word.
    fn free_word(&self, at: usize) -> u64 {
        let blocks = self.len.saturating_sub(at as u32 * u64::BITS);
        let exist = if blocks < u64::BITS { !(u64::MAX << blocks) } else { u64::MAX };
        !self.taken.word(at) & exist
    }

    /// Makes the summary of the groups that have blocks of a range again.
    fn summarize(&mut self, blocks: Range<u32>) {
        for group in blocks.start / GROUP..blocks.end.div_ceil(GROUP) {
            let lengths = runs(|at| self.free_word(at), blocks_of(group)).map(|run| run.len());
            let longest = lengths.max().unwrap_or(0) as u16;
            let before = std::mem::replace(&mut self.longest[group as usize], longest);
            if longest >= self.longest_of_all {
                self.longest_of_all = longest;
            } else if before == self.longest_of_all {
                self.longest_of_all = self.longest.iter().copied().max().unwrap_or(0);
            }
        }
    }
}

/// The first run of `count` free blocks in a range.
fn find_in(free_word: impl Fn(usize) -> u64, within: Range<u32>, count: u32) -> Option<u32> {
    runs(free_word, within).find(|run| run.len() as u32 >= count).map(|run| run.start)
}

fn blocks_of(group: u32) -> Range<u32> {
    group * GROUP..(group + 1) * GROUP
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::prelude::*;

    use super::*;

    /// The free runs of a group, one block at a time.
    fn runs_of(bitmap: &Bitmap, group: u32) -> Vec<Range<u32>> {
        let mut runs: Vec<Range<u32>> = Vec::new();
        for block in blocks_of(group).filter(|&block| bitmap.is_free(block..block + 1)) {
            match runs.last_mut() {
                Some(run) if run.end == block => run.end += 1,
                _ => runs.push(block..block + 1),
            }
        }
        runs
    }

    fn assert_exact(bitmap: &Bitmap) {
        let runs: Vec<_> = (0..GROUPS).map(|group| runs_of(bitmap, group)).collect();
        let mut of_all = Statistics::default();
        for (runs, &summary) in runs.iter().zip(&*bitmap.longest) {
            let longest = runs.iter().map(|run| run.len()).max().unwrap_or(0);
            assert_eq!(usize::from(summary), longest);
            let free = runs.iter().map(|run| run.len() as u64).sum();
            let fragmented = if longest < 256 { free } else { 0 };
            let (runs, longest) = (runs.len() as u64, longest as u32);
            of_all = of_all.and(Statistics { free, fragmented, runs, longest });
        }
        assert_eq!(bitmap.statistics(), of_all);
        assert_eq!((bitmap.free(), bitmap.longest()), (of_all.free as u32, of_all.longest as u16));
    }

    #[test]
    fn blocks_behind_the_end_are_not_given_out_until_it_grows() {
        let mut bitmap = Bitmap::new(Bits::default(), 1000);
        assert_exact(&bitmap);
        assert_eq!((bitmap.find(0, 512), bitmap.find(1, 512)), (Some(0), None));
        assert_eq!((bitmap.find(1, 488), bitmap.find(1, 489)), (Some(1), Some(1)));
        assert_eq!((bitmap.find(600, 400), bitmap.find(600, 401)), (Some(600), None));
        assert!(!bitmap.is_free(999..1001));
        bitmap.grow(2000);
        assert_exact(&bitmap);
        assert_eq!((bitmap.find(600, 424), bitmap.find(600, 425)), (Some(600), Some(1024)));
        let empty = Bitmap::new(Bits::default(), 0);
        assert_eq!((empty.find(0, 1), empty.longest(), empty.len()), (None, 0, 0));
    }

    /// Without the summary the search would read all 4096 words, and walk over 2^17 runs.
    #[test]
    fn a_search_in_a_nearly_full_segment_reads_two_groups() {
        let mut bitmap = Bitmap::new(Bits::default(), SEGMENT);
        (0..SEGMENT).step_by(2).for_each(|block| bitmap.take(block..block + 1));
        bitmap.release(SEGMENT - 2..SEGMENT - 1);
        for (count, found) in
            [(1, Some(1)), (2, Some(SEGMENT - 3)), (3, Some(SEGMENT - 3)), (4, None)]
        {
            let read = Cell::new(0);
            let free_word = |at| {
                read.set(read.get() + 1);
                bitmap.free_word(at)
            };
            assert_eq!(bitmap.find_by(free_word, 0, count), found, "{count} blocks");
            // A group has 8 words, and each end of one of its 256 runs reads one.
            assert!(read.get() <= 2 * (8 + 2 * 256), "{} words for {count} blocks", read.get());
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Take { from: u32, count: u32 },
        Release { at: usize },
        Grow { by: u32 },
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let count = prop_oneof![1..4_u32, 1..=512_u32, Just(512)];
        let take = (0..4096_u32, count).prop_map(|(from, count)| Step::Take { from, count });
        let release = (0..100_usize).prop_map(|at| Step::Release { at });
        let grow = (0..700_u32).prop_map(|by| Step::Grow { by });
        prop::collection::vec(prop_oneof![6 => take, 3 => release, 1 => grow], 1..80)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn it_finds_the_first_run_that_is_long_enough_and_its_summary_is_exact(
            len in 0..3000_u32,
            steps in steps(),
        ) {
            let mut bitmap = Bitmap::new(Bits::default(), len);
            let mut taken: Vec<Range<u32>> = Vec::new();
            for step in steps {
                match step {
                    Step::Take { from, count } => {
                        let groups = from / GROUP..GROUPS.min(10);
                        let runs = groups.flat_map(|group| runs_of(&bitmap, group));
                        let clipped = runs.map(|run| run.start.max(from)..run.end);
                        let mut long = clipped.filter(|run| run.end >= run.start + count);
                        let first = long.next().map(|run| run.start);
                        prop_assert_eq!(bitmap.find(from, count), first);
                        if let Some(start) = first {
                            bitmap.take(start..start + count);
                            taken.push(start..start + count);
                        }
                    }
                    Step::Release { at } if !taken.is_empty() => {
                        bitmap.release(taken.swap_remove(at % taken.len()));
                    }
                    Step::Release { .. } => {}
                    Step::Grow { by } => bitmap.grow((bitmap.len() + by).min(5000)),
                }
            }
            assert_exact(&bitmap);
            let all: u32 = taken.iter().map(|run| run.len() as u32).sum();
            prop_assert_eq!(bitmap.free(), bitmap.len() - all);
            let again = Bitmap::new(bitmap.taken.clone(), bitmap.len());
            prop_assert_eq!(again.statistics(), bitmap.statistics());
        }
    }
}

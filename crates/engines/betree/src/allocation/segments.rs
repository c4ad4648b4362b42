//! The allocatable view of a vdev: its segments, and a search that goes on where the last one ended.
//!
//! Next-fit keeps extents that are allocated one behind the other next to each other, and does not read the full front
//! of a vdev again and again. The longest run of each segment lies in a row (2 bytes a segment), so that a search
//! passes full segments by without touching them.
//!
//! Some of the emptiest groups of a vdev are *kept*: data never lies in them, so what has to be written when all other
//! free space is in short runs has long ones.

use std::ops::Range;

use super::bitmap::{Bitmap, GROUP, Statistics};
use super::bits::{Bits, SEGMENT};

/// The allocatable view of a vdev.
pub(crate) struct Segments {
    segments: Vec<Bitmap>,
    /// The longest run of each segment.
    longest: Vec<u16>,
    /// Blocks of all segments; all but the last have [`SEGMENT`] of them.
    blocks: u64,
    free: u64,
    /// The block that the next search starts at.
    cursor: u64,
}

impl Segments {
    /// The view of a vdev of so many blocks; `taken` has those of each segment that are.
    pub(crate) fn new(blocks: u64, mut taken: impl FnMut(u64) -> Bits) -> Self {
        let mut segments =
            Self { segments: Vec::new(), longest: Vec::new(), blocks: 0, free: 0, cursor: 0 };
        segments.append(blocks, &mut taken);
        segments
    }

    /// Gives the vdev more blocks, which are free.
    pub(crate) fn grow(&mut self, blocks: u64) {
        assert!(blocks >= self.blocks, "a vdev does not shrink");
        if let Some(last) = self.segments.len().checked_sub(1) {
            let bitmap = &mut self.segments[last];
            self.free -= u64::from(bitmap.free());
            bitmap.grow(len_of(last as u64, blocks));
            self.free += u64::from(bitmap.free());
            self.longest[last] = bitmap.longest();
        }
        self.append(blocks, |_| Bits::default());
    }

    fn append(&mut self, blocks: u64, mut taken: impl FnMut(u64) -> Bits) {
        for number in self.segments.len() as u64..blocks.div_ceil(SEGMENT.into()) {
            let bitmap = Bitmap::new(taken(number), len_of(number, blocks));
            self.free += u64::from(bitmap.free());
            self.longest.push(bitmap.longest());
            self.segments.push(bitmap);
        }
        self.blocks = blocks;
    }

    /// Blocks of the vdev.
    pub(crate) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Blocks that may be allocated.
    pub(crate) fn free(&self) -> u64 {
        self.free
    }

    /// Takes the next run of `count` free blocks that does not cross a multiple of [`GROUP`], in no group that is kept.
    /// Returns its first block.
    pub(crate) fn allocate(&mut self, count: u32) -> Option<u64> {
        assert!(count > 0, "an extent has blocks");
        let (first, at) = split(self.cursor);
        let find = |number: usize, at| {
            let is_long =
                self.longest.get(number).is_some_and(|&longest| u32::from(longest) >= count);
            let found = if is_long { self.segments[number].find(at, count) } else { None };
            found.map(|at| number as u64 * u64::from(SEGMENT) + u64::from(at))
        };
        let others = (first + 1..self.longest.len()).chain(0..self.longest.len().min(first + 1));
        let block =
            find(first, at).or_else(|| others.into_iter().find_map(|number| find(number, 0)))?;
        self.take(block, count);
        self.cursor = block + u64::from(count);
        Some(block)
    }

    /// Takes a run of `count` free blocks of a group that is kept. Returns its first block.
    pub(crate) fn allocate_kept(&mut self, count: u32) -> Option<u64> {
        let mut segments = self.segments.iter().enumerate();
        let (number, at) = segments
            .find_map(|(number, bitmap)| bitmap.find_kept(count).map(|at| (number as u64, at)))?;
        let block = number * u64::from(SEGMENT) + u64::from(at);
        self.take(block, count);
        Some(block)
    }

    /// Keeps so many of the emptiest groups, if not so many are kept, or, where that is asked for, if half of the blocks of
    /// those are taken.
    pub(crate) fn keep(&mut self, groups: usize, renews: bool) {
        let kept: usize = self.segments.iter().map(|bitmap| bitmap.kept().len()).sum();
        let is_renewed = renews && 2 * self.free_kept() < groups as u64 * u64::from(GROUP);
        if kept == groups && !is_renewed {
            return;
        }
        let mut all: Vec<(u32, usize, u32)> = Vec::new();
        for (number, bitmap) in self.segments.iter().enumerate() {
            all.extend(bitmap.groups().map(|group| (bitmap.free_of(group), number, group)));
        }
        let count = groups.min(all.len());
        if count < all.len() {
            all.select_nth_unstable_by(count, |a, b| b.cmp(a));
        }
        let mut of_segments = vec![Vec::new(); self.segments.len()];
        all[..count].iter().for_each(|(_, number, group)| of_segments[*number].push(*group));
        for (bitmap, groups) in self.segments.iter_mut().zip(of_segments) {
            bitmap.keep(groups);
        }
    }

    /// Free blocks in groups that are kept.
    fn free_kept(&self) -> u64 {
        let free = |bitmap: &Bitmap| -> u64 {
            bitmap.kept().iter().map(|group| u64::from(bitmap.free_of(*group))).sum()
        };
        self.segments.iter().map(free).sum()
    }

    /// Blocks of the longest free run.
    pub(crate) fn longest(&self) -> u32 {
        self.longest.iter().copied().max().unwrap_or(0).into()
    }

    /// Blocks of the longest free run in a group that is not kept.
    pub(crate) fn longest_not_kept(&self) -> u32 {
        self.segments.iter().map(Bitmap::longest_not_kept).max().unwrap_or(0).into()
    }

    /// Takes these blocks, if they exist, are all free, and do not cross a multiple of [`GROUP`].
    pub(crate) fn allocate_at(&mut self, block: u64, count: u32) -> bool {
        let is_free = is_in_group(block, count) && self.is_free(block, count);
        if is_free {
            self.take(block, count);
        }
        is_free
    }

    /// Whether these blocks of a group exist and are free.
    pub(crate) fn is_free(&self, block: u64, count: u32) -> bool {
        let (number, at) = split(block);
        self.segments.get(number).is_some_and(|bitmap| bitmap.is_free(at..at + count))
    }

    fn take(&mut self, block: u64, count: u32) {
        let (number, at) = split(block);
        self.segments[number].take(at..at + count);
        self.longest[number] = self.segments[number].longest();
        self.free -= u64::from(count);
    }

    /// Whether any of the blocks of an extent is free.
    pub(crate) fn has_free(&self, block: u64, count: u32) -> bool {
        (block..block + u64::from(count)).any(|block| self.is_free(block, 1))
    }

    /// Makes taken blocks of one segment free.
    pub(crate) fn release(&mut self, blocks: Range<u64>) {
        let (number, at) = split(blocks.start);
        let count = (blocks.end - blocks.start) as u32;
        self.segments[number].release(at..at + count);
        self.longest[number] = self.segments[number].longest();
        self.free += u64::from(count);
    }

    /// Its free space.
    pub(crate) fn statistics(&self) -> Statistics {
        let of_segments = self.segments.iter().map(Bitmap::statistics);
        of_segments.fold(Statistics::default(), Statistics::and)
    }
}

/// A block's segment, and its number in there.
pub(crate) fn split(block: u64) -> (usize, u32) {
    ((block / u64::from(SEGMENT)) as usize, (block % u64::from(SEGMENT)) as u32)
}

/// Whether an extent has blocks, and lies between two multiples of [`GROUP`].
pub(crate) fn is_in_group(block: u64, count: u32) -> bool {
    let group = u64::from(GROUP);
    (1..=GROUP).contains(&count) && block % group + u64::from(count) <= group
}

/// Blocks that a segment has on a vdev of so many.
fn len_of(number: u64, blocks: u64) -> u32 {
    let segment = u64::from(SEGMENT);
    blocks.saturating_sub(number * segment).min(segment) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = SEGMENT as u64;

    #[test]
    fn the_search_goes_on_where_the_last_one_ended_and_comes_back_to_the_start() {
        let mut segments = Segments::new(2 * S + 1000, |_| Bits::default());
        assert_eq!((segments.blocks(), segments.free()), (2 * S + 1000, 2 * S + 1000));
        assert_eq!((segments.allocate(300), segments.allocate(300)), (Some(0), Some(512)));
        assert_eq!(segments.allocate(212), Some(812));
        assert!(segments.allocate_at(S - 512, 500) && !segments.allocate_at(S - 20, 9));
        segments.cursor = S - 600;
        assert_eq!((segments.allocate(80), segments.allocate(20)), (Some(S - 600), Some(S)));
        segments.cursor = 2 * S + 900;
        assert_eq!(
            (segments.allocate(100), segments.allocate(100)),
            (Some(2 * S + 900), Some(300))
        );
        assert_eq!((segments.allocate(513), segments.is_free(2 * S + 999, 2)), (None, false));
        segments.cursor = 2 * S + 999;
        segments.grow(3 * S);
        assert_eq!((segments.allocate(512), segments.free()), (Some(2 * S + 1024), 3 * S - 2124));
        segments.cursor = 3 * S;
        assert_eq!(segments.allocate(1), Some(400));
    }

    #[test]
    fn the_emptiest_groups_are_kept_from_those_that_can_have_other_blocks() {
        let group = u64::from(GROUP);
        let mut segments = Segments::new(S + 4 * group, |_| Bits::default());
        assert!(segments.allocate_at(S + 2 * group, 1));
        segments.keep(3, true);
        assert_eq!(segments.free_kept(), 3 * group);
        let count = (S / group) as usize;
        assert!((0..count).all(|_| segments.allocate(512).is_some()), "all other whole groups");
        assert_eq!((segments.allocate(512), segments.longest_not_kept()), (None, 511));
        assert!((0..3).all(|_| segments.allocate_kept(512).is_some()));
        assert_eq!(
            (segments.allocate_kept(1), segments.allocate(511)),
            (None, Some(S + 2 * group + 1))
        );
        segments.release(0..group);
        segments.release(2 * group..2 * group + 100);
        segments.keep(3, false);
        assert_eq!(segments.free_kept(), 0, "they are kept as they are");
        segments.keep(3, true);
        assert_eq!(segments.free_kept(), group + 100);
    }

    #[test]
    fn full_segments_are_passed_by_and_found_again_when_they_have_room() {
        let full = || {
            let mut bits = Bits::default();
            bits.set(0..SEGMENT);
            bits
        };
        let mut segments =
            Segments::new(4 * S, |number| if number == 3 { Bits::default() } else { full() });
        assert_eq!((segments.free(), segments.allocate(7)), (S, Some(3 * S)));
        segments.release(S + 70..S + 80);
        let got: Vec<_> = (0..513).filter_map(|_| segments.allocate(512)).collect();
        assert_eq!((got.len(), segments.allocate(512), segments.free()), (511, None, 515));
        assert_eq!((segments.allocate(10), segments.allocate(506)), (Some(S + 70), None));
        assert_eq!((segments.allocate(496), segments.allocate(10)), (Some(3 * S + 7), None));
        assert_eq!((segments.statistics().runs, segments.statistics().longest), (1, 9));
        assert_eq!((segments.allocate(9), segments.free()), (Some(3 * S + 503), 0));
    }

    #[test]
    fn a_vdev_without_blocks_has_no_room() {
        let mut segments = Segments::new(0, |_| Bits::default());
        assert_eq!((segments.allocate(1), segments.allocate_at(0, 1)), (None, false));
        segments.grow(1);
        assert_eq!((segments.allocate(1), segments.free()), (Some(0), 0));
    }
}

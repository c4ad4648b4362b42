//! Which blocks of the data device are free.

use crate::BLOCKS_PER_SEGMENT;

/// A segment's blocks, all free.
const ALL_FREE: u16 = u16::MAX;

const _: () = assert!(BLOCKS_PER_SEGMENT == u16::BITS);

/// The free blocks, of which `count` is the number.
#[derive(Default)]
pub(super) struct FreeBlocks {
    /// A bit for each block of a segment.
    segments: Vec<u16>,
    count: u32,
    /// Where the search for a free block begins.
    next: u32,
}

impl FreeBlocks {
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Adds the blocks of a segment, which had none.
    pub(super) fn add_segment(&mut self, segment: u32) {
        let len = self.segments.len().max(segment as usize + 1);
        self.segments.resize(len, 0);
        self.segments[segment as usize] = ALL_FREE;
        self.count += BLOCKS_PER_SEGMENT;
    }

    /// Removes the blocks of a segment, which are all free.
    pub(super) fn remove_segment(&mut self, segment: u32) {
        debug_assert_eq!(self.segments[segment as usize], ALL_FREE);
        self.segments[segment as usize] = 0;
        self.count -= BLOCKS_PER_SEGMENT;
    }

    /// Whether all blocks of a segment are free.
    pub(super) fn is_segment_free(&self, segment: u32) -> bool {
        self.segments[segment as usize] == ALL_FREE
    }

    /// A free block, behind the one that was found last, so that all blocks wear alike. Segments that are in use
    /// already are preferred, so that whole ones stay for large values.
    pub(super) fn next(&mut self) -> Option<u32> {
        let partly = self.first_from_next(|free| free != ALL_FREE);
        let block = partly.or_else(|| self.first_from_next(|_| true))?;
        self.next = block + 1;
        Some(block)
    }

    /// The first free block from the next one on, and round again, in a segment whose set of free blocks satisfies
    /// `may`.
    fn first_from_next(&self, may: impl Fn(u16) -> bool) -> Option<u32> {
        let segments = self.segments.len() as u32;
        let (first, behind) = (self.next / BLOCKS_PER_SEGMENT, self.next % BLOCKS_PER_SEGMENT);
        (first..=first + segments).find_map(|turn| {
            let segment = turn % segments;
            let free = self.segments[segment as usize];
            let from = if turn == first { free >> behind << behind } else { free };
            let is_there = from != 0 && may(free);
            is_there.then(|| segment * BLOCKS_PER_SEGMENT + from.trailing_zeros())
        })
    }

    /// A run of at most `wanted` free blocks of one segment, its first block and how many there are: the first that is
    /// long enough, or else the longest there is.
    pub(super) fn run(&self, wanted: u32) -> Option<(u32, u32)> {
        let wanted = wanted.min(BLOCKS_PER_SEGMENT);
        let run = |free: u16| longest_run(free);
        let enough = self.segments.iter().position(|&free| free != 0 && run(free).1 >= wanted);
        let segment = enough.or_else(|| {
            let longest = (0..self.segments.len()).max_by_key(|&at| run(self.segments[at]).1)?;
            (self.segments[longest] != 0).then_some(longest)
        })?;
        let (start, len) = run(self.segments[segment]);
        Some((segment as u32 * BLOCKS_PER_SEGMENT + start, len.min(wanted)))
    }

    /// Takes a free block out.
    pub(super) fn take(&mut self, block: u32) {
        self.segments[(block / BLOCKS_PER_SEGMENT) as usize] &=
            !(1 << (block % BLOCKS_PER_SEGMENT));
        self.count -= 1;
    }

    /// Puts a block back that is free again.
    pub(super) fn put(&mut self, block: u32) {
        self.segments[(block / BLOCKS_PER_SEGMENT) as usize] |= 1 << (block % BLOCKS_PER_SEGMENT);
        self.count += 1;
    }
}

/// The longest run of set bits: its start and length.
fn longest_run(bits: u16) -> (u32, u32) {
    let (mut best, mut at) = ((0, 0), 0);
    while at < u16::BITS && bits >> at != 0 {
        at += (bits >> at).trailing_zeros();
        let len = (bits >> at).trailing_ones();
        if len > best.1 {
            best = (at, len);
        }
        at += len;
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found() {
        for (bits, run) in [
            (0, (0, 0)),
            (1, (0, 1)),
            (0x8000, (15, 1)),
            (u16::MAX, (0, 16)),
            (0b0111_0011_0110, (8, 3)),
        ] {
            assert_eq!(longest_run(bits), run, "{bits:b}");
        }
    }
}

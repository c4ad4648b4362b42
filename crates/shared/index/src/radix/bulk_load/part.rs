//! Items that are divided by ranges, a block at a time: within the cache, so that memory sees each item written once,
//! in order.

use super::digits::begins;
use super::item::Item;
use crate::large_pages;

/// Items that are divided at once. As much memory again is needed for that, and both fit the cache.
const BLOCK_LEN: usize = 1 << 14;

/// Items that are allocated together. Untouched ones take no memory.
const SLAB_LEN: usize = BLOCK_LEN << 5;

/// Items of the first slab, which gets no large pages: a few items would leave these mostly empty.
const SMALL_LEN: usize = BLOCK_LEN << 2;

/// The items that one thread has divided.
#[derive(Default)]
pub(super) struct Part {
    slabs: Vec<Vec<Item>>,
    /// The places in each divided block where ranges begin, and where the last one ends.
    blocks: Vec<Box<[usize]>>,
    /// The range of each item of the last block, which is not divided.
    ranges: Vec<u16>,
    /// The number of items of each range in the last block; then 0.
    counts: Vec<usize>,
    /// A block that is being divided.
    divided: Vec<Item>,
}

impl Part {
    pub(super) fn new(ranges: usize) -> Self {
        Self { counts: vec![0; ranges + 1], ..Self::default() }
    }

    /// Adds an item to a range.
    #[inline]
    pub(super) fn push(&mut self, range: usize, item: Item) {
        if self.ranges.len() == BLOCK_LEN {
            self.divide();
        }
        if self.slabs.last().is_none_or(|slab| slab.len() == SLAB_LEN) {
            self.slabs.push(slab(self.slabs.is_empty()));
        }
        self.slabs.last_mut().expect("there is one with room").push(item);
        self.ranges.push(range as u16);
        self.counts[range] += 1;
    }

    /// Divides the last block.
    pub(super) fn divide(&mut self) {
        if self.ranges.is_empty() {
            return;
        }
        begins(&mut self.counts);
        self.blocks.push(self.counts.as_slice().into());
        let slab = self.slabs.last_mut().expect("it has the block");
        let start = slab.len() - self.ranges.len();
        let block = &mut slab[start..];
        self.divided.resize(block.len().max(self.divided.len()), Item::default());
        for (item, range) in block.iter().zip(&self.ranges) {
            let place = &mut self.counts[usize::from(*range)];
            self.divided[*place] = *item;
            *place += 1;
        }
        block.copy_from_slice(&self.divided[..block.len()]);
        self.ranges.clear();
        self.counts.fill(0);
    }

    /// A range's items in the order in which they came, some at once, of all blocks that are divided.
    pub(super) fn of_range(&self, range: usize) -> impl Iterator<Item = &[Item]> {
        self.blocks.iter().enumerate().map(move |(block, begins)| {
            let slab = &self.slabs[block * BLOCK_LEN / SLAB_LEN];
            let start = block * BLOCK_LEN % SLAB_LEN;
            &slab[start + begins[range]..start + begins[range + 1]]
        })
    }
}

fn slab(is_first: bool) -> Vec<Item> {
    let mut slab = Vec::with_capacity(SLAB_LEN);
    let large = &mut slab.spare_capacity_mut()[if is_first { SMALL_LEN } else { 0 }..];
    large_pages::advise(large.as_mut_ptr().cast(), size_of_val(large));
    slab
}

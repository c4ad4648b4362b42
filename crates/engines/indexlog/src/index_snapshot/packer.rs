//! Packing a captured index into frames, in steps.
//!
//! The captured index is packed into a frame, item by item, until the frame is as long as a segment; then the frame
//! is written, a chunk at a time, and so on.

use std::collections::VecDeque;

use halite_alloc::SEGMENT;
use halite_blocks::log::frame;
use halite_contract::Result;
use halite_index::{LeafImages, PartialLen};

use super::{ITEM_HEAD, Own, Put, VERSION, item};
use crate::tombstones::RangeTombstone;

/// Blocks in an item, and the bytes of each.
pub(super) const BLOCKS: usize = 4096;
pub(super) const BLOCK_LEN: usize = 24;

/// Bytes that a step packs, at least.
const STEP: usize = 4 << 10;

/// The index of a partition at a moment, and the blocks that it pointed into.
pub(super) struct Captured {
    pub(super) partial: PartialLen,
    /// The number of the last record.
    pub(super) seq: u64,
    /// The payload of each item of blocks.
    pub(super) blocks: Vec<Vec<u8>>,
    /// Key space, kind, and the tree's leaves.
    pub(super) trees: Vec<(u32, u8, LeafImages)>,
    pub(super) ranges: Vec<Vec<u8>>,
}

/// A snapshot that is being taken.
pub(crate) struct Packer {
    pub(super) number: u64,
    /// Bytes that had been written when it was captured.
    pub(super) written: u64,
    /// Bytes that were packed, and written.
    pub(super) worked: u64,
    parts: VecDeque<Part>,
    frame: Vec<u8>,
    /// The item that the frame has no room for.
    carried: Vec<u8>,
    /// Whether the frame is being written.
    putting: bool,
    segments: u32,
    pub(super) len: u64,
}

/// A part that is still to be packed.
enum Part {
    Item(u8, Vec<u8>),
    Leaves(LeafImages),
}

impl Captured {
    fn into_parts(self) -> VecDeque<Part> {
        let mut head = VERSION.to_le_bytes().to_vec();
        head.extend_from_slice(&(self.partial.bytes() as u32).to_le_bytes());
        head.extend_from_slice(&self.seq.to_le_bytes());
        let mut parts = VecDeque::from([Part::Item(item::HEAD, head)]);
        parts.extend(self.blocks.into_iter().map(|some| Part::Item(item::BLOCKS, some)));
        for (space, what, leaves) in self.trees {
            let mut of = space.to_le_bytes().to_vec();
            of.push(what);
            parts.extend([Part::Item(item::TREE, of), Part::Leaves(leaves)]);
        }
        parts.extend(self.ranges.into_iter().map(|range| Part::Item(item::RANGE, range)));
        parts.push_back(Part::Item(item::END, Vec::new()));
        parts
    }
}

/// Space, number, place, stale count and bounds of a range's tombstone.
pub(super) fn encode_range(space: u32, tombstone: &RangeTombstone) -> Vec<u8> {
    let mut range = space.to_le_bytes().to_vec();
    for number in [tombstone.seq, tombstone.entry.bits(), tombstone.stale.bits()] {
        range.extend_from_slice(&number.to_le_bytes());
    }
    range.extend_from_slice(&(tombstone.start.len() as u32).to_le_bytes());
    range.push(u8::from(tombstone.end.is_some()));
    range.extend_from_slice(&tombstone.start);
    range.extend_from_slice(tombstone.end.as_deref().unwrap_or_default());
    range
}

impl Packer {
    pub(super) fn new(captured: Captured, number: u64, written: u64) -> Self {
        Self {
            number,
            written,
            worked: 0,
            parts: captured.into_parts(),
            // The buffer has room for the item that does not fit.
            frame: Vec::with_capacity(SEGMENT as usize + 2 * BLOCKS * BLOCK_LEN),
            carried: Vec::new(),
            putting: false,
            segments: 0,
            len: 0,
        }
    }

    /// Packs some items, or writes a chunk of a frame.
    pub(super) fn step(&mut self, own: &Own) -> Result<Put> {
        if !self.putting {
            self.pack();
            return Ok(Put::More);
        }
        let put = own.area().put(self.number, self.segments, &mut self.frame, &mut self.worked)?;
        if put != Put::Whole {
            return Ok(put);
        }
        self.putting = false;
        self.segments += 1;
        self.len += self.frame.len() as u64;
        self.frame.clear();
        let is_last = self.parts.is_empty() && self.carried.is_empty();
        Ok(if is_last { Put::Whole } else { Put::More })
    }

    /// Packs items until they make a step, the frame is full, or there are none.
    fn pack(&mut self) {
        if self.frame.is_empty() {
            self.frame.resize(frame::HEADER_LEN, 0);
            self.frame.extend_from_slice(&self.number.to_le_bytes());
            self.frame.append(&mut self.carried);
        }
        let begin = self.frame.len();
        while !self.putting && self.frame.len() < begin + STEP {
            self.pack_item();
        }
        self.worked += (self.frame.len() - begin.min(self.frame.len())) as u64;
    }

    fn pack_item(&mut self) {
        let begin = self.frame.len();
        self.frame.extend_from_slice(&[0; ITEM_HEAD]);
        let kind = match self.parts.front_mut() {
            Some(Part::Leaves(leaves)) => leaves.next(&mut self.frame).then_some(item::LEAF),
            Some(Part::Item(kind, bytes)) => {
                self.frame.append(bytes);
                Some(*kind)
            }
            None => {
                self.putting = true;
                None
            }
        };
        if kind != Some(item::LEAF) {
            self.parts.pop_front();
        }
        let Some(kind) = kind else { return self.frame.truncate(begin) };
        let len = (self.frame.len() - begin - ITEM_HEAD) as u32;
        self.frame[begin] = kind;
        self.frame[begin + 1..begin + ITEM_HEAD].copy_from_slice(&len.to_le_bytes());
        if self.frame.len() > SEGMENT as usize {
            self.carried = self.frame.split_off(begin);
            self.putting = true;
        }
    }
}

//! Limbo: space that the index no longer points to, until no crash, scan or reader can reach it.
//!
//! A collected block, or a value that was replaced, is needed after a crash as long as its copy or replacement is not
//! durable; then by scans that began while it was visible; then by readers that hold it. It waits for each in turn:
//!
//! 1. Queued, until its copy or replacement is durable. Then a block's word in the map is made free, durably.
//! 2. Pinned, filed under the youngest scan that may read it (`read/scans.rs`), until no such scan is left. Space that
//!    no live scan can have seen skips this step: a scan pins only space that it can read, never space that was written
//!    later.
//! 3. Held, while readers still use it.
//!
//! Then it is free to be used again.

use std::collections::{BTreeMap, VecDeque};

use halite_sim::planted;

use crate::BLOCK;
use crate::read::scans::Shown;
use crate::record::Piece;
use crate::space::split::piece_space;

/// A block, or a piece of a value, in limbo.
pub(crate) struct Limbo {
    pub(super) what: What,
    /// The epochs in which it was visible.
    pub(super) shown: Shown,
    /// Its copy or replacement is durable once the record of this number is.
    seq: u64,
}

#[derive(Clone, Copy)]
pub(super) enum What {
    Block(u32),
    /// A piece of the value of record number `of`.
    Piece {
        place: u64,
        len: u64,
        of: u64,
    },
}

impl Limbo {
    pub(crate) fn block(block: u32, shown: Shown, seq: u64) -> Self {
        Self { what: What::Block(block), shown, seq }
    }

    /// A piece of the value of record number `of`.
    pub(crate) fn piece(piece: &Piece, shown: Shown, of: u64, seq: u64) -> Self {
        let (place, len) = (piece.place(), piece.len());
        Self { what: What::Piece { place, len, of }, shown, seq }
    }

    fn is_block(&self) -> bool {
        matches!(self.what, What::Block(_))
    }

    /// Bytes of the pool.
    fn space(&self) -> u64 {
        match self.what {
            What::Block(_) => BLOCK,
            What::Piece { len, .. } => piece_space(len),
        }
    }
}

/// Space that waits for a scan to end.
#[derive(Default)]
struct Pinned {
    all: Vec<Limbo>,
    /// How many of them are blocks of records.
    blocks: u32,
}

/// The blocks and pieces in limbo.
#[derive(Default)]
pub(crate) struct LimboList {
    /// Space that recovery may reach, in the order of the record numbers that have to be durable.
    queue: VecDeque<Limbo>,
    /// Bytes of the queue.
    queued_bytes: u64,
    /// Space that scans may read, by the epoch of the youngest of them.
    pinned: BTreeMap<u64, Pinned>,
    /// Bytes that are pinned.
    pinned_bytes: u64,
    /// Space that only readers hold.
    held: VecDeque<Limbo>,
    /// Blocks of records in the queue, pinned, and in all of limbo.
    queued_blocks: usize,
    pinned_blocks: usize,
    blocks: usize,
}

impl LimboList {
    /// Whether recovery can reach space that is in limbo.
    pub(crate) fn has_queued(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Whether the map still says of a collected block that it holds records.
    pub(crate) fn has_stored_block(&self) -> bool {
        self.queued_blocks > 0
    }

    /// Bytes that wait only for scans and snapshots to end.
    pub(crate) fn pinned_bytes(&self) -> u64 {
        self.pinned_bytes
    }

    /// Blocks of records that wait only for scans and snapshots to end, by the epoch of the youngest scan that may
    /// read them.
    pub(crate) fn pinned_blocks(&self) -> impl Iterator<Item = (u64, u32)> {
        self.pinned.iter().map(|(epoch, pinned)| (*epoch, pinned.blocks))
    }

    /// Bytes that wait until their copies or replacements are durable.
    pub(crate) fn queued_bytes(&self) -> u64 {
        self.queued_bytes
    }

    pub(crate) fn push(&mut self, limbo: Limbo) {
        debug_assert!(self.queue.back().is_none_or(|last| last.seq <= limbo.seq));
        self.blocks += usize::from(limbo.is_block());
        self.queued_blocks += usize::from(limbo.is_block());
        self.queued_bytes += limbo.space();
        self.queue.push_back(limbo);
    }

    /// Pops the oldest entry of the queue if its copy or replacement is among the records up to `durable`, which are
    /// durable.
    pub(super) fn next(&mut self, durable: u64) -> Option<Limbo> {
        let is_next = |limbo: &mut Limbo| {
            planted!("indexlog.value-freed-before-replaced", true, limbo.seq <= durable)
        };
        let next = self.queue.pop_front_if(is_next)?;
        self.queued_bytes -= next.space();
        Some(next)
    }

    /// Files space under the youngest scan that may read it.
    pub(super) fn pin(&mut self, epoch: u64, limbo: Limbo) {
        self.pinned_bytes += limbo.space();
        self.pinned_blocks += usize::from(limbo.is_block());
        let pinned = self.pinned.entry(epoch).or_default();
        pinned.blocks += u32::from(limbo.is_block());
        pinned.all.push(limbo);
    }

    /// Takes out the space that is filed under an epoch.
    pub(super) fn unpin(&mut self, epoch: u64) -> Vec<Limbo> {
        let unpinned = self.pinned.remove(&epoch).unwrap_or_default();
        self.pinned_bytes -= unpinned.all.iter().map(Limbo::space).sum::<u64>();
        self.pinned_blocks -= unpinned.blocks as usize;
        unpinned.all
    }

    /// Whether a collected block waits for more than scans: for its copies to be durable, or for readers. The block
    /// that is collected next, whichever it is, may then have to wait too.
    pub(crate) fn has_waiting_block(&self) -> bool {
        self.blocks > self.pinned_blocks
    }

    /// Notes that the map says of a block that left the queue that it is free.
    pub(super) fn freed_in_map(&mut self) {
        self.queued_blocks -= 1;
    }

    /// Entries that only readers hold.
    pub(super) fn held_len(&self) -> usize {
        self.held.len()
    }

    /// Takes out the space that readers have held for the longest time.
    pub(super) fn pop_held(&mut self) -> Option<Limbo> {
        self.held.pop_front()
    }

    /// Files space under those that only readers hold.
    pub(super) fn hold(&mut self, limbo: Limbo) {
        self.held.push_back(limbo);
    }

    /// Notes that space is free.
    pub(super) fn released(&mut self, limbo: &Limbo) {
        self.blocks -= usize::from(limbo.is_block());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_leaves_limbo_when_neither_a_crash_nor_a_scan_leads_to_it() {
        let mut waiting = LimboList::default();
        for (block, seq) in [(1, 10), (2, 10), (3, 20)] {
            waiting.push(Limbo::block(block, Shown::default(), seq));
        }
        assert!(waiting.next(9).is_none(), "what took its place is not durable");
        let durable: Vec<_> = std::iter::from_fn(|| waiting.next(19)).collect();
        assert_eq!((durable.len(), waiting.queue.len()), (2, 1));
        durable.into_iter().for_each(|limbo| waiting.pin(7, limbo));
        assert_eq!((waiting.pinned_bytes(), waiting.unpin(6).len()), (2 * BLOCK, 0));
        assert_eq!((waiting.unpin(7).len(), waiting.pinned_bytes()), (2, 0));
        assert!(waiting.has_queued() && waiting.next(20).is_some() && !waiting.has_queued());
    }
}

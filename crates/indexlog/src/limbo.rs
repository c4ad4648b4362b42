//! Limbo: space that the index no longer leads to, until nothing else can either.
//!
//! A collected block, or a value that was replaced, may still be read by a scan or a reader, and a crash
//! may bring back what led to it as long as what took its place is not durable. Then it is freed: a block
//! by its word in the map, durably, before it is used again.

use std::collections::VecDeque;

use halite_engine::Result;
use halite_pmem::locks::RwLock;
use halite_pmem::planted;

use crate::BLOCK;
use crate::block_map::{Life, State};
use crate::read::{Readable, View};
use crate::record::Piece;
use crate::write::Writer;

/// Space that the index no longer leads to, until nothing else can either.
pub(crate) struct Limbo {
    what: What,
    /// Scans of this epoch or an earlier one may read it.
    pub(crate) epoch: u64,
    /// Durable once this record is: what took its place.
    seq: u64,
}

#[derive(Clone, Copy)]
enum What {
    Block(u32),
    Piece { first: u32, count: u32 },
}

impl Limbo {
    pub(crate) fn block(block: u32, seq: u64) -> Self {
        Self { what: What::Block(block), epoch: 0, seq }
    }

    pub(crate) fn piece(piece: &Piece, seq: u64) -> Self {
        let (first, count) = (piece.block.get(), piece.block_count());
        Self { what: What::Piece { first, count }, epoch: 0, seq }
    }

    fn is_block(&self) -> bool {
        matches!(self.what, What::Block(_))
    }
}

/// What is in limbo. It goes there in the order of epochs and of numbers, and leaves in that order, so what
/// a scan or a crash may still lead to is not walked over; what readers hold waits beside.
#[derive(Default)]
pub(crate) struct Waiting {
    queue: VecDeque<Limbo>,
    /// Space that only readers hold.
    held: VecDeque<Limbo>,
    /// Blocks of records in both.
    blocks: usize,
}

impl Waiting {
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.held.is_empty()
    }

    fn push(&mut self, limbo: Limbo) {
        let is_behind = |last: &Limbo| last.epoch <= limbo.epoch && last.seq <= limbo.seq;
        debug_assert!(self.queue.back().is_none_or(is_behind));
        self.blocks += usize::from(limbo.is_block());
        self.queue.push_back(limbo);
    }

    /// Takes the oldest if no scan from `oldest_scan` on, and no crash, where the records up to `durable` are
    /// so, leads to it.
    fn next(&mut self, oldest_scan: Option<u64>, durable: u64) -> Option<Limbo> {
        self.queue.pop_front_if(|limbo| {
            let unseen = oldest_scan.is_none_or(|oldest| oldest > limbo.epoch);
            unseen && (limbo.seq <= durable || planted!(ValueFreedBeforeReplaced))
        })
    }

    fn iter(&self) -> impl Iterator<Item = &Limbo> {
        self.queue.iter().chain(&self.held)
    }
}

impl Writer {
    /// Whether scans or readers keep a collected block from being freed.
    pub(crate) fn has_block_in_limbo(&self) -> bool {
        self.limbo.blocks > 0
    }

    /// Bytes of blocks that wait in limbo only for scans and snapshots to end.
    pub(crate) fn held_in_limbo(&self, oldest_scan: Option<u64>) -> u64 {
        let is_seen = |limbo: &&Limbo| oldest_scan.is_some_and(|oldest| oldest <= limbo.epoch);
        let blocks = |limbo: &Limbo| match limbo.what {
            What::Block(_) => 1,
            What::Piece { count, .. } => u64::from(count),
        };
        self.limbo.iter().filter(is_seen).map(blocks).sum::<u64>() * BLOCK
    }

    pub(crate) fn send_to_limbo(&mut self, view: &mut View, mut limbo: Limbo) {
        limbo.epoch = view.epoch;
        view.epoch += 1;
        self.limbo.push(limbo);
    }

    /// Frees what is in limbo and can be reached by nobody: no scan, no reader, and no crash could
    /// bring it back. Of what readers held before, so many are tried, in turns. Returns whether there was
    /// anything. A block costs at most 2 fences, and a segment that is given back with it another one.
    pub(crate) fn release_limbo(
        &mut self,
        view: &RwLock<View>,
        oldest_scan: Option<u64>,
        held_max: usize,
    ) -> Result<bool> {
        let mut released = false;
        for _ in 0..self.limbo.held.len().min(held_max) {
            let Some(limbo) = self.limbo.held.pop_front() else { break };
            released |= self.release_or_hold(view, limbo)?;
        }
        while let Some(limbo) = self.limbo.next(oldest_scan, self.durable_seq) {
            released |= self.release_or_hold(view, limbo)?;
        }
        Ok(released)
    }

    fn release_or_hold(&mut self, view: &RwLock<View>, limbo: Limbo) -> Result<bool> {
        let released = self.release(view, limbo.what)?;
        if released {
            self.limbo.blocks -= usize::from(limbo.is_block());
        } else {
            self.limbo.held.push_back(limbo);
        }
        Ok(released)
    }

    fn release(&mut self, view: &RwLock<View>, what: What) -> Result<bool> {
        let (first, count) = match what {
            What::Block(block) => (block, 1),
            What::Piece { first, count } => (first, count),
        };
        let Some(Readable { published, seed }) = view.write().take_block(first) else {
            return Ok(false);
        };
        let fresh = match published.reclaim() {
            Ok(fresh) => fresh,
            Err(published) => {
                view.write().set_block(first, Readable { published, seed });
                return Ok(false);
            }
        };
        drop(fresh);
        if let What::Block(block) = what {
            let freed = self.free_block(block);
            self.poison_by(freed)?;
        }
        (first..first + count).for_each(|block| self.blocks.free(block));
        let released = self.release_if_spare(first);
        self.poison_by(released)?;
        Ok(true)
    }

    /// Frees a block durably. At most 2 fences.
    fn free_block(&mut self, block: u32) -> Result<()> {
        // The copies must be covered before the originals can go.
        if self.map.is_dirty() && !planted!(VictimFreedBeforeCovered) {
            self.fence_with_map(Vec::new())?;
        }
        let incarnation = self.blocks.incarnation(block);
        self.map.set(block, Life { state: State::Free, incarnation }, None);
        if !planted!(BlockReusedBeforeFreed) {
            self.fence_with_map(Vec::new())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_leaves_limbo_in_the_order_in_which_it_came() {
        let mut waiting = Waiting::default();
        for (epoch, seq) in [(1, 10), (2, 10), (4, 20), (5, 30)] {
            waiting.push(Limbo { epoch, ..Limbo::block(0, seq) });
        }
        let mut taken = |oldest_scan, durable| {
            let next = std::iter::from_fn(|| waiting.next(oldest_scan, durable));
            next.map(|limbo| limbo.epoch).collect::<Vec<_>>()
        };
        assert_eq!(taken(Some(1), 100), [], "a scan of its epoch sees it");
        assert_eq!(taken(None, 9), [], "what took its place is not durable");
        assert_eq!(taken(Some(3), 100), [1, 2]);
        assert_eq!(taken(None, 29), [4]);
        assert_eq!(taken(None, 30), [5]);
        assert!(waiting.is_empty());
    }
}

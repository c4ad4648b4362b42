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
use crate::split::{UNITS, piece_space};
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
    /// A piece of the value of record number `of`.
    Piece {
        place: u32,
        len: u64,
        of: u64,
    },
}

impl Limbo {
    pub(crate) fn block(block: u32, seq: u64) -> Self {
        Self { what: What::Block(block), epoch: 0, seq }
    }

    /// A piece of the value of record number `of`.
    pub(crate) fn piece(piece: &Piece, of: u64, seq: u64) -> Self {
        let (place, len) = (piece.place.get(), piece.len.get().into());
        Self { what: What::Piece { place, len, of }, epoch: 0, seq }
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

    /// Bytes that wait in limbo only for scans and snapshots to end.
    pub(crate) fn held_in_limbo(&self, oldest_scan: Option<u64>) -> u64 {
        let is_seen = |limbo: &&Limbo| oldest_scan.is_some_and(|oldest| oldest <= limbo.epoch);
        let space = |limbo: &Limbo| match limbo.what {
            What::Block(_) => BLOCK,
            What::Piece { len, .. } => piece_space(len),
        };
        self.limbo.iter().filter(is_seen).map(space).sum::<u64>()
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
        let block = match what {
            What::Block(block) => {
                let Some(Readable { published, seed }) = view.write().take_block(block) else {
                    return Ok(false);
                };
                if let Err(published) = published.reclaim() {
                    view.write().set_block(block, Readable { published, seed });
                    return Ok(false);
                }
                let freed = self.free_block(block);
                self.poison_by(freed)?;
                self.blocks.free(block);
                block
            }
            What::Piece { place, len, of } => {
                let Some(published) = view.write().pieces.remove(place) else { return Ok(false) };
                if let Err(published) = published.reclaim() {
                    view.write().pieces.insert(place, published);
                    return Ok(false);
                }
                let proved = self.prove(of);
                self.poison_by(proved)?;
                self.blocks.free_piece(place, len);
                place / UNITS
            }
        };
        let released = self.release_if_spare(block);
        self.poison_by(released)?;
        Ok(true)
    }

    /// Makes sure that recovery does not look for the value of record `of`, which is durable, because
    /// nothing told it so. One fence if nothing does yet: record and successor waited for the same fence.
    fn prove(&mut self, of: u64) -> Result<()> {
        if of > self.proved_seq && !planted!(ValueReusedBeforeProved) {
            self.map.set_durable(self.durable_seq);
            self.fence_with_map(Vec::new())?;
            self.proved_seq = self.durable_seq;
        }
        Ok(())
    }

    /// Frees a block durably. At most 2 fences.
    fn free_block(&mut self, block: u32) -> Result<()> {
        // The copies must be covered before the originals can go.
        if self.map.is_dirty() && !planted!(VictimFreedBeforeCovered) {
            let covered_by_map_alone = Vec::new();
            self.fence_with_map(covered_by_map_alone)?;
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

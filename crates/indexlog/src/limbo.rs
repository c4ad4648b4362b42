//! Limbo: space that the index no longer leads to, until nothing else can either.
//!
//! A collected block, or a value that was replaced, may still be read by a scan or a reader, and a crash
//! may bring back what led to it as long as what took its place is not durable. Then it is freed: a block
//! by its word in the map, durably, before it is used again.

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
}

impl Writer {
    /// Whether scans or readers keep a collected block from being freed.
    pub(crate) fn has_block_in_limbo(&self) -> bool {
        self.limbo.iter().any(|limbo| matches!(limbo.what, What::Block(_)))
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
    /// bring it back. Returns whether there was anything. A block costs at most 2 fences, and
    /// a segment that is given back with it another one.
    pub(crate) fn release_limbo(
        &mut self,
        view: &RwLock<View>,
        oldest_scan: Option<u64>,
    ) -> Result<bool> {
        let mut released = false;
        for limbo in std::mem::take(&mut self.limbo) {
            let unseen = oldest_scan.is_none_or(|oldest| oldest > limbo.epoch);
            let replaced = limbo.seq <= self.durable_seq || planted!(ValueFreedBeforeReplaced);
            if unseen && replaced && self.release(view, limbo.what)? {
                released = true;
            } else {
                self.limbo.push(limbo);
            }
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
                let Some(published) = view.write().pieces.remove(&place) else { return Ok(false) };
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

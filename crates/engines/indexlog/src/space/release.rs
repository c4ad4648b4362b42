//! Freeing the space in limbo (`limbo`), step by step: durably in the map, when no scan can read it, and when no reader
//! holds it.

use halite_contract::Result;
use halite_sim::locks::RwLock;
use halite_sim::planted;

use super::Space;
use super::block_map::{Life, State};
use super::limbo::{Limbo, What};
use super::split::UNITS;
use crate::durability::Durability;
use crate::read::readable::Readable;
use crate::read::scans::Shown;
use crate::read::view::View;
use crate::record::Piece;

impl Space {
    /// Frees the space in limbo that no scan, no reader and no recovery can reach any more. Tries at most `held_max`
    /// of the entries that readers held before, in turns. Returns whether any space was freed. A block costs at most
    /// 2 fences, and a segment that is given back with it another one.
    pub(crate) fn release_limbo(
        &mut self,
        view: &RwLock<View>,
        held_max: usize,
        durability: &mut Durability,
    ) -> Result<bool> {
        let mut released = false;
        for _ in 0..self.limbo.held_len().min(held_max) {
            let Some(limbo) = self.limbo.pop_held() else { break };
            released |= self.release_or_hold(view, limbo, durability)?;
        }
        for epoch in self.scans.take_ended() {
            for limbo in self.limbo.unpin(epoch) {
                released |= self.release_or_pin(view, limbo, durability)?;
            }
        }
        while let Some(limbo) = self.limbo.next(durability.records()) {
            if let What::Block(block) = limbo.what {
                let freed = self.free_block(block);
                self.health.poison_by(freed)?;
                self.limbo.freed_in_map();
            }
            released |= self.release_or_pin(view, limbo, durability)?;
        }
        Ok(released)
    }

    /// Keeps a piece that no record refers to until a reader lets go of it, whose stale entry led there.
    pub(crate) fn hold_piece(&mut self, piece: &Piece) {
        self.limbo.hold(Limbo::piece(piece, Shown::default(), 0, 0));
    }

    fn release_or_pin(
        &mut self,
        view: &RwLock<View>,
        limbo: Limbo,
        durability: &mut Durability,
    ) -> Result<bool> {
        match self.scans.pin(limbo.shown) {
            Some(epoch) => {
                self.limbo.pin(epoch, limbo);
                Ok(false)
            }
            None => self.release_or_hold(view, limbo, durability),
        }
    }

    fn release_or_hold(
        &mut self,
        view: &RwLock<View>,
        limbo: Limbo,
        durability: &mut Durability,
    ) -> Result<bool> {
        let released = self.release(view, limbo.what, durability)?;
        if released {
            self.limbo.released(&limbo);
        } else {
            self.limbo.hold(limbo);
        }
        Ok(released)
    }

    fn release(
        &mut self,
        view: &RwLock<View>,
        what: What,
        durability: &mut Durability,
    ) -> Result<bool> {
        let block = match what {
            What::Block(block) => {
                let Some(Readable { published, seed }) = view.write().take_block(block) else {
                    return Ok(false);
                };
                if let Err(published) = published.reclaim() {
                    view.write().set_block(block, Readable { published, seed });
                    return Ok(false);
                }
                self.blocks.free(block);
                block
            }
            What::Piece { place, len, of } => {
                if !self.carving.reclaim(place) {
                    return Ok(false);
                }
                let proved = self.prove(of, durability);
                self.health.poison_by(proved)?;
                self.blocks.free_piece(place, len);
                (place / UNITS) as u32
            }
        };
        let released = self.release_if_spare(block);
        self.health.poison_by(released)?;
        Ok(true)
    }

    /// Makes the durability of record `of` known to recovery, so that recovery does not check its value, whose space
    /// is about to be reused. One fence if it is not known yet: the record and its successor waited for the same
    /// fence.
    fn prove(&mut self, of: u64, durability: &mut Durability) -> Result<()> {
        let is_unproved = of > durability.proved();
        if planted!("indexlog.value-reused-before-proved", false, is_unproved) {
            self.map.set_durable(durability.records());
            self.fence_with_map(Vec::new())?;
            durability.proved_by_map();
        }
        Ok(())
    }

    /// Frees a block durably. At most 2 fences.
    fn free_block(&mut self, block: u32) -> Result<()> {
        // The map must cover the copies before the originals can go.
        if planted!("indexlog.victim-freed-before-covered", false, self.map.is_dirty()) {
            let covered_by_map_alone = Vec::new();
            self.fence_with_map(covered_by_map_alone)?;
        }
        let incarnation = self.blocks.incarnation(block);
        self.map.set(block, Life { state: State::Free, incarnation }, None);
        planted!(
            "indexlog.block-reused-before-freed",
            Ok(()),
            self.fence_with_map(Vec::new()).map(drop)
        )?;
        Ok(())
    }
}

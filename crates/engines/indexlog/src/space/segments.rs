//! Segments of the pool: taken where no block is free, and given back where blocks are to spare.
//!
//! Each of the partitions that share a pool keeps a reserve of free blocks (`reserves`), and gives back segments
//! beyond it.

use halite_alloc::SEGMENT;
use halite_contract::{Error, Result};

use super::Space;
use super::block_map::{Life, State};
use super::reserves::RESERVE_BOOKKEEPING;
use crate::entry::Entry;
use crate::{BLOCK, BLOCKS_PER_SEGMENT};

impl Space {
    /// Notes that from now on other partitions, or a change log, take segments from the same pool: this partition has
    /// to own the blocks that it needs to delete and to collect.
    pub(crate) fn share_pool(&mut self) -> Result<()> {
        self.shares_pool = true;
        while self.blocks.free_count() < RESERVE_BOOKKEEPING && self.add_segment()? {}
        Ok(())
    }

    /// Gives back empty segments: allocated before a crash and never used, or emptied. Returns how many. One fence
    /// each.
    pub(crate) fn release_empty_segments(&mut self) -> Result<u64> {
        let mut released = 0;
        for segment in self.device().logical_segments() {
            let own = if self.shares_pool { RESERVE_BOOKKEEPING + BLOCKS_PER_SEGMENT } else { 0 };
            if self.blocks.free_count() >= own && self.blocks.is_segment_free(segment) {
                self.release_segment(segment)?;
                released += 1;
            }
        }
        Ok(released)
    }

    /// Gives back empty segments where a write that allocated them is refused, if the pool is shared.
    pub(crate) fn give_back_segments(&mut self) -> Result<()> {
        if self.shares_pool {
            let released = self.release_empty_segments();
            self.health.poison_by(released)?;
        }
        Ok(())
    }

    /// Gives the segment of a block that was freed to the other partitions, if this one has plenty. One
    /// fence.
    pub(super) fn release_if_spare(&mut self, block: u32) -> Result<()> {
        let segment = block / BLOCKS_PER_SEGMENT;
        let plenty = RESERVE_BOOKKEEPING + 2 * BLOCKS_PER_SEGMENT;
        let has_plenty = self.shares_pool && self.blocks.free_count() >= plenty;
        if has_plenty && self.blocks.is_segment_free(segment) {
            self.release_segment(segment)?;
        }
        Ok(())
    }

    fn release_segment(&mut self, segment: u32) -> Result<()> {
        if !self.carving.end(segment) {
            debug_assert!(false, "a segment whose blocks are free has no parcel");
            return Ok(());
        }
        self.device().release(segment)?;
        self.blocks.remove_segment(segment);
        Ok(())
    }

    /// Adds a segment to the data device, if the pool has one.
    pub(crate) fn add_segment(&mut self) -> Result<bool> {
        let segment = self.blocks.absent_segment();
        let blocks = segment * BLOCKS_PER_SEGMENT..(segment + 1) * BLOCKS_PER_SEGMENT;
        if u64::from(blocks.end) > Entry::BLOCKS_MAX {
            return Ok(false);
        }
        let grown = self.map.extend(blocks.end).and_then(|()| Ok(self.device().get(segment)?));
        let grant = match grown {
            Ok(grant) => grant,
            Err(Error::Alloc(halite_alloc::Error::Full { .. })) => {
                // Snapshots of the index are released first.
                let released = self.release_snapshots();
                self.is_full = !self.health.poison_by(released)?;
                return if self.is_full { Ok(false) } else { self.add_segment() };
            }
            // How much of the new segment is durable may not be known.
            Err(error) => return self.health.poison_by_room(Err(error)),
        };
        let lives: Result<Vec<_>> = blocks.clone().map(|block| self.map.get(block)).collect();
        let lives = lives?;
        let incarnations = || lives.iter().map(|life| life.unwrap_or(Life::NEVER_USED).incarnation);
        for (block, incarnation) in blocks.zip(incarnations()) {
            self.map.set(block, Life { state: State::Free, incarnation }, None);
        }
        // Other words may wait for their fence; it does not matter that they get one now.
        let mut flushed = Vec::new();
        self.map.flush(&mut flushed);
        let committed = self.pool.fence_all(&flushed).map_err(Error::from);
        let committed = committed.and_then(|_| Ok(grant.commit()?));
        self.health.poison_by(committed)?;
        self.blocks.add_segment(segment, incarnations());
        self.is_full = false;
        Ok(true)
    }
}

const _: () = assert!(SEGMENT == BLOCK * BLOCKS_PER_SEGMENT as u64);

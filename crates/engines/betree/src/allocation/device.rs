//! The space of one vdev: what is reachable, and what may be allocated.
//!
//! A block is in one of three states: used (set in the stored bitmap, and not allocatable), deferred (clear in the
//! stored bitmap, not allocatable yet), or free.
//!
//! ```text
//!            allocate                       free                      the next checkpoint but one is durable
//!   free ─────────────────▶ used ─────────────────────────▶ deferred ───────────────▶ free
//!                            └──── drop_unseen: no checkpoint has seen it ──────────▶ free
//! ```
//!
//! The stored bitmaps say what is reachable from the generation that is being built, no more and no less. So a
//! checkpoint that writes them allows no allocation and no free for the next generation until it has encoded them all:
//! those extents would appear in them.

use std::collections::BTreeSet;
use std::ops::Range;

use halite_sim::planted;

use super::bitmap::Statistics;
use super::bits::{Bits, SEGMENT};
use super::deferred::DeferredFrees;
use super::segments::{Segments, is_in_group, split};

/// The space of a vdev.
pub(crate) struct DeviceSpace {
    allocatable: Segments,
    /// The blocks of each segment that are reachable.
    stored: Vec<Bits>,
    /// How many these are.
    used: u64,
    /// Groups that are kept from data.
    kept_groups: usize,
    /// Segments whose stored bitmap changed since it was taken the last time.
    dirty: BTreeSet<u64>,
    deferred: DeferredFrees,
}

/// A segment as two checkpoints stored it.
pub(crate) struct StoredSegment {
    /// Its number on the vdev.
    pub(crate) number: u64,
    /// Blocks that are reachable from the generation that the pool opens with.
    pub(crate) current: Bits,
    /// Blocks that were reachable from the generation before it, whose superblock is the one to fall back to.
    pub(crate) previous: Bits,
}

/// Blocks of a vdev by their state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeviceUse {
    /// All blocks.
    pub(crate) capacity: u64,
    /// Reachable ones.
    pub(crate) used: u64,
    /// Freed ones that may not be overwritten yet.
    pub(crate) deferred: u64,
    /// Ones that may be allocated.
    pub(crate) free: u64,
}

impl DeviceSpace {
    /// The space of a new vdev of so many blocks.
    pub(crate) fn new(capacity: u64) -> Self {
        Self {
            allocatable: Segments::new(capacity, |_| Bits::default()),
            stored: vec![Bits::default(); capacity.div_ceil(SEGMENT.into()) as usize],
            used: 0,
            kept_groups: 0,
            dirty: BTreeSet::new(),
            deferred: DeferredFrees::default(),
        }
    }

    /// The space of a vdev, by the bitmaps that the checkpoints of a generation and of the one before it stored.
    /// A segment that neither has is empty. Not allocatable is the union of both; what only the previous one has was
    /// freed while `generation` was being built.
    ///
    /// # Errors
    /// The defect of bitmaps that are not those of such a vdev.
    pub(crate) fn open(
        capacity: u64,
        generation: u64,
        segments: Vec<StoredSegment>,
    ) -> Result<Self, &'static str> {
        let mut space = Self::new(capacity);
        let mut taken = vec![Bits::default(); space.stored.len()];
        let mut numbers = BTreeSet::new();
        for StoredSegment { number, current, mut previous } in segments {
            let start = number.saturating_mul(SEGMENT.into());
            if start >= capacity {
                return Err("a bitmap is of a segment behind the end of the vdev");
            }
            let end = (capacity - start).min(SEGMENT.into()) as u32;
            if current.has_any(end..SEGMENT) || previous.has_any(end..SEGMENT) {
                return Err("a bitmap has blocks behind the end of the vdev");
            }
            if !numbers.insert(number) {
                return Err("a segment has two bitmaps");
            }
            taken[number as usize] = current.clone();
            taken[number as usize].unite(&previous);
            previous.subtract(&current);
            for run in previous.runs() {
                space
                    .deferred
                    .defer(start + u64::from(run.start)..start + u64::from(run.end), generation);
            }
            space.used += u64::from(current.count());
            space.stored[number as usize] = current;
        }
        space.allocatable =
            Segments::new(capacity, |number| std::mem::take(&mut taken[number as usize]));
        Ok(space)
    }

    /// Gives the vdev more blocks.
    pub(crate) fn grow(&mut self, capacity: u64) {
        self.allocatable.grow(capacity);
        self.allocatable.keep(self.kept_groups, false);
        self.stored.resize(capacity.div_ceil(SEGMENT.into()) as usize, Bits::default());
    }

    /// Allocates a run of `count` blocks that does not cross a multiple of [`halite_vdev::SEGMENT_BLOCKS`]. Returns the
    /// first one; `None`: the vdev has no such run.
    #[cfg(test)]
    pub(crate) fn allocate(&mut self, count: u32) -> Option<u64> {
        let block = self.reserve(count)?;
        self.store(block, count);
        Some(block)
    }

    /// Takes a run of blocks and returns the first, hidden from the stored bitmap, which does not change; `None`: the vdev
    /// has no such run.
    pub(crate) fn reserve(&mut self, count: u32) -> Option<u64> {
        self.allocatable.allocate(count)
    }

    /// [`Self::reserve`] of blocks that are kept from data.
    pub(crate) fn reserve_kept(&mut self, count: u32) -> Option<u64> {
        self.allocatable.allocate_kept(count)
    }

    /// Keeps so many groups of blocks from data: always the emptiest ones as of a checkpoint.
    pub(crate) fn keep(&mut self, groups: usize) {
        self.kept_groups = groups;
        self.allocatable.keep(groups, false);
    }

    /// Blocks of the longest free run.
    pub(crate) fn longest(&self) -> u32 {
        self.allocatable.longest()
    }

    /// Blocks of the longest one that [`Self::reserve`] finds.
    pub(crate) fn longest_not_kept(&self) -> u32 {
        self.allocatable.longest_not_kept()
    }

    /// Takes these blocks, hidden from the stored bitmap, if they may be allocated.
    pub(crate) fn reserve_at(&mut self, block: u64, count: u32) -> bool {
        self.allocatable.allocate_at(block, count)
    }

    /// Allocates these blocks, if they may be.
    #[cfg(test)]
    pub(crate) fn allocate_at(&mut self, block: u64, count: u32) -> bool {
        let is_allocated = self.allocatable.allocate_at(block, count);
        if is_allocated {
            self.store(block, count);
        }
        is_allocated
    }

    /// Takes an allocated extent out of the stored bitmap, as nothing that is stored leads to it: not yet, or not any more.
    /// Its blocks stay taken.
    ///
    /// # Errors
    /// The defect of an extent that is not allocated in the stored bitmap. Nothing is changed.
    pub(crate) fn hide(&mut self, block: u64, count: u32) -> Result<(), &'static str> {
        self.unstore(block, count).map(drop)
    }

    /// Brings a hidden extent into the stored bitmap.
    ///
    /// # Errors
    /// The defect of an extent that is not hidden. Nothing is changed.
    pub(crate) fn adopt(&mut self, block: u64, count: u32) -> Result<(), &'static str> {
        self.check_hidden(block, count)?;
        self.store(block, count);
        Ok(())
    }

    /// Makes the blocks of a hidden extent allocatable: at once if no checkpoint has seen it, or else
    /// when no generation that may be opened has it.
    ///
    /// # Errors
    /// See [`DeviceSpace::adopt`].
    pub(crate) fn recycle(
        &mut self,
        block: u64,
        count: u32,
        seen_until: Option<u64>,
    ) -> Result<(), &'static str> {
        self.check_hidden(block, count)?;
        let blocks = block..block + u64::from(count);
        match planted!("betree.seen-block-reused-at-once", None, seen_until) {
            Some(generation) => self.deferred.defer(blocks, generation),
            None => self.allocatable.release(blocks),
        }
        Ok(())
    }

    fn check_hidden(&self, block: u64, count: u32) -> Result<(), &'static str> {
        let (number, at) = split(block);
        let stored = self.stored.get(number).ok_or("there is no such extent")?;
        let is_within = block + u64::from(count) <= self.allocatable.blocks();
        if !is_in_group(block, count) || !is_within || stored.has_any(at..at + count) {
            return Err("it is in use, or none");
        }
        match self.allocatable.has_free(block, count) {
            true => Err("it is not allocated"),
            false => Ok(()),
        }
    }

    fn store(&mut self, block: u64, count: u32) {
        let (number, at) = split(block);
        self.stored[number].set(at..at + count);
        self.used += u64::from(count);
        self.dirty.insert(number as u64);
    }

    /// Frees an extent that the generation which is being built does not reach any more.
    ///
    /// # Errors
    /// The defect of an extent that is not allocated. Nothing is changed.
    #[cfg(test)]
    pub(crate) fn free(
        &mut self,
        block: u64,
        count: u32,
        generation: u64,
    ) -> Result<(), &'static str> {
        let blocks = self.unstore(block, count)?;
        self.deferred.defer(blocks, generation);
        Ok(())
    }

    /// Frees an extent that no checkpoint has seen: it was allocated for the generation that is being built, whose
    /// bitmaps are not written yet. It may be allocated again at once.
    ///
    /// # Errors
    /// See [`DeviceSpace::free`].
    #[cfg(test)]
    pub(crate) fn drop_unseen(&mut self, block: u64, count: u32) -> Result<(), &'static str> {
        let blocks = self.unstore(block, count)?;
        self.allocatable.release(blocks);
        Ok(())
    }

    fn unstore(&mut self, block: u64, count: u32) -> Result<Range<u64>, &'static str> {
        if !self.is_allocated(block, count) {
            return Err("it is to be freed, and is not allocated");
        }
        let (number, at) = split(block);
        self.stored[number].clear(at..at + count);
        self.used -= u64::from(count);
        self.dirty.insert(number as u64);
        Ok(block..block + u64::from(count))
    }

    /// Makes the blocks allocatable that no superblock leads to now that the one of a generation is durable.
    pub(crate) fn checkpoint_durable(&mut self, generation: u64) {
        for blocks in self.deferred.take_reusable(generation) {
            self.allocatable.release(blocks);
        }
        self.allocatable.keep(self.kept_groups, true);
    }

    /// Whether this is an extent of reachable blocks.
    pub(crate) fn is_allocated(&self, block: u64, count: u32) -> bool {
        let (number, at) = split(block);
        is_in_group(block, count)
            && self.stored.get(number).is_some_and(|bits| bits.has_all(at..at + count))
    }

    /// The segments whose stored bitmap changed since [`DeviceSpace::take_dirty`], ascending.
    pub(crate) fn dirty(&self) -> impl Iterator<Item = u64> {
        self.dirty.iter().copied()
    }

    /// Takes the segments whose stored bitmap is to be written, ascending.
    pub(crate) fn take_dirty(&mut self) -> BTreeSet<u64> {
        std::mem::take(&mut self.dirty)
    }

    /// The reachable blocks of each segment.
    pub(crate) fn stored(&self) -> &[Bits] {
        &self.stored
    }

    /// Blocks by their state.
    pub(crate) fn blocks(&self) -> DeviceUse {
        DeviceUse {
            capacity: self.allocatable.blocks(),
            used: self.used,
            deferred: self.deferred.blocks(),
            free: self.allocatable.free(),
        }
    }

    /// Its free space.
    pub(crate) fn statistics(&self) -> Statistics {
        self.allocatable.statistics()
    }
}

#[cfg(test)]
mod model;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bitmaps_of_another_vdev_are_refused() {
        let segment = |number, current: Range<u32>, previous: Range<u32>| {
            let mut segment =
                StoredSegment { number, current: Bits::default(), previous: Bits::default() };
            segment.current.set(current);
            segment.previous.set(previous);
            segment
        };
        let open = |segments| {
            DeviceSpace::open(u64::from(SEGMENT) + 10, 3, segments).map(|space| space.blocks())
        };
        let blocks = DeviceUse {
            capacity: u64::from(SEGMENT) + 10,
            used: 6,
            deferred: 2,
            free: u64::from(SEGMENT) + 2,
        };
        assert_eq!(open(vec![segment(1, 4..10, 2..6)]), Ok(blocks));
        assert!(open(vec![segment(1, 4..11, 2..6)]).is_err());
        assert!(open(vec![segment(1, 4..6, 2..11)]).is_err());
        assert!(open(vec![segment(2, 0..0, 0..0)]).is_err());
        assert!(open(vec![segment(u64::MAX, 0..0, 0..0)]).is_err());
        assert!(open(vec![segment(0, 0..1, 0..0), segment(0, 0..1, 0..0)]).is_err());
    }

    #[test]
    fn a_hidden_extent_is_taken_and_not_stored() {
        let mut space = DeviceSpace::new(1024);
        let block = space.allocate(8).unwrap();
        space.hide(block, 8).unwrap();
        assert!(space.hide(block, 8).is_err() && space.free(block, 8, 1).is_err());
        assert_eq!((space.blocks().used, space.blocks().free), (0, 1016));
        space.adopt(block, 8).unwrap();
        assert!(space.adopt(block, 8).is_err() && space.recycle(block, 8, None).is_err());
        assert_eq!((space.blocks().used, space.blocks().free), (8, 1016));
        space.hide(block, 8).unwrap();
        assert!(space.recycle(block, 9, None).is_err() && space.adopt(1020, 8).is_err());
        space.recycle(block, 8, Some(1)).unwrap();
        assert_eq!((space.blocks().deferred, space.blocks().free), (8, 1016));
        (1..=2).for_each(|generation| space.checkpoint_durable(generation));
        assert_eq!(space.blocks().free, 1024);
        assert!(space.adopt(block, 8).is_err(), "it is free");
        let block = space.allocate(8).unwrap();
        space.hide(block, 8).unwrap();
        space.recycle(block, 8, None).unwrap();
        assert_eq!((space.blocks().used, space.blocks().free), (0, 1024));
    }

    #[test]
    fn an_extent_that_is_none_is_not_freed() {
        let mut space = DeviceSpace::new(3000);
        assert!(space.allocate_at(500, 12) && space.allocate_at(512, 12));
        for (block, count) in
            [(500, 13), (499, 1), (510, 4), (500, 0), (u64::MAX, 1), (1 << 51, 7), (2999, 2)]
        {
            assert!(
                space.free(block, count, 1).is_err() && space.drop_unseen(block, count).is_err()
            );
        }
        assert_eq!(space.blocks().used, 24);
    }
}

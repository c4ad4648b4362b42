//! The places of the pieces of large values: slots of split blocks, or runs of whole blocks.

use halite_contract::{Error, Result};

use super::{Blocks, Use};
use crate::BLOCK;
use crate::entry::Entry;
use crate::read::scans::Shown;
use crate::space::split::{CLASSES, UNIT, UNITS, class_of, first_piece, size_of_class, slots_of};

impl Blocks {
    /// Takes a place for the first piece of a value of which `rest` bytes are left, in an epoch. Where there is no
    /// place for a piece of its full length, a shorter one is taken.
    pub(crate) fn take_piece(&mut self, rest: u64, epoch: u64) -> Option<(u32, u64)> {
        let free = self.free.count();
        let found = self.find_piece(rest);
        if let Some((place, _)) = found {
            self.splits.set_born(place, epoch);
            // Of a piece in whole blocks; of slots the block's epoch is not asked for.
            self.blocks[(place / UNITS) as usize].shown.born = epoch;
        }
        self.allocations.note(epoch, free - self.free.count(), self.blocks.len());
        found
    }

    fn find_piece(&mut self, rest: u64) -> Option<(u32, u64)> {
        let len = first_piece(rest);
        let class = match class_of(len) {
            Some(class) => class,
            None => match self.take_run(len.div_ceil(BLOCK) as u32) {
                Some((first, count)) => {
                    return Some((first * UNITS, len.min(u64::from(count) * BLOCK)));
                }
                None => CLASSES - 1,
            },
        };
        (0..=class).rev().find_map(|class| {
            let place = self.splits.take(class).or_else(|| {
                let (block, _) = self.take_run(1)?;
                self.blocks[block as usize].used_as = Use::Split;
                self.splits.add(block, class);
                self.splits.take(class)
            })?;
            Some((place, len.min(size_of_class(class))))
        })
    }

    /// Takes the place that a piece of so many bytes was found at.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the place is in use, or cannot be a piece's.
    pub(crate) fn take_found_piece(&mut self, place: u32, len: u64) -> Result<()> {
        let (block, unit) = (place / UNITS, place % UNITS);
        let Some(class) = class_of(len) else {
            if unit != 0 {
                return Err(self.no_piece(block));
            }
            return self.take_overflow(block, len.div_ceil(BLOCK) as u32);
        };
        if self.used_as(block) == Use::Free {
            self.mark_used(block, Use::Split);
            self.splits.add(block, class);
        }
        let is_slot = self.splits.class(block) == Some(class)
            && unit.is_multiple_of((size_of_class(class) / UNIT) as u32);
        match is_slot && self.splits.take_found(place, class) {
            true => Ok(()),
            false => Err(self.no_piece(block)),
        }
    }

    /// Frees a place that can no longer be reached.
    pub(crate) fn free_piece(&mut self, place: u32, len: u64) {
        let block = place / UNITS;
        match class_of(len) {
            Some(class) if self.splits.give_back(place, class) => self.free(block),
            Some(_) => {}
            None => (block..block + len.div_ceil(BLOCK) as u32).for_each(|block| self.free(block)),
        }
    }

    /// How many free blocks are needed for so many slots of each class.
    pub(crate) fn blocks_for(&self, slots: &[u64; CLASSES]) -> u64 {
        let needed = |class: usize| {
            let beyond = slots[class].saturating_sub(self.splits.free(class));
            beyond.div_ceil(slots_of(class).into())
        };
        (0..CLASSES).map(needed).sum()
    }

    /// Notes which record has the piece at a place.
    pub(crate) fn set_owner(&mut self, place: u32, owner: Entry) {
        self.splits.set_owner(place, Some(owner));
    }

    /// Notes that the record of the piece at a place is dead.
    pub(crate) fn clear_owner(&mut self, place: u32) {
        self.splits.set_owner(place, None);
    }

    /// Stops giving out slots of a block; given `None`, gives out those of all blocks again.
    pub(crate) fn close_split(&mut self, block: Option<u32>) {
        self.splits.close(block);
    }

    /// The records that have pieces in a split block.
    pub(crate) fn owners(&self, block: u32) -> Vec<Entry> {
        self.splits.owners(block)
    }

    /// The sparsest split block, of those of which less than `share` of 8 parts is taken, all of whose pieces were made
    /// in epoch `since` or later and find other slots.
    pub(crate) fn sparsest_split(&self, share: u32, since: u64) -> Option<u32> {
        self.splits.sparsest(share, |block| self.blocks[block as usize].live > 0, since)
    }

    /// The epochs that show the piece at a place, which the change under way, in epoch `now`, hides.
    pub(crate) fn piece_shown(&self, place: u32, now: u64) -> Shown {
        let born = self.splits.born(place);
        let whole_blocks = || self.blocks.get((place / UNITS) as usize).map(|meta| meta.shown.born);
        Shown { born: born.or_else(whole_blocks).unwrap_or(0), hidden: now }
    }

    /// Takes a run of at most `wanted` free blocks of one segment for a value: the first that is long
    /// enough, or else the longest there is.
    pub(super) fn take_run(&mut self, wanted: u32) -> Option<(u32, u32)> {
        let (first, count) = self.free.run(wanted)?;
        (first..first + count).for_each(|block| self.mark_used(block, Use::Overflow));
        Some((first, count))
    }

    /// Takes the blocks that a value was found in.
    ///
    /// # Errors
    /// [`Error::Damaged`] if one of them is used otherwise.
    fn take_overflow(&mut self, first: u32, count: u32) -> Result<()> {
        for block in first..first.saturating_add(count) {
            if self.used_as(block) != Use::Free {
                return Err(self.no_piece(block));
            }
            self.mark_used(block, Use::Overflow);
        }
        Ok(())
    }

    fn no_piece(&self, block: u32) -> Error {
        Error::Damaged {
            what: format!("block {block}"),
            why: format!("a value is said to be in it, but it is {:?}", self.used_as(block)),
        }
    }
}

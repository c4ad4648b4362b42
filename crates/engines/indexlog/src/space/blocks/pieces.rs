//! The places of the pieces of large values: runs of units in split blocks, or runs of whole blocks.

use halite_contract::{Error, Result};

use super::{Blocks, Use};
use crate::BLOCK;
use crate::entry::Entry;
use crate::read::scans::Shown;
use crate::space::reserves::RESERVE_COLLECT;
use crate::space::split::{UNITS, UNITS_MIN, first_piece, has_blocks, units_of};

/// The room that the pieces of values need.
#[derive(Default)]
pub(crate) struct PieceDemand {
    /// Whole blocks.
    blocks: u64,
    /// Units of pieces without whole blocks, and how many blocks they fill one after the other.
    units: u64,
    fresh: u64,
    /// Units that are left of the last of these blocks.
    left: u64,
}

impl PieceDemand {
    /// Adds a piece. Returns the most pieces that it is cut into.
    pub(crate) fn add(&mut self, len: u64) -> u64 {
        if has_blocks(len) {
            self.blocks += len.div_ceil(BLOCK);
            return len.div_ceil(BLOCK);
        }
        let units = units_of(len);
        self.units += units;
        if units > self.left {
            self.fresh += 1;
            self.left = UNITS;
        }
        self.left -= units;
        units / UNITS_MIN
    }
}

impl Blocks {
    /// Takes a place for the first piece of a value of which `rest` bytes are left, in an epoch. Where there is no
    /// place for a piece of its full length, a shorter one is taken. `splits` says whether free blocks may be split.
    pub(crate) fn take_piece(&mut self, rest: u64, epoch: u64, splits: bool) -> Option<(u64, u64)> {
        let free = self.free.count();
        let found = self.find_piece(rest, epoch, splits);
        self.allocations.note(epoch, free - self.free.count(), self.blocks.len());
        found
    }

    fn find_piece(&mut self, rest: u64, epoch: u64, splits: bool) -> Option<(u64, u64)> {
        let mut len = first_piece(rest);
        let may_take = splits && self.free.count() > RESERVE_COLLECT;
        if has_blocks(len) {
            if may_take && let Some((first, count)) = self.take_run(len.div_ceil(BLOCK) as u32) {
                self.blocks[first as usize].shown.born = epoch;
                let len = len.min(u64::from(count) * BLOCK);
                return Some((u64::from(first) * UNITS, len));
            }
            len = BLOCK / 2;
        }
        if let Some(found) = self.splits.take(len, false, epoch) {
            return Some(found);
        }
        if may_take && let Some((block, _)) = self.take_run(1) {
            self.blocks[block as usize].used_as = Use::Split;
            self.splits.add(block);
        }
        self.splits.take(len, true, epoch)
    }

    /// Takes the place that a piece of so many bytes was found at.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the place is in use, or cannot be a piece's.
    pub(crate) fn take_found_piece(&mut self, place: u64, len: u64) -> Result<()> {
        let block = u32::try_from(place / UNITS).unwrap_or(u32::MAX);
        if has_blocks(len) {
            if !place.is_multiple_of(UNITS) {
                return Err(self.no_piece(block));
            }
            return self.take_overflow(block, len.div_ceil(BLOCK) as u32);
        }
        if self.used_as(block) == Use::Free {
            self.mark_used(block, Use::Split);
            self.splits.add(block);
        }
        match self.splits.has(block) && self.splits.take_found(place, units_of(len)) {
            true => Ok(()),
            false => Err(self.no_piece(block)),
        }
    }

    /// Frees a place that can no longer be reached.
    pub(crate) fn free_piece(&mut self, place: u64, len: u64) {
        let block = (place / UNITS) as u32;
        if has_blocks(len) {
            (block..block + len.div_ceil(BLOCK) as u32).for_each(|block| self.free(block));
        } else if self.splits.give_back(place, units_of(len)) {
            self.free(block);
        }
    }

    /// How many free blocks are needed for pieces; where they may be `cut`, no more than their units take.
    pub(crate) fn blocks_for(&self, demand: &PieceDemand, cut: bool) -> u64 {
        let fits = demand.units <= self.splits.longest();
        let for_units = match (fits, cut) {
            (true, _) => 0,
            (false, false) => demand.fresh,
            (false, true) => {
                let beyond = demand.units.saturating_sub(self.splits.usable());
                demand.fresh.min(beyond.div_ceil(UNITS - UNITS_MIN))
            }
        };
        demand.blocks + for_units
    }

    /// Notes which record has the piece at a place.
    pub(crate) fn set_owner(&mut self, place: u64, owner: Entry) {
        self.splits.set_owner(place, Some(owner));
    }

    /// Notes that the record of the piece at a place is dead.
    pub(crate) fn clear_owner(&mut self, place: u64) {
        self.splits.set_owner(place, None);
    }

    /// Stops giving out runs of a block; given `None`, gives out those of all blocks again.
    pub(crate) fn close_split(&mut self, block: Option<u32>) {
        self.splits.close(block);
    }

    /// The records that have pieces in a split block.
    pub(crate) fn owners(&self, block: u32) -> Vec<Entry> {
        self.splits.owners(block)
    }

    /// The sparsest split block, of those of which less than `share` of 8 parts is taken, all of whose pieces were made
    /// in epoch `since` or later and find other runs.
    pub(crate) fn sparsest_split(&self, share: u32, since: u64) -> Option<u32> {
        self.splits.sparsest(share, |block| self.blocks[block as usize].live > 0, since)
    }

    /// The epochs that show the piece at a place, which the change under way, in epoch `now`, hides.
    pub(crate) fn piece_shown(&self, place: u64, now: u64) -> Shown {
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

//! Collecting blocks that scans read: which of them are worth it.
//!
//! A block with live records that a scan reads can be collected like any other: the records move, and the block is
//! free when the scan ends. Scans that begin later do not delay that, since they read the copies. Where scans overlap
//! without end, as transactions of several threads do, there is no other way. But until the scan ends, the block and
//! the copies both take space, so the collection is in vain if the room ends before the scan.
//!
//! How long a scan will last is not known. So blocks that scans read are collected where no others are, and may wait
//! for these scans to end: up to a quarter of all blocks ([`WAITING_SHARE`]), for the oldest scan half of that, for
//! the next one half of the rest, and so on. Short scans give blocks back as fast as others are collected. A scan
//! that never ends has its part collected in vain, once, and does not prevent the collection of blocks that only
//! younger scans read.
//!
//! Blocks that wait, and records written meanwhile, need room until the scans end. So collection begins the earlier,
//! the more blocks were taken since the oldest scan began.

use halite_contract::Result;
use halite_sim::locks::RwLock;

use crate::BLOCK;
use crate::collection::collect::PACE_BELOW;
use crate::collection::compact::SPARSE;
use crate::read::view::View;
use crate::space::reserves::RESERVE_BOOKKEEPING;
use crate::space::victims::WORTHWHILE;
use crate::write::Writer;

/// One block in this many may wait for scans to end.
const WAITING_SHARE: u32 = 4;

/// This many blocks may wait in any case: 1 MiB.
const WAITING_MIN: u32 = 8;

impl Writer {
    /// Blocks that may wait for scans to end.
    fn waiting_max(&self) -> u32 {
        (self.blocks.len() / WAITING_SHARE).max(WAITING_MIN)
    }

    /// The youngest scan whose part of the waiting blocks is used up: blocks that it reads are not worth collecting.
    pub(crate) fn kept_by(&self) -> Option<u64> {
        let (mut left, mut kept_by) = (self.waiting_max(), None);
        for (epoch, waiting) in self.limbo.pinned_blocks() {
            if waiting > 0 && 2 * waiting >= left {
                kept_by = Some(epoch);
            }
            left = left.saturating_sub(waiting);
        }
        kept_by
    }

    /// Blocks that have to be free besides those that have to be without scans, so that the blocks that wait and the
    /// records that are written meanwhile find room until the scans end.
    pub(crate) fn room_for_waiting(&self) -> u32 {
        let oldest = self.scans.oldest_epoch();
        let taken = oldest.map_or(0, |epoch| 2 * self.blocks.allocations().since(epoch));
        taken.min(self.waiting_max())
    }

    /// The sealed block to collect where the pool cannot grow, and how much can be reclaimed of it, in bytes: a block
    /// that is free as soon as its live records have moved, or else one that is free when scans have ended.
    pub(crate) fn victim(&mut self) -> Option<(u32, u64)> {
        let free_at_once = self.blocks.victim(self.next_seq, self.scans.youngest());
        free_at_once.or_else(|| self.victim_for_later())
    }

    /// The same among the blocks that scans read, if more of these may wait.
    fn victim_for_later(&mut self) -> Option<(u32, u64)> {
        let kept_by = self.kept_by();
        let victim = self.blocks.victim(self.next_seq, kept_by);
        victim.filter(|_| kept_by < self.scans.youngest())
    }

    /// Empties a split block that is a free block once scans have ended, where the pool cannot grow and few blocks
    /// are free. A write that finds no room can empty only split blocks that no scan reads.
    pub(crate) fn compact_for_later(&mut self, view: &RwLock<View>) -> Result<bool> {
        let is_due =
            self.is_full && self.blocks.free_count() < PACE_BELOW + self.room_for_waiting();
        let may_wait = self.limbo.pinned_bytes() < u64::from(self.waiting_max()) * BLOCK;
        let kept_by = if is_due { self.kept_by() } else { None };
        if !is_due || !may_wait || kept_by == self.scans.youngest() {
            return Ok(false);
        }
        if self.limbo.queued_bytes() >= BLOCK {
            // The slots of replaced values are released first, so that the blocks show how sparse they are.
            self.sync_records()?;
            self.release_limbo(view, 0)?;
        }
        self.compact(view, SPARSE, kept_by)
    }

    /// Makes room for later writes where there is none: collects one block that is free once scans have ended. The
    /// later writes themselves would find no such block if other scans have begun by then. Meanwhile its live records
    /// take no more than one of the blocks that puts leave to other operations.
    pub(crate) fn collect_for_later(&mut self, view: &RwLock<View>) -> Result<()> {
        let has_room = self.blocks.free_count() >= RESERVE_BOOKKEEPING;
        if !has_room || self.collection.is_some() || self.blocks.reclaimable() < BLOCK {
            return Ok(());
        }
        let victim = self.victim_for_later().filter(|(_, gain)| *gain >= WORTHWHILE);
        let Some((victim, gain)) = victim else { return Ok(()) };
        self.begin_collection(view, victim, gain)?;
        self.finish_collection(view)
    }
}

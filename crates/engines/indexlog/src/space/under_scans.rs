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

use super::Space;

/// One block in this many may wait for scans to end.
const WAITING_SHARE: u32 = 4;

/// This many blocks may wait in any case: 1 MiB.
const WAITING_MIN: u32 = 8;

impl Space {
    /// Blocks that may wait for scans to end.
    pub(crate) fn waiting_max(&self) -> u32 {
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

    /// The sealed block with the most to reclaim, and how much that is in bytes, of those that are free as soon as
    /// their live records have moved.
    pub(crate) fn emptiest(&mut self) -> Option<(u32, u64)> {
        self.blocks.emptiest(self.scans.youngest())
    }

    /// Does as [`Space::emptiest`], where blocks may wait for scans to end.
    pub(crate) fn emptiest_soon(&mut self) -> Option<(u32, u64)> {
        let kept_by = self.kept_by();
        self.blocks.emptiest(kept_by)
    }

    /// Whether a block is still not free when its live records have moved, because scans read it.
    pub(crate) fn is_kept(&self, block: u32) -> bool {
        self.blocks.is_kept(block, self.scans.youngest())
    }

    /// The sealed block to collect where the pool cannot grow, and how much can be reclaimed of it, in bytes, of those
    /// that are free as soon as their live records have moved. The next record is number `next`.
    pub(crate) fn victim_at_once(&mut self, next: u64) -> Option<(u32, u64)> {
        self.blocks.victim(next, self.scans.youngest())
    }

    /// The sealed block to collect where the pool cannot grow, and how much can be reclaimed of it, in bytes: a block
    /// that is free as soon as its live records have moved, or else one that is free when scans have ended.
    pub(crate) fn victim(&mut self, next: u64) -> Option<(u32, u64)> {
        self.victim_at_once(next).or_else(|| self.victim_for_later(next))
    }

    /// Chooses a victim among the blocks that scans read, if more of these may wait.
    pub(crate) fn victim_for_later(&mut self, next: u64) -> Option<(u32, u64)> {
        let kept_by = self.kept_by();
        let victim = self.blocks.victim(next, kept_by);
        victim.filter(|_| kept_by < self.scans.youngest())
    }
}

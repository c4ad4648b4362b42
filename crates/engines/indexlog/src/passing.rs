//! Collecting what scans read: which of them are worth waiting for.
//!
//! A block with live records that a scan reads can be collected like any other: the records move, and the block is free
//! when the scan ends, whichever have begun since, for those read the copies. Where scans overlap without end, as
//! transactions of several threads do, there is no other way. But until then both take space, so all of it was for nothing
//! if the room ends before the scan.
//!
//! How long a scan will last is not known. It is taken to last for as long again as it has; time is told in blocks that
//! are taken. So a scan is *passing* as long as fewer blocks were taken since it began than puts may still take, or than
//! [`PATIENCE`], and *lasting* from then on. Blocks that only passing scans read are collected, where no others are; those
//! that a lasting one reads, not before it ends. So a scan that never ends has no block collected in vain but at first,
//! and none twice.
//!
//! Blocks that passing scans hold, and records written meanwhile, need room until they end. So collection begins the
//! earlier, the older they are.

use halite_contract::Result;
use halite_sim::locks::RwLock;

use crate::BLOCK;
use crate::collect::{PACE_BELOW, WORTHWHILE};
use crate::read::View;
use crate::space::{RESERVE_BOOKKEEPING, SPARSE};
use crate::write::Writer;

/// A scan is passing while fewer blocks than these are taken, 1 MiB: that much of a full store may be collected in vain.
const PATIENCE: u32 = 8;

impl Writer {
    /// The youngest lasting scan: what is older and still shown is not worth collecting.
    pub(crate) fn youngest_lasting(&self) -> Option<u64> {
        self.scans.youngest_until(self.last_lasting_epoch())
    }

    /// Scans of later epochs are passing.
    fn last_lasting_epoch(&self) -> u64 {
        let room = self.blocks.free_count().saturating_sub(RESERVE_BOOKKEEPING);
        self.blocks.takings().last_with(room.max(PATIENCE))
    }

    /// Blocks that have to be free besides what they would without passing scans, so that what these hold and what is
    /// written meanwhile finds room until they end.
    pub(crate) fn room_for_passing(&self) -> u32 {
        let oldest = self.scans.oldest_since(self.last_lasting_epoch() + 1);
        oldest.map_or(0, |epoch| 2 * self.blocks.takings().since(epoch))
    }

    /// The sealed block to collect where the pool cannot grow, and how much can be reclaimed of it, in bytes: one that is
    /// free as soon as its live records have moved, or else one that only passing scans read.
    pub(crate) fn victim(&mut self) -> Option<(u32, u64)> {
        let free_at_once = self.blocks.victim(self.next_seq, self.scans.youngest());
        free_at_once.or_else(|| self.victim_for_later())
    }

    /// The same, if there are passing scans, of those that no lasting one reads.
    fn victim_for_later(&mut self) -> Option<(u32, u64)> {
        let lasting = self.youngest_lasting();
        let victim = self.blocks.victim(self.next_seq, lasting);
        victim.filter(|_| lasting < self.scans.youngest())
    }

    /// Empties a split block that is whole once passing scans have ended, where the pool cannot grow and little of it is
    /// free. A write that finds no room can empty only those that no scan reads.
    pub(crate) fn compact_for_later(&mut self, view: &RwLock<View>) -> Result<bool> {
        let lasting = self.youngest_lasting();
        let enough = PACE_BELOW + self.room_for_passing();
        let is_due = self.is_full && self.blocks.free_count() < enough;
        if !is_due || lasting == self.scans.youngest() {
            return Ok(false);
        }
        if self.limbo.queued_bytes() >= BLOCK {
            // Slots of values that were replaced, and so how sparse the blocks are.
            self.sync_records()?;
            self.release_limbo(view, 0)?;
        }
        self.compact(view, SPARSE, lasting)
    }

    /// Makes room for later writes where there is none: collects one block that is free once passing scans have ended,
    /// which the writes would not find so if others have begun by then. Its live records take meanwhile no more than one
    /// block of those that puts leave to others.
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

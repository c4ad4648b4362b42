//! Making room for later writes out of blocks that scans read. `space/under_scans.rs` chooses
//! them.

use halite_contract::Result;
use halite_sim::locks::RwLock;

use crate::BLOCK;
use crate::collection::collector::{Collector, PACE_BELOW};
use crate::collection::compact::SPARSE;
use crate::read::view::View;
use crate::space::reserves::RESERVE_BOOKKEEPING;
use crate::space::victims::WORTHWHILE;
use crate::storage::Storage;

impl Collector {
    /// Empties a split block that is a free block once scans have ended, where the pool cannot grow and few blocks
    /// are free. A write that finds no room can empty only split blocks that no scan reads.
    pub(crate) fn compact_for_later(
        &mut self,
        storage: &mut Storage,
        view: &RwLock<View>,
    ) -> Result<bool> {
        let is_due = storage.space.is_full()
            && storage.space.blocks().free_count() < PACE_BELOW + storage.space.room_for_waiting();
        let may_wait =
            storage.space.limbo().pinned_bytes() < u64::from(storage.space.waiting_max()) * BLOCK;
        let kept_by = if is_due { storage.space.kept_by() } else { None };
        if !is_due || !may_wait || kept_by == storage.space.scans().youngest() {
            return Ok(false);
        }
        if storage.space.limbo().queued_bytes() >= BLOCK {
            // The slots of replaced values are released first, so that the blocks show how sparse they are.
            storage.sync_records()?;
            storage.release_limbo(view, 0)?;
        }
        self.compact(storage, view, SPARSE, kept_by)
    }

    /// Makes room for later writes where there is none: collects one block that is free once scans have ended. The
    /// later writes themselves would find no such block if other scans have begun by then. Meanwhile its live records
    /// take no more than one of the blocks that puts leave to other operations.
    pub(crate) fn collect_for_later(
        &mut self,
        storage: &mut Storage,
        view: &RwLock<View>,
    ) -> Result<()> {
        let has_room = storage.space.blocks().free_count() >= RESERVE_BOOKKEEPING;
        if !has_room || self.is_under_way() || storage.space.blocks().reclaimable() < BLOCK {
            return Ok(());
        }
        let victim = storage
            .space
            .victim_for_later(storage.log.durability.next())
            .filter(|(_, gain)| *gain >= WORTHWHILE);
        let Some((victim, gain)) = victim else { return Ok(()) };
        self.begin_collection(storage, view, victim, gain)?;
        self.finish_collection(storage, view)
    }
}

//! Data that is in the levels already and still in memory: gets find it there, until its room is wanted.
//!
//! A frozen global index stays when it has been merged with the levels. Its memtables' zones go back to the pool one
//! memtable at a time, the oldest first; the index's entries for these are passed over. Scans do not use it, as they
//! read the levels in any case.

use std::sync::Arc;

use halite_index::{RadixTree, Records};

use crate::address::{Address, SLOTS_MAX};
use crate::global_index::GlobalIndex;
use crate::record::{Kind, Record};
use crate::version::join;
use crate::zones::Zones;
use halite_index::Removals;

/// A global index that is in the levels, or the rest of it.
pub(crate) struct Flushed {
    index: Arc<RadixTree>,
    deletes: Arc<Removals>,
    /// The memtables that are left, the oldest first.
    memtables: Vec<Arc<Zones>>,
    by_slot: Box<[Option<Arc<Zones>>]>,
}

impl Flushed {
    /// All of a global index.
    pub(crate) fn new(global: &GlobalIndex) -> Option<Arc<Self>> {
        let mut memtables = global.merged();
        memtables.sort_unstable_by_key(|zones| zones.id);
        Self::of(&global.index, &global.deletes, memtables)
    }

    /// Returns the same without its oldest memtable; `None` if there is no other.
    pub(crate) fn without_oldest(&self) -> Option<Arc<Self>> {
        Self::of(&self.index, &self.deletes, self.memtables[1..].to_vec())
    }

    fn of(
        index: &Arc<RadixTree>,
        deletes: &Arc<Removals>,
        memtables: Vec<Arc<Zones>>,
    ) -> Option<Arc<Self>> {
        if memtables.is_empty() {
            return None;
        }
        let mut by_slot = vec![None; SLOTS_MAX as usize].into_boxed_slice();
        for zones in &memtables {
            by_slot[zones.slot as usize] = Some(Arc::clone(zones));
        }
        let (index, deletes) = (Arc::clone(index), Arc::clone(deletes));
        Some(Arc::new(Self { index, deletes, memtables, by_slot }))
    }

    /// The newest version of a key up to `at`, if it is there; otherwise the levels have it.
    pub(crate) fn get(&self, key: &[u8], at: u64) -> Option<(&Zones, Address, Record<'_>)> {
        let address = Address::from_bits(self.index.candidate(self, key, at)?);
        let zones = self.zones_of(address)?;
        // The levels have another copy of a record that is damaged here.
        let record = zones.checked(address).ok()?;
        let is_sought = record.key() == key && record.sequence() <= at;
        let is_last = record.sequence() > self.deletes.covering(key, at);
        let is_whole =
            record.kind() != Some(Kind::PutPieces) || join(zones, address, &record).is_ok();
        (is_sought && is_last && is_whole).then_some((zones, address, record))
    }

    fn zones_of(&self, address: Address) -> Option<&Zones> {
        self.by_slot.get(address.slot())?.as_deref()
    }

    /// The memtables that are left, the oldest first; at least one.
    pub(crate) fn memtables(&self) -> &[Arc<Zones>] {
        &self.memtables
    }

    /// The oldest memtable.
    pub(crate) fn oldest(&self) -> &Arc<Zones> {
        &self.memtables[0]
    }

    /// Bytes of the pool that all take.
    pub(crate) fn pool_bytes(&self) -> u64 {
        self.memtables.iter().map(|zones| zones.pool_bytes()).sum()
    }

    /// Bytes of the index.
    pub(crate) fn index_bytes(&self) -> u64 {
        self.index.memory_len()
    }
}

/// A record of a memtable that is gone has no key and no version.
impl Records for Flushed {
    fn key(&self, entry: u64) -> &[u8] {
        let address = Address::from_bits(entry);
        self.zones_of(address).map_or(&[], |zones| zones.key(address))
    }

    fn version(&self, entry: u64) -> u64 {
        let address = Address::from_bits(entry);
        self.zones_of(address).map_or(0, |zones| zones.sequence(address))
    }
}

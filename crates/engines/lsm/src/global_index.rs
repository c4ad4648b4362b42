//! The global index (Yan §3.3): level zero, sorted, in persistent memory.
//!
//! Memtables are merged into it key by key, and only addresses move: the records stay in the zones of the memtables
//! that they were written to. A version that a newer one hides from all readers is left out on the way.

use std::cmp;
use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use halite_index::{Direction, RadixTree, Records};
use halite_sim::locks::Mutex;

use crate::address::{Address, SLOTS_MAX};
use crate::memtable::Memtable;
use crate::snapshots::Kept;
use crate::zones::Zones;
use halite_index::Removals;

/// A global index of one tree.
pub(crate) struct GlobalIndex {
    pub(crate) index: Arc<RadixTree>,
    pub(crate) deletes: Arc<Removals>,
    /// The memtables that were merged, by slot.
    by_slot: Box<[OnceLock<Arc<Zones>>]>,
    /// The zones in the order in which they were merged.
    merged: Mutex<Vec<Arc<Zones>>>,
}

impl GlobalIndex {
    pub(crate) fn new() -> Self {
        Self {
            index: Arc::default(),
            deletes: Arc::default(),
            by_slot: (0..SLOTS_MAX).map(|_| OnceLock::new()).collect(),
            merged: Mutex::new(Vec::new()),
        }
    }

    /// Takes over a memtable's zones: from now on, addresses in them may be added.
    pub(crate) fn adopt(&self, zones: &Arc<Zones>) {
        let set = self.by_slot[zones.slot as usize].set(Arc::clone(zones));
        assert!(set.is_ok(), "a memtable is merged once");
        self.merged.lock().push(Arc::clone(zones));
    }

    /// Merges an immutable memtable, all of which is committed. Readers and writers of both go on. Returns how
    /// many versions were left out.
    pub(crate) fn merge(&self, memtable: &Memtable, kept: &Kept) -> u64 {
        self.adopt(&memtable.zones);
        let needed = |older, newer| kept.is_needed(older, newer);
        self.deletes.add_all(memtable.deletes.all(), needed);
        let mut cursor = memtable.index.cursor_of_versions(
            Bound::Unbounded,
            Bound::Unbounded,
            Direction::Ascending,
        );
        let mut purged = 0;
        while let Some(entry) = cursor.next(&memtable.index, memtable) {
            let key = memtable.zones.key(Address::from_bits(entry));
            purged += self.index.insert_purging(self, key, entry, needed) as u64;
        }
        purged
    }

    /// The zones of an address.
    #[inline]
    pub(crate) fn zones_of(&self, address: Address) -> Option<&Zones> {
        Some(&**self.by_slot.get(address.slot())?.get()?)
    }

    pub(crate) fn merged(&self) -> Vec<Arc<Zones>> {
        self.merged.lock().clone()
    }

    /// How many memtables were merged.
    pub(crate) fn memtables(&self) -> usize {
        self.merged.lock().len()
    }

    /// Bytes of the pool that their zones take.
    pub(crate) fn pool_bytes(&self) -> u64 {
        self.merged.lock().iter().map(|zones| zones.pool_bytes()).sum()
    }

    /// Bytes of zones that records were appended to.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.merged.lock().iter().map(|zones| zones.used_bytes()).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.merged.lock().is_empty()
    }
}

impl Records for GlobalIndex {
    fn key(&self, entry: u64) -> &[u8] {
        let address = Address::from_bits(entry);
        self.zones_of(address).map_or(&[], |zones| zones.key(address))
    }

    fn version(&self, entry: u64) -> u64 {
        let address = Address::from_bits(entry);
        self.zones_of(address).map_or(0, |zones| zones.sequence(address))
    }

    /// An address that was granted later is newer, and so is one in a newer memtable.
    fn cmp_versions(&self, one: u64, other: u64) -> cmp::Ordering {
        let id = |entry| self.zones_of(Address::from_bits(entry)).map(|zones| zones.id);
        id(one).cmp(&id(other)).then(one.cmp(&other))
    }

    fn prefetch(&self, entry: u64) {
        let address = Address::from_bits(entry);
        if let Some(zones) = self.zones_of(address) {
            zones.prefetch(address);
        }
    }
}

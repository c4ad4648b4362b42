//! A layer: a sorted index of records in zones. A memtable is one, and a global index.

use halite_index::{RadixTree, Records};

use crate::address::Address;
use crate::global_index::GlobalIndex;
use crate::memtable::Memtable;
use crate::zones::Zones;
use halite_index::Removals;

/// The common interface of memtables and global indexes. The records of the index are the layer's own.
pub(crate) trait Layer: Records + Send + Sync {
    fn index(&self) -> &RadixTree;

    fn deletes(&self) -> &Removals;

    /// The zones of an address in the index.
    fn zones_of(&self, address: Address) -> Option<&Zones>;

    /// Bytes of zones that its records lie in.
    fn used_bytes(&self) -> u64;
}

impl Layer for Memtable {
    fn index(&self) -> &RadixTree {
        &self.index
    }

    fn deletes(&self) -> &Removals {
        &self.deletes
    }

    #[inline]
    fn zones_of(&self, _: Address) -> Option<&Zones> {
        Some(&self.zones)
    }

    fn used_bytes(&self) -> u64 {
        self.zones.used_bytes()
    }
}

impl Layer for GlobalIndex {
    fn index(&self) -> &RadixTree {
        &self.index
    }

    fn deletes(&self) -> &Removals {
        &self.deletes
    }

    #[inline]
    fn zones_of(&self, address: Address) -> Option<&Zones> {
        self.zones_of(address)
    }

    fn used_bytes(&self) -> u64 {
        self.used_bytes()
    }
}

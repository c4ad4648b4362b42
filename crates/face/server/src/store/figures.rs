//! Figures of the store, for INFO, MEMORY and the limits.

use std::sync::Arc;

use super::Store;
use super::database::Database;
use crate::data_bytes::DataBytes;
use crate::partition_set::PartitionSet;
use crate::stored::Stored;

impl Store {
    /// The statistics of the Halite database.
    pub(crate) fn stats(&self) -> halite::Stats {
        self.db.stats()
    }

    /// Has the bytes of all records counted where the engine does not know them, or no longer: there is a limit of them,
    /// or none.
    pub(crate) fn count_bytes(&mut self, data_bytes: &Arc<DataBytes>, is_limited: bool) {
        let counts = is_limited && self.stats().is_tiered;
        if self.data_bytes.is_some() && !counts {
            data_bytes.forget();
        }
        self.data_bytes = counts.then(|| Arc::clone(data_bytes));
    }

    /// The bytes of all records, if they are known.
    pub(crate) fn live_bytes(&self) -> Option<u64> {
        let Some(data_bytes) = &self.data_bytes else { return Some(self.stats().live_bytes) };
        if self.databases.is_empty() {
            return None;
        }
        let spaces = || self.databases.iter().flat_map(Database::spaces).collect();
        data_bytes.get(&self.db, spaces, &self.ending)
    }

    /// [`Store::stats`] of one partition.
    pub(crate) fn partition_stats(&self, partition: usize) -> halite::Stats {
        self.db.partition_stats(partition)
    }

    /// Bytes of the pool that a key of this length and its value take.
    pub(crate) fn space_of(&self, key_len: usize, value: &Stored) -> u64 {
        self.db.space_of(key_len, value.bytes().len())
    }

    /// Bytes of memory that are kept for the next write.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.tagging.capacity()
    }

    /// Bytes of memory that is known of the keys in the parts of `partitions`, which are here, about: their deadlines, the
    /// orders of larger collections, the use of keys.
    pub(crate) fn state_bytes(&self, partitions: PartitionSet) -> usize {
        partitions.iter().map(|number| self.part(number).bytes()).sum()
    }
}

//! Statistics of a store.

use std::sync::atomic::Ordering;

use halite_alloc::SEGMENT;
use halite_contract::{Figure, Stats};

use super::store::{Spaces, Store};
use crate::Footprint;

/// The footprint, and the number of writes when it was taken.
#[derive(Debug, Default)]
pub(super) struct Taken {
    footprint: Footprint,
    at: Option<u64>,
}

impl Store {
    pub(super) fn stats(&self) -> Stats {
        let pool = self.testbed.pool();
        let partitions = self.testbed.partitions();
        let spaces = self.spaces.read();
        let records = (0..partitions).map(|number| self.records(&spaces, number)).sum();
        let Footprint { table, index, log, checkpoint, other } = self.footprint(records);
        let has_files = self.testbed.kind().has_files();
        let free_bytes = self.testbed.segments().free() * SEGMENT;
        let in_pool = if has_files { 0 } else { table + index };
        let own = [
            ("tuple_bytes", "Bytes of tuples, at the last look.", table),
            ("tree_bytes", "Bytes of indexes, at the last look.", index),
            ("method_log_bytes", "Bytes of logs, at the last look.", log),
            ("checkpoint_bytes", "Bytes of checkpoints, at the last look.", checkpoint),
            ("other_bytes", "Bytes of everything else, at the last look.", other),
        ];
        Stats {
            domain: pool.domain(),
            records,
            pool_bytes: pool.len(),
            pool_bytes_max: pool.len_max(),
            live_bytes: in_pool.min(pool.len() - free_bytes),
            free_bytes,
            volatile_bytes: self.versions.bytes(),
            user_bytes_written: self.user_bytes.load(Ordering::Relaxed),
            unsynced_writes: (0..partitions).map(|number| self.unsynced(number)).sum(),
            // A partition's folder, and its files.
            descriptors_max: if has_files { 4 * partitions as u64 } else { 0 },
            traffic: pool.traffic(),
            recovery: self.recovery.clone(),
            own: own.map(|(name, help, value)| Figure::new(name, help, value)).into(),
            ..Stats::default()
        }
    }

    pub(super) fn partition_stats(&self, partition: usize) -> Stats {
        let spaces = self.spaces.read();
        Stats {
            domain: self.testbed.pool().domain(),
            records: self.records(&spaces, partition),
            unsynced_writes: self.unsynced(partition),
            ..Stats::default()
        }
    }

    /// The keys of a partition. A key space that cannot be read has none that anybody could get.
    fn records(&self, spaces: &Spaces, partition: usize) -> u64 {
        let spaces = spaces.by_id.values();
        spaces.map(|space| space.count(&self.testbed, partition).unwrap_or(0)).sum()
    }

    /// The footprint, which is taken again when as many writes have come as there are keys: that walks all space.
    fn footprint(&self, records: u64) -> Footprint {
        let writes = self.writes();
        let mut taken = self.footprint.lock();
        if taken.at.is_none_or(|at| writes - at > records)
            && let Ok(footprint) = self.testbed.footprint()
        {
            *taken = Taken { footprint, at: Some(writes) };
        }
        taken.footprint
    }
}

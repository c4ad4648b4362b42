//! The contents and the activity of a store, in figures.

use std::time::Duration;

use halite_pmem::{Domain, Traffic};

use crate::{Damage, Figure, Holder};

/// Statistics of the recovered part of an open store. Counters start at zero when the store opens.
#[derive(Debug, Clone, Default)]
pub struct Stats {
    /// The guarantee of a fence on this store's medium.
    pub domain: Domain,
    /// Keys in all key spaces. A [tiered](Stats::is_tiered) engine would have to search all files below the pool to
    /// count its keys, so it reports the number of versions that its indexes in memory lead to.
    pub records: u64,
    /// Bytes of the pool now.
    pub pool_bytes: u64,
    /// Bytes that the pool may grow to.
    pub pool_bytes_max: u64,
    /// Bytes of the pool that hold live records and values, with their headers and padding.
    pub live_bytes: u64,
    /// Bytes of the pool that hold dead records, for collection to reclaim.
    pub dead_bytes: u64,
    /// Bytes of the pool that could be reclaimed if no snapshot or scan read them any more: records
    /// replaced since these began, and where no other block can be collected, the dead records beside those
    /// that they read.
    pub held_bytes: u64,
    /// The oldest snapshot or scan that is under way, if the engine knows it.
    pub oldest_reader: Option<Holder>,
    /// Bytes of the pool that are free for records without collection or growth.
    pub free_bytes: u64,
    /// Bytes of DRAM that the index takes.
    pub index_bytes: u64,
    /// Bytes of DRAM that the caches of the files below the pool take.
    pub cache_bytes: u64,
    /// Bytes of DRAM that hold records: memtables that a log makes durable, records on their way to the
    /// log, and files of levels that lie in memory.
    pub volatile_bytes: u64,
    /// Whether the engine hands records on to files below the pool: what a full pool lacks, these may have.
    pub is_tiered: bool,
    /// Bytes of keys and values that writes brought.
    pub user_bytes_written: u64,
    /// Bytes that collection moved to reclaim space.
    pub collected_bytes_moved: u64,
    /// Blocks that collection reclaimed.
    pub collected_blocks: u64,
    /// Writes that are visible but not yet durable.
    pub unsynced_writes: u64,
    /// Descriptors that the engine may have open at once: the process has to leave it this many.
    pub descriptors_max: u64,
    /// Traffic of the pool.
    pub traffic: Traffic,
    /// The findings of opening the store.
    pub recovery: Recovery,
    /// Figures that only this engine has, each name once.
    pub own: Vec<Figure>,
}

impl Stats {
    /// Bytes of memory that the store takes: the whole pool, with or without records, and the store's DRAM
    /// beside it.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.pool_bytes + self.dram_bytes()
    }

    /// Bytes of DRAM that the store takes beside the pool.
    #[must_use]
    pub fn dram_bytes(&self) -> u64 {
        self.index_bytes + self.cache_bytes + self.volatile_bytes
    }

    /// The engine's own figure of this name, if it has one.
    #[must_use]
    pub fn figure(&self, name: &str) -> Option<u64> {
        self.own.iter().find(|figure| figure.name == name).map(|figure| figure.value)
    }

    /// Adds an engine's own figure, to that of the same name if there is one.
    pub fn add(&mut self, figure: Figure) {
        match self.own.iter_mut().find(|known| known.name == figure.name) {
            Some(known) => known.value += figure.value,
            None => self.own.push(figure),
        }
    }
}

/// The findings of opening a store.
#[derive(Debug, Clone, Default)]
pub struct Recovery {
    /// Whether the store had been closed cleanly.
    pub clean: bool,
    /// Records read, dead ones included.
    pub records_read: u64,
    /// Operations of the change log that were replayed because their records were not there.
    pub records_replayed: u64,
    /// Records of unacknowledged writes that were cut from the log's tail.
    pub records_cut: u64,
    /// Segments that were allocated without an owner, and were reclaimed.
    pub segments_reclaimed: u64,
    /// Partitions that are recovered.
    pub partitions_ready: usize,
    /// Files beside the pool that are missing or damaged, as far as opening looks at them: reads that need them
    /// fail. [`crate::Engine::verify`] reads all of them.
    pub damage: Vec<Damage>,
    /// Files beside the pool that are named like the store's, and are not its own. They stay.
    pub foreign_files: Vec<String>,
    /// How long opening took; until the last partition is recovered, how long it has taken so far.
    pub duration: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_figures_of_partitions_are_summed_by_name() {
        let mut stats = Stats::default();
        for (name, value) in [("log_bytes", 7), ("runs", 1), ("log_bytes", 3)] {
            stats.add(Figure::new(name, "A figure.", value));
        }
        let figures = ["log_bytes", "runs", "others"].map(|name| stats.figure(name));
        assert_eq!(figures, [Some(10), Some(1), None]);
    }
}

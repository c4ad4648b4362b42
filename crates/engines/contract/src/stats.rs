//! The contents and the activity of a store, in figures.

use std::time::Duration;

use halite_pmem::{Domain, Traffic};

use crate::{Damage, Holder};

/// Statistics of the recovered part of an open store. Counters start at zero when the store opens.
#[derive(Debug, Clone, Default)]
pub struct Stats {
    /// The guarantee of a fence on this store's medium.
    pub domain: Domain,
    /// Keys in all key spaces. An engine with [levels](Stats::levels) would have to search all of them to
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
    /// Bytes of the pool that the change log takes.
    pub change_log_bytes: u64,
    /// Bytes of the pool that the newest snapshots of the index take.
    pub index_snapshot_bytes: u64,
    /// Bytes of DRAM that the index takes.
    pub index_bytes: u64,
    /// Bytes of DRAM that the caches of the files below the pool take.
    pub cache_bytes: u64,
    /// Bytes of DRAM that hold records: memtables that a log makes durable, records on their way to the
    /// log, and files of levels that lie in memory.
    pub volatile_bytes: u64,
    /// The files below the pool, where the engine has levels there; `None` of a single partition.
    pub levels: Option<LevelStats>,
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
}

impl Stats {
    /// Bytes of memory that the store takes: the whole pool, with or without records, and the store's DRAM
    /// beside it.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.pool_bytes + self.index_bytes + self.cache_bytes + self.volatile_bytes
    }
}

/// The files below the pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LevelStats {
    /// Bytes of tables.
    pub bytes: u64,
    /// Bytes of files of large values.
    pub value_bytes: u64,
    /// Sorted runs of level zero: a read may have to look into each.
    pub level_zero_runs: u64,
    /// Bytes of the write-ahead log; `None` where the pool keeps the records committed last.
    pub log_bytes: Option<u64>,
    /// Tables that have a descriptor: others are opened when they are read.
    pub tables_open: u64,
    /// Files opened to be read, again or for the first time.
    pub opens: u64,
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

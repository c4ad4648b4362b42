//! The sizes that a store works with: the options, where they are set, and defaults that fit each other.

use halite_codec::Compression;
use halite_contract::EngineOptions;

use crate::Error;
use crate::options::{BetreeOptions, Buffers, Migration};
use crate::placement::Placement;
use crate::run::ENTRY_BYTES_MAX;

/// The sizes of an open store.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) memtable_bytes: u64,
    pub(crate) checkpoint_bytes: u64,
    pub(crate) tree: TreeSettings,
    /// Automatic migration, if it is on.
    pub(crate) migration: Option<Migration>,
    /// Whether there are threads for work that is not urgent.
    pub(crate) on_threads: bool,
}

/// The sizes of trees.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TreeSettings {
    /// Bytes that a buffer above a node collects.
    pub(crate) buffer_bytes: u64,
    /// Bytes that a buffer above a leaf collects.
    pub(crate) leaf_buffer_bytes: u64,
    pub(crate) leaf_bytes: u64,
    pub(crate) part_bytes: usize,
    pub(crate) fanout: usize,
    pub(crate) runs_max: usize,
    /// Whether buffers are appended to in place, where they can be.
    pub(crate) appends: bool,
    /// Bytes of a value from which on it lies in extents of its own.
    pub(crate) large_value_bytes: u64,
    pub(crate) compression: Compression,
    pub(crate) placement: Placement,
    /// The part of a class, in percent, above which new leaves and values go to a slower one, if migration is on.
    pub(crate) spill_percent: Option<u8>,
}

/// Refuses options that contradict themselves.
pub(crate) fn check(own: &BetreeOptions) -> Result<(), Error> {
    let Some(migration) = own.migration else { return Ok(()) };
    let option = |option, value, range| Err(Error::MigrationOption { option, value, range });
    if !(1..=100).contains(&migration.threshold_percent) {
        return option("threshold_percent", migration.threshold_percent.into(), "1 to 100");
    }
    if migration.period.is_zero() {
        return option("period", 0, "any time but none");
    }
    Ok(())
}

impl Settings {
    /// Keeps the log within so many bytes.
    pub(crate) fn limit_log(&mut self, bytes: u64) {
        self.checkpoint_bytes = self.checkpoint_bytes.min(bytes / 2);
        self.memtable_bytes = self.memtable_bytes.min(bytes / 4);
    }

    /// The settings of a store. Defaults depend on whether its fastest class can be appended to in place, in persistent
    /// memory: there, many small runs cost no I/O to read, and none of them is written with others.
    pub(crate) fn of(options: &EngineOptions, can_append: bool) -> Self {
        let own = BetreeOptions::of(options);
        let memtable_bytes = own.memtable_bytes.unwrap_or(32 << 20).clamp(64, 256 << 20);
        let large_value_bytes = own.large_value_bytes.unwrap_or(64 << 10);
        let large_value_bytes = large_value_bytes.clamp(16, (ENTRY_BYTES_MAX / 2) as u64);
        let appends = can_append && own.buffers == Buffers::InPlace;
        let leaf_bytes = own.leaf_bytes.unwrap_or(2 << 20).max(64);
        let (buffer_bytes, runs_max, leaf_part) =
            if appends { (1 << 20, 32, 2) } else { (8 << 20, 8, 1) };
        Self {
            memtable_bytes,
            checkpoint_bytes: own.checkpoint_bytes.unwrap_or(4 * memtable_bytes),
            tree: TreeSettings {
                buffer_bytes: own.buffer_bytes.unwrap_or(buffer_bytes).max(64),
                leaf_buffer_bytes: leaf_part * leaf_bytes,
                leaf_bytes,
                part_bytes: own.part_bytes.unwrap_or(4 << 10).clamp(64, 1 << 18) as usize,
                fanout: own.fanout.unwrap_or(32).clamp(2, 256),
                runs_max: own.runs_max.unwrap_or(runs_max).clamp(1, 64),
                appends,
                large_value_bytes,
                compression: own.compression,
                placement: own.placement,
                spill_percent: own.migration.map(|migration| migration.threshold_percent),
            },
            migration: own.migration,
            // The crash lab's medium notes events in their order, so there may be only one thread.
            on_threads: options.pool_options.medium.is_none(),
        }
    }
}

//! How large the parts of a store are: by its options, or in proportion to its pool and its device.

use halite_alloc::{SEGMENT, Segments};
use halite_contract::EngineOptions;
use halite_pmem::Domain;
use halite_sst::TableOptions;
use halite_wal::Shape;

use crate::layout::{self, Layout};
use crate::levels::LevelsOptions;
use crate::limits::{BATCH_BYTES_MAX, Limits};
use crate::options::LsmOptions;

/// The length that a manifest may have however small tables are: one that is shorter would be followed by another with
/// every edit.
const MANIFEST_BYTES_MIN: u64 = 512;

/// The least that a table has, unless it has all that there is: a table is a file.
const TABLE_BYTES_MIN: u64 = 4 << 10;

/// How the levels are kept, in proportion to their tables.
pub(crate) fn levels_options(options: &EngineOptions, device: Option<u64>) -> LevelsOptions {
    let own = LsmOptions::of(options);
    let default = LevelsOptions::default();
    let default = LevelsOptions {
        table: TableOptions { compression: own.compression, ..default.table },
        ..default
    };
    // On a small device, one table is not to be a large part of it.
    let of_device =
        device.map(|bytes| (bytes / 64).max(1 << 20)).filter(|bytes| *bytes < default.table_bytes);
    let Some(table_bytes) = own.table_bytes.or(of_device) else { return default };
    let table_bytes = table_bytes.max(TABLE_BYTES_MIN);
    let scaled = |bytes: u64| (bytes / (default.table_bytes / table_bytes).max(1)).max(1);
    LevelsOptions {
        table_bytes,
        base_bytes: scaled(default.base_bytes),
        manifest_bytes_max: scaled(default.manifest_bytes_max).max(MANIFEST_BYTES_MIN),
        ..default
    }
}

/// [`levels_options`] of an open store, whose levels share a device with its memtables.
pub(super) fn levels_options_on(
    options: &EngineOptions,
    home: &Segments,
    layout: Layout,
    device: Option<u64>,
) -> LevelsOptions {
    let own = LsmOptions::of(options);
    let mut found = LevelsOptions {
        cache_bytes: own.cache_bytes - rows_bytes(options, home, layout),
        flushes: layout::noted(home, layout::FLUSHES),
        ..levels_options(options, device)
    };
    if let Some(device) = device {
        let memtable = memtable_bytes(options, home, layout, Some(device));
        let memtables = memtable * layout.trees as u64;
        let log = 2 * log_shape(memtable, layout.trees as u64, Some(device)).file_bytes;
        let tables = 2 * found.table_bytes;
        // The first and the last file of the log may have batches of memtables that went to the levels.
        found.ballast_bytes_min = if layout.logged { memtables + log } else { BALLAST_MIN };
        let wanted = found.ballast_bytes_min + tables;
        found.ballast_bytes_max = wanted.min(BALLAST_MAX).min(device / 8);
    }
    if let Some(runs) = own.level_zero_runs {
        // Writers are slowed at as many times as many as without the option.
        let ratio = found.runs_max / found.runs_min;
        found.runs_min = runs.max(1);
        found.runs_max = found.runs_min.saturating_mul(ratio);
    }
    found
}

/// Whether memtables lie in memory that persists.
pub(super) fn is_memory(home: &Segments, layout: Layout) -> bool {
    !layout.logged && home.pool().domain() != Domain::PageCache
}

/// Bytes of DRAM for rows that are read from the levels, where no free zones of persistent memory hold them: half of the
/// cache, unless that is too little for some zones. A short row takes a thirtieth of its block.
pub(super) fn rows_bytes(options: &EngineOptions, home: &Segments, layout: Layout) -> u64 {
    const ROWS_BYTES_MIN: u64 = 8 * SEGMENT;
    let bytes = LsmOptions::of(options).cache_bytes / 2 / SEGMENT * SEGMENT;
    if is_memory(home, layout) || bytes < ROWS_BYTES_MIN { 0 } else { bytes }
}

/// Bytes of a value from which on it is written to a file of its own: where that costs less than to write the value
/// again with each compaction.
const LARGE_VALUE_BYTES: u64 = 1 << 20;

/// Bytes that are set aside for compactions of removed data, at the least, and at the most.
const BALLAST_MIN: u64 = 1 << 20;
const BALLAST_MAX: u64 = 256 << 20;

/// Bytes of a pool that may have to go to the levels: their device is to have room for it as many times again.
fn within_reach(pool: u64, device: Option<u64>) -> u64 {
    device.map_or(pool, |device| pool.min(device / 2))
}

/// Bytes of zones at which a memtable is full.
fn memtable_bytes(
    options: &EngineOptions,
    segments: &Segments,
    layout: Layout,
    device: Option<u64>,
) -> u64 {
    let own = LsmOptions::of(options);
    const MEMTABLE_BYTES: u64 = 64 << 20;
    const MEMTABLE_MIN: u64 = 64 << 10;
    let trees = layout.trees as u64;
    let default = MEMTABLE_BYTES.min(within_reach(segments.pool().len_max(), device) / 8 / trees);
    // With a log, all that there are may have to be written without another's space.
    let of_device = device.filter(|_| layout.logged).map_or(u64::MAX, |device| device / 32 / trees);
    let memtable =
        own.memtable_bytes.unwrap_or(default.max(SEGMENT).min(of_device.max(MEMTABLE_MIN)));
    memtable.min(BATCH_BYTES_MAX)
}

/// The lengths of the log's files: a flush of a memtable lets several serve again.
fn log_shape(memtable: u64, trees: u64, device: Option<u64>) -> Shape {
    const FILE_BYTES_MIN: u64 = 4 << 10;
    const FILE_BYTES_MAX: u64 = 4 << 20;
    // A file is needed as long as one batch in it is: on a small device that is to be little.
    let of_device = |part: u64| device.map_or(u64::MAX, |device| device / part);
    Shape {
        file_bytes: (memtable / 4).min(of_device(256)).clamp(FILE_BYTES_MIN, FILE_BYTES_MAX),
        kept_bytes: (memtable * trees).min(of_device(64)),
    }
}

/// The limits of a store.
pub(super) fn limits(
    options: &EngineOptions,
    segments: &Segments,
    layout: Layout,
    device: Option<u64>,
) -> Limits {
    let own = LsmOptions::of(options);
    let pool = segments.pool().len_max();
    let trees = layout.trees as u64;
    let memtable = memtable_bytes(options, segments, layout, device);
    // A memtable takes a zone, however little of that it fills.
    let memtables = memtable.max(SEGMENT) * trees * 2;
    let reach = within_reach(pool, device);
    let global = own.global_index_bytes.unwrap_or_else(|| reach.saturating_sub(memtables) * 3 / 5);
    Limits {
        memtable_bytes: memtable,
        global_index_bytes: global.max(SEGMENT),
        commit_points: own.experiments.commit_points,
        large_value_bytes: own.large_value_bytes.unwrap_or(LARGE_VALUE_BYTES),
        slow_below: pool / 16,
        spare: (memtable.max(SEGMENT) * (trees + 1)).min(pool / 4),
        reserve: (pool / 64).max(2 * SEGMENT).min(pool / 8),
        removals: (2 * trees * SEGMENT).min(pool / 4),
        log: log_shape(memtable, trees, device),
    }
}

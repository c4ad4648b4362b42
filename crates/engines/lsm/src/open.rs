//! Opening and creating a store.
//!
//! A walk: the pool that says what the store is (`create`, [`Layout`]) → the levels in their `folder` → the `memtables`
//! that the pool still has, and their records (`crate::recovery`) → `replay` of the log, where there is one → the files
//! of large values. `sizes` has the limits that options and media give.

mod folder;
mod memtables;
mod replay;
mod sizes;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use halite_alloc::{SEGMENT, Segments};
use halite_cache::ZoneCache;
use halite_contract::{EngineOptions, Error, Partitioning, Recovery, Result};
use halite_disk::Disk;
use halite_pmem::{Domain, Pool, PoolOptions};
use halite_sim::locks::Mutex;

use crate::Lsm;
use crate::batching::Batching;
use crate::concurrency_restriction::ConcurrencyRestriction;
use crate::failure::{from_cache, from_levels, in_folder};
use crate::global_index::GlobalIndex;
use crate::group_commit::{GroupCommit, Points};
use crate::layout::{self, Layout};
use crate::levels::{Levels, LevelsOptions, Report};
use crate::limits::RING_CAPACITY;
use crate::long_scans::LongScans;
use crate::memory::Memory;
use crate::memtable::Memtable;
use crate::options::{Durable, LsmOptions};
use crate::pace::Pace;
use crate::recovery::RecoveredTree;
use crate::refusals::Refusals;
use crate::ring::Ring;
use crate::rows::{self, Rows};
use crate::signals::Signals;
use crate::snapshots::Snapshots;
use crate::store::Store;
use crate::tree::{Tree, View};
use crate::turns::Turns;

pub(crate) use folder::disk;
use memtables::Memtables;
pub(crate) use sizes::levels_options;

/// Opens the store in the pool that `options` name, or creates it.
pub(crate) fn open(options: &EngineOptions) -> Result<Arc<Store>> {
    let own = LsmOptions::of(options);
    let started = Instant::now();
    let exists = Pool::exists(&options.pool, &options.pool_options);
    let (home, layout) = open_home(options, exists)?;
    // The crash lab's medium notes events in their order, so there may be only one thread.
    let on_threads = options.pool_options.medium.is_none();
    let threads =
        if on_threads { std::thread::available_parallelism().map_or(1, usize::from) } else { 1 };
    let disk = disk(options)?;
    let (visible, snapshots) = (Arc::new(AtomicU64::new(0)), Arc::new(Snapshots::default()));
    let kept = {
        let (visible, snapshots) = (Arc::clone(&visible), Arc::clone(&snapshots));
        Arc::new(move || snapshots.kept(&visible).sequences().to_vec())
    };
    let levels_options = LevelsOptions {
        background: on_threads,
        threads,
        ..sizes::levels_options_on(options, &home, layout, disk.capacity())
    };
    let (levels, found_there) = open_levels(options, &home, &disk, levels_options, kept)?;

    let segments = if layout.logged { volatile_pool(options)? } else { Arc::clone(&home) };
    let mut memtables = Memtables::find(&segments, &home, layout, &levels)?;
    let recovered = memtables.recover(&segments, &home, layout, &levels, threads)?;
    let mut report = recovered.report;
    report.segments_reclaimed = memtables.reclaimed;
    report.partitions_ready = layout.trees;
    report.clean = !exists || layout::is_clean(&home);
    let damaged = found_there.damaged.into_iter().map(from_levels);
    report.damage = damaged.filter_map(|error| error.damage()).collect();
    report.foreign_files = found_there.foreign.iter().map(|file| in_folder(file)).collect();
    if layout::was_open(&home) {
        layout::set_open(&home)?;
    }
    layout::chain_from(&home, memtables.next_id)?;
    let Memtables { objects, device, commit_id, next_id, .. } = memtables;
    let pools = (Arc::clone(&segments), Arc::clone(&home));
    let memory = Memory::new(pools, objects, device, next_id);
    let trees = trees_of(recovered.trees, &memory)?;
    visible.store(recovered.last, Ordering::Release);

    let limits = sizes::limits(options, &segments, layout, disk.capacity());
    let is_memory = sizes::is_memory(&home, layout);
    // With a log, no zone persists; and in a page cache, each sync would write the zones of rows to the device.
    let rows = match is_memory {
        true => Some(cache_rows(&segments, layout, &levels)?),
        // The store is the same without them, if there is no memory.
        false => cache_rows_in_dram(options, &home, layout).ok().flatten(),
    };
    let health = Arc::clone(levels.health());
    let (order, is_logged) = (limits.commit_points, layout.logged);
    let points = Points { memory: segments, commit_id, order, is_logged };
    let mut store = Store {
        memory,
        trees,
        ring: Ring::new(RING_CAPACITY, own.experiments.wait),
        restriction: is_memory.then(|| ConcurrencyRestriction::new(own.experiments.wait)),
        batching: Batching::new(own.batches_max, own.experiments.batch_linger)
            .filter(|_| on_threads),
        commits: GroupCommit::new(points, visible, Arc::clone(&health)),
        snapshots,
        limits,
        health,
        levels,
        rows,
        wal: None,
        is_replaying: AtomicBool::new(false),
        on_threads,
        signals: Signals::default(),
        turns: Turns::default(),
        pace: Pace::new(),
        refusals: Refusals::new(on_threads),
        spared: Mutex::default(),
        scans: LongScans::default(),
        recovery: Recovery::default(),
    };
    let has_values = layout::has_values(&home);
    if has_values && !layout.logged {
        store.find_values()?;
    }
    if layout.logged {
        let store_id = u128::from_le_bytes(home.uuid());
        report.records_replayed = replay::replay(&mut store, &disk, store_id)?;
    }
    if has_values {
        let sets_aside = layout::are_values_aside(&home);
        let foreign = store.levels.keep_values(sets_aside).map_err(from_levels)?;
        report.foreign_files.extend(foreign.iter().map(|file| in_folder(file)));
        layout::set_values_aside(&home, false)?;
    }
    // From now on, the store's object and its memtables are known to be there.
    layout::set_open(&home)?;
    report.duration = started.elapsed();
    store.recovery = report;
    Ok(Arc::new(store))
}

/// The pool that says what the store is, opened or created, and what it says.
fn open_home(options: &EngineOptions, exists: bool) -> Result<(Arc<Segments>, Layout)> {
    if let Some(partitioning) = &options.partitioning {
        partitioning.check(crate::TREES_MAX)?;
    }
    let home = if exists || !options.create {
        Segments::open(&options.pool, &options.pool_options)?
    } else {
        create(options)?
    };
    layout::check(&home, options)?;
    let layout = Layout::read(&home)?;
    let is_other = |wanted: &Partitioning| *wanted != Partitioning::Hash(layout.trees);
    if options.partitioning.as_ref().is_some_and(is_other) {
        return Err(Error::FixedPartitions { engine: Lsm::NAME, is: layout.trees });
    }
    Ok((home, layout))
}

/// The levels in their folder, which the pool beside it notes.
fn open_levels(
    options: &EngineOptions,
    home: &Segments,
    disk: &Disk,
    levels_options: LevelsOptions,
    kept: Arc<dyn Fn() -> Vec<u64> + Send + Sync>,
) -> Result<(Levels, Report)> {
    if let Some(tables) = LsmOptions::of(options).tables_open_max {
        disk.keep_open(tables);
    }
    folder::check_levels(home, disk)?;
    let store_id = u128::from_le_bytes(home.uuid());
    let opened = Levels::open(disk, store_id, levels_options, kept).map_err(from_levels)?;
    folder::link(options)?;
    if !layout::has_levels(home) {
        layout::note_levels(home)?;
    }
    Ok(opened)
}

/// The trees of recovered memtables; one without an active memtable gets a new one.
fn trees_of(recovered: Vec<RecoveredTree>, memory: &Memory) -> Result<Vec<Tree>> {
    let tree_of = |(number, tree): (usize, RecoveredTree)| {
        let active = match tree.active {
            Some(active) => active,
            None => Arc::new(Memtable::new(Arc::new(memory.create_zones(number, None)?), 0)),
        };
        let global = tree.global.unwrap_or_else(|| Arc::new(GlobalIndex::new()));
        let immutables = Vec::new();
        Ok(Tree::new(View { active, immutables, global, frozen: None, flushed: None }))
    };
    recovered.into_iter().enumerate().map(tree_of).collect()
}

/// The cache of rows that were read from the levels, in zones that are free.
fn cache_rows(segments: &Arc<Segments>, layout: Layout, levels: &Levels) -> Result<Rows> {
    let spare = (layout.trees as u64 + 2) * SEGMENT;
    let device = layout::cache_device(segments);
    let cache = ZoneCache::new(&device, segments.pool().len(), spare).map_err(from_cache)?;
    let rows = Rows::new(cache, rows::Place::FreeZones, layout.trees);
    levels.set_second_cache(rows.second_tier());
    Ok(rows)
}

/// The cache of rows that were read from the levels, in DRAM, if options leave it enough.
fn cache_rows_in_dram(
    options: &EngineOptions,
    home: &Segments,
    layout: Layout,
) -> Result<Option<Rows>> {
    let bytes = sizes::rows_bytes(options, home, layout);
    if bytes == 0 {
        return Ok(None);
    }
    let mut pool_options = PoolOptions::default();
    pool_options.in_memory = true;
    (pool_options.size_initial, pool_options.size_max) = (bytes, bytes);
    let segments = Segments::create(&options.pool, &pool_options)?;
    let cache = ZoneCache::of_rows(&layout::cache_device(&segments), bytes).map_err(from_cache)?;
    Ok(Some(Rows::new(cache, rows::Place::Dram, layout.trees)))
}

/// DRAM that memtables may take, where there is a log: 32 of them as they are by default, and a value of any length.
const VOLATILE_BYTES_MAX: u64 = 2 << 30;

/// Creates a pool in memory for memtables whose records are in the log.
fn volatile_pool(options: &EngineOptions) -> Result<Arc<Segments>> {
    let mut pool_options = PoolOptions::default();
    pool_options.in_memory = true;
    pool_options.failures = options.pool_options.failures.clone();
    pool_options.size_max = options.pool_options.size_max.min(VOLATILE_BYTES_MAX);
    Ok(Segments::create(&options.pool, &pool_options)?)
}

/// Creates an empty store.
fn create(options: &EngineOptions) -> Result<Arc<Segments>> {
    let own = LsmOptions::of(options);
    let partitioning = options.partitioning.clone().unwrap_or(Partitioning::Hash(1));
    if matches!(partitioning, Partitioning::Ranges(_)) {
        return Err(Error::FixedPartitions { engine: Lsm::NAME, is: partitioning.count() });
    }
    let segments = Segments::create(&options.pool, &options.pool_options)?;
    let logged = match own.durable {
        Durable::Detect => segments.pool().domain() == Domain::PageCache,
        Durable::Pool => false,
        Durable::Log => true,
    };
    Layout { trees: partitioning.count(), logged }.write(&segments)?;
    layout::claim(&segments)?;
    segments.install()?;
    Ok(segments)
}

//! Opening and creating a store.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use halite_alloc::{ObjectPool, SEGMENT, Segments};
use halite_cache::ZoneCache;
use halite_contract::{
    Durability, EngineOptions, Error, KEY_LEN_MAX, Partitioning, Recovery, Result,
};
use halite_disk::Disk;
use halite_pmem::{Domain, Pool, PoolOptions, Words};
use halite_sim::locks::Mutex;
use halite_sst::{SEQUENCE_MAX, TableOptions, ValueRef};
use halite_wal::{Found, Logged, Wal};

use crate::Lsm;
use crate::address::ZONES_MAX;
use crate::batching::Batching;
use crate::crowd::Crowd;
use crate::encoded::Encoded;
use crate::failure::{from_cache, from_levels, from_log, from_replay, in_folder};
use crate::fragment;
use crate::global_index::GlobalIndex;
use crate::layout::{self, COMMIT_ID, Layout, flushed_word};
use crate::levels::{self, CURRENT, Levels, LevelsOptions, is_of_levels};
use crate::limits::{BATCH_BYTES_MAX, Limits, RING_CAPACITY};
use crate::long_scans::LongScans;
use crate::memtable::Memtable;
use crate::options::{Durable, LsmOptions};
use crate::pace::Pace;
use crate::record::Kind;
use crate::recovery::{Recovered, recover};
use crate::refusals::Refusals;
use crate::ring::Ring;
use crate::rows::Rows;
use crate::signals::Signals;
use crate::snapshots::Snapshots;
use crate::store::Store;
use crate::tree::{Tree, View};
use crate::unsynced::Unsynced;
use crate::wal;
use crate::zones::{Identity, OBJECT_LEN, Zones, slot_of, write_object};

/// The tree that the store's own object names.
const NO_TREE: usize = u32::MAX as usize;

/// Opens the store in the pool that `options` name, or creates it.
pub(crate) fn open(options: &EngineOptions) -> Result<Arc<Store>> {
    let own = LsmOptions::of(options);
    let started = Instant::now();
    if let Some(partitioning) = &options.partitioning {
        partitioning.check(crate::TREES_MAX)?;
    }
    let exists = Pool::exists(&options.pool, &options.pool_options);
    let home = if exists || !options.create {
        Segments::open(&options.pool, &options.pool_options)?
    } else {
        create(options)?
    };
    layout::check(&home, options)?;
    let layout = Layout::read(&home)?;
    if options
        .partitioning
        .as_ref()
        .is_some_and(|wanted| *wanted != Partitioning::Hash(layout.trees))
    {
        return Err(Error::FixedPartitions { engine: Lsm::NAME, is: layout.trees });
    }
    // The crash lab's medium notes events in their order, so there may be only one thread.
    let on_threads = options.pool_options.medium.is_none();
    let threads =
        if on_threads { std::thread::available_parallelism().map_or(1, usize::from) } else { 1 };
    let disk = disk(options)?;
    if let Some(tables) = own.tables_open_max {
        disk.keep_open(tables);
    }
    let store_id = u128::from_le_bytes(home.uuid());
    let (visible, snapshots) = (Arc::new(AtomicU64::new(0)), Arc::new(Snapshots::default()));
    let kept = {
        let (visible, snapshots) = (Arc::clone(&visible), Arc::clone(&snapshots));
        Arc::new(move || snapshots.kept(&visible).sequences().to_vec())
    };
    let mut levels_options = LevelsOptions {
        cache_bytes: own.cache_bytes,
        flushes: layout::noted(&home, layout::FLUSHES),
        background: on_threads,
        threads,
        ..levels_options(options, disk.capacity())
    };
    if let Some(device) = disk.capacity() {
        let memtables = memtable_bytes(options, &home, layout, Some(device)) * layout.trees as u64;
        let tables = 2 * levels_options.table_bytes;
        levels_options.ballast_bytes_min = if layout.logged { memtables } else { BALLAST_MIN };
        let wanted = levels_options.ballast_bytes_min + tables;
        levels_options.ballast_bytes_max = wanted.min(BALLAST_MAX).min(device / 8);
    }
    if let Some(runs) = own.level_zero_runs {
        // Writers are slowed at as many times as many as without the option.
        let ratio = levels_options.runs_max / levels_options.runs_min;
        levels_options.runs_min = runs.max(1);
        levels_options.runs_max = levels_options.runs_min.saturating_mul(ratio);
    }
    check_levels(&home, &disk)?;
    let (levels, found_there) =
        Levels::open(&disk, store_id, levels_options, kept).map_err(from_levels)?;
    link(options)?;
    if !layout::has_levels(&home) {
        layout::note_levels(&home)?;
    }

    let segments = if layout.logged { volatile_pool(options)? } else { Arc::clone(&home) };
    let salt = segments.salt();
    let device = layout::zones_device(&segments);
    let objects = Arc::new(ObjectPool::open(&layout::objects_device(&segments), OBJECT_LEN)?);
    let (mut commit_id, mut found) = (None, Vec::new());
    let mut identities = BTreeSet::new();
    for index in objects.committed()? {
        let fresh = objects.claim(index)?;
        let identity = Identity::decode(fresh.read(0, 16), salt).ok_or_else(|| Error::Damaged {
            what: format!("the object of memtable {index}"),
            why: "it does not have its check".into(),
        })?;
        let words = fresh.into_words();
        if !identities.insert((identity.tree, identity.id)) {
            return Err(Error::Damaged {
                what: format!("the object of memtable {index}"),
                why: "it is another one's".into(),
            });
        }
        if identity.tree == NO_TREE {
            commit_id = Some(words);
        } else if levels.memtables(identity.tree as u32).is_some_and(|last| identity.id <= last) {
            // The crash came after the levels took it and before the pool got it back.
            drop(words);
            objects.release(index)?;
        } else {
            let slot = slot_of(index)?;
            found.push(Arc::new(Zones::new(&objects, &device, slot, salt, &identity, words)));
        }
    }
    let commit_id = match commit_id {
        Some(words) => words,
        None if !found.is_empty() || !layout.logged && layout::was_open(&home) => {
            return Err(Error::Damaged {
                what: "the object of the store".into(),
                why: "it is not there, though the store has been open".into(),
            });
        }
        None => write_object(objects.get()?, salt, &Identity { id: 0, tree: NO_TREE }, None)?,
    };
    if !layout.logged && layout::was_open(&home) {
        check_chains(layout, &home, &found, &levels)?;
    }
    let slots: BTreeSet<u32> = found.iter().map(|zones| zones.slot).collect();
    let reclaimed = device.retain(|logical| slots.contains(&(logical / ZONES_MAX)))?;
    let in_levels = (0..layout.trees as u32).filter_map(|tree| levels.memtables(tree)).max();
    let next_id = found.iter().map(|zones| zones.id).max().max(in_levels).unwrap_or(0) + 1;
    // With a log, the sequence that was committed last is found there.
    let in_levels = (0..layout.trees as u32).filter_map(|tree| levels.sequence_max(tree)).max();
    let floor = in_levels.filter(|_| !layout.logged).unwrap_or(0);
    let closed_with = layout::closed_with(&home).filter(|_| !layout.logged);
    let commits = (&commit_id, floor, closed_with);
    // Behind a repair, memtables may be back that the levels have.
    let is_chained = found.iter().all(|zones| layout::is_chained(&home, zones.id));
    let recovered =
        recover_memory(&segments, layout, &device, found, commits, is_chained, threads)?;

    let mut report = recovered.report;
    report.segments_reclaimed = reclaimed;
    report.partitions_ready = layout.trees;
    report.clean = !exists || layout::is_clean(&home);
    let damaged = found_there.damaged.into_iter().map(from_levels);
    report.damage = damaged.filter_map(|error| error.damage()).collect();
    report.foreign_files = found_there.foreign.iter().map(|file| in_folder(file)).collect();
    if layout::was_open(&home) {
        layout::set_open(&home)?;
    }
    layout::chain_from(&home, next_id)?;
    let next_id = AtomicU64::new(next_id);
    let mut trees = Vec::new();
    for (number, tree) in recovered.trees.into_iter().enumerate() {
        let active = match tree.active {
            Some(active) => active,
            None => {
                let id = next_id.fetch_add(1, Ordering::Relaxed);
                let identity = Identity { id, tree: number };
                let zones = Zones::create(&objects, &device, salt, &identity, None)?;
                Arc::new(Memtable::new(Arc::new(zones), 0))
            }
        };
        let global = tree.global.unwrap_or_else(|| Arc::new(GlobalIndex::new()));
        let immutables = Vec::new();
        trees.push(Tree::new(View { active, immutables, global, frozen: None, flushed: None }));
    }
    visible.store(recovered.last, Ordering::Release);
    let limits = limits(options, &segments, layout, disk.capacity());
    // In a page cache, each sync would write them to the device.
    let is_memory = !layout.logged && segments.pool().domain() != Domain::PageCache;
    let rows = if is_memory {
        let spare = (layout.trees as u64 + 2) * SEGMENT;
        let device = layout::cache_device(&segments);
        let cache = ZoneCache::new(&device, segments.pool().len(), spare).map_err(from_cache)?;
        Some(Rows::new(cache, layout.trees))
    } else {
        None
    };
    if let Some(rows) = &rows {
        levels.set_second_cache(rows.second_tier());
    }
    let mut store = Store {
        objects,
        device,
        trees,
        ring: Ring::new(RING_CAPACITY, own.wait),
        crowd: is_memory.then(|| Crowd::new(own.wait)),
        batching: Batching::new(own.batches_max, own.batch_linger).filter(|_| on_threads),
        unsynced: Mutex::new(Unsynced::default()),
        visible,
        next_sequence: AtomicU64::new(recovered.last + 1),
        next_id,
        snapshots,
        commit_id,
        limits,
        health: Arc::clone(levels.health()),
        user_bytes: AtomicU64::new(0),
        levels,
        rows,
        wal: None,
        is_replaying: AtomicBool::new(false),
        on_threads,
        signals: Signals::default(),
        merging: Mutex::new(()),
        emptying: Mutex::new(()),
        flushing: Mutex::new(()),
        pace: Pace::new(),
        refusals: Refusals::new(on_threads),
        spared: Mutex::default(),
        scans: LongScans::default(),
        recovery: Recovery::default(),
        segments,
        home,
    };
    let has_values = layout::has_values(&store.home);
    if has_values && !layout.logged {
        store.find_values()?;
    }
    if layout.logged {
        report.records_replayed = replay(&mut store, &disk, store_id)?;
    }
    if has_values {
        let sets_aside = layout::are_values_aside(&store.home);
        let foreign = store.levels.keep_values(sets_aside).map_err(from_levels)?;
        report.foreign_files.extend(foreign.iter().map(|file| in_folder(file)));
        layout::set_values_aside(&store.home, false)?;
    }
    // From now on, the store's object and its memtables are known to be there.
    layout::set_open(&store.home)?;
    report.duration = started.elapsed();
    store.recovery = report;
    Ok(Arc::new(store))
}

/// Checks that of each tree the memtables are there, from the newest to those that are in the levels.
fn check_chains(
    layout: Layout,
    home: &Segments,
    found: &[Arc<Zones>],
    levels: &Levels,
) -> Result<()> {
    for tree in 0..layout.trees {
        let of_tree = || found.iter().filter(|zones| zones.tree == tree);
        let damaged =
            |why: String| Error::Damaged { what: format!("the memtables of tree {tree}"), why };
        if of_tree().next().is_none() {
            return Err(damaged("none is there, though the store has been open".into()));
        }
        for zones in of_tree().filter(|zones| layout::is_chained(home, zones.id)) {
            let Some(before) = zones.before() else { continue };
            let is_in_levels = levels.memtables(tree as u32).is_some_and(|last| before <= last);
            if !is_in_levels && of_tree().all(|zones| zones.id != before) {
                return Err(damaged(format!("{before} is missing, and {} is there", zones.id)));
            }
        }
    }
    Ok(())
}

/// The content of the memtables that were found.
fn recover_memory(
    segments: &Arc<Segments>,
    layout: Layout,
    device: &halite_alloc::Device,
    found: Vec<Arc<Zones>>,
    (commit_id, floor, closed_with): (&Words, u64, Option<u64>),
    is_chained: bool,
    threads: usize,
) -> Result<Recovered> {
    let logical: BTreeSet<u32> = device.logical_segments().into_iter().collect();
    let committed = commit_id.load(COMMIT_ID);
    if !(floor..=SEQUENCE_MAX).contains(&committed) {
        return Err(Error::Damaged {
            what: "the object of the store".into(),
            why: format!("all up to {committed} is committed, and {floor} is in the levels"),
        });
    }
    if let Some(closed_with) = closed_with.filter(|&closed_with| closed_with != committed) {
        return Err(Error::Damaged {
            what: "the object of the store".into(),
            why: format!(
                "all up to {committed} is committed, and the store was closed with {closed_with}"
            ),
        });
    }
    let has_zone = |zone: u32| logical.contains(&zone);
    let recovered =
        recover(segments.pool(), layout.trees, found, committed, is_chained, has_zone, threads)?;
    if recovered.last != committed {
        commit_id.store(COMMIT_ID, recovered.last);
    }
    // The process before may have failed to sync it: the levels are not to be ahead of it.
    segments.pool().fence_found(&[commit_id.flush(COMMIT_ID..COMMIT_ID + 8)])?;
    Ok(recovered)
}

/// The longest key, or bound of a range, behind its key space.
const BOUND_LEN_MAX: usize = 4 + KEY_LEN_MAX + 1;

/// Puts the records of the log that are not in the levels into memtables. Returns how many they were.
fn replay(store: &mut Store, disk: &Disk, store_id: u128) -> Result<u64> {
    let flushed: Vec<u64> = (0..store.trees.len())
        .map(|tree| store.levels.word(&flushed_word(tree)).unwrap_or(0))
        .collect();
    let mut replayed = 0;
    store.is_replaying.store(true, Ordering::Relaxed);
    // Of levels that were repaired without a manifest, only the tables tell their last sequence.
    let flushed_last = flushed.iter().copied().max().unwrap_or(0);
    if flushed_last > SEQUENCE_MAX {
        return Err(Error::Damaged {
            what: in_folder(CURRENT),
            why: format!("the sequence {flushed_last} is none that there may be"),
        });
    }
    let trees = 0..store.trees.len() as u32;
    let in_tables = trees.filter_map(|tree| store.levels.sequence_max(tree)).max();
    let mut last = flushed_last.max(in_tables.unwrap_or(0));
    store.next_sequence.store(last + 1, Ordering::Relaxed);
    store.visible.store(last, Ordering::Release);
    if layout::has_values(&store.home) {
        store.find_logged_values(disk, store_id, &flushed)?;
    }
    // Batches that were taken once are taken again.
    let mut encoded = Encoded::removal();
    let (identity, known) = (wal::of_store(store_id), layout::known_of_log(&store.home));
    let found = Found::read(disk, identity, known, |batch| {
        encoded.clear();
        last = last.max(batch.sequence + u64::from(batch.records) - 1);
        decode(batch, &mut encoded, &flushed)?;
        if encoded.fragments().is_empty() {
            return Ok(());
        }
        replayed += u64::from(batch.records);
        store.next_sequence.store(batch.sequence, Ordering::Relaxed);
        store.commit(&mut encoded, Durability::Deferred, None).map(drop)
    })
    .map_err(from_replay)?;
    if found.next() > 0 && found.next() <= last {
        // A repair cut the log, and the levels have records from behind the cut, of one tree or of all.
        layout::raise(&store.home, layout::LOG_RESUMED, last + 1)?;
    }
    let wal = Wal::open(disk, identity, found).map_err(from_log)?;
    store.next_sequence.store(last + 1, Ordering::Relaxed);
    store.visible.store(last, Ordering::Release);
    store.is_replaying.store(false, Ordering::Relaxed);
    store.wal = Some(wal);
    store.refill_log();
    store.sync()?;
    Ok(replayed)
}

/// Encodes the records of a logged batch again, but for those of trees whose levels have the batch, as `flushed`
/// says. In memory they would hide newer ones there.
fn decode(batch: &Logged<'_>, to: &mut Encoded, flushed: &[u64]) -> Result<()> {
    let end = batch.sequence + u64::from(batch.records) - 1;
    let damaged = |why: &str| Error::Damaged {
        what: format!("batch {} of the log", batch.sequence),
        why: why.into(),
    };
    // The pieces of a tree's next value; those of several trees may alternate.
    let mut values = vec![Vec::new(); flushed.len()];
    for (tree, records) in wal::fragments(batch) {
        let Some(&flushed) = flushed.get(tree) else {
            return Err(damaged("it is of a tree that there is not"));
        };
        if end <= flushed {
            to.skip(fragment::records(records).count() as u32);
            continue;
        }
        let value = &mut values[tree];
        for (_, record) in fragment::records(records) {
            let is_bounds = record.kind() == Some(Kind::RangeDelete);
            let too_long = |bound: &[u8]| bound.len() > BOUND_LEN_MAX;
            if too_long(record.key()) || is_bounds && too_long(record.value()) {
                return Err(damaged("a key is too long"));
            }
            let key = || {
                record.key().split_first_chunk::<4>().ok_or_else(|| damaged("a key is too short"))
            };
            match record.kind() {
                Some(Kind::Piece) => value.extend_from_slice(record.value()),
                Some(Kind::PutPieces) => {
                    let (space, key) = key()?;
                    to.push(tree, Kind::Put, *space, key, value);
                    value.clear();
                }
                Some(Kind::PutFile) => {
                    let (space, key) = key()?;
                    let value = ValueRef::of_bytes(record.value()).map_err(damaged)?;
                    to.push_file(tree, *space, key, &value);
                }
                Some(kind @ (Kind::Put | Kind::Delete)) => {
                    let (space, key) = key()?;
                    let value = if kind == Kind::Put { record.value() } else { &[] };
                    to.push(tree, kind, *space, key, value);
                }
                Some(Kind::RangeDelete) => {
                    to.push_range(tree, [record.key(), &[]], [record.value(), &[]])
                }
                None => return Err(damaged("a record is of no kind")),
            }
        }
    }
    if to.records() == batch.records {
        Ok(())
    } else {
        Err(damaged("it does not have its records"))
    }
}

/// Refuses a folder without levels, where a store has some: it is another folder, or has lost the file that names
/// them.
fn check_levels(home: &Segments, disk: &Disk) -> Result<()> {
    let list = disk.list().map_err(Arc::new)?;
    if !layout::has_levels(home) || list.iter().any(|(name, _)| name == CURRENT) {
        return Ok(());
    }
    if list.iter().any(|(name, _)| is_of_levels(name)) {
        return Err(from_levels(levels::Error::NoManifest));
    }
    Err(Error::Damaged {
        what: format!("the levels in {}", disk.path().display()),
        why: "there is nothing of them: name the folder that has them, or bring it back".into(),
    })
}

/// The disk of the levels: a folder beside the pool, or, by a link there, one that was named when the store was made.
pub(crate) fn disk(options: &EngineOptions) -> Result<Disk> {
    let own = LsmOptions::of(options);
    if let Some(disk) = &options.disk {
        return Ok(disk.clone());
    }
    if options.pool_options.in_memory || options.pool_options.medium.is_some() {
        return Ok(Disk::in_memory_up_to(options.pool_options.size_max));
    }
    let beside = beside(options);
    let folder = own.levels.as_ref().unwrap_or(&beside);
    let failures = options.pool_options.failures.clone();
    Ok(Disk::failing_folder(folder, options.create, failures).map_err(Arc::new)?)
}

/// The folder of the levels, or the link that points to it.
fn beside(options: &EngineOptions) -> PathBuf {
    options
        .pool
        .parent()
        .map_or_else(|| PathBuf::from(Lsm::LEVELS), |folder| folder.join(Lsm::LEVELS))
}

/// Points a link beside the pool to a folder that was named, from now on, if the store's levels are there.
fn link(options: &EngineOptions) -> Result<()> {
    let own = LsmOptions::of(options);
    let is_folder = options.disk.is_none() && !options.pool_options.in_memory;
    let Some(named) = own.levels.as_ref().filter(|_| is_folder && options.create) else {
        return Ok(());
    };
    let beside = beside(options);
    let linked = (|| {
        let folder = std::path::absolute(named)?;
        if folder == std::path::absolute(&beside)? {
            return Ok(());
        }
        match std::fs::read_link(&beside) {
            Ok(there) if there == folder => return Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            // An empty folder is replaced: an opening without the name has made it.
            Err(_) if std::fs::remove_dir(&beside).is_err() => return Ok(()),
            _ => {}
        }
        let made = beside.with_extension("link");
        match std::fs::remove_file(&made) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        std::os::unix::fs::symlink(folder, &made)?;
        std::fs::rename(&made, &beside)?;
        std::fs::File::open(beside.parent().unwrap_or(Path::new(".")))?.sync_all()
    })();
    let action = "link the folder of the levels";
    Ok(linked.map_err(|source| halite_pmem::Error::Io { path: beside, action, source })?)
}

/// DRAM that memtables may take, where there is a log: 32 of them as they are by default, and a value of any length.
const VOLATILE_BYTES_MAX: u64 = 2 << 30;

/// A pool in memory for memtables whose records are in the log.
fn volatile_pool(options: &EngineOptions) -> Result<Arc<Segments>> {
    let mut pool_options = PoolOptions::default();
    pool_options.in_memory = true;
    pool_options.failures = options.pool_options.failures.clone();
    pool_options.size_max = options.pool_options.size_max.min(VOLATILE_BYTES_MAX);
    Ok(Segments::create(&options.pool, &pool_options)?)
}

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

/// Bytes of a value from which on it is written to a file of its own: where that costs less than to write the value again
/// with each compaction.
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

fn limits(
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
        commit_points: own.commit_points,
        large_value_bytes: own.large_value_bytes.unwrap_or(LARGE_VALUE_BYTES),
        slow_below: pool / 16,
        spare: (memtable.max(SEGMENT) * (trees + 1)).min(pool / 4),
        reserve: (pool / 64).max(2 * SEGMENT).min(pool / 8),
        removals: (2 * trees * SEGMENT).min(pool / 4),
    }
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

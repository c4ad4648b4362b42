//! Opening and creating a store.
//!
//! A walk: the pool that says what the store is, and the folder beside it → the devices and their labels
//! (`crate::devices`) → the superblock and the root record → the bitmaps of it and of the generation before → the trees → the log
//! behind what they have, into memtables.

mod replay;
mod stored;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use arc_swap::ArcSwap;
use halite_alloc::Segments;
use halite_cache::BlockCache;
use halite_contract::{Direction, EngineOptions, Error, KeyRange, Recovery, Result};
use halite_disk::Disk;
use halite_pmem::Pool;

use crate::Error as BetreeError;
use crate::actions::Actions;
use crate::allocation::{Bits, DeviceSpace, StoredSegment};
use crate::catalogue::{CATALOGUE, Catalogue};
use crate::dataset::copy::regraft;
use crate::dataset::histories::Histories;
use crate::devices;
use crate::devices::Places;
use crate::devices::assemble::{Assembled, KnownState, assemble};
use crate::home::{
    CLEAN, GENERATION, MADE, REPAIRED, check, identity_of_log, pool_id, seed_of_pool,
};
use crate::log::{Log, Opening};
use crate::memtable::Chunks;
use crate::message::Kind;
use crate::migration::Rounds;
use crate::options::BetreeOptions;
use crate::scan::StoreScan;
use crate::settings::{self, Settings};
use crate::storage::Storage;
use crate::storage::labels::{Labels, SESSION};
use crate::store::Store;
use crate::store::checkpoint::{BitmapPlace, Checkpoints, DATASET_ROOT, dataset_root};
use crate::store::commit::Commits;
use crate::store::pool_record::PoolRecord;
use crate::store::recent::Recent;
use crate::store::retired::Retired;
use crate::store::signals::Signals;
use crate::store::superblock::{RootPointer, Superblock};
use crate::store::view::{Trees, View};
use crate::tree::cursor::TreeCursor;
use crate::tree::{Context, Tree};
use replay::Replay;
use stored::{read_bitmaps, read_previous, read_record};

/// Blocks that a class keeps from data: 16 MiB.
const RESERVE_BLOCKS: u64 = 4 << 10;

/// Finds the devices of a store, whose superblock is to be of a generation at least.
pub(crate) fn find_devices(
    options: &EngineOptions,
    home: &Segments,
    disk: &Disk,
    places: &Places,
    generation: u64,
) -> Result<Assembled> {
    let likely = devices::likely_places(home, disk, options)?;
    let known = KnownState { pool: pool_id(home), generation, session: home.root(SESSION) };
    Ok(assemble(places, known, likely, &BetreeOptions::of(options).search)?)
}

/// Opens the store in the pool that `options` name, or creates it.
pub(crate) fn open(options: &EngineOptions) -> Result<Arc<Store>> {
    let started = Instant::now();
    let own = BetreeOptions::of(options);
    if !own.compression.is_built_in() {
        let why = "this build has no Zstandard; build it with the feature `zstd`".to_owned();
        return Err(BetreeError::NotBuiltIn { why }.into());
    }
    settings::check(&own)?;
    if let Some(topology) = &own.topology {
        own.placement.check(topology.classes().len())?;
    }
    let disk = devices::disk(options)?;
    let exists = Pool::exists(&options.pool, &options.pool_options);
    let home = if exists || !options.create {
        Segments::open(&options.pool, &options.pool_options)?
    } else {
        devices::create_home(options, &disk)?
    };
    check(&home, options)?;
    let places = Places::new(&home, &disk, options);
    if home.root(MADE) != Some(1) {
        make(&home, &disk, &places, options)?;
        home.set_root(MADE, 1)?;
    }
    let was_clean = !exists || home.root(CLEAN) == Some(1);
    let mut store = open_made(options, home, &disk, places)?;
    store.recovery.clean = was_clean;
    store.flush_commands()?;
    regraft(&store)?;
    if store
        .home
        .root(REPAIRED)
        .is_some_and(|repaired| repaired + 1 == store.trees.storage.generation())
    {
        // The log behind the next superblock is whole again.
        store.shorten_log()?;
    }
    store.home.set_root(CLEAN, 0)?;
    store.recovery.duration = started.elapsed();
    Ok(Arc::new(store))
}

/// Makes the devices of a new store, with the superblock of an empty one.
fn make(home: &Arc<Segments>, disk: &Disk, places: &Places, options: &EngineOptions) -> Result<()> {
    let (topology, vdevs) = devices::make(home, disk, places, options)?;
    let mut numbers = Vec::new();
    for _ in 0..=vdevs.iter().flatten().map(|vdev| vdev.leaves().len()).sum::<usize>() {
        numbers.push(home.pool().random()?);
    }
    let mut random = || numbers.pop().unwrap_or_default();
    let record = PoolRecord::new(topology, &mut random);
    record.check_len()?;
    let labels = Labels::new(pool_id(home), random(), record.clone());
    let mut space = |_, _, blocks| Ok(DeviceSpace::new(blocks));
    let storage = Storage::new(vdevs, 1, RESERVE_BLOCKS, false, &mut space)?;
    let root = RootPointer::default();
    let (log_first, log_end) = (0, (0, 0));
    let superblock = Superblock { applied: 0, epoch: 1, log_first, log_end, root, pool: record };
    Ok(labels.write(&storage, 1, &superblock.pool, &superblock.encode())?)
}

fn open_made(
    options: &EngineOptions,
    home: Arc<Segments>,
    disk: &Disk,
    places: Places,
) -> Result<Store> {
    let own = BetreeOptions::of(options);
    let seed = seed_of_pool(&home);
    let newest = home.root(GENERATION).unwrap_or_default();
    let assembled = find_devices(options, &home, disk, &places, newest)?;
    let Assembled { vdevs, current, superblock, previous, record: pool, damage } = assembled;
    let of_buffers = vdevs.get(usize::from(own.placement.buffers));
    let appends = of_buffers.is_some_and(|class| class.iter().any(|vdev| vdev.appends()));
    let mut settings = Settings::of(options, appends);
    if let Some(bytes) = devices::log_bytes_max(&home) {
        settings.limit_log(bytes);
    }
    for vdev in vdevs.iter().flatten() {
        vdev.clear_torn_labels().map_err(BetreeError::from)?;
    }
    if pool.topology != superblock.pool.topology {
        devices::write_hint(disk, &pool.topology)?;
    }
    let generation = current.generation;
    // Blocks that only the generation before has are not to be overwritten either; a damaged one keeps none.
    let before = previous.and_then(|label| read_previous(&vdevs, seed, &label.payload));
    let record = read_record(&vdevs, seed, &superblock)?;
    let mut segments = BTreeMap::<BitmapPlace, (Bits, Bits)>::new();
    for (place, bits) in read_bitmaps(&vdevs, seed, &record)? {
        segments.entry(place).or_default().0 = bits;
    }
    for (place, bits) in before.into_iter().flatten() {
        segments.entry(place).or_default().1 = bits;
    }
    let mut space = |class: u8, vdev: u16, blocks: u64| {
        let of_vdev = segments.iter().filter(|((c, v, _), _)| (*c, *v) == (class, vdev));
        let stored = of_vdev.map(|((.., number), (current, previous))| StoredSegment {
            number: *number,
            current: current.clone(),
            previous: previous.clone(),
        });
        DeviceSpace::open(blocks, generation, stored.collect()).map_err(|why| {
            let what = "bitmap of a vdev";
            BetreeError::Damaged {
                what,
                address: crate::storage::Address::new(class, vdev, 0),
                why: why.into(),
            }
        })
    };
    let storage =
        Storage::new(vdevs, generation + 1, RESERVE_BLOCKS, settings.on_threads, &mut space)?;
    let storage = Arc::new(storage);
    let health = Arc::clone(storage.health());
    settings.tree.placement.check(storage.classes().len())?;
    let labels = Labels::resume(&current, home.pool().random()?, storage.generation(), pool);
    let cache = Arc::new(BlockCache::new(own.cache_bytes, settings.tree.part_bytes));
    let trees = Arc::new(Context::new(
        storage,
        (cache, own.cache_bytes),
        seed,
        settings.tree,
        superblock.epoch,
        Actions::new(own.actions.clone()),
    ));

    let root_tree = record.tree.map_or_else(Tree::empty, Tree::of_stored);
    let roots = read_roots(&trees, &root_tree)?;
    let dataset_trees: Trees =
        roots.iter().map(|(dataset, root)| (*dataset, Tree::of_stored(*root))).collect();
    let bitmaps = record.bitmaps.iter().map(|b| ((b.class, b.vdev, b.segment), *b)).collect();
    let histories = Histories::read(&trees, &root_tree)?;
    let snapshots = Arc::new(histories.trees());
    let checkpoints = Checkpoints {
        root_tree,
        histories,
        roots,
        bitmaps,
        root: superblock.root.clone(),
        since: superblock.epoch,
        flushed_bytes: 0,
    };

    let memory = Chunks::new(&options.pool_options)?;
    let is_repaired = home.root(REPAIRED) == Some(generation);
    let mut replayed = Replay::new(&settings, &superblock, &trees, &memory, is_repaired)?;
    let of_log = (identity_of_log(&home), &superblock);
    let opening = Opening {
        is_in_pool: devices::has_pool_class(&home),
        is_repaired,
        checkpoint_bytes: settings.checkpoint_bytes,
    };
    let log = Log::open(&home, disk, of_log, opening, &mut |sequence, records, payload| {
        replayed.replay(sequence, records, payload)
    })?;

    let Replay { active, frozen, last, records, .. } = replayed;
    let view = Arc::new(View {
        active,
        frozen,
        trees: Arc::new(dataset_trees),
        snapshots,
        replaced: Vec::new(),
        grafts: Vec::new(),
    });
    let catalogue = read_catalogue(&trees, &view, last)?;
    for (dataset, action) in catalogue.actions() {
        trees.actions.set(dataset, action);
    }
    let recent = Recent::default();
    view.memtables()
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
        .for_each(|memtable| recent.note(memtable));
    let rounds = settings.migration.map(|of| halite_sim::locks::Mutex::new(Rounds::new(of)));
    let recovery =
        Recovery { records_replayed: records, partitions_ready: 1, damage, ..Recovery::default() };
    Ok(Store {
        home,
        settings,
        trees,
        labels,
        places,
        disk: disk.clone(),
        log,
        commits: Commits::behind(last),
        catalogue: ArcSwap::from_pointee(catalogue),
        cataloguing: Default::default(),
        view: ArcSwap::new(view),
        changing: Default::default(),
        checkpoints: halite_sim::locks::Mutex::new(checkpoints),
        writing_large: Default::default(),
        memory,
        recent,
        retired: Retired::default(),
        room: Default::default(),
        signals: Signals::default(),
        health,
        is_passing: Default::default(),
        returns: AtomicU64::new(0),
        passes: Default::default(),
        rounds,
        user_bytes: AtomicU64::new(0),
        recovery,
    })
}

/// The roots of datasets in the root tree.
fn read_roots(
    trees: &Arc<Context>,
    root_tree: &Tree,
) -> Result<BTreeMap<u32, crate::tree::pointer::NodePointer>> {
    use crate::run::Source;
    let (start, end) = ([DATASET_ROOT], [DATASET_ROOT + 1]);
    let mut cursor = TreeCursor::new(trees, root_tree.clone(), &start, Some(&end), None);
    let mut roots = BTreeMap::new();
    cursor.first()?;
    while let Some(key) = cursor.key() {
        let message = cursor.message();
        if message.kind == Kind::Insert {
            let root = dataset_root(key, &message.payload).ok_or_else(|| Error::Damaged {
                what: "the root tree".into(),
                why: "an entry is no root of a dataset".into(),
            })?;
            roots.insert(root.0, root.1);
        }
        cursor.next()?;
    }
    Ok(roots)
}

/// Reads the datasets from the catalogue.
fn read_catalogue(trees: &Arc<Context>, view: &Arc<View>, at: u64) -> Result<Catalogue> {
    let (all, forward) = (KeyRange::all(), Direction::Forward);
    let mut catalogue = Catalogue::default();
    for pair in StoreScan::new(trees, Arc::clone(view), at, CATALOGUE, &all, forward) {
        let (key, value) = pair?;
        catalogue.read(&key, &value)?;
    }
    catalogue.check_read()?;
    Ok(catalogue)
}

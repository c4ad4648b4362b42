//! The engine: the contract of `halite-contract`, whose key spaces are datasets.

use std::sync::Arc;

use halite_contract::{
    Bytes, Capabilities, Direction, Durability, Engine, EngineOptions, Expectation, Figure,
    KeyRange, KeySpaceId, Op, Progress, Result, Scan, Snapshot, Snapshots, SpaceManagement, Stats,
    Transactional, VerifyReport, sample_by_descent,
};

use crate::catalogue::{Catalogue, check_name};
use crate::message::{Kind, of_message};
use crate::messages::Change;
use crate::migration::Migrator;
use crate::object::ObjectStore;
use crate::object::stores::{self, Stores};
use crate::open;
use crate::purpose::Purpose;
use crate::read;
use crate::record::Batch;
use crate::scan::StoreScan;
use crate::snapshot::StoreSnapshot;
use crate::store::Store;
use crate::store::commit::Commit;
use crate::store::signals::Maintenance;
use crate::store::written_large::{NumberedValue, WrittenLarge};
use crate::transfer::Receiving;
use crate::validation::validate;
use crate::verify::verify;

/// A store of the Bε-tree engine.
pub struct Betree {
    /// Dropped first: its thread uses the store, and waits for the next one.
    migrator: Option<Migrator>,
    maintenance: Option<Maintenance>,
    pub(crate) store: Arc<Store>,
    objects: Stores,
    pub(crate) receiving: Receiving,
}

impl Betree {
    /// The engine's name.
    pub const NAME: &str = crate::home::NAME;

    /// The name of the folder of the log and the data file, beside the pool.
    pub const FOLDER: &str = "betree";

    /// Opens the store in the pool that `options` name, or creates it.
    ///
    /// # Errors
    /// Those of the pool if it cannot be opened; [`halite_contract::Error::OtherEngine`];
    /// [`halite_contract::Error::Damaged`]; those of the storage pool, by [`crate::Error`].
    pub fn open(options: &EngineOptions) -> Result<Self> {
        let store = open::open(options)?;
        let maintenance = Some(Maintenance::start(&store)?);
        store.signals.wake();
        let migrator = Migrator::start(&store)?;
        let (objects, receiving) = Default::default();
        Ok(Self { migrator, maintenance, store, objects, receiving })
    }

    /// Opens an object store, or creates it. Its name is no name of a key space.
    ///
    /// # Errors
    /// [`crate::Error::ObjectStoreName`]; those of a write.
    pub fn objects(&self, name: &str) -> Result<ObjectStore> {
        self.objects.open(&self.store, name)
    }

    /// The names of all object stores.
    #[must_use]
    pub fn object_stores(&self) -> Vec<String> {
        stores::names(&self.store)
    }

    /// Removes an object store with all its objects, whole or not at all. Handles of it and of its objects are of no use
    /// any more.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchObjectStore`]; those of a write.
    pub fn drop_objects(&self, name: &str) -> Result<()> {
        self.objects.remove(&self.store, name)
    }

    pub(crate) fn write_for<'a>(
        &self,
        changes: impl Iterator<Item = Change<'a>> + Clone,
        purpose: Purpose,
        durability: Durability,
        expected: &[Expectation<'_>],
    ) -> Result<()> {
        let store = &*self.store;
        let catalogue = store.catalogue.load();
        let mut user_bytes = 0;
        let mut is_empty = true;
        for change in changes.clone() {
            change.check()?;
            catalogue.check(change.space())?;
            is_empty = false;
            user_bytes += match change {
                Change::Op(Op::Put { key, value, .. }) => key.len() + value.len(),
                Change::Op(_) => 0,
                Change::Upsert { key, upsert, .. } => key.len() + upsert.payload().len(),
                Change::Message { key, message, .. } => key.len() + message.len(),
            } as u64;
        }
        if is_empty && expected.is_empty() {
            return if durability == Durability::Immediate { store.sync() } else { Ok(()) };
        }
        let values = changes.clone().enumerate().filter_map(|(number, change)| match change {
            Change::Op(Op::Put { space, key, value }) => {
                Some(NumberedValue { number, dataset: space.0, key, value })
            }
            _ => None,
        });
        let large = WrittenLarge::write(store, values)?;
        let mut batch = Batch::default();
        for (number, change) in changes.clone().enumerate() {
            match change {
                Change::Upsert { space, key, upsert } => {
                    batch.push(space.0, Kind::Upsert, key, upsert.payload());
                }
                Change::Message { space, key, message } => {
                    batch.push(space.0, Kind::Custom, key, &of_message(message));
                }
                Change::Op(Op::Put { space, key, value }) => match large.of(number) {
                    Some(reference) => batch.push(space.0, Kind::InsertLarge, key, reference),
                    None => batch.push(space.0, Kind::Insert, key, value),
                },
                Change::Op(Op::Delete { space, key }) => {
                    batch.push(space.0, Kind::Delete, key, &[])
                }
                Change::Op(Op::DeleteRange { space, start, end }) => {
                    if end.is_none_or(|end| start < end) {
                        batch.push_range(space.0, start, end);
                    }
                }
            }
        }
        let mut write = Write { changes, expected };
        store.commit(&batch, purpose, durability, &mut write)?;
        large.keep();
        store.note_user_bytes(user_bytes);
        Ok(())
    }

    /// Changes the datasets.
    pub(crate) fn change(
        &self,
        batch: &Batch,
        purpose: Purpose,
        catalogue: Catalogue,
    ) -> Result<()> {
        self.store.recatalogue(batch, purpose, catalogue, &mut || ())
    }
}

/// The names of the figures of a storage class: its space in use, its reads, their bytes, and what migrated there.
const CLASS_FIGURES: [[&str; 4]; 4] = [
    ["class_0_used_bytes", "class_0_reads", "class_0_read_bytes", "class_0_migrated_bytes"],
    ["class_1_used_bytes", "class_1_reads", "class_1_read_bytes", "class_1_migrated_bytes"],
    ["class_2_used_bytes", "class_2_reads", "class_2_read_bytes", "class_2_migrated_bytes"],
    ["class_3_used_bytes", "class_3_reads", "class_3_read_bytes", "class_3_migrated_bytes"],
];

/// Operations as changes.
fn of_ops<'a>(ops: &'a [Op<'a>]) -> impl Iterator<Item = Change<'a>> + Clone {
    ops.iter().map(|op| Change::Op(*op))
}

/// The conditions of a write.
struct Write<'a, I> {
    changes: I,
    expected: &'a [Expectation<'a>],
}

impl<'c, I: Iterator<Item = Change<'c>> + Clone> Commit for Write<'_, I> {
    fn check(&mut self, store: &Store) -> Result<()> {
        let catalogue = store.catalogue.load();
        self.changes.clone().try_for_each(|change| catalogue.check(change.space()))?;
        for expected in self.expected {
            validate(store, &catalogue, expected)?;
        }
        Ok(())
    }
}

impl Drop for Betree {
    /// Closes the store: everything is in a checkpoint, and a root says so to the next opening.
    fn drop(&mut self) {
        self.objects.close(&self.store);
        drop(self.migrator.take());
        drop(self.maintenance.take());
        // A failure here is no failure of the store: it opens as after a crash.
        let _ = self.store.close();
    }
}

impl Engine for Betree {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities {
            snapshots: Some(self),
            transactional: Some(self),
            space_management: Some(self),
            object_stores: Some(self),
            pooled: Some(self),
            datasets: Some(self),
            transfers: Some(self),
            tiered: Some(self),
            trees: Some(self),
            ..Capabilities::default()
        }
    }

    fn key_space(&self, name: &str) -> Result<KeySpaceId> {
        check_name(name)?;
        if let Some(found) = self.store.catalogue.load().find(name) {
            return Ok(found);
        }
        let _changing = self.store.cataloguing.lock();
        let catalogue = self.store.catalogue.load_full();
        if let Some(found) = catalogue.find(name) {
            return Ok(found);
        }
        let mut batch = Batch::default();
        let (changed, id) = catalogue.with(name, &mut batch)?;
        self.change(&batch, Purpose::Removal, changed)?;
        Ok(id)
    }

    fn key_spaces(&self) -> Result<Vec<(String, KeySpaceId)>> {
        Ok(self.store.catalogue.load().named())
    }

    fn drop_key_space(&self, space: KeySpaceId) -> Result<()> {
        let _changing = self.store.cataloguing.lock();
        self.drop_without_snapshots(space)
    }

    fn get(&self, space: KeySpaceId, key: &[u8]) -> Result<Option<Bytes>> {
        let store = &*self.store;
        store.catalogue.load().check(space)?;
        let (view, at) = store.latest();
        read::get(&store.trees, &view, at, space.0, key)
    }

    fn len(&self, space: KeySpaceId) -> Result<u64> {
        self.store.catalogue.load().check(space)?;
        let (view, at) = self.store.now();
        StoreScan::new(&self.store.trees, view, at, space.0, &KeyRange::all(), Direction::Forward)
            .count_pairs()
    }

    fn sample(&self, space: KeySpaceId, random: u64) -> Result<Option<Bytes>> {
        self.store.catalogue.load().check(space)?;
        let (view, at) = self.store.now();
        let seek = |range: &KeyRange, direction| {
            let trees = &self.store.trees;
            let mut scan = StoreScan::new(trees, Arc::clone(&view), at, space.0, range, direction);
            Ok(scan.next().transpose()?.map(|(key, _)| key))
        };
        sample_by_descent(&seek, random)
    }

    fn write(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        self.write_for(of_ops(ops), Purpose::of(ops, Purpose::Put), durability, &[])
    }

    fn scan(&self, space: KeySpaceId, range: KeyRange, direction: Direction) -> Result<Scan> {
        self.store.catalogue.load().check(space)?;
        let (view, at) = self.store.now();
        Ok(Box::new(StoreScan::new(&self.store.trees, view, at, space.0, &range, direction)))
    }

    fn sync(&self) -> Result<()> {
        self.store.sync()
    }

    fn hand_over(&self) -> Result<()> {
        self.store.log.hand_over()
    }

    fn stats(&self) -> Stats {
        self.store.stats()
    }

    fn verify(&self, progress: Progress<'_>) -> Result<VerifyReport> {
        verify(&self.store, progress)
    }
}

impl Snapshots for Betree {
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        Ok(Arc::new(StoreSnapshot::take(&self.store)))
    }
}

impl Transactional for Betree {
    fn write_if(
        &self,
        ops: &[Op<'_>],
        durability: Durability,
        expected: &[Expectation<'_>],
    ) -> Result<()> {
        self.write_for(of_ops(ops), Purpose::of(ops, Purpose::Put), durability, expected)
    }
}

impl SpaceManagement for Betree {
    fn write_bookkeeping(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        self.write_for(of_ops(ops), Purpose::of(ops, Purpose::Bookkeeping), durability, &[])
    }

    /// Flushes a memtable that is frozen; if there is none, makes a checkpoint that is due; if none is, migrates: where the
    /// store has no threads for that.
    fn collect_ahead(&self, _partition: usize) -> Result<bool> {
        let store = &*self.store;
        if store.settings.on_threads {
            return Ok(false);
        }
        if store.flush_oldest()? {
            return Ok(true);
        }
        if store.is_checkpoint_due() {
            store.checkpoint()?;
            return Ok(true);
        }
        match &store.rounds {
            Some(_) => Ok(store.migrate_round(&|| true)?.moved_bytes() > 0),
            None => Ok(false),
        }
    }

    fn space_of(&self, key_len: usize, value_len: usize) -> u64 {
        (key_len + value_len) as u64
    }
}

impl Store {
    /// The contents and the activity of the store.
    fn stats(&self) -> Stats {
        let pool = self.home.pool();
        let view = self.view();
        let mut stats = Stats {
            domain: pool.domain(),
            pool_bytes: pool.len(),
            pool_bytes_max: pool.len_max(),
            traffic: pool.traffic(),
            user_bytes_written: self.user_bytes.load(std::sync::atomic::Ordering::Relaxed),
            recovery: self.recovery.clone(),
            is_tiered: true,
            cache_bytes: self.trees.cached_bytes(),
            volatile_bytes: self.memory.memory_len(),
            index_bytes: self.recent.index_len(),
            ..Stats::default()
        };
        for memtable in view.memtables() {
            stats.records += memtable.len();
        }
        let blocks = self.trees.storage.space(|space| space.blocks());
        let bytes = |blocks: u64| blocks * halite_vdev::BLOCK as u64;
        let vdevs = self.trees.storage.classes().iter().flatten();
        let leaves: Vec<_> = vdevs.flat_map(|vdev| vdev.leaves()).map(|leaf| leaf.stats).collect();
        stats.own = vec![
            Figure::new(
                "class_used_bytes",
                "Bytes of extents in all storage classes.",
                bytes(blocks.iter().map(|class| class.blocks.used).sum()),
            ),
            Figure::new("log_bytes", "Bytes of the intent log.", self.log.used_bytes()),
            Figure::new(
                "device_written_bytes",
                "Bytes of extents written to all devices, copies and parity included, since the store was opened.",
                leaves.iter().map(|leaf| leaf.writes.bytes).sum(),
            ),
            Figure::new(
                "device_read_bytes",
                "Bytes of extents read from all devices since the store was opened, those not counted that are read in \
                 place.",
                leaves.iter().map(|leaf| leaf.reads.bytes).sum(),
            ),
            Figure::new(
                "disk_syncs",
                "Syncs of the folder's files since the store was opened: of the log, and of devices that lie there.",
                self.disk.traffic().syncs,
            ),
            Figure::detail(
                "checkpoints",
                "The generation of the superblock that is made next.",
                self.trees.storage.generation(),
            ),
            Figure::detail(
                "retired_bytes",
                "Bytes of extents that only readers of earlier states use.",
                bytes(self.retired.blocks()),
            ),
        ];
        for (class, [used, reads, read_bytes, moved]) in CLASS_FIGURES.iter().enumerate() {
            if class >= self.trees.storage.classes().len() {
                break;
            }
            let traffic = self.trees.storage.traffic.of(class);
            stats.own.extend([
                Figure::detail(
                    used,
                    "Bytes in use in the class.",
                    bytes(blocks[class].blocks.used),
                ),
                Figure::detail(reads, "Reads of the class.", traffic.reads),
                Figure::detail(read_bytes, "Bytes read of the class.", traffic.bytes_read),
                Figure::detail(moved, "Bytes migrated to the class.", traffic.moved_in),
            ]);
        }
        stats
    }
}

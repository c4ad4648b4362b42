//! Checkpoints: the trees become durable, and the log shorter.
//!
//! 1. The nodes of all trees that changed are written, children before parents.
//! 2. The root tree gets the new roots of datasets and snapshots, and the changes of deadlists, and is written.
//! 3. *The fixpoint*: extents for the bitmaps that changed, and for the root record, are allocated until allocating changes no
//!    further bitmap. Then these are written, and the root record, which points to them.
//! 4. All vdevs are synced, so everything is durable that a superblock is to lead to. The superblock has the leaves that
//!    missed a write until then.
//! 5. The superblock goes to the next slot of the ring on every leaf device, and they are synced. The generation is durable.
//! 6. The pool notes the generation, so that devices which have an older one only are not taken for the store. Blocks that
//!    neither this generation nor the one before needs may be allocated, and the log before the trees'
//!    sequence goes.
//!
//! A crash before the sync of step 5 leaves the last generation, of which no block was overwritten; behind it, this one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use halite_contract::Result;
use halite_sim::planted;
use halite_vdev::BLOCK;

use crate::allocation::{DeviceSpace, Purpose, SEGMENT, STORED_MAX, encode};
use crate::dataset::histories::Histories;
use crate::home::GENERATION;
use crate::message::{Kind, byte_len};
use crate::storage::Extent;
use crate::storage::labels::SESSION;
use crate::store::Store;
use crate::store::superblock::{BitmapPointer, RootPiece, RootPointer, RootRecord, Superblock};
use crate::store::view::{Trees, View};
use crate::tree::changes::Changes;
use crate::tree::pointer::{NodePointer, seed_of};
use crate::tree::{Tree, Update};

/// The tag of a dataset's root in the root tree, before the dataset's number, 4 bytes big-endian.
pub(crate) const DATASET_ROOT: u8 = 1;

/// The place of a bitmap: class, vdev, segment.
pub(crate) type BitmapPlace = (u8, u16, u64);

/// The state that only checkpoints change.
pub(crate) struct Checkpoints {
    pub(crate) root_tree: Tree,
    /// The snapshots and deadlists of datasets, which the root tree has as of the last checkpoint.
    pub(crate) histories: Histories,
    /// The roots of datasets, as the root tree has them.
    pub(crate) roots: BTreeMap<u32, NodePointer>,
    /// The bitmaps, as the root record has them.
    pub(crate) bitmaps: BTreeMap<BitmapPlace, BitmapPointer>,
    pub(crate) root: RootPointer,
    /// The first epoch behind the last checkpoint: what was born before is in it.
    pub(crate) since: u64,
    /// Bytes of memtables that were flushed since.
    pub(crate) flushed_bytes: u64,
}

/// Extents that a checkpoint takes for itself.
#[derive(Default)]
struct Taken {
    bitmaps: BTreeMap<BitmapPlace, Extent>,
    record: Vec<Extent>,
}

impl Taken {
    fn all(self) -> impl Iterator<Item = Extent> {
        self.bitmaps.into_values().chain(self.record)
    }
}

/// The bitmap that has an extent's blocks.
fn place_of(extent: Extent) -> BitmapPlace {
    let Extent { address, .. } = extent;
    (address.class(), address.vdev(), address.block() / u64::from(SEGMENT))
}

/// The key of a dataset's root in the root tree.
fn root_key(dataset: u32) -> Vec<u8> {
    [&[DATASET_ROOT], &dataset.to_be_bytes()[..]].concat()
}

/// The dataset and the root of an entry of the root tree.
pub(crate) fn dataset_root(key: &[u8], value: &[u8]) -> Option<(u32, NodePointer)> {
    let [DATASET_ROOT, dataset @ ..] = key else { return None };
    let dataset = u32::from_be_bytes(dataset.try_into().ok()?);
    let mut from = halite_codec::Reader(value);
    let pointer = NodePointer::decode(&mut from).ok()?;
    from.is_empty().then_some((dataset, pointer))
}

impl Store {
    /// Whether so much was flushed, and is still in the log or in memory, that a checkpoint is due.
    pub(crate) fn is_checkpoint_due(&self) -> bool {
        let checkpoints = self.checkpoints.lock();
        checkpoints.flushed_bytes >= self.settings.checkpoint_bytes
            || checkpoints.histories.is_checkpoint_due()
    }

    /// Makes the trees durable as they are, and the log shorter.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        let checkpoints = &mut *self.checkpoints.lock();
        self.health.check()?;
        // Readers may be done with what was dropped before.
        self.reclaim(checkpoints)?;
        let view = self.view();
        let oldest = view.frozen.last().unwrap_or(&view.active);
        let (applied, log_first) = (oldest.before, oldest.first_log);
        let trees = Arc::new(self.write_trees(&view.trees)?);
        self.publish(Vec::new(), |view| View { trees: Arc::clone(&trees), ..view.clone() });
        drop(view);
        let tree = self.write_roots(checkpoints, &trees)?;
        let epoch = self.trees.epoch() + 1;
        let root = self.write_root_record(checkpoints, tree)?;
        // From here on, a failure leaves it open which generation is the last.
        // Records that are appended from here on need not be durable when the superblock is.
        let (pool, log_end) = (self.labels.record(), self.log.end());
        self.log.sync().inspect_err(|error| self.health.poison(error.to_string()))?;
        planted!("betree.log-trimmed-before-superblock", self.log.release(log_first)?);
        let superblock =
            Superblock { applied, epoch, log_first, log_end, root: root.clone(), pool };
        let written = self.write_superblock(superblock);
        written.inspect_err(|error| self.health.poison(error.to_string()))?;
        self.trees.storage.checkpoint_durable();
        self.trees.begin_epoch(epoch);
        (checkpoints.since, checkpoints.flushed_bytes, checkpoints.root) = (epoch, 0, root);
        self.log.release(log_first)
    }

    /// Writes the nodes of all trees.
    fn write_trees(&self, trees: &Trees) -> Result<Trees> {
        let mut written = Vec::new();
        let write = |(dataset, tree): (&u32, &Tree)| {
            crate::Result::Ok((*dataset, self.trees.write_back(tree, &mut written)?))
        };
        match trees.iter().map(write).collect::<crate::Result<Trees>>() {
            Ok(trees) => {
                self.trees.storage.adopt(&written)?;
                Ok(trees)
            }
            Err(error) => {
                for extent in written {
                    self.trees.storage.recycle(extent, false)?;
                }
                Err(error.into())
            }
        }
    }

    /// Brings the roots of the datasets into the root tree, and writes that. Returns its root.
    fn write_roots(
        &self,
        checkpoints: &mut Checkpoints,
        trees: &Trees,
    ) -> Result<Option<NodePointer>> {
        let roots: BTreeMap<u32, NodePointer> =
            trees.iter().filter_map(|(dataset, tree)| Some((*dataset, tree.stored()?))).collect();
        let mut changes = Changes::default();
        for dataset in checkpoints.roots.keys().filter(|dataset| !roots.contains_key(dataset)) {
            changes.add(root_key(*dataset), Kind::Delete, Vec::new());
        }
        for (dataset, root) in &roots {
            if checkpoints.roots.get(dataset) != Some(root) {
                let mut value = Vec::new();
                root.encode(&mut value);
                changes.add(root_key(*dataset), Kind::Insert, value);
            }
        }
        checkpoints.histories.store(&mut changes);
        let mut update = Update::new(&self.trees, self.settings.tree.placement.of_metadata());
        let applied = update.apply(&checkpoints.root_tree, vec![changes.source()], 0);
        let tree = match applied.and_then(|tree| update.write_back(&tree)) {
            Ok(tree) => tree,
            Err(error) => {
                update.undo();
                return Err(error.into());
            }
        };
        // No reader has the root tree.
        for dropped in update.finish()? {
            self.trees.storage.retire(dropped.extent)?;
            self.trees.storage.recycle(dropped.extent, dropped.is_seen(checkpoints.since))?;
        }
        checkpoints.histories.stored();
        (checkpoints.roots, checkpoints.root_tree) = (roots, tree.clone());
        Ok(tree.stored())
    }

    /// Writes the bitmaps that changed, and the root record.
    fn write_root_record(
        &self,
        checkpoints: &mut Checkpoints,
        tree: Option<NodePointer>,
    ) -> Result<RootPointer> {
        let storage = &self.trees.storage;
        // Everything that frees or takes blocks from here on is known before it is done: the segments that it changes
        // get extents for their new bitmaps, and taking these changes segments in turn.
        let mut taken = Taken::default();
        let fixed = self.take_extents(checkpoints, &mut taken);
        if let Err(error) = fixed {
            for extent in taken.all() {
                storage.recycle(extent, false)?;
            }
            return Err(error);
        }
        let stored = self.store_root_record(checkpoints, taken, tree);
        // Half of what changes in memory may have changed.
        stored.inspect_err(|error| self.health.poison(error.to_string()))
    }

    /// Writes the bitmaps that changed, and the root record, to the extents that were taken for them.
    fn store_root_record(
        &self,
        checkpoints: &mut Checkpoints,
        taken: Taken,
        tree: Option<NodePointer>,
    ) -> Result<RootPointer> {
        let storage = &self.trees.storage;
        let Taken { bitmaps: places, record } = taken;
        let all: Vec<Extent> = places.values().chain(&record).copied().collect();
        // The bitmaps that are written below have the record's extents, too.
        let first = planted!("betree.bitmaps-before-root-record", places.len(), all.len());
        storage.adopt(&all[..first])?;
        let old =
            places.keys().filter_map(|place| checkpoints.bitmaps.get(place)).map(|old| old.extent);
        for extent in
            old.chain(std::mem::take(&mut checkpoints.root.pieces).iter().map(|piece| piece.extent))
        {
            storage.free(extent)?;
        }
        let (seed, epoch) = (self.trees.seed, self.trees.epoch());
        let written: BTreeSet<BitmapPlace> = places.keys().copied().collect();
        for (place @ (class, vdev, segment), extent) in places {
            let bytes = storage.space(|space| {
                let mut spaces = space.spaces_mut();
                let found = spaces.find(|(of, number, _)| (*of, *number) == (class, vdev));
                encode(&found.expect("the vdev has a space").2.stored()[segment as usize])
            });
            storage.write_at(extent, &bytes)?;
            let checksum = seed_of(seed, extent.address, epoch).checksum(&bytes);
            let pointer = BitmapPointer {
                class,
                vdev,
                segment,
                extent,
                len: bytes.len() as u32,
                checksum,
                birth: epoch,
            };
            checkpoints.bitmaps.insert(place, pointer);
        }
        storage.adopt(&all[first..])?;
        let dirty = storage.space(|space| {
            let taken =
                space.spaces_mut().map(|(class, vdev, space)| (class, vdev, space.take_dirty()));
            taken.collect::<Vec<_>>()
        });
        for (class, vdev, segments) in dirty {
            let is_written = |segment: &u64| written.contains(&(class, vdev, *segment));
            assert!(segments.iter().all(is_written), "all bitmaps that changed are written");
        }
        let bitmaps = checkpoints.bitmaps.values().copied().collect();
        let bytes = RootRecord { tree, bitmaps }.encode();
        let (mut rest, mut pieces) = (&bytes[..], Vec::new());
        for extent in record {
            let (part, behind) = rest.split_at(rest.len().min(byte_len(extent)));
            storage.write_at(extent, part)?;
            let checksum = RootPiece::seed(seed, extent, epoch + 1).checksum(part);
            pieces.push(RootPiece { extent, checksum });
            rest = behind;
        }
        assert!(rest.is_empty(), "the record has room in its extents");
        Ok(RootPointer { pieces, len: bytes.len() as u64 })
    }

    /// Takes extents for all bitmaps that the checkpoint changes, and for the root record.
    fn take_extents(&self, checkpoints: &Checkpoints, taken: &mut Taken) -> Result<()> {
        let storage = &self.trees.storage;
        let class = self.settings.tree.placement.metadata;
        let mut changed: BTreeSet<BitmapPlace> = storage.space(|space| {
            let dirty = |(class, vdev, space): (u8, u16, &mut DeviceSpace)| {
                space.dirty().map(move |segment| (class, vdev, segment)).collect::<Vec<_>>()
            };
            space.spaces_mut().flat_map(dirty).collect()
        });
        changed.extend(checkpoints.root.extents().map(place_of));
        loop {
            let Some(place) = changed.iter().find(|place| !taken.bitmaps.contains_key(place))
            else {
                let places = checkpoints.bitmaps.keys().chain(taken.bitmaps.keys());
                let count = places.collect::<BTreeSet<_>>().len();
                let room: usize = taken.record.iter().copied().map(byte_len).sum();
                let Some(missing) = RootRecord::len_max(count).checked_sub(room).filter(|m| *m > 0)
                else {
                    return Ok(());
                };
                let blocks = missing
                    .min(storage.extent_bytes(class, Purpose::Reserve))
                    .div_ceil(BLOCK) as u32;
                let extent = storage.allocate(class, blocks, Purpose::Reserve)?;
                taken.record.push(extent);
                changed.insert(place_of(extent));
                continue;
            };
            let place = *place;
            let blocks = STORED_MAX.div_ceil(BLOCK) as u32;
            let extent = storage.allocate(class, blocks, Purpose::Reserve)?;
            taken.bitmaps.insert(place, extent);
            changed.insert(place_of(extent));
            changed.extend(checkpoints.bitmaps.get(&place).map(|old| place_of(old.extent)));
        }
    }

    /// Lets extents be allocated again that no reader has any more.
    pub(crate) fn reclaim(&self, checkpoints: &Checkpoints) -> Result<()> {
        for dropped in self.retired.take() {
            self.trees.storage.recycle(dropped.extent, dropped.is_seen(checkpoints.since))?;
        }
        Ok(self.trees.storage.recycle_pinned()?)
    }

    /// Makes everything durable, and then the superblock that leads to it.
    fn write_superblock(&self, mut superblock: Superblock) -> Result<()> {
        let storage = &self.trees.storage;
        let durable = storage.vdev_blocks();
        planted!("betree.superblock-before-data", (), storage.sync()?);
        superblock.pool = self.labels.note(storage, &durable);
        let generation = storage.generation();
        self.labels.write(storage, generation, &superblock.pool, &superblock.encode())?;
        if self.home.root(SESSION) != Some(self.labels.session()) {
            self.home.set_root(SESSION, self.labels.session())?;
        }
        Ok(self.home.set_root(GENERATION, generation)?)
    }

    /// Makes sure that the last superblock has all leaves as stale that are, before something is acknowledged that these
    /// may lack.
    pub(crate) fn tell_of_stale_leaves(&self) -> Result<()> {
        match self.labels.knows_all(&self.trees.storage) {
            true => Ok(()),
            false => self.checkpoint(),
        }
    }

    /// Bytes that writes brought.
    pub(crate) fn note_user_bytes(&self, bytes: u64) {
        self.user_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

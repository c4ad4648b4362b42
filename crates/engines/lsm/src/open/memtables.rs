//! The memtables that opening finds in the pool: their objects, their zones, and their records.

use std::collections::BTreeSet;
use std::sync::Arc;

use halite_alloc::{Device, ObjectPool, Segments};
use halite_contract::{Error, Result};
use halite_pmem::Words;
use halite_sst::SEQUENCE_MAX;

use crate::address::ZONES_MAX;
use crate::layout::{self, COMMIT_ID, Layout};
use crate::levels::Levels;
use crate::recovery::{Recovered, recover};
use crate::zones::{Identity, OBJECT_LEN, Zones, slot_of, write_object};

/// The tree that the store's own object names.
const NO_TREE: usize = u32::MAX as usize;

/// The memtables of a pool, before their records are read.
pub(super) struct Memtables {
    pub(super) objects: Arc<ObjectPool>,
    pub(super) device: Device,
    pub(super) commit_id: Words,
    /// Above the ids of all memtables.
    pub(super) next_id: u64,
    /// Zones that no memtable had, and were reclaimed.
    pub(super) reclaimed: u64,
    zones: Vec<Arc<Zones>>,
}

impl Memtables {
    /// Finds the memtables in `segments`. Those that the levels took before a crash go back to the pool, and so do zones
    /// without a memtable.
    ///
    /// # Errors
    /// [`Error::Damaged`] if an object fails its check, or a memtable is missing; the pool's errors.
    pub(super) fn find(
        segments: &Arc<Segments>,
        home: &Segments,
        layout: Layout,
        levels: &Levels,
    ) -> Result<Self> {
        let salt = segments.salt();
        let device = layout::zones_device(segments);
        let objects = Arc::new(ObjectPool::open(&layout::objects_device(segments), OBJECT_LEN)?);
        let (mut commit_id, mut zones) = (None, Vec::new());
        let mut identities = BTreeSet::new();
        for index in objects.committed()? {
            let fresh = objects.claim(index)?;
            let identity = Identity::decode(fresh.read(0, 16), salt);
            let identity =
                identity.ok_or_else(|| damaged_object(index, "it does not have its check"))?;
            let words = fresh.into_words();
            if !identities.insert((identity.tree, identity.id)) {
                return Err(damaged_object(index, "it is another one's"));
            }
            if identity.tree == NO_TREE {
                commit_id = Some(words);
            } else if levels.memtables(identity.tree as u32).is_some_and(|last| identity.id <= last)
            {
                // The crash came after the levels took it and before the pool got it back.
                drop(words);
                objects.release(index)?;
            } else {
                let slot = slot_of(index)?;
                zones.push(Arc::new(Zones::new(&objects, &device, slot, salt, &identity, words)));
            }
        }
        let commit_id = match commit_id {
            Some(words) => words,
            None if !zones.is_empty() || !layout.logged && layout::was_open(home) => {
                return Err(Error::Damaged {
                    what: "the object of the store".into(),
                    why: "it is not there, though the store has been open".into(),
                });
            }
            None => write_object(objects.get()?, salt, &Identity { id: 0, tree: NO_TREE }, None)?,
        };
        if !layout.logged && layout::was_open(home) {
            check_chains(layout, home, &zones, levels)?;
        }
        let slots: BTreeSet<u32> = zones.iter().map(|zones| zones.slot).collect();
        let reclaimed = device.retain(|logical| slots.contains(&(logical / ZONES_MAX)))?;
        let in_levels = (0..layout.trees as u32).filter_map(|tree| levels.memtables(tree)).max();
        let last_id = zones.iter().map(|zones| zones.id).max().max(in_levels).unwrap_or(0);
        Ok(Self { objects, device, commit_id, next_id: last_id + 1, reclaimed, zones })
    }

    /// Recovers the content of the memtables, up to the last batch that is whole.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the commit points contradict the levels or the last closing; those of recovery.
    pub(super) fn recover(
        &mut self,
        segments: &Segments,
        home: &Segments,
        layout: Layout,
        levels: &Levels,
        threads: usize,
    ) -> Result<Recovered> {
        let zones = std::mem::take(&mut self.zones);
        // A store with a log finds the sequence that was committed last there.
        let in_levels = (0..layout.trees as u32).filter_map(|tree| levels.sequence_max(tree)).max();
        let floor = in_levels.filter(|_| !layout.logged).unwrap_or(0);
        let closed_with = layout::closed_with(home).filter(|_| !layout.logged);
        // Behind a repair, memtables may be back that the levels have.
        let is_chained = zones.iter().all(|zones| layout::is_chained(home, zones.id));
        let logical: BTreeSet<u32> = self.device.logical_segments().into_iter().collect();
        let commit_id = &self.commit_id;
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
        let recovered = recover(
            segments.pool(),
            layout.trees,
            zones,
            committed,
            is_chained,
            has_zone,
            threads,
        )?;
        if recovered.last != committed {
            commit_id.store(COMMIT_ID, recovered.last);
        }
        // The process before may have failed to sync it: the levels are not to be ahead of it.
        segments.pool().fence_found(&[commit_id.flush(COMMIT_ID..COMMIT_ID + 8)])?;
        Ok(recovered)
    }
}

/// The damage of a memtable's object.
fn damaged_object(index: u64, why: &str) -> Error {
    Error::Damaged { what: format!("the object of memtable {index}"), why: why.into() }
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

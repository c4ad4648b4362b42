//! The administration of the devices of an open store.

use std::sync::Arc;

use halite_contract::{
    ClassStatus, PoolLeaf, PoolStatus, Progress, Result, ScrubReport, VdevStatus,
};
use halite_vdev::{BLOCK, LeafPlace, LeafState, Position, Topology, Vdev};

use crate::devices::write_hint;
use crate::pass::Kind;
use crate::{Betree, Error};

impl Betree {
    /// The state of the devices.
    #[must_use]
    pub fn pool_status(&self) -> PoolStatus {
        let store = &*self.store;
        let storage = &store.trees.storage;
        let (record, blocks) = (store.labels.record(), storage.space(|space| space.blocks()));
        let bytes = |blocks: u64| blocks * BLOCK as u64;
        let mut classes = Vec::new();
        for (class, vdevs) in (0_u16..).zip(storage.classes()) {
            let number = usize::from(class);
            let mut of_class = Vec::new();
            for (vdev, device) in (0_u16..).zip(vdevs) {
                let places = &record.topology.classes()[number].vdevs[usize::from(vdev)].leaves;
                let records = &record.vdevs[number][usize::from(vdev)].leaves;
                let leaves =
                    device.leaves().into_iter().zip(0_u16..).map(|(status, leaf)| PoolLeaf {
                        position: Position { class, vdev, leaf },
                        guid: records[usize::from(leaf)].guid,
                        place: places[usize::from(leaf)].clone(),
                        status,
                    });
                let (arrangement, is_degraded) = (device.arrangement(), device.is_degraded());
                of_class.push(VdevStatus { arrangement, is_degraded, leaves: leaves.collect() });
            }
            let of = &blocks[number];
            let traffic = storage.traffic.of(number);
            classes.push(ClassStatus {
                capacity: bytes(of.blocks.capacity),
                used: bytes(of.blocks.used),
                deferred: bytes(of.blocks.deferred),
                free: bytes(of.blocks.free),
                effective: bytes(of.effective),
                effective_free: bytes(of.effective_free),
                reads: traffic.reads,
                read_bytes: traffic.bytes_read,
                migrated_in: traffic.moved_in,
                migrated_out: traffic.moved_out,
                fragmentation: of.statistics.fragmentation(),
                vdevs: of_class,
            });
        }
        let (scrub, resilver) = (store.last_report(Kind::Scrub), store.last_report(Kind::Resilver));
        PoolStatus { topology: record.topology, classes, scrub, resilver }
    }

    fn vdev_of(&self, at: Position) -> Result<&Arc<Vdev>> {
        let class = self.store.trees.storage.classes().get(usize::from(at.class));
        let vdev = class.and_then(|vdevs| vdevs.get(usize::from(at.vdev)));
        let vdev = vdev.filter(|vdev| usize::from(at.leaf) < vdev.leaves().len());
        vdev.ok_or_else(|| Error::NoSuchLeaf { position: at }.into())
    }

    /// Takes a leaf away for a while: it is neither read nor written, also when the store is opened again.
    ///
    /// # Errors
    /// [`Error::NoSuchLeaf`]; [`Error::Vdev`], if the others do not have all data, or it is missing; those of a checkpoint.
    pub fn set_offline(&self, at: Position) -> Result<()> {
        let vdev = self.vdev_of(at)?;
        vdev.set_offline(at.leaf.into()).map_err(Error::from)?;
        self.store.checkpoint()
    }

    /// Lets a leaf take part again that was offline, failed, or was missing and is back. If it missed writes, it is read
    /// only where the others do not have the bytes, until [`Betree::resilver`] is through.
    ///
    /// # Errors
    /// [`Error::NoSuchLeaf`]; [`Error::Device`], if what is at its place is not the leaf; [`Error::Vdev`]; those of a
    /// checkpoint.
    pub fn set_online(&self, at: Position) -> Result<()> {
        let (store, vdev) = (&*self.store, self.vdev_of(at)?);
        let is_missing = vdev.leaves()[usize::from(at.leaf)].state == LeafState::Missing;
        {
            // No superblock is written between the two.
            let _checkpoints = store.checkpoints.lock();
            match is_missing {
                true => {
                    let leaf = self.find_leaf(at)?;
                    vdev.replace_leaf(at.leaf.into(), leaf).map_err(Error::from)?;
                }
                false => vdev.set_online(at.leaf.into()).map_err(Error::from)?,
            }
            store.leaf_returned();
        }
        store.checkpoint()
    }

    /// The device of a missing leaf, which is back at its place.
    fn find_leaf(&self, at: Position) -> Result<Arc<dyn halite_vdev::Leaf>> {
        let (record, places) = (self.store.labels.record(), &self.store.places);
        let (class, vdev, leaf) =
            (usize::from(at.class), usize::from(at.vdev), usize::from(at.leaf));
        let place = &record.topology.classes()[class].vdevs[vdev].leaves[leaf];
        let guid = record.vdevs[class][vdev].leaves[leaf].guid;
        let unusable = |why: &str| Error::Device { device: place.to_string(), why: why.to_owned() };
        let seen = places
            .look(place)?
            .ok_or_else(|| unusable("it is not there; bring it back, or replace it"))?;
        let label = seen.labels.labels.first();
        match label
            .is_some_and(|label| label.pool == self.store.labels.pool() && label.guid == guid)
        {
            true => Ok(places.open(&seen)?),
            false => {
                Err(unusable("it is another device than the one that was there; replace it").into())
            }
        }
    }

    /// Puts a new device in the place of a leaf, which has to be resilvered then ([`Betree::resilver`]). The file or pool
    /// at its place must not exist yet.
    ///
    /// # Errors
    /// [`Error::NoSuchLeaf`]; [`Error::Device`]; [`Error::Vdev`], if the others do not have all data, the new device is too
    /// small, or it is in the pool already; those of a checkpoint.
    pub fn replace(&self, at: Position, place: &LeafPlace) -> Result<()> {
        let (store, vdev) = (&*self.store, self.vdev_of(at)?);
        let place = store.places.absolute(place)?;
        let guid = store.home.pool().random()?;
        {
            let _checkpoints = store.checkpoints.lock();
            let record = store.labels.record();
            let mut classes = record.topology.classes().to_vec();
            let leaves = &mut classes[usize::from(at.class)].vdevs[usize::from(at.vdev)].leaves;
            leaves[usize::from(at.leaf)] = place.clone();
            let topology =
                Topology::new(classes).map_err(halite_vdev::Error::from).map_err(Error::from)?;
            let mut changed = record;
            changed.topology = topology;
            if let Some(leaf) = changed.leaf_mut(at) {
                (leaf.guid, leaf.is_stale, leaf.is_offline) = (guid, true, false);
            }
            changed.check_len()?;
            let leaf = store.places.create(&place, false)?;
            if let Err(error) = vdev.replace_leaf(at.leaf.into(), leaf) {
                store.places.remove(&place);
                return Err(Error::from(error).into());
            }
            store.labels.change(|record| *record = changed);
            store.leaf_returned();
        }
        store.checkpoint()?;
        write_hint(&store.disk, &store.labels.record().topology)
    }

    /// Reads all space in use with all its redundancy, beside reads and writes, and repairs what is wrong. `progress` gets the bytes that
    /// were read and all bytes in use, and may stop it: then the next scrub goes on there, also after the store was closed and opened.
    ///
    /// # Errors
    /// [`Error::PassUnderWay`]; those of a checkpoint. Lost data is no error, but in the report.
    pub fn scrub(&self, progress: Progress<'_>) -> Result<ScrubReport> {
        self.store.pass(Kind::Scrub, progress)
    }

    /// Brings what they lack to the leaves that missed writes, beside reads and writes. Stopped as [`Betree::scrub`]. Behind a complete one,
    /// these leaves count as whole.
    ///
    /// # Errors
    /// As [`Betree::scrub`].
    pub fn resilver(&self, progress: Progress<'_>) -> Result<ScrubReport> {
        self.store.pass(Kind::Resilver, progress)
    }
}

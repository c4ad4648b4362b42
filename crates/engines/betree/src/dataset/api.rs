//! The calls for snapshots and clones.

use std::sync::Arc;

use halite_contract::{
    Durability, KeySpaceId, Result, Snapshot, SnapshotInfo, check_key_space_name,
};

use crate::catalogue::{Catalogue, Snapshot as Made, SnapshotId, check_name};
use crate::dataset::command::Command;
use crate::dataset::handle::OpenSnapshot;
use crate::purpose::Purpose;
use crate::record::Batch;
use crate::store::Store;
use crate::store::commit::Commit;
use crate::store::view::{Base, Behind, View};
use crate::tree::Tree;
use crate::{Betree, Error};

/// The commit of a command.
struct Commanded {
    catalogue: Option<Catalogue>,
    behind: Option<Behind>,
}

impl Commit for Commanded {
    fn check(&mut self, _store: &Store) -> Result<()> {
        Ok(())
    }

    fn catalogue(&mut self) -> Option<Catalogue> {
        self.catalogue.take()
    }

    fn ends_memtable(&self) -> bool {
        true
    }

    fn behind(&mut self) -> Option<Behind> {
        self.behind.take()
    }
}

pub(crate) fn no_snapshot(name: &str) -> halite_contract::Error {
    Error::NoSuchSnapshot { name: name.into() }.into()
}

/// Refuses to let a snapshot go that clones have begun as.
fn check_unused(catalogue: &Catalogue, snapshot: SnapshotId, name: &str) -> Result<()> {
    match catalogue.clones_of(snapshot).next() {
        Some(clone) => {
            Err(Error::SnapshotInUse { name: name.into(), clone: clone.to_string() }.into())
        }
        None => Ok(()),
    }
}

/// Refuses the name of a dataset that there is.
pub(crate) fn check_free(catalogue: &Catalogue, name: &str) -> Result<()> {
    check_name(name)?;
    match catalogue.find(name) {
        Some(_) => Err(Error::KeySpaceExists { name: name.into() }.into()),
        None => Ok(()),
    }
}

impl Betree {
    /// Commits a command with its changes of the catalogue.
    fn command(
        &self,
        mut batch: Batch,
        command: Command,
        catalogue: Catalogue,
        purpose: Purpose,
    ) -> Result<()> {
        command.push(&mut batch);
        let behind = match command.replaces() {
            Some((dataset, snapshot)) => {
                let (_, base) = self.snapshot_base(snapshot)?;
                let is_new = matches!(command, Command::Clone { .. });
                Some(Behind::Base { dataset, base, is_new })
            }
            None => None,
        };
        let mut commit = Commanded { catalogue: Some(catalogue), behind };
        self.store.commit(&batch, purpose, Durability::Immediate, &mut commit)
    }

    /// A snapshot in the catalogue, and a view that keeps it, without waiting for the flush that makes its tree. All that
    /// it has is durable.
    fn snapshot_base(&self, snapshot: SnapshotId) -> Result<(Arc<View>, Base)> {
        let view = self.store.view();
        if let Some(tree) = view.snapshots.get(&snapshot) {
            let base = Base::Tree(tree.clone());
            return Ok((view, base));
        }
        let mut base = None;
        for memtable in &view.frozen {
            if Command::of_memtable(memtable)?.is_some_and(|c| c.makes() == Some(snapshot)) {
                base = Some(Base::Pending { snapshot, sequence: memtable.last() });
            }
        }
        // The thread that makes it may still wait for the log.
        if let Some(Base::Pending { sequence, .. }) = &base
            && *sequence > self.store.commits.visible()
        {
            self.store.sync()?;
        }
        // A thread may have deleted it meanwhile.
        base.map(|base| (view, base)).ok_or_else(|| no_snapshot(&snapshot.1.to_string()))
    }

    /// The tree of a snapshot in the catalogue, and a view that keeps it; behind the flush that makes it.
    pub(crate) fn snapshot_tree(&self, snapshot: SnapshotId) -> Result<(Arc<View>, Tree)> {
        let find = |view: Arc<View>| {
            let tree = view.snapshots.get(&snapshot).cloned();
            tree.map(|tree| (view, tree))
        };
        if let Some(found) = find(self.store.view()) {
            return Ok(found);
        }
        // A thread may delete it meanwhile.
        let is_done =
            |view: &View| view.snapshots.contains_key(&snapshot) || view.frozen.is_empty();
        self.store.wait_until(&is_done)?;
        find(self.store.view()).ok_or_else(|| no_snapshot(&snapshot.1.to_string()))
    }

    /// Makes a persistent snapshot of a dataset: of all that was committed before, which is durable when this returns.
    /// It takes one commit, whatever the dataset's size.
    ///
    /// # Errors
    /// [`halite_contract::Error::NoSuchKeySpace`]; [`halite_contract::Error::KeySpaceName`]: it is no name;
    /// [`Error::SnapshotExists`]; those of a write.
    pub fn create_snapshot(&self, space: KeySpaceId, name: &str) -> Result<()> {
        check_key_space_name(name)?;
        let _changing = self.store.cataloguing.lock();
        let catalogue = self.store.catalogue.load_full();
        catalogue.check(space)?;
        if catalogue.snapshot(space, name).is_some() {
            return Err(Error::SnapshotExists { name: name.into() }.into());
        }
        let mut batch = Batch::default();
        let pool = self.store.home.pool();
        let identity = u128::from(pool.random()?) << 64 | u128::from(pool.random()?);
        let (changed, number) = catalogue.with_snapshot(space, name, identity.max(1), &mut batch);
        self.command(batch, Command::Create((space.0, number)), changed, Purpose::Bookkeeping)
    }

    /// Deletes a snapshot. Its name is gone when this returns, and its space is free behind the next flush and two
    /// checkpoints. Handles that are open read on.
    ///
    /// # Errors
    /// [`halite_contract::Error::NoSuchKeySpace`]; [`Error::NoSuchSnapshot`]; [`Error::SnapshotInUse`]; those of a write.
    pub fn delete_snapshot(&self, space: KeySpaceId, name: &str) -> Result<()> {
        let _changing = self.store.cataloguing.lock();
        let catalogue = self.store.catalogue.load_full();
        catalogue.check(space)?;
        let number = catalogue.snapshot(space, name).ok_or_else(|| no_snapshot(name))?;
        check_unused(&catalogue, (space.0, number), name)?;
        let mut batch = Batch::default();
        let changed = catalogue.without_snapshot(space, name, &mut batch);
        self.command(batch, Command::Delete((space.0, number)), changed, Purpose::Removal)
    }

    /// The snapshots of a dataset, the oldest first.
    ///
    /// # Errors
    /// [`halite_contract::Error::NoSuchKeySpace`].
    pub fn snapshots_of(&self, space: KeySpaceId) -> Result<Vec<SnapshotInfo>> {
        let catalogue = self.store.catalogue.load_full();
        catalogue.check(space)?;
        let info = |(name, of): (&Arc<str>, Made)| {
            let Made { number, identity } = of;
            let clones =
                catalogue.clones_of((space.0, number)).map(|clone| clone.to_string()).collect();
            SnapshotInfo { name: name.to_string(), number, identity, clones }
        };
        let mut infos: Vec<_> = catalogue.snapshots_with(space).map(info).collect();
        infos.sort_by_key(|info| info.number);
        Ok(infos)
    }

    /// Opens a snapshot for reading; of its key spaces, it has the dataset.
    ///
    /// # Errors
    /// [`halite_contract::Error::NoSuchKeySpace`]; [`Error::NoSuchSnapshot`]; those of a sync of the log, if the commit of the
    /// snapshot still waits for its own.
    pub fn open_snapshot(&self, space: KeySpaceId, name: &str) -> Result<Arc<dyn Snapshot>> {
        let catalogue = self.store.catalogue.load_full();
        let of = catalogue.name(space)?.to_string();
        let number = catalogue.snapshot(space, name).ok_or_else(|| no_snapshot(name))?;
        let (view, base) = self.snapshot_base((space.0, number)).map_err(|error| match error {
            halite_contract::Error::Own(own)
                if matches!(own.downcast_ref(), Some(Error::NoSuchSnapshot { .. })) =>
            {
                no_snapshot(name)
            }
            error => error,
        })?;
        let context = Arc::clone(&self.store.trees);
        Ok(Arc::new(OpenSnapshot { context, view, space, name: of, base }))
    }

    /// Makes a dataset what it was when a snapshot of it was made, in one commit. The newer snapshots of it go with
    /// that, if `force` allows it.
    ///
    /// # Errors
    /// [`halite_contract::Error::NoSuchKeySpace`]; [`Error::NoSuchSnapshot`]; [`Error::SnapshotNotNewest`];
    /// [`Error::SnapshotInUse`], of a newer one; those of a write.
    pub fn rollback(&self, space: KeySpaceId, name: &str, force: bool) -> Result<()> {
        let _changing = self.store.cataloguing.lock();
        let mut catalogue = Catalogue::clone(&self.store.catalogue.load());
        catalogue.check(space)?;
        let number = catalogue.snapshot(space, name).ok_or_else(|| no_snapshot(name))?;
        let newer = catalogue.snapshots_of(space).filter(|(_, other)| *other > number);
        let newer: Vec<_> = newer.map(|(name, number)| (Arc::clone(name), number)).collect();
        if let Some((first, _)) = newer.first().filter(|_| !force) {
            return Err(
                Error::SnapshotNotNewest { name: name.into(), newer: first.to_string() }.into()
            );
        }
        let mut batch = Batch::default();
        // Readers of the log, and transactions, see a change of all keys.
        batch.push_range(space.0, &[], None);
        for (name, number) in newer {
            check_unused(&catalogue, (space.0, number), &name)?;
            catalogue = catalogue.without_snapshot(space, &name, &mut batch);
        }
        self.command(batch, Command::Rollback((space.0, number)), catalogue, Purpose::Removal)
    }

    /// Makes a dataset that begins as a snapshot, in one commit, also if the snapshot's memtables wait for their flush.
    /// They share what neither changes, and the snapshot stays as long as the clone.
    ///
    /// # Errors
    /// [`halite_contract::Error::NoSuchKeySpace`]; [`Error::NoSuchSnapshot`]; [`Error::KeySpaceExists`];
    /// [`halite_contract::Error::KeySpaceName`]: it is no name; those of a write.
    pub fn clone_snapshot(
        &self,
        space: KeySpaceId,
        snapshot: &str,
        new_name: &str,
    ) -> Result<KeySpaceId> {
        let _changing = self.store.cataloguing.lock();
        let catalogue = self.store.catalogue.load_full();
        catalogue.check(space)?;
        let number = catalogue.snapshot(space, snapshot).ok_or_else(|| no_snapshot(snapshot))?;
        check_free(&catalogue, new_name)?;
        let origin = (space.0, number);
        let mut batch = Batch::default();
        let (changed, clone) = catalogue.with_origin(new_name, Some(origin), &mut batch)?;
        if let Some(action) = changed.action(clone.0) {
            self.store.trees.actions.set(clone.0, action);
        }
        let command = Command::Clone { dataset: clone.0, origin };
        self.command(batch, command, changed, Purpose::Bookkeeping)?;
        Ok(clone)
    }

    /// Gives a dataset another name.
    ///
    /// # Errors
    /// [`halite_contract::Error::NoSuchKeySpace`]; [`Error::KeySpaceExists`]; [`halite_contract::Error::KeySpaceName`]: it
    /// is no name; those of a write.
    pub fn rename_key_space(&self, old: &str, new: &str) -> Result<()> {
        let _changing = self.store.cataloguing.lock();
        let catalogue = self.store.catalogue.load_full();
        let space = catalogue.find(old).ok_or(halite_contract::Error::NoSuchKeySpace)?;
        check_free(&catalogue, new)?;
        let mut batch = Batch::default();
        let changed = catalogue.renamed(space, new, &mut batch)?;
        self.change(&batch, Purpose::Bookkeeping, changed)
    }

    /// Drops a dataset together with its snapshots.
    ///
    /// # Errors
    /// [`halite_contract::Error::NoSuchKeySpace`]; [`Error::SnapshotInUse`]; those of a write.
    pub fn destroy_key_space(&self, space: KeySpaceId) -> Result<()> {
        let _changing = self.store.cataloguing.lock();
        let mut catalogue = Catalogue::clone(&self.store.catalogue.load());
        let snapshots =
            catalogue.snapshots_of(space).map(|(name, number)| (Arc::clone(name), number));
        let mut batch = Batch::default();
        for (name, number) in snapshots.collect::<Vec<_>>() {
            check_unused(&catalogue, (space.0, number), &name)?;
            catalogue = catalogue.without_snapshot(space, &name, &mut batch);
        }
        let changed = catalogue.without(space, &mut batch)?;
        self.command(batch, Command::Destroy(space.0), changed, Purpose::Removal)
    }

    /// Drops a dataset that has no snapshots. In the lock of the catalogue.
    pub(crate) fn drop_without_snapshots(&self, space: KeySpaceId) -> Result<()> {
        let catalogue = self.store.catalogue.load_full();
        if let Some((name, _)) = catalogue.snapshots_of(space).next() {
            return Err(Error::HasSnapshots { snapshot: name.to_string() }.into());
        }
        let mut batch = Batch::default();
        let changed = catalogue.without(space, &mut batch)?;
        match catalogue.origin(space) {
            Some(_) => self.command(batch, Command::Destroy(space.0), changed, Purpose::Removal),
            None => self.change(&batch, Purpose::Removal, changed),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use halite_contract::{Engine, EngineOptions};
    use halite_disk::{Disk, DiskModel};
    use halite_pmem::{Domain, Medium, PoolOptions};

    use super::*;
    use crate::BetreeOptions;
    use crate::message::Kind;
    use crate::store::written_large::{NumberedValue, WrittenLarge};

    fn open() -> Betree {
        let medium = Medium::new(Domain::PageCache, 32 << 20).unwrap();
        let mut pool_options = PoolOptions::default();
        pool_options.size_max = 32 << 20;
        pool_options.medium = Some(medium.clone());
        let disk = Some(Disk::model(&DiskModel::of(medium.machine())));
        let own =
            BetreeOptions { large_value_bytes: Some(1 << 10), ..BetreeOptions::default() }.into();
        Betree::open(&EngineOptions { pool_options, disk, own, ..EngineOptions::new("pool") })
            .unwrap()
    }

    struct Always;

    impl Commit for Always {
        fn check(&mut self, _store: &Store) -> Result<()> {
            Ok(())
        }
    }

    fn verify(betree: &Betree) {
        let report = betree.verify(&mut |_, _| ControlFlow::Continue(())).unwrap();
        assert!(report.damage.is_empty(), "{:?}", report.damage);
    }

    #[test]
    fn a_value_that_was_written_before_a_snapshot_and_committed_behind_it_is_not_the_snapshots() {
        let betree = open();
        let space = betree.key_space("space").unwrap();
        let value = vec![7; 5000];
        let of_key = NumberedValue { number: 0, dataset: space.0, key: b"key", value: &value };
        let written = WrittenLarge::write(&betree.store, std::iter::once(of_key)).unwrap();
        for name in ["one", "two"] {
            betree.create_snapshot(space, name).unwrap();
        }
        let mut batch = Batch::default();
        batch.push(space.0, Kind::InsertLarge, b"key", written.of(0).unwrap());
        betree.store.commit(&batch, Purpose::Put, Durability::Immediate, &mut Always).unwrap();
        written.keep();
        verify(&betree);
        assert_eq!(betree.get(space, b"key").unwrap().as_deref(), Some(&value[..]));
        betree.rollback(space, "two", false).unwrap();
        verify(&betree);
        assert_eq!(betree.get(space, b"key").unwrap(), None);
        assert_eq!(betree.open_snapshot(space, "two").unwrap().len(space).unwrap(), 0);
    }
}

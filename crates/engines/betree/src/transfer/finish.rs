//! The dataset that a stream is for, and the commit that changes it.

use std::sync::Arc;

use halite_contract::{Durability, KeySpaceId, Result};

use super::differences::Differences;
use super::error::StreamError;
use super::header::Header;
use super::options::ReceiveOptions;
use super::staging::{refused, staging_name, state_key};
use crate::catalogue::{CATALOGUE, Catalogue, Snapshot};
use crate::dataset::api::check_free;
use crate::dataset::command::Command;
use crate::dataset::history::SnapshotRoot;
use crate::memtable::Memtable;
use crate::message::Kind;
use crate::purpose::Purpose;
use crate::record::{Batch, end_of};
use crate::store::Store;
use crate::store::commit::Commit;
use crate::store::recent::any_since;
use crate::store::view::{Behind, Grafting};
use crate::tree::Tree;
use crate::{Betree, Error};

/// The last commit of a transfer.
struct Finish<'a> {
    command: &'a Command,
    catalogue: Option<Catalogue>,
    /// The dataset that must not have changed, the memtable that was active when that was found, and the sequence.
    unchanged: Option<(u32, Arc<Memtable>, u64, String)>,
    grafting: Option<Grafting>,
}

impl Commit for Finish<'_> {
    fn check(&mut self, store: &Store) -> Result<()> {
        if let Some((dataset, memtable, then, snapshot)) = &self.unchanged {
            let (start, end) = (dataset.to_be_bytes(), end_of(*dataset));
            if any_since(memtable, |memtable| memtable.has_range_changed(&start, &end, *then)) {
                return Err(refused(StreamError::Changed { snapshot: snapshot.clone() }));
            }
        }
        self.grafting = Grafting::for_commit(store, self.command)?;
        Ok(())
    }

    fn catalogue(&mut self) -> Option<Catalogue> {
        self.catalogue.take()
    }

    fn ends_memtable(&self) -> bool {
        true
    }

    fn behind(&mut self) -> Option<Behind> {
        self.grafting.take().map(Behind::Graft)
    }
}

impl Betree {
    /// The dataset that a stream has changes of, and the snapshot that they are based on; `None`: it is a new one.
    pub(super) fn target(
        &self,
        header: &Header,
        name: &str,
        options: ReceiveOptions,
    ) -> Result<Option<(KeySpaceId, Snapshot)>> {
        let catalogue = self.store.catalogue.load_full();
        let space = catalogue.find(name);
        if let Some(space) = space
            && let Some((snapshot, _)) =
                catalogue.snapshots_with(space).find(|(_, of)| of.identity == header.part.identity)
        {
            return Err(refused(StreamError::Repeated { snapshot: snapshot.to_string() }));
        }
        let Some(from) = header.part.from else {
            check_free(&catalogue, name)?;
            return Ok(None);
        };
        let space = space.ok_or(halite_contract::Error::NoSuchKeySpace)?;
        let base = catalogue.snapshots_with(space).find(|(_, of)| of.identity == from);
        let newest = catalogue.snapshots_with(space).max_by_key(|(_, of)| of.number);
        let other_base = || {
            let newest = newest.map(|(name, _)| name.to_string());
            refused(StreamError::OtherBase { expected: header.from.clone(), newest })
        };
        let (_, base) = base.ok_or_else(other_base)?;
        let is_newest = newest.is_some_and(|(_, newest)| newest == base);
        if !is_newest && !options.rollback {
            return Err(other_base());
        }
        let taken = catalogue.snapshot_of(space, &header.snapshot);
        if taken.is_some_and(|taken| taken.number <= base.number) {
            return Err(Error::SnapshotExists { name: header.snapshot.clone() }.into());
        }
        Ok(Some((space, base)))
    }

    /// Refuses a dataset that has changed since a snapshot. Returns the memtable that was active then, and a sequence up
    /// to which that is so.
    pub(super) fn check_unchanged(
        &self,
        space: KeySpaceId,
        base: &Snapshot,
    ) -> Result<(Arc<Memtable>, u64)> {
        let store = &*self.store;
        let (_, tree) = self.snapshot_tree((space.0, base.number))?;
        store.freeze()?;
        while store.flush_oldest()? {}
        let (view, at) = store.now();
        let root = store.checkpoints.lock().histories.snapshot((space.0, base.number)).copied();
        let changed = || {
            let catalogue = store.catalogue.load();
            let mut all = catalogue.snapshots_with(space);
            let name = all.find(|(_, of)| of == base).map(|(name, _)| name.to_string());
            refused(StreamError::Changed { snapshot: name.unwrap_or_default() })
        };
        let Some(SnapshotRoot { epoch, sequence, .. }) = root else { return Err(changed()) };
        let (start, end) = (space.0.to_be_bytes(), end_of(space.0));
        let is_in_memory =
            view.memtables().any(|memtable| memtable.has_range_changed(&start, &end, sequence));
        if is_in_memory {
            return Err(changed());
        }
        let live = view.trees.get(&space.0).cloned().unwrap_or_else(Tree::empty);
        let mut differences =
            Differences::new(&store.trees, space.0, (&tree, epoch), &live, Vec::new())?;
        match differences.next()? {
            Some(_) => Err(changed()),
            None => Ok((Arc::clone(&view.active), at)),
        }
    }

    /// Makes what was staged the dataset's, and the snapshot.
    pub(super) fn finish(
        &self,
        header: &Header,
        name: &str,
        options: ReceiveOptions,
        staged: u32,
    ) -> Result<()> {
        let store = &*self.store;
        if let Some((space, base)) = self.target(header, name, options)?
            && options.rollback
        {
            let catalogue = store.catalogue.load_full();
            let has_newer = catalogue.snapshots_with(space).any(|(_, of)| of.number > base.number);
            if has_newer || self.check_unchanged(space, &base).is_err() {
                let mut all = catalogue.snapshots_with(space);
                let of_base = all.find(|(_, of)| *of == base).map(|(name, _)| name.to_string());
                self.rollback(space, &of_base.unwrap_or_default(), true)?;
            }
        }
        let _changing = store.cataloguing.lock();
        let no_rollback = ReceiveOptions { rollback: false };
        let target = self.target(header, name, no_rollback)?;
        let catalogue = store.catalogue.load_full();
        let (staging, identity) = (staging_name(name), header.part.identity);
        let mut batch = Batch::default();
        batch.push(CATALOGUE, Kind::Delete, &state_key(staged), &[]);
        let (changed, command, unchanged);
        match target {
            None => {
                let renamed = catalogue.adopted(&staging, name, &mut batch)?;
                let of = renamed.with_snapshot(
                    KeySpaceId(staged),
                    &header.snapshot,
                    identity,
                    &mut batch,
                );
                (changed, unchanged) = (of.0, None);
                command = Command::Create((staged, of.1));
            }
            Some((space, base)) => {
                let (memtable, then) = self.check_unchanged(space, &base)?;
                unchanged = Some((space.0, memtable, then, header.from.clone()));
                let without = catalogue.without_own(&staging, &mut batch);
                let of = without.with_snapshot(space, &header.snapshot, identity, &mut batch);
                changed = of.0;
                let changes = batch.changes() + 1;
                command = Command::Receive { snapshot: (space.0, of.1), staged, changes };
            }
        }
        command.push(&mut batch);
        let mut commit =
            Finish { command: &command, catalogue: Some(changed), unchanged, grafting: None };
        store.commit(&batch, Purpose::Bookkeeping, Durability::Immediate, &mut commit)
    }
}

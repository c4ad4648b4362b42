//! The engine's features, as callers that do not know it have them.

use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::sync::Arc;

use halite_contract::{
    Datasets, KeyRange, KeySpaceId, MigrationReport, ObjectStores, PoolStatus, Pooled, Preference,
    Progress, RangeCopy, Result, ScrubReport, Snapshot, SnapshotInfo, StreamInfo, Tiered,
    TransferReport, Transfers, TreePart, Trees,
};
use halite_vdev::{LeafPlace, Position};

use crate::store::view::Below;
use crate::tree::parts::visit_parts;
use crate::{Betree, Error, ReceiveOptions, ReceiveToken};

impl ObjectStores for Betree {
    fn objects(&self, name: &str) -> Result<Arc<dyn halite_contract::ObjectStore>> {
        Ok(Arc::new(self.objects(name)?))
    }

    fn object_stores(&self) -> Vec<String> {
        self.object_stores()
    }

    fn drop_objects(&self, name: &str) -> Result<()> {
        self.drop_objects(name)
    }
}

impl Pooled for Betree {
    fn pool_status(&self) -> PoolStatus {
        self.pool_status()
    }

    fn set_offline(&self, at: Position) -> Result<()> {
        self.set_offline(at)
    }

    fn set_online(&self, at: Position) -> Result<()> {
        self.set_online(at)
    }

    fn replace(&self, at: Position, place: &LeafPlace) -> Result<()> {
        self.replace(at, place)
    }

    fn scrub(&self, progress: Progress<'_>) -> Result<ScrubReport> {
        self.scrub(progress)
    }

    fn resilver(&self, progress: Progress<'_>) -> Result<ScrubReport> {
        self.resilver(progress)
    }
}

impl Datasets for Betree {
    fn rename_key_space(&self, old: &str, new: &str) -> Result<()> {
        self.rename_key_space(old, new)
    }

    fn destroy_key_space(&self, space: KeySpaceId) -> Result<()> {
        self.destroy_key_space(space)
    }

    fn create_snapshot(&self, space: KeySpaceId, name: &str) -> Result<()> {
        self.create_snapshot(space, name)
    }

    fn delete_snapshot(&self, space: KeySpaceId, name: &str) -> Result<()> {
        self.delete_snapshot(space, name)
    }

    fn snapshots_of(&self, space: KeySpaceId) -> Result<Vec<SnapshotInfo>> {
        self.snapshots_of(space)
    }

    fn open_snapshot(&self, space: KeySpaceId, name: &str) -> Result<Arc<dyn Snapshot>> {
        self.open_snapshot(space, name)
    }

    fn rollback(&self, space: KeySpaceId, name: &str, force: bool) -> Result<()> {
        self.rollback(space, name, force)
    }

    fn clone_snapshot(
        &self,
        space: KeySpaceId,
        snapshot: &str,
        new_name: &str,
    ) -> Result<KeySpaceId> {
        self.clone_snapshot(space, snapshot, new_name)
    }

    fn copy_range(&self, copy: &RangeCopy<'_>) -> Result<()> {
        self.copy_range(copy)
    }
}

impl Transfers for Betree {
    fn send(
        &self,
        space: KeySpaceId,
        snapshot: &str,
        from: Option<&str>,
        token: Option<&str>,
        out: &mut dyn Write,
        progress: Progress<'_>,
    ) -> Result<TransferReport> {
        let token = token.map(str::parse::<ReceiveToken>).transpose().map_err(Error::from)?;
        self.send(space, snapshot, from, token.as_ref(), out, progress)
    }

    fn stream_info(&self, input: &mut dyn Read) -> Result<StreamInfo> {
        Self::stream_info(input)
    }

    fn receive(
        &self,
        input: &mut dyn Read,
        name: &str,
        rollback: bool,
        progress: Progress<'_>,
    ) -> Result<TransferReport> {
        self.receive(input, name, ReceiveOptions { rollback }, progress)
    }

    fn receive_token(&self, name: &str) -> Result<Option<String>> {
        Ok(self.receive_token(name)?.map(|token| token.to_string()))
    }

    fn discard_received(&self, name: &str) -> Result<bool> {
        self.discard_received(name)
    }
}

impl Tiered for Betree {
    fn preference(&self, space: KeySpaceId) -> Result<Preference> {
        self.preference(space)
    }

    fn set_preference(&self, space: KeySpaceId, preference: Preference) -> Result<()> {
        self.set_preference(space, preference)
    }

    fn migrate(
        &self,
        space: KeySpaceId,
        range: &KeyRange,
        class: u8,
        progress: Progress<'_>,
    ) -> Result<MigrationReport> {
        self.migrate(space, range, class, progress)
    }

    fn migrate_object(
        &self,
        store: &str,
        name: &[u8],
        class: u8,
        progress: Progress<'_>,
    ) -> Result<MigrationReport> {
        self.migrate_object(store, name, class, progress)
    }
}

impl Trees for Betree {
    fn visit_tree(
        &self,
        space: KeySpaceId,
        snapshot: Option<&str>,
        visit: &mut dyn FnMut(TreePart) -> ControlFlow<()>,
    ) -> Result<()> {
        let store = &*self.store;
        let catalogue = store.catalogue.load_full();
        catalogue.check(space)?;
        // The view keeps the tree's extents as they are.
        let (_view, tree) = match snapshot {
            Some(name) => {
                let number = catalogue.snapshot(space, name);
                let number = number.ok_or_else(|| Error::NoSuchSnapshot { name: name.into() })?;
                self.snapshot_tree((space.0, number))?
            }
            None => {
                // A store that cannot flush shows what it has.
                if store.freeze().is_ok() {
                    while store.flush_oldest().is_ok_and(|flushed| flushed) {}
                }
                let (view, at) = store.now();
                let Below::Tree(Some(tree)) = view.of(space.0, at).1 else { return Ok(()) };
                let tree = tree.clone();
                (view, tree)
            }
        };
        Ok(visit_parts(&store.trees, &tree, visit)?)
    }
}

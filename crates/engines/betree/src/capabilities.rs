//! The engine's features, as callers that do not know it have them.

use std::ops::ControlFlow;
use std::sync::Arc;

use halite_contract::{
    Datasets, KeySpaceId, ObjectStores, PoolStatus, Pooled, Progress, Result, ScrubReport,
    Snapshot, SnapshotInfo, TreePart, Trees,
};
use halite_vdev::{LeafPlace, Position};

use crate::tree::parts::visit_parts;
use crate::{Betree, Error};

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
                let tree = view.of(space.0, at).1.cloned();
                let Some(tree) = tree else { return Ok(()) };
                (view, tree)
            }
        };
        Ok(visit_parts(&store.trees, &tree, visit)?)
    }
}

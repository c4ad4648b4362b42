//! Key spaces as datasets: snapshots that are kept, clones, rollback, copied ranges, other names, and the trees below.

use std::ops::ControlFlow;
use std::sync::Arc;

use halite_contract::{Datasets, Engine, Feature, RangeCopy};

use crate::engines::offered;
use crate::{Database, KeyRange, KeySpace, Result, SnapshotInfo, SnapshotSpace, TreePart};

fn datasets(engine: &Arc<dyn Engine>) -> Result<&dyn Datasets> {
    offered(&**engine, engine.capabilities().datasets, Feature::Datasets)
}

impl Database {
    /// Gives a key space another name. Handles of it go on, under the name that they had.
    ///
    /// # Errors
    /// [`crate::Error::Lacks`]; [`crate::EngineError::NoSuchKeySpace`]; there is a key space of the new name; the errors
    /// of a write.
    pub fn rename_key_space(&self, old: &str, new: &str) -> Result<()> {
        Ok(datasets(&self.engine)?.rename_key_space(old, new)?)
    }

    /// Removes a key space together with its kept snapshots; [`Database::drop_key_space`] refuses one that has some.
    ///
    /// # Errors
    /// [`crate::Error::Lacks`]; [`crate::EngineError::NoSuchKeySpace`]; a clone keeps a snapshot; the errors of a write.
    pub fn destroy_key_space(&self, space: &KeySpace) -> Result<()> {
        Ok(datasets(&self.engine)?.destroy_key_space(space.id)?)
    }
}

/// Kept snapshots. They stay when the database is closed, unlike those of [`Database::take_snapshot`], and are of one key
/// space.
///
/// Besides the errors that a method names, all of them have [`crate::Error::Lacks`], those of a write, and
/// [`crate::EngineError::NoSuchKeySpace`] if the key space was dropped.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data");
/// use halite::Database;
/// let db = Database::builder().engine("betree").open(&path)?;
/// let fruit = db.key_space("fruit")?;
/// fruit.put("apple", "green")?;
/// fruit.keep_snapshot("monday")?;
/// fruit.put("apple", "brown")?;
/// assert_eq!(fruit.kept_snapshot("monday")?.get("apple")?.as_deref(), Some(&b"green"[..]));
/// let clone = fruit.clone_snapshot("monday", "experiment")?;
/// clone.put("pear", "yellow")?;
/// fruit.rollback("monday", false)?;
/// assert_eq!(fruit.get("apple")?.as_deref(), Some(&b"green"[..]));
/// assert_eq!(fruit.kept_snapshots()?[0].clones, ["experiment"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl KeySpace {
    /// Keeps the key space as it is now, under a name of its own: durable when this returns, in one commit, whatever the
    /// size.
    ///
    /// # Errors
    /// There is a snapshot of the name.
    pub fn keep_snapshot(&self, name: &str) -> Result<()> {
        Ok(datasets(&self.engine)?.create_snapshot(self.id, name)?)
    }

    /// The kept snapshots, the oldest first.
    ///
    /// # Errors
    /// Those of the block.
    pub fn kept_snapshots(&self) -> Result<Vec<SnapshotInfo>> {
        Ok(datasets(&self.engine)?.snapshots_of(self.id)?)
    }

    /// The key space as a kept snapshot has it.
    ///
    /// # Errors
    /// There is no such snapshot.
    pub fn kept_snapshot(&self, name: &str) -> Result<SnapshotSpace> {
        let snapshot = datasets(&self.engine)?.open_snapshot(self.id, name)?;
        Ok(SnapshotSpace::new(snapshot, self.name(), self.id))
    }

    /// Deletes a kept snapshot. Readers that have it read on.
    ///
    /// # Errors
    /// There is no such snapshot; a clone keeps it.
    pub fn delete_snapshot(&self, name: &str) -> Result<()> {
        Ok(datasets(&self.engine)?.delete_snapshot(self.id, name)?)
    }

    /// Makes the key space what it was when a snapshot of it was kept. Newer snapshots go with that, if `force` allows
    /// it.
    ///
    /// # Errors
    /// There is no such snapshot; there are newer ones and `force` is false; a clone keeps a newer one.
    pub fn rollback(&self, snapshot: &str, force: bool) -> Result<()> {
        Ok(datasets(&self.engine)?.rollback(self.id, snapshot, force)?)
    }

    /// Makes a key space that begins as a kept snapshot. They share what neither changes, and the snapshot stays as long
    /// as the clone.
    ///
    /// # Errors
    /// There is no such snapshot; there is a key space of the new name.
    pub fn clone_snapshot(&self, snapshot: &str, new_name: &str) -> Result<KeySpace> {
        let id = datasets(&self.engine)?.clone_snapshot(self.id, snapshot, new_name)?;
        Ok(KeySpace::new(Arc::clone(&self.engine), new_name, id))
    }

    /// Copies the keys of a range that begin with `old_prefix` to a key space, which may be this one, with `new_prefix`
    /// instead: in one commit, durable when this returns, whatever the size. Keys that the destination had in the range of
    /// the new keys are gone then.
    ///
    /// # Errors
    /// The new keys would be too long.
    pub fn copy_range(
        &self,
        range: &KeyRange,
        old_prefix: &[u8],
        destination: &KeySpace,
        new_prefix: &[u8],
    ) -> Result<()> {
        let (source, destination) = (self.id, destination.id);
        let copy = RangeCopy { source, range, old_prefix, destination, new_prefix };
        Ok(datasets(&self.engine)?.copy_range(&copy)?)
    }

    /// Visits the parts of the stored tree of the key space, or of one of its kept snapshots, until `visit` breaks: for
    /// engineers of the engine.
    ///
    /// # Errors
    /// There is no such snapshot; [`crate::EngineError::Damaged`], behind the parts that were visited before.
    pub fn visit_tree(
        &self,
        snapshot: Option<&str>,
        visit: &mut dyn FnMut(TreePart) -> ControlFlow<()>,
    ) -> Result<()> {
        let trees = offered(&*self.engine, self.engine.capabilities().trees, Feature::Trees)?;
        Ok(trees.visit_tree(self.id, snapshot, visit)?)
    }
}

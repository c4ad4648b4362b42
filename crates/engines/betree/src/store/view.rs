//! What readers see: memtables above trees, as one thing that never changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::dataset::histories::SnapshotTrees;
use crate::memtable::Memtable;
use crate::tree::Tree;

/// The trees of all datasets, by number.
pub(crate) type Trees = BTreeMap<u32, Tree>;

/// A state of the store. Its active memtable gets more versions, with sequences above those that its readers ask for.
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) active: Arc<Memtable>,
    /// The newest first.
    pub(crate) frozen: Vec<Arc<Memtable>>,
    /// What earlier memtables had.
    pub(crate) trees: Arc<Trees>,
    /// The trees of the snapshots that earlier memtables have made.
    pub(crate) snapshots: Arc<SnapshotTrees>,
    /// Datasets that a commit has replaced, the latest last, until the memtable of the commit is flushed.
    pub(crate) replaced: Vec<Replaced>,
}

/// A dataset that a commit has replaced by a snapshot's tree: rolled back, or made as a clone.
#[derive(Clone)]
pub(crate) struct Replaced {
    dataset: u32,
    /// The last sequence of the commit: what is before that is in no memtable and no tree of the dataset any more.
    sequence: u64,
    tree: Tree,
}

impl View {
    /// The memtables, the newest first.
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.active).chain(&self.frozen)
    }

    /// The memtables that a reader of a dataset at a sequence looks at, the newest first, and the tree below them.
    #[inline]
    pub(crate) fn of(
        &self,
        dataset: u32,
        at: u64,
    ) -> (impl Iterator<Item = &Arc<Memtable>>, Option<&Tree>) {
        let of_dataset =
            |replaced: &&Replaced| replaced.dataset == dataset && replaced.sequence <= at;
        let (from, tree) = match self.replaced.iter().rev().find(of_dataset) {
            Some(replaced) => (replaced.sequence, Some(&replaced.tree)),
            None => (0, self.trees.get(&dataset)),
        };
        (self.memtables().take_while(move |memtable| memtable.before >= from), tree)
    }

    /// The state behind a new active memtable. A commit that ends with the memtable's last sequence may have replaced a
    /// dataset.
    pub(crate) fn rotated(&self, next: Arc<Memtable>, replaced: Option<(u32, Tree)>) -> Self {
        let sequence = next.before;
        let replaced = replaced.map(|(dataset, tree)| Replaced { dataset, sequence, tree });
        self.active.set_next(Arc::downgrade(&next));
        let mut frozen = vec![Arc::clone(&self.active)];
        frozen.extend(self.frozen.iter().cloned());
        let replaced = self.replaced.iter().cloned().chain(replaced).collect();
        Self { active: next, frozen, replaced, ..self.clone() }
    }

    /// The state in which the trees have the oldest frozen memtable.
    pub(crate) fn flushed(&self, trees: Arc<Trees>, snapshots: Option<Arc<SnapshotTrees>>) -> Self {
        let mut flushed = Self { trees, ..self.clone() };
        let last = flushed.frozen.pop().map_or(0, |memtable| memtable.last());
        flushed.replaced.retain(|replaced| replaced.sequence > last);
        flushed.snapshots = snapshots.unwrap_or(flushed.snapshots);
        flushed
    }
}

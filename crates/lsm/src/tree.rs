//! One LSM-tree: the memtables and global indexes of a partition, newest first.

use std::sync::Arc;

use halite_pmem::locks::RwLock;

use crate::global_index::GlobalIndex;
use crate::memtable::Memtable;

/// Where a tree's records are in memory. A reader takes the view once and finds everything that was there then,
/// however memtables move on.
#[derive(Clone)]
pub(crate) struct View {
    /// The one that is written to.
    pub(crate) active: Arc<Memtable>,
    /// Full ones that are to be merged, the newest first.
    pub(crate) immutables: Vec<Arc<Memtable>>,
    pub(crate) global: Arc<GlobalIndex>,
    /// The one that is on its way to the levels.
    pub(crate) frozen: Option<Arc<GlobalIndex>>,
}

impl View {
    /// The memtables, the newest first.
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.active).chain(&self.immutables)
    }

    /// The global indexes, the newest first.
    pub(crate) fn global_indexes(&self) -> impl Iterator<Item = &Arc<GlobalIndex>> {
        std::iter::once(&self.global).chain(&self.frozen)
    }
}

/// A tree.
pub(crate) struct Tree {
    view: RwLock<Arc<View>>,
}

impl Tree {
    pub(crate) fn new(view: View) -> Self {
        Self { view: RwLock::new(Arc::new(view)) }
    }

    /// Where everything is now.
    #[inline]
    pub(crate) fn view(&self) -> Arc<View> {
        Arc::clone(&self.view.read())
    }

    /// Changes where everything is, for who comes from now on.
    pub(crate) fn change(&self, change: impl FnOnce(&mut View)) {
        let mut view = self.view.write();
        change(Arc::make_mut(&mut view));
    }
}

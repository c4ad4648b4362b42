//! One LSM-tree: the memtables and global indexes of a partition, newest first.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use halite_sim::locks::{self, Mutex};

use crate::flushed::Flushed;
use crate::global_index::GlobalIndex;
use crate::memtable::Memtable;

/// The places of a tree's records in memory. A reader takes the view once and finds every record that was there then,
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
    /// The one that went there last, while there is room for it.
    pub(crate) flushed: Option<Arc<Flushed>>,
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
    view: ArcSwap<View>,
    /// Held while the view is changed.
    changing: Mutex<()>,
}

impl Tree {
    pub(crate) fn new(view: View) -> Self {
        Self { view: ArcSwap::from_pointee(view), changing: Mutex::new(()) }
    }

    /// The present view. Readers write nothing that others read.
    #[inline]
    pub(crate) fn view(&self) -> Guard<Arc<View>> {
        locks::point();
        let view = self.view.load();
        locks::point();
        view
    }

    /// Changes the view, for readers that take it from now on.
    pub(crate) fn change(&self, change: impl FnOnce(&mut View)) {
        let _changing = self.changing.lock();
        let mut view = View::clone(&self.view.load());
        change(&mut view);
        self.view.store(Arc::new(view));
    }
}

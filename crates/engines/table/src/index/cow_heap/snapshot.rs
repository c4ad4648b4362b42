//! Snapshots: readers of a directory that was synced.

use std::sync::Arc;

use super::directory::Roots;
use super::read::Reader;
use super::scan::CowHeapScan;
use super::shared::Shared;
use crate::index::Result;
use crate::index::btree::scan::{Direction, Range};
use crate::index::btree::{Root, get};

/// A reader of a synced directory, on any thread, while the owner of the store goes on. No slot that it may read is freed
/// while it is there.
pub(crate) struct HeapSnapshot {
    shared: Arc<Shared>,
    sequence: u64,
    roots: Arc<Roots>,
}

impl HeapSnapshot {
    pub(super) fn new(shared: Arc<Shared>, sequence: u64, roots: Arc<Roots>) -> Self {
        shared.begin_snapshot(sequence);
        Self { shared, sequence, roots }
    }

    /// The sequence of its directory.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The heap that its words lead into.
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The word of a key in a tree.
    pub(crate) fn get(&self, tree: u32, key: &[u8]) -> Result<Option<u64>> {
        let root = self.roots.get(&tree).copied();
        word_of(Reader { heap: &self.shared.heap(), shared: &self.shared, dirty: None }, root, key)
    }

    /// The entries of a range of a tree.
    pub(crate) fn scan(
        &self,
        tree: u32,
        range: Range<'_>,
        direction: Direction,
    ) -> CowHeapScan<'_> {
        let root = self.roots.get(&tree).copied();
        CowHeapScan::new(&self.shared, None, root, range, direction)
    }
}

impl Clone for HeapSnapshot {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.shared), self.sequence, Arc::clone(&self.roots))
    }
}

impl Drop for HeapSnapshot {
    fn drop(&mut self) {
        self.shared.end_snapshot(self.sequence);
    }
}

/// The word of a key of a tree.
pub(super) fn word_of(reader: Reader<'_>, root: Option<Root>, key: &[u8]) -> Result<Option<u64>> {
    get(&reader, root, key, |word| super::node::word(word, 0))
}

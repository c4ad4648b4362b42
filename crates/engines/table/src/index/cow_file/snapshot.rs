//! Snapshots: readers of a committed directory.

use std::sync::Arc;

use super::cache::ByPage;
use super::read::{CowScan, root_of, value_of};
use super::shared::Shared;
use crate::index::Result;
use crate::index::btree::Root;
use crate::index::btree::scan::{Direction, Range, Scan};

/// A reader of a committed directory, on any thread, while the writer goes on. The pages that it may read are not used
/// again while it is there.
pub struct Snapshot {
    shared: Arc<Shared>,
    sequence: u64,
    directory: Option<Root>,
}

impl Snapshot {
    pub(super) fn new(shared: Arc<Shared>, sequence: u64, directory: Option<Root>) -> Self {
        shared.begin_snapshot(sequence);
        Self { shared, sequence, directory }
    }

    /// The sequence of its directory.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The value of a key in a tree.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::index::Error::Damaged), [`Error::Disk`](crate::index::Error::Disk).
    pub fn get(&self, tree: u32, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let root = root_of(&*self.shared, &self.shared, self.directory, tree)?;
        value_of(&*self.shared, &self.shared, &ByPage::default(), root, key)
    }

    /// The entries of a range of a tree.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn scan(&self, tree: u32, range: Range<'_>, direction: Direction) -> Result<CowScan<'_>> {
        let root = root_of(&*self.shared, &self.shared, self.directory, tree)?;
        let scan = Scan::new(&*self.shared, root, range, direction)?;
        Ok(CowScan::committed(scan, &self.shared))
    }
}

impl Clone for Snapshot {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.shared), self.sequence, self.directory)
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.shared.end_snapshot(self.sequence);
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("sequence", &self.sequence).finish_non_exhaustive()
    }
}

//! The state that the store and its snapshots share: the heap, and which directories are being read.

use std::collections::BTreeMap;

use halite_alloc::heap::Heap;
use halite_sim::locks::{Mutex, RwLock, RwLockReadGuard};

use super::checked::Checked;

/// The heap, and the snapshots of it.
pub(crate) struct Shared {
    /// Locked for a lookup, for some entries of a scan, for a change or for a publication; never for longer.
    pub(super) heap: RwLock<Heap>,
    pub(super) checked: Checked,
    pub(super) node_len: usize,
    pub(super) salt: u64,
    /// Snapshots by the sequences of their directories.
    snapshots: Mutex<BTreeMap<u64, usize>>,
}

impl Shared {
    pub(super) fn new(heap: Heap, node_len: usize) -> Self {
        let salt = heap.salt();
        let (checked, snapshots) = (Checked::new(), Mutex::default());
        Self { heap: RwLock::new(heap), checked, node_len, salt, snapshots }
    }

    /// The seed of the checks of what is in the heap.
    pub(crate) fn salt(&self) -> u64 {
        self.salt
    }

    /// The heap, to be read.
    pub(crate) fn heap(&self) -> RwLockReadGuard<'_, Heap> {
        self.heap.read()
    }

    /// Takes note of a snapshot.
    pub(super) fn begin_snapshot(&self, sequence: u64) {
        *self.snapshots.lock().entry(sequence).or_default() += 1;
    }

    /// Takes note that one ends.
    pub(super) fn end_snapshot(&self, sequence: u64) {
        let mut snapshots = self.snapshots.lock();
        if let Some(count) = snapshots.get_mut(&sequence) {
            *count -= 1;
            if *count == 0 {
                snapshots.remove(&sequence);
            }
        }
    }

    /// The sequence of the oldest directory that a snapshot reads.
    pub(super) fn oldest_snapshot(&self) -> Option<u64> {
        self.snapshots.lock().keys().next().copied()
    }

    /// Whether no snapshot reads a directory before the one of a sequence.
    pub(super) fn is_past(&self, sequence: u64) -> bool {
        self.oldest_snapshot().is_none_or(|oldest| oldest >= sequence)
    }
}

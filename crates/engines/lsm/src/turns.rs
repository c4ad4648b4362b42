//! The work that only one thread does at a time.

use halite_sim::locks::{Mutex, MutexGuard};

/// A lock for each such work. A thread that takes several takes `emptying` first, `merging` last.
#[derive(Default)]
pub(crate) struct Turns {
    emptying: Mutex<()>,
    flushing: Mutex<()>,
    merging: Mutex<()>,
}

impl Turns {
    /// The turn to drop removed versions. Where the store has no threads, any writer may take it.
    pub(crate) fn empty(&self) -> MutexGuard<'_, ()> {
        self.emptying.lock()
    }

    /// The turn to bring memory to the levels.
    pub(crate) fn flush(&self) -> MutexGuard<'_, ()> {
        self.flushing.lock()
    }

    /// The turn to merge memtables, or to freeze the global index that they are merged into.
    pub(crate) fn merge(&self) -> MutexGuard<'_, ()> {
        self.merging.lock()
    }
}

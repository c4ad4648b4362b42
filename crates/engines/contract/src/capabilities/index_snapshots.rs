//! Indexes kept for the next opening.

use crate::{Engine, Result};

/// An engine that keeps its index in memory, and can store it.
pub trait IndexSnapshots: Engine {
    /// Takes a snapshot of the index of each partition now, for the next opening to read. Returns whether
    /// all have one: not if this kind of index takes none, if the pool has no room for it,
    /// or while scans hold space that it would have to wait for.
    ///
    /// # Errors
    /// The pool's errors, and those of a sync: all earlier writes are durable then.
    fn snapshot_index(&self) -> Result<bool>;
}

//! Past states that can be read.

use std::sync::Arc;

use crate::{Engine, Result, Snapshot};

/// An engine that takes snapshots.
pub trait Snapshots: Engine {
    /// The current state of the store, in all partitions at once.
    ///
    /// Taking it costs the same for a store of any size.
    ///
    /// # Errors
    /// [`crate::Error::Damaged`].
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>>;
}

//! Stores that open before they are recovered.

use std::time::Duration;

use crate::{Engine, Result};

/// An engine that may open a store before all of it can be accessed without waiting
/// ([`EngineOptions::on_demand`](crate::EngineOptions::on_demand)).
pub trait OnDemand: Engine {
    /// Waits until the whole store can be accessed without waiting.
    ///
    /// # Errors
    /// Why a part of the store could not be recovered; an access to that part returns the same error.
    fn wait_ready(&self) -> Result<()>;

    /// Waits up to `time` until a partition can be accessed without waiting; returns whether it can. This
    /// partition is the next one to be recovered.
    ///
    /// # Errors
    /// Why the partition could not be recovered.
    ///
    /// # Panics
    /// If there is no such partition.
    fn wait_partition(&self, partition: usize, time: Duration) -> Result<bool>;
}

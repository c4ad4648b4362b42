//! Whether a partition may still be written.

use std::sync::Arc;

use halite_contract::{Error, Health, Result};
use halite_pmem::Pool;

/// The health of a partition's writer. Once it is poisoned, it stays so until the store is opened again: it is unknown
/// how much of an earlier write is durable.
pub(crate) struct WriterHealth {
    pool: Pool,
    /// The health of the store, shared by all its partitions.
    of_store: Arc<Health>,
    poisoned: Option<String>,
}

impl WriterHealth {
    pub(super) fn new(pool: Pool) -> Self {
        Self { pool, of_store: Arc::default(), poisoned: None }
    }

    /// Shares the health of the store.
    pub(crate) fn share(&mut self, of_store: &Arc<Health>) {
        self.of_store = Arc::clone(of_store);
    }

    /// Refuses if it is unknown how much of an earlier write is durable: one of this partition, or, where the kernel
    /// failed to sync the pool that they share, of any; and if a thread panicked that changed one of them.
    pub(crate) fn check(&self) -> Result<()> {
        self.of_store.check()?;
        match &self.poisoned {
            Some(why) => Err(Error::Poisoned { why: why.clone() }),
            None => Ok(self.pool.check_synced()?),
        }
    }

    /// Takes no more writes if this one has failed.
    pub(crate) fn poison_by<T>(&mut self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result {
            self.poisoned = Some(error.to_string());
        }
        result
    }

    /// [`WriterHealth::poison_by`] of finding room for a write, before anything is written: if the kernel refused the
    /// room, and no sync has failed, nothing has changed.
    pub(crate) fn poison_by_room<T>(&mut self, result: Result<T>) -> Result<T> {
        let is_refused = |error: &Error| error.is_of_pool_kernel();
        if result.as_ref().is_err_and(is_refused) && self.pool.check_synced().is_ok() {
            return result;
        }
        self.poison_by(result)
    }

    /// Takes no more writes, because an earlier one failed halfway.
    pub(crate) fn poison(&mut self, why: &str) {
        self.poisoned = Some(why.to_owned());
    }

    /// Names a place where a test can let the writer's thread panic.
    pub(crate) fn place(&self, name: &'static str) {
        self.of_store.place(name);
    }
}

//! How a pool is created and opened.

use crate::{Domain, Medium, UNIT};

/// Options of a pool.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PoolOptions {
    /// Bytes that a new pool has, rounded up to [`UNIT`], but no more than `size_max`.
    pub size_initial: u64,
    /// Bytes that the pool may grow to, rounded down to [`UNIT`]; as much address space is reserved.
    /// A pool that is already larger opens, but does not grow.
    pub size_max: u64,
    /// For tests only: the domain to take for granted instead of the detected one.
    pub assume_domain: Option<Domain>,
    /// For tests only: the modelled medium that takes the place of the file.
    pub medium: Option<Medium>,
}

impl PoolOptions {
    /// The largest size that the options allow, in whole units.
    pub(crate) fn len_max(&self) -> u64 {
        (self.size_max / UNIT * UNIT).max(UNIT)
    }
}

impl Default for PoolOptions {
    /// One unit, up to 1 TiB.
    fn default() -> Self {
        Self { size_initial: UNIT, size_max: 1 << 40, assume_domain: None, medium: None }
    }
}

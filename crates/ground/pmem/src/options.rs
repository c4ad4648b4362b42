//! How a pool is created and opened.

use crate::{Domain, Medium, Profile, Result, UNIT};
use halite_sim::Failures;

/// Options of a pool.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PoolOptions {
    /// Bytes that a new pool has, rounded up to [`UNIT`], but no more than `size_max`.
    pub size_initial: u64,
    /// Bytes that the pool may grow to, rounded down to [`UNIT`]; as much address space is reserved.
    /// A pool that is already larger opens, but does not grow.
    pub size_max: u64,
    /// Whether the pool has no file: its bytes are memory of this process and are lost with the pool
    /// ([`Domain::Volatile`]). Its path is only a name for messages.
    pub in_memory: bool,
    /// For tests only: the domain to take for granted instead of the detected one.
    pub assume_domain: Option<Domain>,
    /// For tests only: the modelled medium that takes the place of the file.
    pub medium: Option<Medium>,
    /// For tests only: the calls of the kernel that fail.
    pub failures: Option<Failures>,
    /// For measurements only: the medium that the pool is to be as slow as; see [`Profile`].
    ///
    /// On tmpfs ([`Domain::Process`]) write-backs and fences are then only emulated, and stores go through
    /// the cache: the instructions protect no bytes there, and would add their cost on this machine.
    /// Elsewhere they run as well. A profile changes nothing on a modelled medium, which has no time, and
    /// on a pool in memory, which is not to be slowed.
    pub profile: Option<Profile>,
}

impl PoolOptions {
    /// Whether the options make sense.
    pub(crate) fn check(&self) -> Result<()> {
        self.profile.as_ref().map_or(Ok(()), Profile::check)
    }

    /// The largest size that the options allow, in whole units.
    pub(crate) fn len_max(&self) -> u64 {
        (self.size_max / UNIT * UNIT).max(UNIT)
    }
}

impl Default for PoolOptions {
    /// One unit, up to 1 TiB.
    fn default() -> Self {
        Self {
            size_initial: UNIT,
            size_max: 1 << 40,
            in_memory: false,
            assume_domain: None,
            medium: None,
            failures: None,
            profile: None,
        }
    }
}

//! Optimistic lock coupling (Leis et al. 2016): a lock that readers do not write to.
//!
//! A node's lock counts its changes. A reader notes the count, reads the node, and checks that the count is
//! still the same; if not, its operation begins anew. A writer locks a node only if the count has not
//! changed since the writer read it, so its decisions still hold.
//!
//! The protocol is that of a sequence lock: the guarded fields are atomics. Stores to them may be relaxed,
//! because the fence behind the locking stands before them; so may loads, because the fence of
//! [`VersionLock::validate`] stands behind them.

use crate::sync::{AtomicU64, Ordering, fence, spin_loop, yield_now};

/// The node was replaced by another: no slot leads to it any more.
const OBSOLETE: u64 = 1;
/// A writer is changing the node.
const LOCKED: u64 = 2;

/// Looks at a lock before the waiting thread lets others run.
const SPINS: u32 = 100;

/// A node that an operation read was changed meanwhile: the operation has to begin anew.
#[derive(Debug)]
pub(super) struct Restart;

/// Two bits, and behind them the number of changes.
pub(super) struct VersionLock(AtomicU64);

impl VersionLock {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// The state for the reads that follow. Waits for a writer that is changing the node.
    #[inline]
    pub(super) fn read(&self) -> Result<u64, Restart> {
        let state = self.0.load(Ordering::Acquire);
        if state & (LOCKED | OBSOLETE) == 0 { Ok(state) } else { self.wait(state) }
    }

    #[cold]
    fn wait(&self, mut state: u64) -> Result<u64, Restart> {
        let mut spins = 0;
        while state & LOCKED != 0 {
            // The thread that holds the lock may not be running.
            if spins < SPINS {
                spin_loop()
            } else {
                yield_now()
            }
            spins += 1;
            state = self.0.load(Ordering::Acquire);
        }
        if state & OBSOLETE == 0 { Ok(state) } else { Err(Restart) }
    }

    /// Whether all that was read since [`read`](Self::read) was there at one moment.
    #[inline]
    pub(super) fn validate(&self, seen: u64) -> Result<(), Restart> {
        fence(Ordering::Acquire);
        if self.0.load(Ordering::Relaxed) == seen { Ok(()) } else { Err(Restart) }
    }

    /// Locks the node if it has not changed since it was read.
    #[inline]
    pub(super) fn lock(&self, seen: u64) -> Result<Locked<'_>, Restart> {
        let locked = seen | LOCKED;
        // Relaxed: the read of the version acquired all changes, and there has been none since.
        self.0
            .compare_exchange(seen, locked, Ordering::Relaxed, Ordering::Relaxed)
            .map_err(|_| Restart)?;
        fence(Ordering::Release);
        Ok(Locked { lock: self, locked })
    }
}

/// A node that its holder changes. Unlocked when this is dropped.
pub(super) struct Locked<'a> {
    lock: &'a VersionLock,
    locked: u64,
}

impl Locked<'_> {
    /// Unlocks a node that no slot leads to any more.
    pub(super) fn retire(mut self) {
        self.locked |= OBSOLETE;
    }
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        // Carries from the bit into the number.
        self.lock.0.store(self.locked + LOCKED, Ordering::Release);
    }
}

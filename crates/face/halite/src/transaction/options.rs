//! How a transaction runs.

use std::time::Duration;

use crate::Durability;

/// How far a transaction is isolated from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// It reads one state of the database, with its own writes, and commits only if no other transaction committed a
    /// write to a key that it wrote. Two transactions that each read a key that the other writes may both commit
    /// (*write skew*); [`Transaction::get_for_update`](crate::Transaction::get_for_update) prevents that for single
    /// keys.
    Snapshot,
    /// Its effect is as if no other ran at the same time: the keys that it read, absent keys and scanned ranges
    /// included, have not changed when it commits.
    #[default]
    Serializable,
}

/// When a transaction finds out that another is in its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Locking {
    /// At the commit: no transaction waits, and the second of two conflicting ones fails with
    /// [`EngineError::Conflict`](crate::EngineError::Conflict). For transactions that rarely conflict.
    #[default]
    Optimistic,
    /// When it touches a key: it locks the key until it ends, and others that want it wait. For transactions
    /// that often meet at the same keys.
    Pessimistic,
}

/// How a transaction runs: [`Database::begin`](crate::Database::begin),
/// [`Database::transaction_with`](crate::Database::transaction_with).
///
/// ```
/// use std::time::Duration;
/// use halite::{Isolation, Locking, TransactionOptions};
/// let options = TransactionOptions::default()
///     .isolation(Isolation::Snapshot)
///     .locking(Locking::Pessimistic)
///     .lock_timeout(Duration::from_millis(100));
/// ```
#[derive(Debug, Clone)]
pub struct TransactionOptions {
    pub(super) isolation: Isolation,
    pub(super) locking: Locking,
    pub(super) durability: Durability,
    pub(super) bytes_max: usize,
    pub(super) age_max: Duration,
    pub(super) lock_timeout: Duration,
    pub(super) retries: u32,
}

impl Default for TransactionOptions {
    /// Serializable, optimistic and durable; 64 MiB, one minute, locks that are waited for up to five seconds,
    /// and 100 retries.
    fn default() -> Self {
        Self {
            isolation: Isolation::default(),
            locking: Locking::default(),
            durability: Durability::Immediate,
            bytes_max: 64 << 20,
            age_max: Duration::from_secs(60),
            lock_timeout: Duration::from_secs(5),
            retries: 100,
        }
    }
}

impl TransactionOptions {
    /// The isolation; without this, [`Isolation::Serializable`].
    #[must_use]
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }

    /// When conflicts are detected; without this, [`Locking::Optimistic`].
    #[must_use]
    pub fn locking(mut self, locking: Locking) -> Self {
        self.locking = locking;
        self
    }

    /// How [`Database::transaction_with`](crate::Database::transaction_with) commits; without this,
    /// [`Durability::Immediate`].
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Bytes of memory for the transaction's writes, its read set, its locks, and the undo log of its savepoints;
    /// without this, 64 MiB. A call that would exceed them fails with
    /// [`Error::TransactionTooLarge`](crate::Error::TransactionTooLarge) and changes nothing.
    #[must_use]
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.bytes_max = bytes;
        self
    }

    /// How long it may be open; without this, a minute. Space that it can read is not reused meanwhile. Later calls,
    /// and one that waits for a lock then, fail with [`Error::TransactionTooOld`](crate::Error::TransactionTooOld), and
    /// other transactions may take its locks.
    #[must_use]
    pub fn max_age(mut self, age: Duration) -> Self {
        self.age_max = age;
        self
    }

    /// How long it waits for a lock; without this, five seconds. Then the call fails with
    /// [`Error::LockTimeout`](crate::Error::LockTimeout).
    #[must_use]
    pub fn lock_timeout(mut self, time: Duration) -> Self {
        self.lock_timeout = time;
        self
    }

    /// How often [`Database::transaction_with`](crate::Database::transaction_with) runs it again if it meets
    /// another; without this, 100 times.
    #[must_use]
    pub fn retries(mut self, times: u32) -> Self {
        self.retries = times;
        self
    }

    /// Whether reads are remembered: to be validated, or to decide whether the snapshot can move on.
    pub(super) fn tracks_reads(&self) -> bool {
        self.isolation == Isolation::Serializable || self.locking == Locking::Pessimistic
    }
}

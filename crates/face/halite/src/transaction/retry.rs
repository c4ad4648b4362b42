//! Transactions that run again when they met another.

use std::hash::{BuildHasher, RandomState};
use std::thread;
use std::time::Duration;

use super::{Transaction, TransactionOptions};
use crate::{Database, Result};

/// The longest first wait.
const FIRST: Duration = Duration::from_micros(50);

/// The longest wait of all.
const LONGEST: Duration = Duration::from_millis(20);

/// Waits of random lengths up to a bound that doubles each time: those that met do not meet again at once, and
/// the more they are, the further they spread.
struct BackOff {
    left: u32,
    bound: Duration,
}

impl BackOff {
    /// Creates a retry of up to `times` waits.
    fn new(times: u32) -> Self {
        Self { left: times, bound: FIRST }
    }

    /// Waits; or returns false if it did so often enough.
    fn wait(&mut self) -> bool {
        let Some(left) = self.left.checked_sub(1) else { return false };
        self.left = left;
        let random = RandomState::new().hash_one(left);
        let share = (random >> 32) as f64 / f64::from(u32::MAX);
        thread::sleep(self.bound.mul_f64(share));
        self.bound = (2 * self.bound).min(LONGEST);
        true
    }
}

impl Database {
    /// Runs a serializable, optimistic transaction and commits it durably; again from its beginning if it met
    /// another. See [`Database::transaction_with`].
    ///
    /// ```
    /// # let db = halite::Database::in_memory()?;
    /// let accounts = db.key_space("accounts")?;
    /// accounts.put("from", "90")?;
    /// let read = |value: Option<halite::Bytes>| {
    ///     value.map_or(0, |value| String::from_utf8_lossy(&value).parse().unwrap_or(0))
    /// };
    /// db.transaction(|tx| {
    ///     let (from, to) = (read(tx.get(&accounts, "from")?), read(tx.get(&accounts, "to")?));
    ///     tx.put(&accounts, "from", (from - 10).to_string())?;
    ///     tx.put(&accounts, "to", (to + 10).to_string())
    /// })?;
    /// assert_eq!(accounts.get("from")?.as_deref(), Some(&b"80"[..]));
    /// # Ok::<(), halite::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Database::transaction_with`].
    pub fn transaction<T>(&self, run: impl FnMut(&mut Transaction) -> Result<T>) -> Result<T> {
        self.transaction_with(&TransactionOptions::default(), run)
    }

    /// Runs a transaction and commits it. If `run` or the commit fails because of another transaction
    /// ([`Error::is_retryable`](crate::Error::is_retryable)), the call waits a little and runs it again, as often as
    /// the options allow; so side effects of `run` are repeated as often. Any other error of `run` rolls the
    /// transaction back and is returned.
    ///
    /// # Errors
    /// The errors of `run` and of [`Transaction::commit`]; the last
    /// [`EngineError::Conflict`](crate::EngineError::Conflict), [`Error::Deadlock`](crate::Error::Deadlock) or
    /// [`Error::LockTimeout`](crate::Error::LockTimeout).
    pub fn transaction_with<T>(
        &self,
        options: &TransactionOptions,
        mut run: impl FnMut(&mut Transaction) -> Result<T>,
    ) -> Result<T> {
        let mut back_off = BackOff::new(options.retries);
        loop {
            let mut transaction = self.begin(options.clone())?;
            let done = run(&mut transaction);
            let done = done.and_then(|result| {
                transaction.commit(options.durability)?;
                Ok(result)
            });
            match done {
                Err(error) if error.is_retryable() && back_off.wait() => {}
                done => return done,
            }
        }
    }
}

//! Transactions: reads of one state, and writes that are applied atomically.
//!
//! A transaction reads from a snapshot (`halite_contract::Snapshot`) and keeps its writes to itself (`write_set`),
//! where its reads and scans (`scan`) find them first. A commit is one call of [`halite_contract::Transactional::write_if`]:
//! it applies the writes if the keys and ranges that the transaction relies on have not changed since the snapshot. The
//! isolation decides which these are:
//!
//! | | the written keys, and deleted ranges | the keys and ranges that were read |
//! |---|---|---|
//! | [`Isolation::Snapshot`] | yes: the first committer wins | those of [`Transaction::get_for_update`] |
//! | [`Isolation::Serializable`] | yes | yes (`read_set`): backward validation |
//!
//! So a transaction without writes never fails to commit: it has read one state. And a transaction that only reads
//! keeps no other from committing, however long it takes, unless it locks the keys that it reads.
//!
//! **Pessimistic** transactions lock the keys that they write, those of [`Transaction::get_for_update`], and, if they
//! are serializable, those that they read (`locks`, `deadlock`). Under a new lock they read the newest committed value.
//! If the key was changed since the snapshot, the transaction moves on to a new snapshot, once it has validated that
//! all its earlier reads are unchanged; otherwise the call fails with a conflict. (A transaction that has only read so
//! far, and goes on reading, has no conflict: it keeps its snapshot.) So a pessimistic transaction reads one state,
//! too. A transaction that is open for longer than its age limit loses its locks to those that wait for them.
//!
//! Ranges are not locked: a long scan would keep all writers from its range for as long as the transaction lasts, and a
//! phantom has no key that a table of locked keys could find. Ranges are validated at the commit, as an optimistic
//! transaction's are, and so are all keys: a write outside of any transaction waits for no lock, and is detected there.
//!
//! After a crash, a transaction that was committed with [`Durability::Immediate`] is recovered whole; any other is
//! recovered whole or not at all. The writes that a serializable transaction read are recovered with it. A transaction
//! under snapshot isolation may survive although a write with [`Durability::Deferred`] that it read is lost, if that
//! write lies in another partition.

use std::cell::RefCell;
use std::fmt;
use std::ops::RangeBounds;
use std::sync::Arc;
use std::time::Instant;

use halite_contract::{
    Direction, Engine, Expectation, KeyRange, KeySpaceId, Snapshot, check_key, check_value,
};

use crate::{Bytes, Database, Durability, EngineError, Error, KeySpace, Reader, Result};

mod deadlock;
mod locks;
mod options;
mod read_set;
mod retry;
mod savepoint;
mod scan;
mod write_set;

pub(crate) use locks::LockTable;
pub use options::{Isolation, Locking, TransactionOptions};
pub use savepoint::Savepoint;
pub use scan::TransactionIter;

use locks::{Locks, Mode};
use read_set::ReadSet;
use write_set::{WriteSet, bytes_of};

/// A transaction of a [`Database`]. Its writes are applied by [`Transaction::commit`]; dropping it discards them.
///
/// Reads see the database as it was when the transaction began, and its own writes. Several transactions may be
/// open, on one thread or on many; each is used by one thread at a time.
///
/// ```
/// # let db = halite::Database::in_memory()?;
/// use halite::{Durability, TransactionOptions};
/// let fruit = db.key_space("fruit")?;
/// let mut transaction = db.begin(TransactionOptions::default())?;
/// transaction.put(&fruit, "apple", "green")?;
/// assert!(transaction.contains(&fruit, "apple")? && !fruit.contains_key("apple")?);
/// transaction.commit(Durability::Immediate)?;
/// assert!(fruit.contains_key("apple")?);
/// # Ok::<(), halite::Error>(())
/// ```
#[must_use = "a transaction does nothing until it is committed"]
pub struct Transaction {
    engine: Arc<dyn Engine>,
    options: TransactionOptions,
    began: Instant,
    snapshot: RefCell<Arc<dyn Snapshot>>,
    reads: RefCell<ReadSet>,
    writes: WriteSet,
    locks: RefCell<Locks>,
}

impl Database {
    /// Begins a transaction.
    ///
    /// # Errors
    /// [`EngineError::NoTransactions`] from an engine that offers none; as [`Database::take_snapshot`].
    pub fn begin(&self, options: TransactionOptions) -> Result<Transaction> {
        self.engine.write_if(&[], Durability::Deferred, &[])?;
        let began = Instant::now();
        let snapshot = self.engine.snapshot()?;
        snapshot.name_reader(Reader::Transaction);
        Ok(Transaction {
            engine: Arc::clone(&self.engine),
            began,
            snapshot: RefCell::new(snapshot),
            reads: RefCell::default(),
            writes: WriteSet::default(),
            locks: RefCell::new(self.locks.begin(began.checked_add(options.age_max))),
            options,
        })
    }
}

impl Transaction {
    /// The value of `key`, or `None`.
    ///
    /// # Errors
    /// [`EngineError::Damaged`]; [`EngineError::NoSuchKeySpace`] if the key space was dropped, or is another database's;
    /// [`Error::TransactionTooOld`], [`Error::TransactionTooLarge`]. A serializable pessimistic transaction locks the
    /// key: [`Error::LockTimeout`], [`Error::Deadlock`], and, if the transaction has written, [`EngineError::Conflict`] if
    /// both this key and one that it had read were changed since it began.
    pub fn get(&self, space: &KeySpace, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        self.read(space, key.as_ref(), false)
    }

    /// [`Transaction::get`] of a key that the transaction relies on: the commit fails if another transaction or write
    /// changed the key meanwhile, under snapshot isolation too.
    ///
    /// A pessimistic transaction locks the key exclusively and reads the newest committed value. The transaction's own
    /// write is returned as it is. If that write is taken back ([`Transaction::rollback_to`]), the transaction still
    /// relies on the key.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn get_for_update(&self, space: &KeySpace, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        self.read(space, key.as_ref(), true)
    }

    /// Whether `key` has a value.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn contains(&self, space: &KeySpace, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(space, key)?.is_some())
    }

    /// Sets the value of `key`.
    ///
    /// # Errors
    /// [`EngineError::KeyTooLong`], [`EngineError::ValueTooLong`], [`Error::TransactionTooLarge`]; as
    /// [`Transaction::get_for_update`]. The transaction is as it was then.
    pub fn put(
        &mut self,
        space: &KeySpace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        check_value(value.as_ref())?;
        self.write(space, key.as_ref(), Some(value.as_ref()))
    }

    /// Removes `key`; it need not be there.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn delete(&mut self, space: &KeySpace, key: impl AsRef<[u8]>) -> Result<()> {
        self.write(space, key.as_ref(), None)
    }

    /// Removes every key in `range`. The commit fails if another changed any of them.
    ///
    /// # Errors
    /// [`EngineError::KeyTooLong`]; as [`Transaction::put`]. No lock is waited for.
    pub fn delete_range(&mut self, space: &KeySpace, range: &KeyRange) -> Result<()> {
        self.check(space)?;
        let op = halite_contract::Op::DeleteRange {
            space: space.id,
            start: range.start(),
            end: range.end(),
        };
        op.check()?;
        self.make_room(WriteSet::cost_of_range(range))?;
        self.writes.delete_range(space.id, range);
        Ok(())
    }

    /// Removes every key that begins with `prefix`.
    ///
    /// # Errors
    /// As [`Transaction::delete_range`].
    pub fn delete_prefix(&mut self, space: &KeySpace, prefix: impl AsRef<[u8]>) -> Result<()> {
        self.delete_range(space, &KeyRange::prefix(prefix.as_ref()))
    }

    /// All pairs, from the smallest key to the largest, own writes among them.
    ///
    /// ```
    /// # let db = halite::Database::in_memory()?;
    /// # let fruit = db.key_space("fruit")?;
    /// fruit.put("apple", "green")?;
    /// let mut transaction = db.begin(Default::default())?;
    /// transaction.put(&fruit, "cherry", "red")?;
    /// let keys: Result<Vec<_>, _> =
    ///     transaction.iter(&fruit)?.map(|pair| pair.map(|(key, _)| key.to_vec())).collect();
    /// assert_eq!(keys?, [b"apple".to_vec(), b"cherry".to_vec()]);
    /// # Ok::<(), halite::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::get`]. No lock is waited for.
    pub fn iter(&self, space: &KeySpace) -> Result<TransactionIter<'_>> {
        self.scan(space, KeyRange::all(), Direction::Forward)
    }

    /// All pairs, from the largest key to the smallest, own writes among them.
    ///
    /// # Errors
    /// As [`Transaction::iter`].
    pub fn iter_rev(&self, space: &KeySpace) -> Result<TransactionIter<'_>> {
        self.scan(space, KeyRange::all(), Direction::Reverse)
    }

    /// The pairs whose keys are in `range`, ascending.
    ///
    /// # Errors
    /// As [`Transaction::iter`].
    pub fn range<K: AsRef<[u8]>>(
        &self,
        space: &KeySpace,
        range: impl RangeBounds<K>,
    ) -> Result<TransactionIter<'_>> {
        self.scan(space, KeyRange::from_bounds(&range), Direction::Forward)
    }

    /// The pairs whose keys are in `range`, descending.
    ///
    /// # Errors
    /// As [`Transaction::iter`].
    pub fn range_rev<K: AsRef<[u8]>>(
        &self,
        space: &KeySpace,
        range: impl RangeBounds<K>,
    ) -> Result<TransactionIter<'_>> {
        self.scan(space, KeyRange::from_bounds(&range), Direction::Reverse)
    }

    /// The pairs whose keys begin with `prefix`, ascending.
    ///
    /// # Errors
    /// As [`Transaction::iter`].
    pub fn prefix(
        &self,
        space: &KeySpace,
        prefix: impl AsRef<[u8]>,
    ) -> Result<TransactionIter<'_>> {
        self.scan(space, KeyRange::prefix(prefix.as_ref()), Direction::Forward)
    }

    /// The pairs whose keys begin with `prefix`, descending.
    ///
    /// # Errors
    /// As [`Transaction::iter`].
    pub fn prefix_rev(
        &self,
        space: &KeySpace,
        prefix: impl AsRef<[u8]>,
    ) -> Result<TransactionIter<'_>> {
        self.scan(space, KeyRange::prefix(prefix.as_ref()), Direction::Reverse)
    }

    /// Notes this point, to come back to with [`Transaction::rollback_to`].
    ///
    /// ```
    /// # let db = halite::Database::in_memory()?;
    /// # let fruit = db.key_space("fruit")?;
    /// let mut transaction = db.begin(Default::default())?;
    /// transaction.put(&fruit, "apple", "green")?;
    /// let before = transaction.savepoint();
    /// transaction.put(&fruit, "apple", "red")?;
    /// transaction.rollback_to(before)?;
    /// assert_eq!(transaction.get(&fruit, "apple")?.as_deref(), Some(&b"green"[..]));
    /// # Ok::<(), halite::Error>(())
    /// ```
    pub fn savepoint(&mut self) -> Savepoint {
        Savepoint { transaction: self.locks.get_mut().of().0, number: self.writes.savepoint() }
    }

    /// Takes back the writes since a savepoint; the transaction can go back to the same savepoint again. Reads since
    /// then stay in the read set, and locks stay held.
    ///
    /// # Errors
    /// [`Error::NoSuchSavepoint`] if it is another transaction's, or came after one that was rolled back to.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        let is_own = savepoint.transaction == self.locks.get_mut().of().0;
        match is_own && self.writes.rollback_to(savepoint.number) {
            true => Ok(()),
            false => Err(Error::NoSuchSavepoint),
        }
    }

    /// Applies all writes at one moment. With [`Durability::Immediate`] they are durable when this returns. A
    /// transaction without writes returns at once.
    ///
    /// # Errors
    /// [`EngineError::Conflict`] if another changed a key or range that the transaction relies on;
    /// [`Error::TransactionTooOld`]; [`EngineError::NoSuchKeySpace`], and the other errors of
    /// [`halite_contract::Engine::write`]. No write is applied then.
    pub fn commit(self, durability: Durability) -> Result<()> {
        self.locks.borrow().begin_commit();
        self.check_age()?;
        if self.writes.is_empty() {
            return Ok(());
        }
        let reads = self.reads.borrow();
        let keys: Vec<_> = self.writes.keys().chain(reads.keys(true)).collect();
        let is_serializable = self.options.isolation == Isolation::Serializable;
        let read = reads.ranges().filter(|_| is_serializable);
        let ranges = self.writes.ranges().chain(read);
        let ranges: Vec<_> = ranges.map(|(space, range)| (space, range.clone())).collect();
        let snapshot = self.snapshot.borrow();
        snapshot.end_reads();
        let expected = Expectation { snapshot: &**snapshot, keys: &keys, ranges: &ranges };
        Ok(self.engine.write_if(&self.writes.ops(), durability, &[expected])?)
    }

    /// Gives up all that was written, as dropping the transaction does.
    pub fn rollback(self) {}

    /// Checks that the transaction may go on and that the key space is one of its database.
    fn check(&self, space: &KeySpace) -> Result<()> {
        self.check_age()?;
        match Arc::ptr_eq(&self.engine, &space.engine) {
            true => Ok(()),
            false => Err(EngineError::NoSuchKeySpace.into()),
        }
    }

    /// Refuses, and releases the locks, if the transaction is too old.
    fn check_age(&self) -> Result<()> {
        let (age, limit) = (self.began.elapsed(), self.options.age_max);
        if age <= limit {
            return Ok(());
        }
        self.locks.borrow_mut().release();
        Err(Error::TransactionTooOld { age, limit })
    }

    /// Makes sure that so many bytes more may be taken.
    fn make_room(&self, bytes: usize) -> Result<()> {
        let (reads, locks) = (self.reads.borrow().bytes(), self.locks.borrow().bytes());
        let len = self.writes.bytes() + reads + locks + bytes;
        let limit = self.options.bytes_max;
        match len > limit {
            true => Err(Error::TransactionTooLarge { len: len as u64, limit: limit as u64 }),
            false => Ok(()),
        }
    }

    fn is_pessimistic(&self) -> bool {
        self.options.locking == Locking::Pessimistic
    }

    fn read(&self, space: &KeySpace, key: &[u8], for_update: bool) -> Result<Option<Bytes>> {
        self.check(space)?;
        let written = self.writes.space(space.id).and_then(|writes| writes.get(key));
        if let Some(written) = written
            && !for_update
        {
            return Ok(written.map(Bytes::from));
        }
        let is_relied_on = for_update || self.options.isolation == Isolation::Serializable;
        let is_noted = is_relied_on || self.options.tracks_reads();
        let is_locked = is_relied_on && self.is_pessimistic();
        if is_noted {
            let lock = if is_locked { Locks::cost(key) } else { 0 };
            self.make_room(ReadSet::cost(key) + lock)?;
        }
        if is_locked {
            let mode = if for_update { Mode::Exclusive } else { Mode::Shared };
            let is_new = self.lock(space.id, key, mode)?;
            // The transaction may know an old value behind a lock that it had before: if the lock was shared, or the
            // snapshot could not move on.
            if is_new || (for_update && written.is_none()) {
                match self.find_newest(space.id, key) {
                    // The state that it reads is whole; only if it writes, it will turn out to be old.
                    Err(Error::Engine(EngineError::Conflict { .. }))
                        if !for_update && self.writes.is_empty() => {}
                    found => found?,
                }
            }
        }
        let found = match written {
            Some(written) => written.map(Bytes::from),
            None => {
                let found = self.snapshot.borrow().get(space.id, key);
                self.in_snapshot(space, found)?.flatten()
            }
        };
        if is_noted {
            self.reads.borrow_mut().add(space.id, key, is_relied_on);
        }
        Ok(found)
    }

    /// The result of a read of the snapshot; `None` if the key space was made after the snapshot.
    fn in_snapshot<T>(
        &self,
        space: &KeySpace,
        found: halite_contract::Result<T>,
    ) -> Result<Option<T>> {
        match found {
            Err(EngineError::NoSuchKeySpace) => {
                let spaces = self.engine.key_spaces()?;
                let exists = spaces.iter().any(|(_, id)| *id == space.id);
                exists.then_some(None).ok_or(EngineError::NoSuchKeySpace.into())
            }
            found => Ok(Some(found?)),
        }
    }

    fn write(&mut self, space: &KeySpace, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.check(space)?;
        check_key(key)?;
        let is_locked = self.is_pessimistic();
        let lock = if is_locked { Locks::cost(key) } else { 0 };
        self.make_room(self.writes.cost(key, value) + lock)?;
        if is_locked && self.lock(space.id, key, Mode::Exclusive)? {
            self.find_newest(space.id, key)?;
        }
        self.writes.write(space.id, key, value);
        Ok(())
    }

    /// Locks a key. Returns whether the transaction did not hold the lock before, in either mode.
    fn lock(&self, space: KeySpaceId, key: &[u8], mode: Mode) -> Result<bool> {
        let left = self.options.age_max.saturating_sub(self.began.elapsed());
        let wait = self.options.lock_timeout.min(left);
        let is_new = self.locks.borrow_mut().acquire(space, key, mode, wait);
        self.check_age()?;
        is_new
    }

    /// Makes sure that the snapshot has the newest of a key.
    fn find_newest(&self, space: KeySpaceId, key: &[u8]) -> Result<()> {
        let snapshot = Arc::clone(&self.snapshot.borrow());
        let expected = Expectation { snapshot: &*snapshot, keys: &[(space, key)], ranges: &[] };
        match self.engine.write_if(&[], Durability::Deferred, &[expected]) {
            Err(EngineError::Conflict { .. }) => self.move_on(),
            validated => Ok(validated?),
        }
    }

    /// Moves on to a newer snapshot, in which all that was read is as it was.
    fn move_on(&self) -> Result<()> {
        let (older, newer) = (Arc::clone(&self.snapshot.borrow()), self.engine.snapshot()?);
        newer.name_reader(Reader::Transaction);
        let reads = self.reads.borrow();
        let keys: Vec<_> = self.writes.keys().chain(reads.keys(false)).collect();
        let ranges = self.writes.ranges().chain(reads.ranges());
        let ranges: Vec<_> = ranges.map(|(space, range)| (space, range.clone())).collect();
        // The keys and ranges are validated against both snapshots. Neither check implies the other: a key may have
        // come into a range before the newer snapshot was taken, and have been removed since, which the older one's
        // check does not show.
        let expected = [&*older, &*newer].map(|snapshot| Expectation {
            snapshot,
            keys: &keys,
            ranges: &ranges,
        });
        self.engine.write_if(&[], Durability::Deferred, &expected)?;
        self.snapshot.replace(newer);
        Ok(())
    }

    fn scan(
        &self,
        space: &KeySpace,
        range: KeyRange,
        direction: Direction,
    ) -> Result<TransactionIter<'_>> {
        self.check(space)?;
        if self.options.tracks_reads() {
            self.make_room(bytes_of(range.start(), range.end()))?;
        }
        let scan = self.snapshot.borrow().scan(space.id, range.clone(), direction);
        let scan = self.in_snapshot(space, scan)?;
        let scan = scan.unwrap_or_else(|| Box::new(std::iter::empty()));
        Ok(TransactionIter::new(self, space.id, range, direction, scan))
    }

    /// Notes that a scan begins, if reads are tracked; its number.
    fn begin_scan(&self, space: KeySpaceId, range: &KeyRange) -> Option<usize> {
        let tracks = self.options.tracks_reads();
        tracks.then(|| self.reads.borrow_mut().begin_scan(space, range))
    }

    /// Notes the range that a scan has read.
    fn end_scan(&self, number: usize, read: Option<KeyRange>) {
        self.reads.borrow_mut().end_scan(number, read);
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").field("options", &self.options).finish_non_exhaustive()
    }
}

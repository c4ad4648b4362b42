//! The numbered databases that clients see, on the key spaces of one Halite database.
//!
//! Database `N` is the key space `db<N>`, whose values are the clients' values and nothing else.
//! The deadline of a key that expires lies under the same key in `db<N>:expires`, as milliseconds
//! since 1970 in 8 big-endian bytes, and a copy in DRAM ([`Deadlines`]) finds what is due. SWAPDB
//! exchanges which key spaces two numbers mean; the record `databases` of the key space `server`
//! holds, for each number, that of its key spaces, in 4 big-endian bytes.
//!
//! Every change goes through [`Store::put`], [`Store::remove`], [`Store::set_deadline`],
//! [`Store::flush`] and [`Store::swap`], each of them atomic: what belongs together is one batch.
//! Between [`Store::begin`] and [`Store::commit`] changes gather in an [`Overlay`] that reads look
//! through, and become one batch in the end. All writes defer durability to [`Store::sync`], which
//! the event loop calls once for all requests of a turn, before it answers them.

mod database;
mod deadlines;
mod order;
mod overlay;
mod walk;
mod watches;

use halite::{Bytes, Durability, KEY_LEN_MAX, KeySpace, VALUE_LEN_MAX};

use database::Database;
use overlay::{Overlay, Value};
pub(crate) use watches::Watch;
use watches::Watches;

/// The result of an operation on the store.
type Result<T> = halite::Result<T>;

/// What a write does to the deadline of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NewDeadline {
    /// It stays what it is.
    Keep,
    /// The key does not expire.
    Clear,
    /// The key expires at this time, in milliseconds since 1970.
    At(u64),
}

/// The databases.
pub(crate) struct Store {
    db: halite::Database,
    databases: Vec<Database>,
    /// For each number that clients select, the index in `databases`.
    order: Vec<usize>,
    settings: KeySpace,
    batch: halite::Batch,
    overlay: Option<Overlay>,
    watches: Watches,
    unsynced: bool,
    /// The time that all of a request sees, in milliseconds since 1970.
    pub(crate) now_ms: u64,
    /// Keys changed since the start.
    pub(crate) changes: u64,
    /// Keys expired since the start.
    pub(crate) expired: u64,
}

impl Store {
    /// Opens `count` databases, and reads the deadlines of their keys.
    pub(crate) fn open(db: halite::Database, count: usize) -> Result<Self> {
        let settings = db.key_space("server")?;
        let order = match settings.get(order::KEY)? {
            Some(record) => order::decode(&record, count)?,
            None => (0..count).collect(),
        };
        let databases = (0..order.len()).map(|number| Database::open(&db, number));
        Ok(Self {
            databases: databases.collect::<Result<_>>()?,
            batch: db.batch(),
            watches: Watches::new(order.len()),
            db,
            order,
            settings,
            overlay: None,
            unsynced: false,
            now_ms: 0,
            changes: 0,
            expired: 0,
        })
    }

    /// The value of `key`, unless it has expired.
    #[inline]
    pub(crate) fn get(&mut self, db: usize, key: &[u8]) -> Result<Option<Bytes>> {
        let place = self.place(db);
        if self.is_due(place, key) {
            self.expire(db, place, key)?;
            return Ok(None);
        }
        self.value(place, key)
    }

    /// Whether `key` has a value.
    pub(crate) fn contains(&mut self, db: usize, key: &[u8]) -> Result<bool> {
        Ok(self.get(db, key)?.is_some())
    }

    /// When `key`, which has a value, expires: milliseconds since 1970.
    pub(crate) fn deadline(&self, db: usize, key: &[u8]) -> Option<u64> {
        self.deadline_at(self.place(db), key)
    }

    /// Sets the value of `key`, and its deadline.
    #[inline]
    pub(crate) fn put(
        &mut self,
        db: usize,
        key: &[u8],
        value: &[u8],
        deadline: NewDeadline,
    ) -> Result<()> {
        let place = self.place(db);
        let old = self.deadline_at(place, key);
        let new = match deadline {
            NewDeadline::Keep => old,
            NewDeadline::Clear => None,
            NewDeadline::At(at) => Some(at),
        };
        if let Some(overlay) = &mut self.overlay {
            check_lengths(key, value)?;
            overlay.put(place, key, value, new);
        } else if old == new {
            let values = &self.databases[place].values;
            values.put_with(key, value, Durability::Deferred)?;
        } else {
            let database = &mut self.databases[place];
            self.batch.put(&database.values, key, value);
            database.batch_deadline(&mut self.batch, key, new);
            self.batch.commit_and_clear(Durability::Deferred)?;
            database.deadlines.set(key, new);
        }
        self.changed(db, key);
        Ok(())
    }

    /// Removes `key`; returns whether it had a value.
    pub(crate) fn remove(&mut self, db: usize, key: &[u8]) -> Result<bool> {
        let exists = self.contains(db, key)?;
        if exists {
            self.erase(db, self.place(db), key)?;
        }
        Ok(exists)
    }

    /// Sets when `key`, which has a value, expires.
    pub(crate) fn set_deadline(&mut self, db: usize, key: &[u8], new: Option<u64>) -> Result<()> {
        let place = self.place(db);
        if let Some(overlay) = &mut self.overlay {
            overlay.set_deadline(place, key, new);
        } else {
            let database = &mut self.databases[place];
            database.batch_deadline(&mut self.batch, key, new);
            self.batch.commit_and_clear(Durability::Deferred)?;
            database.deadlines.set(key, new);
        }
        self.changed(db, key);
        Ok(())
    }

    /// Removes everything from some databases.
    pub(crate) fn flush(&mut self, dbs: std::ops::Range<usize>) -> Result<()> {
        for db in dbs.clone() {
            let place = self.place(db);
            self.touch_watched(db, |store, key| store.has_value(place, key))?;
            self.changes += self.len(db)?;
        }
        let places: Vec<_> = dbs.map(|db| self.place(db)).collect();
        if let Some(overlay) = &mut self.overlay {
            places.iter().for_each(|&place| overlay.clear(place));
            return Ok(());
        }
        let mut full = Vec::new();
        for place in places {
            let database = &self.databases[place];
            if !database.values.is_empty()? || !database.expires.is_empty()? {
                full.push(place);
            }
        }
        if full.is_empty() {
            return Ok(());
        }
        full.iter().for_each(|&place| self.databases[place].batch_clear(&mut self.batch));
        self.batch.commit_and_clear(Durability::Deferred)?;
        self.unsynced = true;
        full.iter().for_each(|&place| self.databases[place].deadlines.clear());
        Ok(())
    }

    /// Exchanges two databases.
    pub(crate) fn swap(&mut self, a: usize, b: usize) -> Result<()> {
        let (place_a, place_b) = (self.place(a), self.place(b));
        for db in [a, b] {
            self.touch_watched(db, |store, key| {
                Ok(store.has_value(place_a, key)? || store.has_value(place_b, key)?)
            })?;
        }
        let mut order = self.order_now().to_vec();
        order.swap(a, b);
        if let Some(overlay) = &mut self.overlay {
            overlay.order = Some(order);
        } else {
            let record = order::encode(&order);
            self.settings.put_with(order::KEY, record, Durability::Deferred)?;
            self.order = order;
        }
        self.changes += 1;
        self.unsynced = true;
        Ok(())
    }

    /// Begins a transaction: what changes until [`Store::commit`] happens together.
    pub(crate) fn begin(&mut self) {
        debug_assert!(self.overlay.is_none(), "transactions do not nest");
        self.overlay = Some(Overlay::default());
    }

    /// Whether a transaction has begun.
    pub(crate) fn in_transaction(&self) -> bool {
        self.overlay.is_some()
    }

    /// Forgets what changed since [`Store::begin`].
    pub(crate) fn rollback(&mut self) {
        self.overlay = None;
    }

    /// Makes what changed since [`Store::begin`] happen; if that fails, nothing of it does.
    pub(crate) fn commit(&mut self) -> Result<()> {
        let Some(overlay) = self.overlay.take() else { return Ok(()) };
        for (&place, changes) in &overlay.databases {
            let database = &self.databases[place];
            if changes.cleared {
                database.batch_clear(&mut self.batch);
            }
            for (key, change) in &changes.keys {
                match &change.value {
                    Value::Kept => {}
                    Value::Put(value) => self.batch.put(&database.values, key, value),
                    Value::Removed => self.batch.delete(&database.values, key),
                }
                let old = if changes.cleared { None } else { database.deadlines.get(key) };
                if old != change.deadline {
                    database.batch_deadline(&mut self.batch, key, change.deadline);
                }
            }
        }
        if let Some(order) = &overlay.order {
            self.batch.put(&self.settings, order::KEY, order::encode(order));
        }
        if self.batch.is_empty() {
            return Ok(());
        }
        self.batch.commit_and_clear(Durability::Deferred)?;
        self.unsynced = true;
        for (place, changes) in overlay.databases {
            let deadlines = &mut self.databases[place].deadlines;
            if changes.cleared {
                deadlines.clear();
            }
            for (key, change) in changes.keys {
                deadlines.set(&key, change.deadline);
            }
        }
        if let Some(order) = overlay.order {
            self.order = order;
        }
        Ok(())
    }

    /// Removes up to `count_max` keys that have expired; returns how many.
    pub(crate) fn expire_due(&mut self, count_max: usize) -> Result<usize> {
        let mut count = 0;
        for place in 0..self.databases.len() {
            let due = self.databases[place].deadlines.due(self.now_ms, count_max - count);
            if due.is_empty() {
                continue;
            }
            let database = &mut self.databases[place];
            for key in &due {
                self.batch.delete(&database.values, key);
                self.batch.delete(&database.expires, key);
            }
            self.batch.commit_and_clear(Durability::Deferred)?;
            due.iter().for_each(|key| database.deadlines.set(key, None));
            if let Some(db) = self.order.iter().position(|&at| at == place) {
                due.iter().for_each(|key| self.changed(db, key));
            }
            count += due.len();
        }
        self.expired += count as u64;
        Ok(count)
    }

    /// Makes all changes durable, if there are any.
    pub(crate) fn sync(&mut self) -> Result<()> {
        if self.unsynced {
            self.db.sync()?;
            self.unsynced = false;
        }
        Ok(())
    }

    /// Whether something changed since the last [`Store::sync`].
    pub(crate) fn is_unsynced(&self) -> bool {
        self.unsynced
    }

    /// What the Halite database holds and has done.
    pub(crate) fn stats(&self) -> halite::Stats {
        self.db.stats()
    }

    /// The name of the engine below.
    pub(crate) fn engine_name(&self) -> &'static str {
        self.db.engine_name()
    }

    /// The Halite database's folder.
    pub(crate) fn path(&self) -> &std::path::Path {
        self.db.path()
    }

    /// The number of keys that expire, and the mean time they have left, in milliseconds.
    pub(crate) fn expiring(&self, db: usize) -> (usize, u64) {
        let deadlines = &self.databases[self.place(db)].deadlines;
        (deadlines.len(), deadlines.mean().saturating_sub(self.now_ms))
    }

    /// Watches `key`: any change to it from now on shows in [`Store::has_changed`].
    pub(crate) fn watch(&mut self, db: usize, key: &[u8]) -> Result<Watch> {
        // A key that has expired by now is gone already, and its removal no change.
        self.contains(db, key)?;
        Ok(self.watches.add(db, key))
    }

    /// Ends a watch.
    pub(crate) fn unwatch(&mut self, watch: &Watch) {
        self.watches.remove(watch);
    }

    /// Whether the key of `watch` was changed, or has expired, since the watch began.
    pub(crate) fn has_changed(&mut self, watch: &Watch) -> Result<bool> {
        self.contains(watch.db, &watch.key)?;
        Ok(self.watches.has_changed(watch))
    }

    #[inline]
    fn place(&self, db: usize) -> usize {
        self.order_now()[db]
    }

    #[inline]
    fn order_now(&self) -> &[usize] {
        let changed = self.overlay.as_ref().and_then(|overlay| overlay.order.as_ref());
        changed.unwrap_or(&self.order)
    }

    /// The value of a key, expired or not.
    #[inline]
    fn value(&self, place: usize, key: &[u8]) -> Result<Option<Bytes>> {
        let changes = self.overlay.as_ref().and_then(|overlay| overlay.databases.get(&place));
        if let Some(changes) = changes {
            match changes.keys.get(key).map(|change| &change.value) {
                Some(Value::Put(value)) => return Ok(Some(Bytes::from(&value[..]))),
                Some(Value::Removed) => return Ok(None),
                None if changes.cleared => return Ok(None),
                None | Some(Value::Kept) => {}
            }
        }
        self.databases[place].values.get(key)
    }

    /// Whether a key has a value and has not expired.
    fn has_value(&self, place: usize, key: &[u8]) -> Result<bool> {
        Ok(!self.is_due(place, key) && self.value(place, key)?.is_some())
    }

    #[inline]
    fn deadline_at(&self, place: usize, key: &[u8]) -> Option<u64> {
        let changes = self.overlay.as_ref().and_then(|overlay| overlay.databases.get(&place));
        match changes {
            Some(changes) => match changes.keys.get(key) {
                Some(change) => change.deadline,
                None if changes.cleared => None,
                None => self.databases[place].deadlines.get(key),
            },
            None => self.databases[place].deadlines.get(key),
        }
    }

    #[inline]
    fn is_due(&self, place: usize, key: &[u8]) -> bool {
        self.deadline_at(place, key).is_some_and(|deadline| deadline <= self.now_ms)
    }

    /// Removes a key that is due. If there is no room to say so, it stays, and stays due.
    fn expire(&mut self, db: usize, place: usize, key: &[u8]) -> Result<()> {
        match self.erase(db, place, key) {
            Err(halite::Error::Full { .. }) => self.watches.touch(db, key),
            erased => {
                erased?;
                self.expired += 1;
            }
        }
        Ok(())
    }

    /// Removes a key and its deadline.
    fn erase(&mut self, db: usize, place: usize, key: &[u8]) -> Result<()> {
        if let Some(overlay) = &mut self.overlay {
            overlay.remove(place, key);
        } else {
            let database = &mut self.databases[place];
            if database.deadlines.get(key).is_some() {
                self.batch.delete(&database.values, key);
                self.batch.delete(&database.expires, key);
                self.batch.commit_and_clear(Durability::Deferred)?;
                database.deadlines.set(key, None);
            } else {
                database.values.delete_with(key, Durability::Deferred)?;
            }
        }
        self.changed(db, key);
        Ok(())
    }

    /// Notes that a key was changed. A transaction that fails in the end has changed nothing, and
    /// may still make others that watch its keys abort: a client that retries loses nothing.
    #[inline]
    fn changed(&mut self, db: usize, key: &[u8]) {
        self.unsynced = true;
        self.changes += 1;
        self.watches.touch(db, key);
    }

    /// Notes a change to the watched keys of a database for which `is_affected`.
    fn touch_watched(
        &mut self,
        db: usize,
        is_affected: impl Fn(&Self, &[u8]) -> Result<bool>,
    ) -> Result<()> {
        for key in self.watches.keys(db) {
            if is_affected(self, &key)? {
                self.watches.touch(db, &key);
            }
        }
        Ok(())
    }
}

/// Refuses in a transaction what the engine would refuse at its end.
fn check_lengths(key: &[u8], value: &[u8]) -> Result<()> {
    if key.len() > KEY_LEN_MAX {
        Err(halite::Error::KeyTooLong { len: key.len() })
    } else if value.len() > VALUE_LEN_MAX {
        Err(halite::Error::ValueTooLong { len: value.len() })
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests;

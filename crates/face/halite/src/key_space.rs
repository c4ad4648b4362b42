//! Named key spaces.

use std::fmt;
use std::ops::RangeBounds;
use std::sync::Arc;

use halite_contract::{Direction, Engine, KeySpaceId, Op, Scan};

use crate::{Bytes, Durability, KeyRange, Result};

/// A named, ordered space of keys in a database. Cloning it is cheap.
#[derive(Clone)]
pub struct KeySpace {
    pub(crate) engine: Arc<dyn Engine>,
    name: Arc<str>,
    pub(crate) id: KeySpaceId,
}

impl KeySpace {
    pub(crate) fn new(engine: Arc<dyn Engine>, name: &str, id: KeySpaceId) -> Self {
        Self { engine, name: name.into(), id }
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number by which [`crate::ChangeOp`] names it.
    #[must_use]
    pub fn id(&self) -> KeySpaceId {
        self.id
    }

    /// The value of `key`, or `None`.
    ///
    /// # Errors
    /// [`crate::EngineError::Damaged`] if the stored record fails its checksum.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        Ok(self.engine.get(self.id, key.as_ref())?)
    }

    /// Brings the memory that operations on these keys will read into the cache, and waits for the cache misses of all
    /// keys together: for a caller that knows several keys ahead, all of one
    /// [partition](crate::Database::partition_of). It changes no data, and never waits for a partition.
    pub fn prefetch(&self, partition: usize, keys: &[&[u8]]) {
        self.engine.prefetch(partition, self.id, keys);
    }

    /// Whether `key` has a value.
    ///
    /// # Errors
    /// As [`KeySpace::get`].
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// Sets the value of `key`, durably.
    ///
    /// # Errors
    /// See [`halite_contract::Engine::write`].
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(key, value, Durability::Immediate)
    }

    /// Sets the value of `key` with the given durability.
    ///
    /// # Errors
    /// See [`halite_contract::Engine::write`].
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        durability: Durability,
    ) -> Result<()> {
        let op = Op::Put { space: self.id, key: key.as_ref(), value: value.as_ref() };
        Ok(self.engine.write(&[op], durability)?)
    }

    /// Removes `key`, durably; it need not be there.
    ///
    /// # Errors
    /// See [`halite_contract::Engine::write`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key, Durability::Immediate)
    }

    /// Removes `key` with the given durability.
    ///
    /// # Errors
    /// See [`halite_contract::Engine::write`].
    pub fn delete_with(&self, key: impl AsRef<[u8]>, durability: Durability) -> Result<()> {
        Ok(self.engine.write(&[Op::Delete { space: self.id, key: key.as_ref() }], durability)?)
    }

    /// Removes every key in `range`, durably, atomically, and with one record of log.
    ///
    /// # Errors
    /// See [`halite_contract::Engine::write`].
    pub fn delete_range(&self, range: &KeyRange) -> Result<()> {
        let op = Op::DeleteRange { space: self.id, start: range.start(), end: range.end() };
        Ok(self.engine.write(&[op], Durability::Immediate)?)
    }

    /// Removes every key that begins with `prefix`; otherwise as [`KeySpace::delete_range`].
    ///
    /// # Errors
    /// See [`halite_contract::Engine::write`].
    pub fn delete_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<()> {
        self.delete_range(&KeyRange::prefix(prefix.as_ref()))
    }

    /// All pairs, from the smallest key to the largest, as they are now.
    ///
    /// # Errors
    /// [`crate::EngineError::NoSuchKeySpace`] if the key space was dropped.
    pub fn iter(&self) -> Result<Iter> {
        self.scan(KeyRange::all(), Direction::Forward)
    }

    /// All pairs, from the largest key to the smallest, as they are now.
    ///
    /// # Errors
    /// As [`KeySpace::iter`].
    pub fn iter_rev(&self) -> Result<Iter> {
        self.scan(KeyRange::all(), Direction::Reverse)
    }

    /// The pairs whose keys are in `range`, ascending.
    ///
    /// # Errors
    /// As [`KeySpace::iter`].
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<Iter> {
        self.scan(KeyRange::from_bounds(&range), Direction::Forward)
    }

    /// The pairs whose keys are in `range`, descending.
    ///
    /// # Errors
    /// As [`KeySpace::iter`].
    pub fn range_rev<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<Iter> {
        self.scan(KeyRange::from_bounds(&range), Direction::Reverse)
    }

    /// The pairs whose keys begin with `prefix`, ascending.
    ///
    /// # Errors
    /// As [`KeySpace::iter`].
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Iter> {
        self.scan(KeyRange::prefix(prefix.as_ref()), Direction::Forward)
    }

    /// The pairs whose keys begin with `prefix`, descending.
    ///
    /// # Errors
    /// As [`KeySpace::iter`].
    pub fn prefix_rev(&self, prefix: impl AsRef<[u8]>) -> Result<Iter> {
        self.scan(KeyRange::prefix(prefix.as_ref()), Direction::Reverse)
    }

    /// The pairs of one partition whose keys are in `range`, ascending.
    ///
    /// # Errors
    /// As [`KeySpace::iter`].
    ///
    /// # Panics
    /// If there is no such partition, see [`crate::Database::partitions`].
    pub fn range_of_partition<K: AsRef<[u8]>>(
        &self,
        partition: usize,
        range: impl RangeBounds<K>,
    ) -> Result<Iter> {
        let range = KeyRange::from_bounds(&range);
        let scan = self.engine.scan_partition(partition, self.id, range, Direction::Forward)?;
        Ok(Iter { scan })
    }

    /// The pairs of one partition whose keys are in `range`, descending.
    ///
    /// # Errors
    /// As [`KeySpace::iter`].
    ///
    /// # Panics
    /// If there is no such partition, see [`crate::Database::partitions`].
    pub fn range_rev_of_partition<K: AsRef<[u8]>>(
        &self,
        partition: usize,
        range: impl RangeBounds<K>,
    ) -> Result<Iter> {
        let range = KeyRange::from_bounds(&range);
        let scan = self.engine.scan_partition(partition, self.id, range, Direction::Reverse)?;
        Ok(Iter { scan })
    }

    /// The number of keys. The engine `lsm` has to count them, one by one.
    ///
    /// # Errors
    /// As [`KeySpace::iter`].
    pub fn len(&self) -> Result<u64> {
        Ok(self.engine.len(self.id)?)
    }

    /// The number of keys of one partition.
    ///
    /// # Errors
    /// As [`KeySpace::iter`].
    ///
    /// # Panics
    /// If there is no such partition, see [`crate::Database::partitions`].
    pub fn len_of_partition(&self, partition: usize) -> Result<u64> {
        Ok(self.engine.len_of_partition(partition, self.id)?)
    }

    /// Counts the keys of one partition as long as `go_on` returns true. Returns the count, and whether it is of all
    /// keys. An engine that knows the number does not call `go_on`. An engine that has to count, such as `lsm`, calls
    /// it before each key, removed keys that are still stored included, with the number of keys found so far and the
    /// number of keys looked at.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// use halite::Database;
    /// let db = Database::builder().engine("lsm").open(&path)?;
    /// let fruit = db.key_space("fruit")?;
    /// for name in ["apple", "banana", "cherry"] {
    ///     fruit.put(name, "")?;
    /// }
    /// assert_eq!(fruit.count_of_partition(0, |_, looked_at| looked_at < 2)?, (2, false));
    /// assert_eq!(fruit.count_of_partition(0, |_, looked_at| looked_at < 9)?, (3, true));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`KeySpace::iter`].
    ///
    /// # Panics
    /// If there is no such partition, see [`crate::Database::partitions`].
    pub fn count_of_partition(
        &self,
        partition: usize,
        mut go_on: impl FnMut(u64, u64) -> bool,
    ) -> Result<(u64, bool)> {
        Ok(self.engine.count_partition(partition, self.id, &mut go_on)?)
    }

    /// Visits at least `count` keys of a partition from a position on, in no order, and returns the next
    /// position; 0 is the first, and behind the last. A key that is there during the whole walk is visited
    /// at least once. `None` where the index has an order: go by the keys there, with
    /// [`KeySpace::range_of_partition`].
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// use halite::{Database, IndexKind};
    /// let db = Database::builder().index(IndexKind::Hash).open(&path)?;
    /// let fruit = db.key_space("fruit")?;
    /// fruit.put("apple", "green")?;
    /// let mut found = Vec::new();
    /// let next = fruit.visit_partition(0, 0, 10, |key| found.push(key.to_vec()))?;
    /// assert_eq!((next, &found[..]), (Some(0), &[b"apple".to_vec()][..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`KeySpace::iter`]; [`crate::EngineError::Damaged`].
    ///
    /// # Panics
    /// If there is no such partition.
    pub fn visit_partition(
        &self,
        partition: usize,
        position: u64,
        count: usize,
        mut visit: impl FnMut(&[u8]),
    ) -> Result<Option<u64>> {
        Ok(self.engine.visit_partition(partition, self.id, position, count, &mut visit)?)
    }

    /// Whether there is no key.
    ///
    /// # Errors
    /// As [`KeySpace::iter`].
    pub fn is_empty(&self) -> Result<bool> {
        for partition in 0..self.engine.partitions() {
            if self.count_of_partition(partition, |keys, _| keys == 0)?.0 > 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A key chosen by `random`, roughly uniformly if `random` is uniform. Each key may be. The engine `lsm` chooses
    /// uniformly among keys of one length that are numbers; of others, those with few beside them, byte by byte, come
    /// more often.
    ///
    /// # Errors
    /// As [`KeySpace::get`].
    pub fn sample(&self, random: u64) -> Result<Option<Bytes>> {
        Ok(self.engine.sample(self.id, random)?)
    }

    pub(crate) fn scan(&self, range: KeyRange, direction: Direction) -> Result<Iter> {
        Ok(Iter::new(self.engine.scan(self.id, range, direction)?))
    }
}

impl fmt::Debug for KeySpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeySpace").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Pairs of a key space, in order, of the state at the iterator's start.
///
/// Space that it may still visit is not reused while it lives: finish or drop it.
pub struct Iter {
    scan: Scan,
}

impl Iter {
    pub(crate) fn new(scan: Scan) -> Self {
        Self { scan }
    }
}

impl Iterator for Iter {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.scan.next()?.map_err(Into::into))
    }
}

impl fmt::Debug for Iter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter").finish_non_exhaustive()
    }
}

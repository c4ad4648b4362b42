//! Snapshots: a point in time to read from while writes go on.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::ops::RangeBounds;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use halite_contract::{Direction, Engine, KeySpaceId};

use crate::{Bytes, Error, Iter, KeyRange, Result};

/// All key spaces of a database as they were at one point in time. Cloning it is cheap.
///
/// Writes go on meanwhile. Space that it may read is not reused before its last clone and the last
/// iterator of it are gone. It is volatile: it goes with the process.
#[derive(Clone)]
pub struct Snapshot {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) inner: Arc<dyn halite_contract::Snapshot>,
}

impl Snapshot {
    pub(crate) fn take(engine: &Arc<dyn Engine>) -> Result<Self> {
        Ok(Self { engine: Arc::clone(engine), inner: engine.snapshot()? })
    }

    /// The key spaces that there were, by name.
    #[must_use]
    pub fn key_spaces(&self) -> Vec<SnapshotSpace> {
        let space = |(name, id): (String, KeySpaceId)| {
            SnapshotSpace::new(Arc::clone(&self.inner), &name, id)
        };
        self.inner.key_spaces().into_iter().map(space).collect()
    }

    /// The key space called `name` if there was one.
    #[must_use]
    pub fn find_key_space(&self, name: &str) -> Option<SnapshotSpace> {
        self.key_spaces().into_iter().find(|space| space.name() == name)
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").finish_non_exhaustive()
    }
}

/// A key space as a [`Snapshot`] has it.
#[derive(Clone)]
pub struct SnapshotSpace {
    snapshot: Arc<dyn halite_contract::Snapshot>,
    name: Arc<str>,
    id: KeySpaceId,
}

impl SnapshotSpace {
    pub(crate) fn new(
        snapshot: Arc<dyn halite_contract::Snapshot>,
        name: &str,
        id: KeySpaceId,
    ) -> Self {
        Self { snapshot, name: name.into(), id }
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The value that `key` had, or `None`.
    ///
    /// # Errors
    /// [`crate::EngineError::Damaged`] if the stored record fails its checksum.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        Ok(self.snapshot.get(self.id, key.as_ref())?)
    }

    /// All pairs, from the smallest key to the largest.
    ///
    /// # Errors
    /// None for a snapshot's own key spaces.
    pub fn iter(&self) -> Result<Iter> {
        self.scan(KeyRange::all(), Direction::Forward)
    }

    /// All pairs, from the largest key to the smallest.
    ///
    /// # Errors
    /// As [`SnapshotSpace::iter`].
    pub fn iter_rev(&self) -> Result<Iter> {
        self.scan(KeyRange::all(), Direction::Reverse)
    }

    /// The pairs whose keys are in `range`, ascending.
    ///
    /// # Errors
    /// As [`SnapshotSpace::iter`].
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<Iter> {
        self.scan(KeyRange::from_bounds(&range), Direction::Forward)
    }

    /// The pairs whose keys are in `range`, descending.
    ///
    /// # Errors
    /// As [`SnapshotSpace::iter`].
    pub fn range_rev<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<Iter> {
        self.scan(KeyRange::from_bounds(&range), Direction::Reverse)
    }

    /// The pairs whose keys begin with `prefix`, ascending.
    ///
    /// # Errors
    /// As [`SnapshotSpace::iter`].
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Iter> {
        self.scan(KeyRange::prefix(prefix.as_ref()), Direction::Forward)
    }

    /// The number of keys.
    ///
    /// # Errors
    /// As [`SnapshotSpace::iter`].
    pub fn len(&self) -> Result<u64> {
        Ok(self.snapshot.len(self.id)?)
    }

    /// Whether there is no key.
    ///
    /// # Errors
    /// As [`SnapshotSpace::iter`].
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    fn scan(&self, range: KeyRange, direction: Direction) -> Result<Iter> {
        Ok(Iter::new(self.snapshot.scan(self.id, range, direction)?))
    }
}

impl fmt::Debug for SnapshotSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnapshotSpace").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The snapshots of a database that have names.
#[derive(Default)]
pub(crate) struct NamedSnapshots(Mutex<BTreeMap<String, Snapshot>>);

impl NamedSnapshots {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Snapshot>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn create(
        &self,
        name: &str,
        take: impl FnOnce() -> Result<Snapshot>,
    ) -> Result<Snapshot> {
        match self.all().entry(name.to_owned()) {
            Entry::Occupied(_) => Err(Error::SnapshotExists { name: name.to_owned() }),
            Entry::Vacant(vacant) => Ok(vacant.insert(take()?).clone()),
        }
    }

    pub(crate) fn get(&self, name: &str) -> Result<Snapshot> {
        let found = self.all().get(name).cloned();
        found.ok_or_else(|| Error::NoSuchSnapshot { name: name.to_owned() })
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.all().keys().cloned().collect()
    }

    pub(crate) fn remove(&self, name: &str) -> Result<()> {
        // The snapshot is dropped only after the names are unlocked again.
        let removed = self.all().remove(name);
        removed.map(drop).ok_or_else(|| Error::NoSuchSnapshot { name: name.to_owned() })
    }
}

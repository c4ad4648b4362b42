//! The store below the engine: its testbed, its key spaces, and the replaced values that readers see.
//!
//! Locks are taken in this order: key spaces, partitions, counts or replaced values.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use halite_alloc::Segments;
use halite_contract::{
    Durability, EngineOptions, Error, Health, KeySpaceId, Partitioning, Recovery, Result,
    check_key_space_name,
};
use halite_pmem::Pool;
use halite_sim::locks::{Mutex, RwLock, RwLockReadGuard};

use super::place;
use super::space::{Space, dropped_name, is_dropped, space_of, table_name};
use super::statistics::Taken;
use super::versions::{Reader, Versions};
use crate::{Kind, Testbed, Transaction};

/// The root that says whether the store was closed.
const CLOSED: &str = "table:closed";

/// Keys from which on a key space that loses all of them is truncated, which costs the same for any number.
const TRUNCATED: u64 = 1_000;

/// The key spaces by their ids.
pub(super) type ById = BTreeMap<KeySpaceId, Arc<Space>>;

/// The key spaces of an open store.
#[derive(Default)]
pub(super) struct Spaces {
    pub(super) by_id: Arc<ById>,
    /// The next id.
    next: u32,
    /// Tables of dropped key spaces that readers may still look at.
    dropped: Vec<String>,
}

impl Spaces {
    pub(super) fn get(&self, id: KeySpaceId) -> Result<&Arc<Space>> {
        self.by_id.get(&id).ok_or(Error::NoSuchKeySpace)
    }

    fn named(&self, name: &str) -> Option<KeySpaceId> {
        self.by_id.values().find(|space| space.name == name).map(|space| space.id)
    }

    fn open(&mut self, testbed: &Testbed, name: &str) -> Result<KeySpaceId> {
        let id = KeySpaceId(self.next);
        let space = Space::open(testbed, id, name)?;
        self.next += 1;
        Arc::make_mut(&mut self.by_id).insert(id, Arc::new(space));
        Ok(id)
    }
}

/// Writes of a partition, by their numbers in the order of its commits.
#[derive(Default)]
struct Written {
    last: AtomicU64,
    /// The last one that is durable when its call returns.
    immediate: AtomicU64,
    durable: AtomicU64,
}

/// An open store.
pub(super) struct Store {
    pub(super) testbed: Testbed,
    pub(super) partitioning: Partitioning,
    pub(super) spaces: RwLock<Spaces>,
    pub(super) versions: Arc<Versions>,
    pub(super) health: Health,
    pub(super) recovery: Recovery,
    /// Bytes of keys and values that writes brought.
    pub(super) user_bytes: AtomicU64,
    pub(super) footprint: Mutex<Taken>,
    written: Vec<Written>,
}

impl Store {
    pub(super) fn open(kind: Kind, options: &EngineOptions) -> Result<Self> {
        let begun = Instant::now();
        let name = kind.engine();
        if let Some(Partitioning::Ranges(bounds)) = &options.partitioning {
            let is = match bounds.len() {
                0 => return Self::open(kind, &one_partition(options)),
                _ => 1,
            };
            return Err(Error::FixedPartitions { engine: name, is });
        }
        if !options.create && !Pool::exists(&options.pool, &options.pool_options) {
            // The error is the pool's.
            Segments::open(&options.pool, &options.pool_options)?;
        }
        let testbed = Testbed::open(Some(kind), options).map_err(|error| match error {
            crate::Error::OtherPartitions { found, .. } => {
                Error::FixedPartitions { engine: name, is: found as usize }
            }
            other => other.into(),
        })?;
        let clean = testbed.segments().root(CLOSED).unwrap_or(1) == 1;
        testbed.segments().set_root(CLOSED, 0)?;
        let partitions = testbed.partitions();
        let recovery = Recovery { clean, partitions_ready: partitions, ..Recovery::default() };
        let mut store = Self {
            partitioning: Partitioning::Hash(partitions),
            spaces: RwLock::default(),
            versions: Arc::default(),
            health: Health::default(),
            recovery,
            user_bytes: AtomicU64::new(0),
            footprint: Mutex::default(),
            written: (0..partitions).map(|_| Written::default()).collect(),
            testbed,
        };
        store.find_spaces()?;
        store.recovery.duration = begun.elapsed().max(Duration::from_nanos(1));
        Ok(store)
    }

    /// Finds the key spaces, and drops the tables of those that were dropped.
    fn find_spaces(&self) -> Result<()> {
        let mut spaces = self.spaces.write();
        for table in self.testbed.catalog().tables() {
            if is_dropped(table) {
                spaces.dropped.push(table.schema().name().to_owned());
            } else if let Some(name) = space_of(table) {
                spaces.open(&self.testbed, &name)?;
            }
        }
        match self.drop_tables(&mut spaces) {
            // They wait for the next opening.
            Err(error) if error.lacks_space() => Ok(()),
            dropped => dropped,
        }
    }

    /// The key space of an id, with the lock of all: none is dropped while it is held.
    pub(super) fn space(
        &self,
        id: KeySpaceId,
    ) -> Result<(Arc<Space>, RwLockReadGuard<'_, Spaces>)> {
        let spaces = self.spaces.read();
        let space = spaces.get(id)?.clone();
        Ok((space, spaces))
    }

    /// A key space and a reader of its present.
    pub(super) fn read(&self, id: KeySpaceId) -> Result<(Arc<Space>, Reader)> {
        let (space, _spaces) = self.space(id)?;
        Ok((space, self.versions.read()))
    }

    pub(super) fn key_space(&self, name: &str) -> Result<KeySpaceId> {
        check_key_space_name(name)?;
        if let Some(id) = self.spaces.read().named(name) {
            return Ok(id);
        }
        self.health.check()?;
        let mut spaces = self.spaces.write();
        if let Some(id) = spaces.named(name) {
            return Ok(id);
        }
        let schema = place::schema(&table_name(name))?;
        self.health.watch("the creation of a key space", || self.testbed.create_table(&schema))?;
        spaces.open(&self.testbed, name)
    }

    pub(super) fn drop_key_space(&self, id: KeySpaceId) -> Result<()> {
        self.health.check()?;
        let spaces = &mut *self.spaces.write();
        let table = table_name(&spaces.get(id)?.name);
        self.health.watch("the drop of a key space", || -> Result<()> {
            if self.versions.has_readers() {
                let name = dropped_name(&self.testbed.catalog());
                self.testbed.rename_table(&table, &name)?;
                spaces.dropped.push(name);
            } else {
                self.testbed.drop_table(&table)?;
            }
            Arc::make_mut(&mut spaces.by_id).remove(&id);
            self.drop_tables(spaces)
        })
    }

    /// Removes all keys of a key space at once, if it has many, and no reader sees them. Returns whether it did.
    pub(super) fn truncate(&self, id: KeySpaceId) -> Result<bool> {
        let spaces = &mut *self.spaces.write();
        let space = spaces.get(id)?.clone();
        if self.versions.has_readers() || self.len(&space)? < TRUNCATED {
            return Ok(false);
        }
        self.health.watch("the removal of all keys", || -> Result<bool> {
            self.testbed.truncate_table(&table_name(&space.name))?;
            let emptied = Space::open(&self.testbed, id, &space.name)?;
            Arc::make_mut(&mut spaces.by_id).insert(id, Arc::new(emptied));
            self.versions.begin();
            self.drop_tables(spaces)?;
            Ok(true)
        })
    }

    /// Drops the tables that wait for readers, if these are gone, and gives the space of all dropped ones back.
    fn drop_tables(&self, spaces: &mut Spaces) -> Result<()> {
        while !self.versions.has_readers()
            && let Some(name) = spaces.dropped.last()
        {
            self.testbed.drop_table(name)?;
            spaces.dropped.pop();
        }
        while !self.testbed.reclaim()? {}
        Ok(())
    }

    /// The number of keys of a key space.
    pub(super) fn len(&self, space: &Space) -> Result<u64> {
        (0..self.testbed.partitions()).map(|number| self.len_of(space, number)).sum()
    }

    /// The number of keys of a key space in a partition.
    pub(super) fn len_of(&self, space: &Space, partition: usize) -> Result<u64> {
        let len = space.count(&self.testbed, partition)?;
        self.wait_for(partition, self.immediate(partition))?;
        Ok(len)
    }

    /// Reads a partition, which no transaction changes meanwhile, and returns when the answer may be told: a write that is to
    /// be durable when its call returns is visible before that, and a crash takes back what is not durable.
    pub(super) fn read_partition<T>(
        &self,
        partition: usize,
        body: impl FnOnce(&mut Transaction<'_>) -> Result<T>,
    ) -> Result<T> {
        let read =
            |tx: &mut Transaction<'_>| Ok::<_, Error>((body(tx)?, self.immediate(partition)));
        let (found, immediate) = self.testbed.transact(&[partition], Durability::Deferred, read)?;
        self.wait_for(partition, immediate)?;
        Ok(found)
    }

    /// The last write of a partition that is to be durable when its call returns.
    fn immediate(&self, partition: usize) -> u64 {
        self.written[partition].immediate.load(Ordering::Relaxed)
    }

    /// Returns when a write of a partition is durable.
    fn wait_for(&self, partition: usize, write: u64) -> Result<()> {
        match write <= self.written[partition].durable.load(Ordering::Relaxed) {
            true => Ok(()),
            false => self.sync_partition(partition),
        }
    }

    /// Notes a write of a partition that is locked. Returns its number.
    pub(super) fn note_write(&self, partition: usize, durability: Durability) -> u64 {
        let Written { last, immediate, .. } = &self.written[partition];
        let number = last.fetch_add(1, Ordering::Relaxed) + 1;
        if durability == Durability::Immediate {
            immediate.store(number, Ordering::Relaxed);
        }
        number
    }

    /// Notes that the writes of a partition up to a number are durable.
    pub(super) fn note_durable(&self, partition: usize, number: u64) {
        self.written[partition].durable.fetch_max(number, Ordering::Relaxed);
    }

    /// Writes of a partition that need not be durable.
    pub(super) fn unsynced(&self, partition: usize) -> u64 {
        let Written { last, durable, .. } = &self.written[partition];
        let durable = durable.load(Ordering::Relaxed);
        last.load(Ordering::Relaxed).saturating_sub(durable)
    }

    /// Writes since the store was opened.
    pub(super) fn writes(&self) -> u64 {
        self.written.iter().map(|written| written.last.load(Ordering::Relaxed)).sum()
    }

    pub(super) fn sync_partition(&self, partition: usize) -> Result<()> {
        self.health.check()?;
        let last = self.written[partition].last.load(Ordering::Relaxed);
        let synced = || self.testbed.sync_partition(partition);
        self.health.watch("a sync", synced).map_err(|error| self.failed("a sync", error))?;
        self.note_durable(partition, last);
        Ok(())
    }

    pub(super) fn sync(&self) -> Result<()> {
        (0..self.testbed.partitions()).try_for_each(|number| self.sync_partition(number))
    }

    /// The error of a call behind whose failure nothing may be written any more.
    fn failed(&self, what: &str, error: crate::Error) -> Error {
        self.health.poison(format!("{what} failed: {error}"));
        error.into()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // Without it, the next opening takes the close for a crash.
        if !std::thread::panicking() && self.sync().is_ok() {
            let _ = self.testbed.segments().set_root(CLOSED, 1);
        }
    }
}

fn one_partition(options: &EngineOptions) -> EngineOptions {
    EngineOptions { partitioning: Some(Partitioning::Hash(1)), ..options.clone() }
}

//! A store of the testbed as an engine of the house: `table:cow`, `table:nvm-inp`, and so on for each method.
//!
//! ```text
//!  write ─► transaction: lock partitions ─► expectations ─► rows ─► commit ─► keep what was replaced ─► unlock ─► sync
//!  get, scan, snapshot ─► transaction: lock the partition ─► replaced values, rows ─► unlock ─► sync, if a write waits for it
//! ```
//!
//! A key space is a table of keys and values (`place.rs`), and a batch is a transaction. A method has the last committed
//! state alone; the values that scans and snapshots still see are kept in DRAM beside it (`versions.rs`), so that all
//! methods offer the same. Tables of other schemas are no key spaces, and stay as they are.
//!
//! Costs: a batch costs the commit of its method, and of several partitions the testbed's decision; a read locks the
//! partition of its key, and a scan does for each chunk. A read that finds a write whose call still waits for its sync waits
//! for that sync, too, and fails if the sync has failed: no client is told what a crash takes back. A put reads its row
//! first. The deletion of a range reads the range; that of all keys of a large key space is a statement, whatever the
//! number. The number of keys is counted by reading them when it is first asked for, and is known from then on; the first
//! statistics do the same, and walk the
//! method's space, which they do again after as many writes as there are keys. A key above 1,533 bytes costs a look at all
//! those that have their first 1,533 bytes in common.
//!
//! Limits are the contract's, but for a batch: a method with a log of pointers refuses one that changes more rows than the
//! log has room for (`BatchTooLarge`), which are some 15,000; and a batch that changes several partitions is refused if its
//! decision, all rows before and after it, is longer than a slot, some 2 MB. Where a disk has no room for a commit of a method with files,
//! the commits since the last sync are lost with it, and the store has to be opened again.

mod error;
mod gather;
mod pairs;
mod partitioned;
mod place;
mod scan;
mod snapshot;
mod space;
mod statistics;
mod store;
mod verify;
mod versions;
mod write;

use std::ops::ControlFlow;
use std::sync::Arc;

use halite_contract::{
    Bytes, Capabilities, Direction, Durability, Engine, EngineOptions, Expectation, KeyRange,
    KeySpaceId, Op, Progress, Result, Scan, Snapshot, Snapshots, Stats, Transactional,
    VerifyReport, sample_by_descent,
};

use self::pairs::Pairs;
use self::scan::{direction_of, scan};
use self::snapshot::TableSnapshot;
use self::space::Space;
use self::store::Store;
use crate::Kind;

/// A store of the testbed under one recovery method.
pub struct TableEngine {
    store: Arc<Store>,
}

impl TableEngine {
    /// Opens the store of a method in the pool that the options name, or creates it. The options' partitioning may be a
    /// number of partitions by hash, which the store keeps.
    ///
    /// # Errors
    /// Errors of the pool, the files and the method; [`OtherEngine`](halite_contract::Error::OtherEngine);
    /// [`FixedPartitions`](halite_contract::Error::FixedPartitions) for another number, or for ranges.
    pub fn open(kind: Kind, options: &EngineOptions) -> Result<Self> {
        Ok(Self { store: Arc::new(Store::open(kind, options)?) })
    }

    /// The first key of a range in a direction, of the present.
    fn seek(&self, space: &Space, range: &KeyRange, direction: Direction) -> Result<Option<Bytes>> {
        let mut first: Option<Vec<u8>> = None;
        for partition in 0..self.store.testbed.partitions() {
            self.store.read_partition(partition, |tx| {
                let mut pairs = Pairs::new(tx, partition, &space.tables[partition]);
                Ok(pairs.scan(range, direction_of(direction), |(key, _)| {
                    let is_first = first.as_ref().is_none_or(|first| match direction {
                        Direction::Forward => key < *first,
                        Direction::Reverse => key > *first,
                    });
                    if is_first {
                        first = Some(key);
                    }
                    Ok(ControlFlow::Break(()))
                })?)
            })?;
        }
        Ok(first.map(Bytes::from))
    }
}

impl Engine for TableEngine {
    fn name(&self) -> &'static str {
        self.store.testbed.kind().engine()
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities {
            partitioned: Some(self),
            snapshots: Some(self),
            transactional: Some(self),
            ..Capabilities::default()
        }
    }

    fn key_space(&self, name: &str) -> Result<KeySpaceId> {
        self.store.key_space(name).map_err(|error| self.store.told(error))
    }

    fn key_spaces(&self) -> Result<Vec<(String, KeySpaceId)>> {
        let spaces = self.store.spaces.read().by_id.clone();
        Ok(spaces.values().map(|space| (space.name.clone(), space.id)).collect())
    }

    fn drop_key_space(&self, space: KeySpaceId) -> Result<()> {
        self.store.drop_key_space(space).map_err(|error| self.store.told(error))
    }

    fn get(&self, space: KeySpaceId, key: &[u8]) -> Result<Option<Bytes>> {
        let (space, _spaces) = self.store.space(space)?;
        let partition = self.store.partitioning.partition_of(key);
        self.store.read_partition(partition, |tx| {
            let mut pairs = Pairs::new(tx, partition, &space.tables[partition]);
            Ok(pairs.get(key)?.map(Bytes::from))
        })
    }

    fn len(&self, space: KeySpaceId) -> Result<u64> {
        let (space, _spaces) = self.store.space(space)?;
        self.store.len(&space)
    }

    fn sample(&self, space: KeySpaceId, random: u64) -> Result<Option<Bytes>> {
        let (space, _spaces) = self.store.space(space)?;
        sample_by_descent(&|range, direction| self.seek(&space, range, direction), random)
    }

    fn write(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        self.store.write(ops, durability, &[])
    }

    fn scan(&self, space: KeySpaceId, range: KeyRange, direction: Direction) -> Result<Scan> {
        let (space, reader) = self.store.read(space)?;
        Ok(scan(&self.store, &Arc::new(reader), &space, &range, direction))
    }

    fn sync(&self) -> Result<()> {
        self.store.sync()
    }

    /// Methods with files keep a group of commits in DRAM until it is synced.
    fn hand_over(&self) -> Result<()> {
        match self.store.testbed.kind().has_files() {
            true => self.store.sync(),
            false => Ok(()),
        }
    }

    fn stats(&self) -> Stats {
        self.store.stats()
    }

    fn verify(&self, progress: Progress<'_>) -> Result<VerifyReport> {
        verify::verify(&self.store, progress)
    }
}

impl Snapshots for TableEngine {
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        Ok(Arc::new(TableSnapshot::new(&self.store)))
    }
}

impl Transactional for TableEngine {
    fn write_if(
        &self,
        ops: &[Op<'_>],
        durability: Durability,
        expected: &[Expectation<'_>],
    ) -> Result<()> {
        self.store.write(ops, durability, expected)
    }
}

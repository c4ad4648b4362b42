//! Writes: a batch as one transaction, on conditions or without.
//!
//! The transaction locks the partitions of the batch, and those that it expects something of; it applies the operations
//! in order, and commits. What it replaces is kept for readers before the partitions are released.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use halite_contract::{Direction, Durability, Error, Expectation, KeyRange, Op, Result};

use super::pairs::Pairs;
use super::snapshot::TableSnapshot;
use super::store::{Spaces, Store};
use super::versions::{Place, Reader, Replaced, Write};
use crate::Transaction;
use crate::index;

/// The effects of a transaction besides its changes of rows.
struct Effects {
    write: Write,
    replaced: Vec<Replaced>,
    /// How many keys come to each partition of a key space.
    more: BTreeMap<Place, i64>,
    user_bytes: u64,
}

impl Store {
    pub(super) fn write(
        &self,
        ops: &[Op<'_>],
        durability: Durability,
        expected: &[Expectation<'_>],
    ) -> Result<()> {
        self.health.check()?;
        ops.iter().try_for_each(Op::check)?;
        if let [Op::DeleteRange { space, start: b"", end: None }] = *ops
            && expected.is_empty()
            && self.truncate(space).map_err(|error| self.told(error))?
        {
            return Ok(());
        }
        let spaces = &*self.spaces.read();
        ops.iter().try_for_each(|op| spaces.get(op.space()).map(drop))?;
        let read = self.partitions_read(spaces, expected)?;
        let written: BTreeSet<_> = ops.iter().flat_map(|op| self.partitions_of(op)).collect();
        if !ops.is_empty() && (read.len() > 1 || !read.is_subset(&written)) {
            // The expected state becomes durable before the operations do.
            read.iter().try_for_each(|&partition| self.sync_partition(partition))?;
        }
        let partitions: Vec<_> = read.union(&written).copied().collect();
        if partitions.is_empty() {
            return Ok(());
        }
        let durability = if ops.is_empty() { Durability::Deferred } else { durability };
        let body = |tx: &mut Transaction<'_>| {
            self.check_expected(expected)?;
            self.apply(tx, spaces, ops)
        };
        let mut numbers = Vec::new();
        let committed = |effects: &mut Effects| {
            let note = |&partition| (partition, self.note_write(partition, durability));
            numbers.extend(written.iter().map(note));
            for (&(space, partition), &more) in &effects.more {
                spaces.by_id[&space].add(partition, more);
            }
            self.versions.keep(effects.write, std::mem::take(&mut effects.replaced));
            self.user_bytes.fetch_add(effects.user_bytes, Ordering::Relaxed);
        };
        let run = || self.testbed.transact_and(&partitions, durability, body, committed);
        match self.health.watch("a write", run) {
            Err(error) if numbers.is_empty() => return Err(self.told(error)),
            Err(error) => {
                self.health.poison(format!("the sync of a write failed: {error}"));
                return Err(error);
            }
            Ok(_) if durability == Durability::Deferred => {}
            Ok(_) => numbers.into_iter().for_each(|(at, number)| self.note_durable(at, number)),
        }
        Ok(())
    }

    fn partitions_of(&self, op: &Op<'_>) -> std::ops::Range<usize> {
        match *op {
            Op::Put { key, .. } | Op::Delete { key, .. } => {
                let partition = self.partitioning.partition_of(key);
                partition..partition + 1
            }
            Op::DeleteRange { start, end, .. } => self.partitioning.partitions_of(start, end),
        }
    }

    /// The partitions of the keys and ranges that a write expects something of.
    fn partitions_read(
        &self,
        spaces: &Spaces,
        expected: &[Expectation<'_>],
    ) -> Result<BTreeSet<usize>> {
        let mut read = BTreeSet::new();
        for expectation in expected {
            self.reader_of(expectation)?;
            for (space, key) in expectation.keys {
                spaces.get(*space)?;
                read.insert(self.partitioning.partition_of(key));
            }
            for (space, range) in expectation.ranges {
                spaces.get(*space)?;
                read.extend(self.partitioning.partitions_of(range.start(), range.end()));
            }
        }
        Ok(read)
    }

    fn reader_of<'a>(&self, expectation: &'a Expectation<'_>) -> Result<&'a Reader> {
        let snapshot = expectation.snapshot.downcast_ref::<TableSnapshot>();
        let reader = snapshot.map(TableSnapshot::reader);
        reader.filter(|reader| reader.is_of(&self.versions)).ok_or(Error::ForeignSnapshot)
    }

    /// Refuses if something expected has changed. The partitions are locked.
    fn check_expected(&self, expected: &[Expectation<'_>]) -> Result<()> {
        for expectation in expected {
            let reader = self.reader_of(expectation)?;
            for &(space, key) in expectation.keys {
                let place = (space, self.partitioning.partition_of(key));
                if reader.replaced(place, key).is_some() {
                    return Err(Error::Conflict { space, at: key.to_vec() });
                }
            }
            for (space, range) in expectation.ranges {
                for partition in self.partitioning.partitions_of(range.start(), range.end()) {
                    let place = (*space, partition);
                    let (found, _) = reader.replaced_in(place, range, Direction::Forward, 0);
                    if !found.is_empty() {
                        let at = range.start().to_vec();
                        return Err(Error::Conflict { space: *space, at });
                    }
                }
            }
        }
        Ok(())
    }

    fn apply(&self, tx: &mut Transaction<'_>, spaces: &Spaces, ops: &[Op<'_>]) -> Result<Effects> {
        let (replaced, more) = Default::default();
        let mut effects = Effects { write: self.versions.begin(), replaced, more, user_bytes: 0 };
        for op in ops {
            let space = spaces.get(op.space())?;
            for partition in self.partitions_of(op) {
                let place = (space.id, partition);
                let pairs = Pairs::new(tx, partition, &space.tables[partition]);
                effects.apply(place, pairs, op)?;
            }
        }
        Ok(effects)
    }

    /// An error of the testbed, with the figures of a pool that is full.
    pub(super) fn told(&self, error: Error) -> Error {
        match error {
            Error::Alloc(halite_alloc::Error::Full { .. }) => {
                let (pool, free) = (self.testbed.pool(), self.testbed.segments().free());
                let used = pool.len() - free * halite_alloc::SEGMENT;
                Error::Full { used, limit: pool.len_max(), held: 0, holder: None }
            }
            other => other,
        }
    }
}

impl Effects {
    fn apply(&mut self, place: Place, mut pairs: Pairs<'_, '_>, op: &Op<'_>) -> Result<()> {
        match *op {
            Op::Put { key, value, .. } => {
                self.keep(place, &mut pairs, key)?;
                let is_new = !pairs.put(key, value)?;
                *self.more.entry(place).or_default() += i64::from(is_new);
                self.user_bytes += (key.len() + value.len()) as u64;
                Ok(())
            }
            Op::Delete { key, .. } => self.delete(place, &mut pairs, key),
            Op::DeleteRange { start, end, .. } => {
                let mut keys = Vec::new();
                let range = KeyRange::new(start, end.map(<[u8]>::to_vec));
                pairs.scan(&range, index::Direction::Forward, |(key, _)| {
                    keys.push(key);
                    Ok(ControlFlow::Continue(()))
                })?;
                keys.iter().try_for_each(|key| self.delete(place, &mut pairs, key))
            }
        }
    }

    fn delete(&mut self, place: Place, pairs: &mut Pairs<'_, '_>, key: &[u8]) -> Result<()> {
        self.keep(place, pairs, key)?;
        let was_there = pairs.delete(key)?;
        *self.more.entry(place).or_default() -= i64::from(was_there);
        Ok(())
    }

    /// Keeps the value of a key that is about to be replaced, if a reader may want it.
    fn keep(&mut self, place: Place, pairs: &mut Pairs<'_, '_>, key: &[u8]) -> Result<()> {
        if self.write.has_readers {
            let before = pairs.get(key)?.map(Into::into);
            self.replaced.push(Replaced { place, key: key.to_vec(), before });
        }
        Ok(())
    }
}

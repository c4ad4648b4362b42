//! The answers for a capability that an engine lacks.
//!
//! A caller with a `dyn Engine` calls the methods of all capabilities on the engine itself. Where it lacks one, it
//! answers as a store of one partition, which was recovered when it opened, collects by itself, and takes no
//! snapshots.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::{
    Changes, Direction, Durability, Engine, Error, Expectation, KeyRange, KeySpaceId, Op,
    Partitioning, Result, Scan, Snapshot, Stats,
};

/// [`Partitioned`](crate::Partitioned); without it, all keys are in partition 0.
impl dyn Engine + '_ {
    /// [`Partitioned::partitioning`](crate::Partitioned::partitioning).
    #[must_use]
    pub fn partitioning(&self) -> Partitioning {
        let partitioned = self.capabilities().partitioned;
        partitioned.map_or(Partitioning::Hash(1), |engine| engine.partitioning())
    }

    /// [`Partitioned::partitions`](crate::Partitioned::partitions).
    #[must_use]
    pub fn partitions(&self) -> usize {
        self.capabilities().partitioned.map_or(1, |engine| engine.partitions())
    }

    /// [`Partitioned::partition_of`](crate::Partitioned::partition_of).
    #[must_use]
    pub fn partition_of(&self, key: &[u8]) -> usize {
        self.capabilities().partitioned.map_or(0, |engine| engine.partition_of(key))
    }

    /// [`Partitioned::prefetch`](crate::Partitioned::prefetch).
    pub fn prefetch(&self, partition: usize, space: KeySpaceId, keys: &[&[u8]]) {
        if let Some(engine) = self.capabilities().partitioned {
            engine.prefetch(partition, space, keys);
        }
    }

    /// [`Partitioned::scan_partition`](crate::Partitioned::scan_partition).
    ///
    /// # Errors
    /// As [`Engine::scan`].
    pub fn scan_partition(
        &self,
        partition: usize,
        space: KeySpaceId,
        range: KeyRange,
        direction: Direction,
    ) -> Result<Scan> {
        match self.capabilities().partitioned {
            Some(engine) => engine.scan_partition(partition, space, range, direction),
            None => self.scan(space, range, direction),
        }
    }

    /// [`Partitioned::len_of_partition`](crate::Partitioned::len_of_partition).
    ///
    /// # Errors
    /// As [`Engine::len`].
    pub fn len_of_partition(&self, partition: usize, space: KeySpaceId) -> Result<u64> {
        match self.capabilities().partitioned {
            Some(engine) => engine.len_of_partition(partition, space),
            None => self.len(space),
        }
    }

    /// [`Partitioned::count_partition`](crate::Partitioned::count_partition).
    ///
    /// # Errors
    /// As [`Engine::len`].
    pub fn count_partition(
        &self,
        partition: usize,
        space: KeySpaceId,
        go_on: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<(u64, bool)> {
        match self.capabilities().partitioned {
            Some(engine) => engine.count_partition(partition, space, go_on),
            None => Ok((self.len(space)?, true)),
        }
    }

    /// [`Partitioned::visit_partition`](crate::Partitioned::visit_partition).
    ///
    /// # Errors
    /// As [`Engine::scan`]; [`Error::Damaged`].
    pub fn visit_partition(
        &self,
        partition: usize,
        space: KeySpaceId,
        position: u64,
        count: usize,
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<u64>> {
        match self.capabilities().partitioned {
            Some(engine) => engine.visit_partition(partition, space, position, count, visit),
            None => Ok(None),
        }
    }

    /// [`Partitioned::sync_partition`](crate::Partitioned::sync_partition).
    ///
    /// # Errors
    /// As [`Engine::sync`].
    pub fn sync_partition(&self, partition: usize) -> Result<()> {
        match self.capabilities().partitioned {
            Some(engine) => engine.sync_partition(partition),
            None => self.sync(),
        }
    }

    /// [`Partitioned::partition_stats`](crate::Partitioned::partition_stats).
    #[must_use]
    pub fn partition_stats(&self, partition: usize) -> Stats {
        match self.capabilities().partitioned {
            Some(engine) => engine.partition_stats(partition),
            None => self.stats(),
        }
    }
}

/// [`Snapshots`](crate::Snapshots) and [`Transactional`](crate::Transactional); without them, errors.
impl dyn Engine + '_ {
    /// [`Snapshots::snapshot`](crate::Snapshots::snapshot).
    ///
    /// # Errors
    /// [`Error::NoSnapshots`] if this engine takes none; [`Error::Damaged`].
    pub fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        self.capabilities().snapshots.ok_or(Error::NoSnapshots)?.snapshot()
    }

    /// [`Transactional::write_if`](crate::Transactional::write_if).
    ///
    /// # Errors
    /// [`Error::NoTransactions`] from an engine that does not offer this; those of
    /// [`Transactional::write_if`](crate::Transactional::write_if).
    pub fn write_if(
        &self,
        ops: &[Op<'_>],
        durability: Durability,
        expected: &[Expectation<'_>],
    ) -> Result<()> {
        let transactional = self.capabilities().transactional.ok_or(Error::NoTransactions)?;
        transactional.write_if(ops, durability, expected)
    }
}

/// [`ChangeFeed`](crate::ChangeFeed); without it, there is no change log.
impl dyn Engine + '_ {
    /// [`ChangeFeed::change_log`](crate::ChangeFeed::change_log).
    #[must_use]
    pub fn change_log(&self) -> Option<u64> {
        self.capabilities().change_feed?.change_log()
    }

    /// [`ChangeFeed::change_positions`](crate::ChangeFeed::change_positions).
    ///
    /// # Errors
    /// [`Error::NoChangeLog`] if the store has none.
    pub fn change_positions(&self, partition: usize) -> Result<Range<u64>> {
        let feed = self.capabilities().change_feed.ok_or(Error::NoChangeLog)?;
        feed.change_positions(partition)
    }

    /// [`ChangeFeed::changes`](crate::ChangeFeed::changes).
    ///
    /// # Errors
    /// [`Error::NoChangeLog`] if the store has none; those of [`ChangeFeed::changes`](crate::ChangeFeed::changes).
    pub fn changes(&self, partition: usize, from: u64) -> Result<Changes> {
        self.capabilities().change_feed.ok_or(Error::NoChangeLog)?.changes(partition, from)
    }
}

/// [`OnDemand`](crate::OnDemand) and [`IndexSnapshots`](crate::IndexSnapshots); without them, an open store is
/// recovered, and has no snapshot of its index.
impl dyn Engine + '_ {
    /// [`OnDemand::wait_ready`](crate::OnDemand::wait_ready).
    ///
    /// # Errors
    /// Why a part of the store could not be recovered.
    pub fn wait_ready(&self) -> Result<()> {
        self.capabilities().on_demand.map_or(Ok(()), |engine| engine.wait_ready())
    }

    /// [`OnDemand::wait_partition`](crate::OnDemand::wait_partition).
    ///
    /// # Errors
    /// Why the partition could not be recovered.
    pub fn wait_partition(&self, partition: usize, time: Duration) -> Result<bool> {
        let on_demand = self.capabilities().on_demand;
        on_demand.map_or(Ok(true), |engine| engine.wait_partition(partition, time))
    }

    /// [`IndexSnapshots::snapshot_index`](crate::IndexSnapshots::snapshot_index).
    ///
    /// # Errors
    /// The pool's errors.
    pub fn snapshot_index(&self) -> Result<bool> {
        self.capabilities().index_snapshots.map_or(Ok(false), |engine| engine.snapshot_index())
    }
}

/// [`SpaceManagement`](crate::SpaceManagement); without it, bookkeeping is a write like others, and nothing is collected
/// ahead.
impl dyn Engine + '_ {
    /// [`SpaceManagement::write_bookkeeping`](crate::SpaceManagement::write_bookkeeping).
    ///
    /// # Errors
    /// As [`Engine::write`].
    pub fn write_bookkeeping(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        match self.capabilities().space_management {
            Some(engine) => engine.write_bookkeeping(ops, durability),
            None => self.write(ops, durability),
        }
    }

    /// [`SpaceManagement::collect_ahead`](crate::SpaceManagement::collect_ahead).
    ///
    /// # Errors
    /// As [`Engine::write`].
    pub fn collect_ahead(&self, partition: usize) -> Result<bool> {
        let managing = self.capabilities().space_management;
        managing.map_or(Ok(false), |engine| engine.collect_ahead(partition))
    }

    /// [`SpaceManagement::space_of`](crate::SpaceManagement::space_of); the lengths of key and value without it.
    #[must_use]
    pub fn space_of(&self, key_len: usize, value_len: usize) -> u64 {
        let managing = self.capabilities().space_management;
        let bytes = (key_len + value_len) as u64;
        managing.map_or(bytes, |engine| engine.space_of(key_len, value_len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bytes, Model, Progress, VerifyReport};

    /// An engine without any capability.
    struct Bare(Model);

    impl Engine for Bare {
        fn name(&self) -> &'static str {
            "bare"
        }

        fn key_space(&self, name: &str) -> Result<KeySpaceId> {
            self.0.key_space(name)
        }

        fn key_spaces(&self) -> Result<Vec<(String, KeySpaceId)>> {
            self.0.key_spaces()
        }

        fn drop_key_space(&self, space: KeySpaceId) -> Result<()> {
            self.0.drop_key_space(space)
        }

        fn get(&self, space: KeySpaceId, key: &[u8]) -> Result<Option<Bytes>> {
            self.0.get(space, key)
        }

        fn len(&self, space: KeySpaceId) -> Result<u64> {
            self.0.len(space)
        }

        fn sample(&self, space: KeySpaceId, random: u64) -> Result<Option<Bytes>> {
            self.0.sample(space, random)
        }

        fn write(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
            self.0.write(ops, durability)
        }

        fn scan(&self, space: KeySpaceId, range: KeyRange, direction: Direction) -> Result<Scan> {
            self.0.scan(space, range, direction)
        }

        fn sync(&self) -> Result<()> {
            self.0.sync()
        }

        fn stats(&self) -> Stats {
            self.0.stats()
        }

        fn verify(&self, progress: Progress<'_>) -> Result<VerifyReport> {
            self.0.verify(progress)
        }
    }

    #[test]
    fn an_engine_without_capabilities_answers_as_one_partition() {
        let bare = Bare(Model::new());
        let engine: &dyn Engine = &bare;
        let space = engine.key_space("fruit").unwrap();
        let op = Op::Put { space, key: b"apple", value: b"green" };
        engine.write_bookkeeping(&[op], Durability::Immediate).unwrap();
        assert_eq!((engine.partitions(), engine.partition_of(b"apple")), (1, 0));
        assert_eq!(engine.partitioning(), Partitioning::Hash(1));
        assert_eq!(engine.len_of_partition(0, space).unwrap(), 1);
        assert_eq!(engine.count_partition(0, space, &mut |_, _| false).unwrap(), (1, true));
        let scanned = engine.scan_partition(0, space, KeyRange::all(), Direction::Forward);
        assert_eq!(scanned.unwrap().count(), 1);
        assert_eq!(engine.visit_partition(0, space, 0, 1, &mut |_| {}).unwrap(), None);
        assert_eq!(engine.partition_stats(0).records, 1);
        engine.sync_partition(0).unwrap();
        assert_eq!(engine.space_of(5, 5), 10);
        assert!(engine.wait_partition(0, Duration::ZERO).unwrap() && engine.wait_ready().is_ok());
        assert!(!engine.snapshot_index().unwrap() && !engine.collect_ahead(0).unwrap());
    }

    #[test]
    fn what_nothing_can_stand_in_for_is_refused_by_name() {
        let bare = Bare(Model::new());
        let engine: &dyn Engine = &bare;
        assert!(matches!(engine.snapshot().map(drop), Err(Error::NoSnapshots)));
        let written = engine.write_if(&[], Durability::Immediate, &[]);
        assert!(matches!(written, Err(Error::NoTransactions)));
        assert_eq!(engine.change_log(), None);
        assert!(matches!(engine.change_positions(0), Err(Error::NoChangeLog)));
        assert!(matches!(engine.changes(0, 0).map(drop), Err(Error::NoChangeLog)));
    }
}

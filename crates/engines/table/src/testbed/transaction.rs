//! A transaction over the partitions that it has locked.

use std::ops::ControlFlow;
use std::sync::Arc;

use halite_sim::locks::MutexGuard;

use super::AnyPartition;
use crate::index::Direction;
use crate::write_set::Savepoint;
use crate::{Change, Error, KeyRange, Result, Row, RowRef, Table};

/// A transaction. Each statement names the partition, which has to be one of the transaction's.
pub struct Transaction<'a> {
    /// In the order of their numbers.
    pub(super) parts: Vec<(usize, MutexGuard<'a, AnyPartition>)>,
    timestamp: u64,
}

impl<'a> Transaction<'a> {
    pub(super) fn new(parts: Vec<(usize, MutexGuard<'a, AnyPartition>)>, timestamp: u64) -> Self {
        Self { parts, timestamp }
    }

    /// Its place in the order of all transactions: no other one of the store has it, also after a crash.
    #[must_use]
    pub fn timestamp(&self) -> u64 {
        self.timestamp
    }

    fn part(&mut self, partition: usize) -> Result<&mut AnyPartition> {
        let found = self.parts.iter_mut().find(|(number, _)| *number == partition);
        found.map(|(_, part)| &mut **part).ok_or(Error::NotParticipant { partition })
    }

    /// A table of a partition, for the statements below.
    ///
    /// # Errors
    /// [`Error::UnknownTable`]; [`Error::NotParticipant`], as for all statements.
    pub fn table(&mut self, partition: usize, name: &str) -> Result<Arc<Table>> {
        self.part(partition)?.catalog().table(name).cloned()
    }

    /// The row with a primary key.
    ///
    /// # Errors
    /// Those of [`Partition::get`](crate::Partition::get).
    pub fn get(&mut self, partition: usize, table: &Table, key: &[u8]) -> Result<Option<Row>> {
        self.part(partition)?.get(table, key)
    }

    /// Adds a row.
    ///
    /// # Errors
    /// Those of [`Partition::insert`](crate::Partition::insert).
    pub fn insert(&mut self, partition: usize, table: &Table, row: &Row) -> Result<()> {
        self.part(partition)?.insert(table, row)
    }

    /// Changes columns of the row with a primary key. Returns whether there is one.
    ///
    /// # Errors
    /// Those of [`Partition::update`](crate::Partition::update).
    pub fn update(
        &mut self,
        partition: usize,
        table: &Table,
        key: &[u8],
        changes: &[Change<'_>],
    ) -> Result<bool> {
        self.part(partition)?.update(table, key, changes)
    }

    /// Removes the row with a primary key. Returns whether there was one.
    ///
    /// # Errors
    /// Those of [`Partition::delete`](crate::Partition::delete).
    pub fn delete(&mut self, partition: usize, table: &Table, key: &[u8]) -> Result<bool> {
        self.part(partition)?.delete(table, key)
    }

    /// Visits the rows of a range, by the primary key or the secondary index at a position, until the visitor breaks.
    ///
    /// # Errors
    /// Those of [`Partition::scan`](crate::Partition::scan), and of the visitor.
    pub fn scan(
        &mut self,
        partition: usize,
        (table, position): (&Table, Option<usize>),
        range: &KeyRange,
        direction: Direction,
        visit: impl FnMut(&[u8], RowRef<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        self.part(partition)?.scan(table, position, range, direction, visit)
    }

    /// The place where the transaction is, in each of its partitions.
    ///
    /// # Errors
    /// None where the transaction has not ended.
    pub fn savepoint(&self) -> Result<Vec<Savepoint>> {
        self.parts.iter().map(|(_, part)| part.savepoint()).collect()
    }

    /// Undoes all that the transaction has done since a savepoint of its own, and goes on.
    ///
    /// # Errors
    /// As [`Transaction::savepoint`].
    pub fn rollback_to(&mut self, savepoint: &[Savepoint]) -> Result<()> {
        let mut parts = self.parts.iter_mut().zip(savepoint);
        parts.try_for_each(|((_, part), savepoint)| part.rollback_to(*savepoint))
    }

    /// Undoes all.
    pub(super) fn abort(self) {}
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        for (_, part) in &mut self.parts {
            if part.writes().is_some() {
                // There is a transaction, and an abort touches nothing beside it.
                let _ = part.abort();
            }
        }
    }
}

//! Rows in a testbed: tables as they are, a home's rows in its partition.

use std::ops::ControlFlow;
use std::sync::Arc;

use halite_contract::{Direction, Durability};
use halite_table::{Change, KeyRange, Row, Table, TableSchema, Testbed, ValueRef};

use super::{Body, Ended, Homes, Outcome, Read, Scan, Store, Transaction, Visit};
use crate::{Error, Result};

/// A testbed as a store of rows. Home h is partition (h - 1) modulo their number.
pub struct TestbedStore {
    testbed: Arc<Testbed>,
    durability: Durability,
    /// The tables of each partition.
    tables: Vec<Vec<Arc<Table>>>,
}

impl TestbedStore {
    /// The tables in a testbed, created where they are missing.
    ///
    /// # Errors
    /// Those of the testbed.
    pub fn create(
        testbed: Arc<Testbed>,
        schemas: &[TableSchema],
        durability: Durability,
    ) -> Result<Self> {
        let catalog = testbed.catalog();
        for schema in schemas {
            if catalog.table(schema.name()).is_err() {
                testbed.create_table(schema)?;
            }
        }
        Self::open(testbed, schemas, durability)
    }

    /// The tables that are in a testbed; nothing is written.
    ///
    /// # Errors
    /// [`Error::NotLoaded`] if one is missing, or has another schema.
    pub fn open(
        testbed: Arc<Testbed>,
        schemas: &[TableSchema],
        durability: Durability,
    ) -> Result<Self> {
        let find = |partition: usize| {
            let found = testbed.transact(&[partition], Durability::Deferred, |tx| {
                schemas.iter().map(|schema| tx.table(partition, schema.name())).collect()
            });
            let tables: Vec<Arc<Table>> = found.map_err(|error| match error {
                halite_table::Error::UnknownTable { .. } => Error::NotLoaded,
                error => error.into(),
            })?;
            let is_same =
                tables.iter().zip(schemas).all(|(table, schema)| **table.schema() == *schema);
            if is_same { Ok(tables) } else { Err(Error::NotLoaded) }
        };
        let tables = (0..testbed.partitions()).map(find).collect::<Result<_>>()?;
        Ok(Self { testbed, durability, tables })
    }

    /// The testbed.
    #[must_use]
    pub fn testbed(&self) -> &Arc<Testbed> {
        &self.testbed
    }

    fn partition_of(&self, home: u32) -> usize {
        (home as usize).saturating_sub(1) % self.tables.len()
    }

    /// Runs a transaction over partitions, of which the first has the rows that are everywhere.
    fn run_on(&self, partitions: &[usize], body: &mut Body<'_>) -> Result<Outcome> {
        let done = self.testbed.transact(partitions, self.durability, |inner| {
            let mut rows = RowsOfHomes { store: self, partitions, inner };
            match body(&mut rows)? {
                Outcome::Commit => Ok(()),
                Outcome::Rollback => Err(Ends::Rollback),
            }
        });
        match done {
            Ok(()) => Ok(Outcome::Commit),
            Err(Ends::Rollback) => Ok(Outcome::Rollback),
            Err(Ends::Failed(error)) => Err(error),
        }
    }
}

/// Why a transaction is undone.
enum Ends {
    Rollback,
    Failed(Error),
}

impl From<Error> for Ends {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<halite_table::Error> for Ends {
    fn from(error: halite_table::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl Store for TestbedStore {
    fn run(&self, homes: Homes<'_>, body: &mut Body<'_>) -> Result<Ended> {
        let outcome = match homes {
            Homes::Of(&[home]) => self.run_on(&[self.partition_of(home)], body)?,
            Homes::Of(homes) => {
                let partitions: Vec<_> =
                    homes.iter().map(|&home| self.partition_of(home)).collect();
                self.run_on(&partitions, body)?
            }
            Homes::Everywhere => {
                let mut outcome = Outcome::Commit;
                for partition in 0..self.tables.len() {
                    outcome = self.run_on(&[partition], body)?;
                }
                outcome
            }
        };
        Ok(Ended { outcome, retries: 0 })
    }
}

/// A transaction over the rows of homes.
struct RowsOfHomes<'a, 'b> {
    store: &'a TestbedStore,
    /// The partition of the asking home is the first.
    partitions: &'a [usize],
    inner: &'a mut halite_table::Transaction<'b>,
}

impl<'a> RowsOfHomes<'a, '_> {
    /// The partition of a row, by the first value of its primary key, and the table there.
    fn place(&self, table: usize, key: &[ValueRef<'_>]) -> (usize, &'a Table) {
        let partition = match (self.partitions, key.first()) {
            ([partition], _) => *partition,
            (partitions, Some(first)) => {
                let home = first.int().ok().and_then(|home| u32::try_from(home).ok());
                let of_home = home.map(|home| self.store.partition_of(home));
                of_home.filter(|of_home| partitions.contains(of_home)).unwrap_or(partitions[0])
            }
            (partitions, None) => partitions[0],
        };
        (partition, &self.store.tables[partition][table])
    }
}

impl Transaction for RowsOfHomes<'_, '_> {
    fn get(&mut self, table: usize, key: &[ValueRef<'_>], read: &mut Read<'_>) -> Result<bool> {
        let (partition, table) = self.place(table, key);
        let schema = table.schema();
        match self.inner.get(partition, table, &schema.primary_key().encode(key)?)? {
            Some(row) => read(row.view(schema)?).map(|()| true),
            None => Ok(false),
        }
    }

    fn insert(&mut self, table: usize, values: &[ValueRef<'_>]) -> Result<()> {
        let (partition, table) = self.place(table, values);
        Ok(self.inner.insert(partition, table, &Row::from_values(table.schema(), values)?)?)
    }

    fn update(
        &mut self,
        table: usize,
        key: &[ValueRef<'_>],
        changes: &[Change<'_>],
    ) -> Result<bool> {
        let (partition, table) = self.place(table, key);
        let key = table.schema().primary_key().encode(key)?;
        Ok(self.inner.update(partition, table, &key, changes)?)
    }

    fn delete(&mut self, table: usize, key: &[ValueRef<'_>]) -> Result<bool> {
        let (partition, table) = self.place(table, key);
        let key = table.schema().primary_key().encode(key)?;
        Ok(self.inner.delete(partition, table, &key)?)
    }

    fn scan(&mut self, table: usize, scan: &Scan<'_>, visit: &mut Visit<'_>) -> Result<()> {
        let bound = |bound| match bound {
            std::ops::Bound::Included(values) | std::ops::Bound::Excluded(values) => values,
            std::ops::Bound::Unbounded => &[][..],
        };
        let (partition, table) = self.place(table, bound(scan.from));
        let schema = table.schema();
        let (key, range): (_, KeyRange) = match scan.index {
            None => (None, schema.primary_key().range(scan.from, scan.to)?),
            Some(index) => (Some(index), schema.indexes()[index].key().range(scan.from, scan.to)?),
        };
        let direction = match scan.direction {
            Direction::Forward => halite_table::index::Direction::Forward,
            Direction::Reverse => halite_table::index::Direction::Reverse,
        };
        let mut failed = None;
        self.inner.scan(partition, (table, key), &range, direction, |_, row| {
            Ok(visit(row).unwrap_or_else(|error| {
                failed = Some(error);
                ControlFlow::Break(())
            }))
        })?;
        failed.map_or(Ok(()), Err)
    }
}

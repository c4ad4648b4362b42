//! Tables and secondary indexes as pairs of bytes.
//!
//! ```text
//! space of a table:   primary key -> image of the row
//! space of an index:  entry       -> primary key, if the index is unique; else nothing: the entry ends with it
//! ```
//!
//! So a store of pairs of bytes is a store of rows: it implements [`Pairs`], and runs bodies over [`Keyed`].
//!
//! The spaces are numbered table by table: the table's own, then those of its indexes. An insert writes a pair for the
//! row and one for each index; an update writes the row and those entries that change; a scan by an index reads each
//! row.

use std::ops::ControlFlow;

use halite_contract::Direction;
use halite_table::{Change, IndexSchema, KeyRange, Row, RowRef, TableSchema, ValueRef};

use super::{Read, Scan, Transaction, Visit};
use crate::Result;

/// Takes a key and a value, one pair after another, until it breaks off.
pub type VisitPair<'a> = dyn FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>> + 'a;

/// Pairs of bytes in numbered spaces, in a transaction.
pub trait Pairs {
    /// A value that was read.
    type Value: AsRef<[u8]>;

    /// The value of a key, which the transaction may be about to change.
    ///
    /// # Errors
    /// Those of the store, as for all calls.
    fn get(&self, space: usize, key: &[u8], for_update: bool) -> Result<Option<Self::Value>>;

    /// Sets a value.
    ///
    /// # Errors
    /// Those of the store.
    fn put(&mut self, space: usize, key: &[u8], value: &[u8]) -> Result<()>;

    /// Removes a key, if it is there.
    ///
    /// # Errors
    /// Those of the store.
    fn delete(&mut self, space: usize, key: &[u8]) -> Result<()>;

    /// Visits the pairs of a range.
    ///
    /// # Errors
    /// Those of the store, and of `visit`.
    fn scan(
        &self,
        space: usize,
        range: KeyRange,
        direction: Direction,
        visit: &mut VisitPair<'_>,
    ) -> Result<()>;
}

/// Schemas, and the space of each table.
#[derive(Debug)]
pub struct Tables {
    schemas: Vec<TableSchema>,
    spaces: Vec<usize>,
}

impl Tables {
    /// The spaces of tables of these schemas.
    #[must_use]
    pub fn new(schemas: &[TableSchema]) -> Self {
        let mut next = 0;
        let spaces = schemas.iter().map(|schema| {
            let space = next;
            next += 1 + schema.indexes().len();
            space
        });
        Self { spaces: spaces.collect(), schemas: schemas.to_vec() }
    }

    /// The names of the spaces, in their order.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let names = self.schemas.iter().flat_map(|schema| {
            let indexes = schema.indexes().iter();
            let indexes = indexes.map(|index| format!("{}.{}", schema.name(), index.name()));
            std::iter::once(schema.name().to_owned()).chain(indexes)
        });
        names.collect()
    }
}

/// A transaction over rows that are pairs.
pub struct Keyed<'a, P> {
    /// The tables.
    pub tables: &'a Tables,
    /// The pairs, as the transaction has them.
    pub pairs: P,
}

impl<P: Pairs> Keyed<'_, P> {
    fn read(
        &self,
        table: usize,
        key: &[ValueRef<'_>],
        for_update: bool,
        read: &mut Read<'_>,
    ) -> Result<bool> {
        let schema = &self.tables.schemas[table];
        let key = schema.primary_key().encode(key)?;
        match self.pairs.get(self.tables.spaces[table], &key, for_update)? {
            Some(bytes) => read(RowRef::new(schema, bytes.as_ref())?).map(|()| true),
            None => Ok(false),
        }
    }

    /// Adds a row's entry to an index.
    fn enter(&mut self, space: usize, index: &IndexSchema, row: RowRef<'_>) -> Result<()> {
        let (entry, primary) = (row.index_entry(index)?, row.primary_key()?);
        if index.is_unique() && self.pairs.get(space, &entry, true)?.is_some() {
            return Err(index.key().duplicate(&entry).into());
        }
        let value = if index.is_unique() { &primary[..] } else { &[] };
        self.pairs.put(space, &entry, value)
    }
}

impl<P: Pairs> Transaction for Keyed<'_, P> {
    fn get(&mut self, table: usize, key: &[ValueRef<'_>], read: &mut Read<'_>) -> Result<bool> {
        self.read(table, key, false, read)
    }

    fn get_for_update(
        &mut self,
        table: usize,
        key: &[ValueRef<'_>],
        read: &mut Read<'_>,
    ) -> Result<bool> {
        self.read(table, key, true, read)
    }

    fn insert(&mut self, table: usize, values: &[ValueRef<'_>]) -> Result<()> {
        let tables = self.tables;
        let (schema, space) = (&tables.schemas[table], tables.spaces[table]);
        let row = Row::from_values(schema, values)?;
        let view = row.view(schema)?;
        let key = view.primary_key()?;
        if self.pairs.get(space, &key, true)?.is_some() {
            return Err(schema.primary_key().duplicate(&key).into());
        }
        for (at, index) in schema.indexes().iter().enumerate() {
            self.enter(space + 1 + at, index, view)?;
        }
        self.pairs.put(space, &key, row.bytes())
    }

    fn update(
        &mut self,
        table: usize,
        key: &[ValueRef<'_>],
        changes: &[Change<'_>],
    ) -> Result<bool> {
        let tables = self.tables;
        let (schema, space) = (&tables.schemas[table], tables.spaces[table]);
        let in_key = |change: &Change<'_>| schema.primary_key().has(change.column);
        assert!(!changes.iter().any(in_key), "an update leaves the primary key as it is");
        let key = schema.primary_key().encode(key)?;
        let Some(bytes) = self.pairs.get(space, &key, true)? else { return Ok(false) };
        let before = RowRef::new(schema, bytes.as_ref())?;
        let row = before.with(changes)?;
        let after = row.view(schema)?;
        for (at, index) in schema.indexes().iter().enumerate() {
            let entry = before.index_entry(index)?;
            if entry != after.index_entry(index)? {
                self.pairs.delete(space + 1 + at, &entry)?;
                self.enter(space + 1 + at, index, after)?;
            }
        }
        self.pairs.put(space, &key, row.bytes())?;
        Ok(true)
    }

    fn delete(&mut self, table: usize, key: &[ValueRef<'_>]) -> Result<bool> {
        let tables = self.tables;
        let (schema, space) = (&tables.schemas[table], tables.spaces[table]);
        let key = schema.primary_key().encode(key)?;
        let Some(bytes) = self.pairs.get(space, &key, true)? else { return Ok(false) };
        let row = RowRef::new(schema, bytes.as_ref())?;
        for (at, index) in schema.indexes().iter().enumerate() {
            self.pairs.delete(space + 1 + at, &row.index_entry(index)?)?;
        }
        self.pairs.delete(space, &key)?;
        Ok(true)
    }

    fn scan(&mut self, table: usize, scan: &Scan<'_>, visit: &mut Visit<'_>) -> Result<()> {
        let (schema, space) = (&self.tables.schemas[table], self.tables.spaces[table]);
        let Some(number) = scan.index else {
            let range = schema.primary_key().range(scan.from, scan.to)?;
            return self.pairs.scan(space, range, scan.direction, &mut |_, bytes| {
                visit(RowRef::new(schema, bytes)?)
            });
        };
        let index = &schema.indexes()[number];
        let range = index.key().range(scan.from, scan.to)?;
        self.pairs.scan(space + 1 + number, range, scan.direction, &mut |entry, value| {
            let key = if index.is_unique() { value } else { index.key().split(entry)?.1 };
            let row = self.pairs.get(space, key, false)?.ok_or_else(|| crate::Error::Missing {
                table: schema.name().to_owned(),
                key: schema.primary_key().describe(key),
            })?;
            visit(RowRef::new(schema, row.as_ref())?)
        })
    }
}

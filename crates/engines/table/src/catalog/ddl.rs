//! The data definition language: each statement makes a new catalog.

use std::sync::Arc;

use super::{Catalog, Dropping, IndexId, IndexState, Table, TableId};
use crate::{Error, Result, TableSchema};

impl Catalog {
    /// The catalog of the next statement.
    fn next(&self) -> Self {
        let mut next = self.clone();
        next.version += 1;
        next
    }

    fn take_id(&mut self) -> Result<u32> {
        let id = self.next_id;
        self.next_id = id.checked_add(1).ok_or(Error::NoMoreIds)?;
        Ok(id)
    }

    /// Adds a table with new ids, and with indexes that are ready, as they are empty.
    fn add(&mut self, schema: Arc<TableSchema>) -> Result<TableId> {
        let id = TableId(self.take_id()?);
        let primary = IndexId(self.take_id()?);
        let ids =
            schema.indexes().iter().map(|_| Ok((IndexId(self.take_id()?), IndexState::Ready)));
        let indexes = ids.collect::<Result<_>>()?;
        self.tables.push(Arc::new(Table { id, primary, schema, indexes }));
        Ok(id)
    }

    /// Removes the table at a place; its ids are dropping then.
    fn remove(&mut self, at: usize) -> Arc<Table> {
        let table = self.tables.remove(at);
        self.dropping.push(Dropping::Table(table.id));
        self.dropping.push(Dropping::Index(table.primary));
        self.dropping.extend(table.indexes.iter().map(|&(id, _)| Dropping::Index(id)));
        self.dropping.sort_by_key(|dropping| dropping.id());
        table
    }

    fn check_free(&self, name: &str) -> Result<()> {
        match self.find(name) {
            Ok(_) => Err(Error::Exists { what: "table", name: name.into() }),
            Err(_) => Ok(()),
        }
    }

    /// The table at a place, with another schema and other indexes.
    fn set(&mut self, at: usize, schema: TableSchema, indexes: Vec<(IndexId, IndexState)>) {
        let Table { id, primary, .. } = *self.tables[at];
        self.tables[at] = Arc::new(Table { id, primary, schema: Arc::new(schema), indexes });
    }

    /// `CREATE TABLE`: the catalog with the table, whose indexes are ready.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::NoMoreIds`].
    pub fn create_table(&self, schema: TableSchema) -> Result<(Self, TableId)> {
        self.check_free(schema.name())?;
        let mut next = self.next();
        let id = next.add(Arc::new(schema))?;
        Ok((next, id))
    }

    /// `DROP TABLE`: the catalog without the table, whose ids are dropping.
    ///
    /// # Errors
    /// [`Error::UnknownTable`].
    pub fn drop_table(&self, name: &str) -> Result<Self> {
        let at = self.find(name)?;
        let mut next = self.next();
        next.remove(at);
        Ok(next)
    }

    /// `TRUNCATE TABLE`: the catalog with an empty table of the same schema and new ids; the old ids are dropping.
    ///
    /// # Errors
    /// [`Error::UnknownTable`], [`Error::NoMoreIds`].
    pub fn truncate_table(&self, name: &str) -> Result<(Self, TableId)> {
        let at = self.find(name)?;
        let mut next = self.next();
        let old = next.remove(at);
        let id = next.add(Arc::clone(&old.schema))?;
        Ok((next, id))
    }

    /// `ALTER TABLE .. RENAME TO`: the catalog with another name of the table; its ids stay.
    ///
    /// # Errors
    /// [`Error::UnknownTable`], [`Error::Exists`], [`Error::Name`].
    pub fn rename_table(&self, name: &str, to: &str) -> Result<Self> {
        let at = self.find(name)?;
        self.check_free(to)?;
        let schema = self.tables[at].schema.to_builder().named(to).build()?;
        let mut next = self.next();
        next.set(at, schema, self.tables[at].indexes.clone());
        Ok(next)
    }

    /// `CREATE INDEX`: the catalog with the index, which is building until [`Catalog::index_built`].
    ///
    /// # Errors
    /// [`Error::UnknownTable`], [`Error::Exists`], those of an index in
    /// [`TableBuilder::build`](crate::TableBuilder::build), [`Error::NoMoreIds`].
    pub fn create_index(
        &self,
        table: &str,
        name: &str,
        columns: &[&str],
        is_unique: bool,
    ) -> Result<(Self, IndexId)> {
        let at = self.find(table)?;
        let old = &self.tables[at];
        if old.index(name).is_ok() {
            return Err(Error::Exists { what: "index", name: name.into() });
        }
        let (builder, columns) = (old.schema.to_builder(), columns.iter().copied());
        let schema = match is_unique {
            true => builder.unique_index(name, columns).build()?,
            false => builder.index(name, columns).build()?,
        };
        let mut next = self.next();
        let id = IndexId(next.take_id()?);
        let indexes = [&old.indexes[..], &[(id, IndexState::Building)]].concat();
        next.set(at, schema, indexes);
        Ok((next, id))
    }

    /// The catalog in which an index that was building is ready; one that is ready stays so.
    ///
    /// # Errors
    /// [`Error::UnknownTable`], [`Error::UnknownIndex`].
    pub fn index_built(&self, table: &str, name: &str) -> Result<Self> {
        let (at, position) = self.find_index(table, name)?;
        let mut next = self.next();
        Arc::make_mut(&mut next.tables[at]).indexes[position].1 = IndexState::Ready;
        Ok(next)
    }

    /// `DROP INDEX`: the catalog without the index, whose id is dropping.
    ///
    /// # Errors
    /// [`Error::UnknownTable`], [`Error::UnknownIndex`].
    pub fn drop_index(&self, table: &str, name: &str) -> Result<Self> {
        let (at, position) = self.find_index(table, name)?;
        let old = &self.tables[at];
        let schema = old.schema.to_builder().without_index(name).build()?;
        let mut indexes = old.indexes.clone();
        let (id, _) = indexes.remove(position);
        let mut next = self.next();
        next.dropping.push(Dropping::Index(id));
        next.dropping.sort_by_key(|dropping| dropping.id());
        next.set(at, schema, indexes);
        Ok(next)
    }

    fn find_index(&self, table: &str, name: &str) -> Result<(usize, usize)> {
        let at = self.find(table)?;
        Ok((at, self.tables[at].schema.index(name)?))
    }

    /// The catalog without these dropped things: their space was reclaimed. Things that are not dropping are passed
    /// over, so that reclamation may be repeated after a crash.
    #[must_use]
    pub fn reclaimed(&self, things: &[Dropping]) -> Self {
        let mut next = self.next();
        next.dropping.retain(|dropping| !things.contains(dropping));
        next
    }
}

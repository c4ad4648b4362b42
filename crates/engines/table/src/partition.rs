//! A partition: transactions, constraints and statements over any recovery method.
//!
//! ```text
//!  begin ─► insert, update, delete ─► commit ─► sync
//!             │ constraints, write set    │ rows and entries, before and after
//!             ▼                           ▼
//!            reads: write set, then Method
//! ```
//!
//! One owner at a time runs transactions, one after another. A statement that fails changes nothing, and its transaction goes
//! on. Statements that change the catalog are not in a transaction; each happens as a whole, also across a crash.

mod indexing;
mod scan;
mod verify;

use crate::method::{Footprint, Method, Ticket};
use crate::write_set::{Savepoint, WriteSet};
use crate::{Catalog, Change, Error, Result, Row, Table, TableId, TableSchema};

/// A partition under a recovery method.
#[derive(Debug)]
pub struct Partition<M> {
    method: M,
    /// How many were begun.
    transactions: u64,
    /// Of the transaction, if there is one.
    writes: Option<WriteSet>,
    /// The last commit.
    last: Ticket,
}

impl<M: Method> Partition<M> {
    /// The partition of a method's storage. Indexes whose building a crash ended are dropped; without room for that,
    /// they stay unbuilt.
    ///
    /// # Errors
    /// Those of the method.
    pub fn new(method: M) -> Result<Self> {
        let last = Ticket::default();
        let mut partition = Self { method, transactions: 0, writes: None, last };
        match partition.drop_unbuilt() {
            Err(error) if error.is_refusal() => {}
            done => done?,
        }
        Ok(partition)
    }

    /// The method.
    pub fn method(&self) -> &M {
        &self.method
    }

    /// The catalog.
    pub fn catalog(&self) -> &Catalog {
        self.method.catalog()
    }

    /// Begins a transaction.
    ///
    /// # Errors
    /// [`Error::Transaction`] if there is one.
    pub fn begin(&mut self) -> Result<()> {
        self.outside("begin")?;
        self.transactions += 1;
        self.writes = Some(WriteSet::of_transaction(self.transactions));
        Ok(())
    }

    /// The changes of the transaction, if there is one.
    #[must_use]
    pub fn writes(&self) -> Option<&WriteSet> {
        self.writes.as_ref()
    }

    /// Commits the transaction. It is durable once [`Partition::sync`] has returned a ticket as great.
    ///
    /// # Errors
    /// [`Error::Transaction`] without one; those of [`Method::commit`], and then it is aborted.
    pub fn commit(&mut self) -> Result<Ticket> {
        let writes = self.writes.take();
        self.last = self.method.commit(&writes.ok_or(outside("commit"))?)?;
        Ok(self.last)
    }

    /// The last commit since the partition was opened.
    #[must_use]
    pub fn last(&self) -> Ticket {
        self.last
    }

    /// Aborts the transaction.
    ///
    /// # Errors
    /// [`Error::Transaction`] without one.
    pub fn abort(&mut self) -> Result<()> {
        self.writes.take().map(drop).ok_or(outside("abort"))
    }

    /// The place where the transaction is.
    ///
    /// # Errors
    /// [`Error::Transaction`] without one.
    pub fn savepoint(&self) -> Result<Savepoint> {
        self.writes.as_ref().map(WriteSet::savepoint).ok_or(outside("a savepoint"))
    }

    /// Undoes all that the transaction has done since a savepoint, and goes on.
    ///
    /// # Errors
    /// [`Error::Transaction`] without one, or if the savepoint is of another one, or was rolled back itself.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        match self.inside("rollback_to")?.rollback_to(savepoint) {
            true => Ok(()),
            false => {
                let rule = "needs a savepoint of this transaction that was not rolled back";
                Err(Error::Transaction { statement: "rollback_to", rule })
            }
        }
    }

    /// The row with a primary key, as the transaction has it, or as it was committed.
    ///
    /// # Errors
    /// [`Error::UnknownTable`], [`Error::TableChanged`]; those of [`Method::get`].
    pub fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Row>> {
        self.check_table(table)?;
        let own = self.writes.as_ref().and_then(|writes| writes.of_table(table.id())?.get(key));
        match own {
            Some(write) => Ok(write.after.clone()),
            None => self.method.get(table, key),
        }
    }

    /// Whether there is a row with a primary key, as [`Partition::get`] would return it.
    ///
    /// # Errors
    /// Those of [`Partition::get`].
    pub fn contains(&self, table: &Table, key: &[u8]) -> Result<bool> {
        self.check_table(table)?;
        let own = self.writes.as_ref().and_then(|writes| writes.of_table(table.id())?.get(key));
        match own {
            Some(write) => Ok(write.after.is_some()),
            None => self.method.contains(table, key),
        }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// [`Error::DuplicateKey`], [`Error::KeyTooLong`], [`Error::Transaction`]; those of [`Partition::get`].
    pub fn insert(&mut self, table: &Table, row: &Row) -> Result<()> {
        self.inside("insert")?;
        let key = row.view(table.schema())?.primary_key()?;
        if self.contains(table, &key)? {
            return Err(table.schema().primary_key().duplicate(&key));
        }
        self.check_unique(table, None, row)?;
        self.inside("insert")?.replace(table, &key, (None, Some(row)), || None)
    }

    /// Changes columns of the row with a primary key. Returns whether there is one.
    ///
    /// # Errors
    /// As [`Partition::insert`]; those of [`RowRef::with`](crate::RowRef::with).
    pub fn update(&mut self, table: &Table, key: &[u8], changes: &[Change<'_>]) -> Result<bool> {
        self.inside("update")?;
        let Some(was) = self.get(table, key)? else { return Ok(false) };
        let after = was.view(table.schema())?.with(changes)?;
        let new_key = after.view(table.schema())?.primary_key()?;
        if new_key != key && self.contains(table, &new_key)? {
            return Err(table.schema().primary_key().duplicate(&new_key));
        }
        self.check_unique(table, Some(&was), &after)?;
        let writes = self.inside("update")?;
        let before = || Some(was.clone());
        if new_key == key {
            writes.replace(table, key, (Some(&was), Some(&after)), before)?;
            return Ok(true);
        }
        let savepoint = writes.savepoint();
        let moved = writes
            .replace(table, key, (Some(&was), None), before)
            .and_then(|()| writes.replace(table, &new_key, (None, Some(&after)), || None));
        if moved.is_err() {
            writes.rollback_to(savepoint);
        }
        moved.map(|()| true)
    }

    /// Removes the row with a primary key. Returns whether there was one.
    ///
    /// # Errors
    /// [`Error::Transaction`]; those of [`Partition::get`].
    pub fn delete(&mut self, table: &Table, key: &[u8]) -> Result<bool> {
        self.inside("delete")?;
        let Some(was) = self.get(table, key)? else { return Ok(false) };
        let before = || Some(was.clone());
        self.inside("delete")?.replace(table, key, (Some(&was), None), before)?;
        Ok(true)
    }

    /// Makes all commits durable. Returns the last one's ticket.
    ///
    /// # Errors
    /// Those of [`Method::sync`].
    pub fn sync(&mut self) -> Result<Ticket> {
        self.method.sync()
    }

    /// Shortens the recovery, for methods that replay a log.
    ///
    /// # Errors
    /// Those of [`Method::checkpoint`].
    pub fn checkpoint(&mut self) -> Result<()> {
        self.method.checkpoint()
    }

    /// Bytes on the medium by use.
    ///
    /// # Errors
    /// Those of [`Method::footprint`].
    pub fn footprint(&self) -> Result<Footprint> {
        self.method.footprint()
    }

    /// Creates a table.
    ///
    /// # Errors
    /// Those of [`Catalog::create_table`], [`Method::alter`]; [`Error::Transaction`] within one, as for all statements that
    /// change the catalog.
    pub fn create_table(&mut self, schema: TableSchema) -> Result<TableId> {
        let (catalog, id) = self.catalog().create_table(schema)?;
        self.alter("create_table", catalog)?;
        Ok(id)
    }

    /// Drops a table. [`Partition::reclaim`] gives its space back.
    ///
    /// # Errors
    /// Those of [`Catalog::drop_table`], [`Method::alter`].
    pub fn drop_table(&mut self, name: &str) -> Result<()> {
        self.alter("drop_table", self.catalog().drop_table(name)?)
    }

    /// Removes all rows of a table, which has other ids then. [`Partition::reclaim`] gives their space back.
    ///
    /// # Errors
    /// Those of [`Catalog::truncate_table`], [`Method::alter`].
    pub fn truncate_table(&mut self, name: &str) -> Result<TableId> {
        let (catalog, id) = self.catalog().truncate_table(name)?;
        self.alter("truncate_table", catalog)?;
        Ok(id)
    }

    /// Gives a table another name.
    ///
    /// # Errors
    /// Those of [`Catalog::rename_table`], [`Method::alter`].
    pub fn rename_table(&mut self, name: &str, to: &str) -> Result<()> {
        self.alter("rename_table", self.catalog().rename_table(name, to)?)
    }

    /// Gives back some space of things that were dropped. Returns whether none is left.
    ///
    /// # Errors
    /// Those of [`Method::reclaim`].
    pub fn reclaim(&mut self) -> Result<bool> {
        self.outside("reclaim")?;
        self.method.reclaim()
    }

    fn alter(&mut self, statement: &'static str, catalog: Catalog) -> Result<()> {
        self.outside(statement)?;
        self.method.alter(catalog)
    }

    /// Refuses a table that has other indexes by now: a change of it would miss one. It may have another name.
    fn check_table(&self, table: &Table) -> Result<()> {
        match self.catalog().table_by_id(table.id())?.has_indexes_of(table) {
            true => Ok(()),
            false => Err(Error::TableChanged { table: table.schema().name().into() }),
        }
    }

    fn inside(&mut self, statement: &'static str) -> Result<&mut WriteSet> {
        self.writes.as_mut().ok_or(outside(statement))
    }

    fn outside(&self, statement: &'static str) -> Result<()> {
        match self.writes {
            Some(_) => Err(Error::Transaction { statement, rule: "cannot be in a transaction" }),
            None => Ok(()),
        }
    }

    /// Refuses a row whose entry in a unique index is another row's. `was` is the row that it replaces.
    fn check_unique(&self, table: &Table, was: Option<&Row>, after: &Row) -> Result<()> {
        for (position, index) in table.indexes().enumerate() {
            if !index.schema.is_unique() {
                continue;
            }
            let of = |row: &Row| row.view(table.schema())?.index_entry(index.schema);
            let entry = of(after)?;
            if was.map(of).transpose()?.as_ref() == Some(&entry) {
                continue;
            }
            let own =
                self.writes.as_ref().and_then(|writes| writes.of_index(index.id)?.get(&entry));
            let is_taken = match own {
                Some(write) => write.after.is_some(),
                None => self.method.entry(table, position, &entry)?.is_some(),
            };
            if is_taken {
                return Err(index.schema.key().duplicate(&entry));
            }
        }
        Ok(())
    }
}

fn outside(statement: &'static str) -> Error {
    Error::Transaction { statement, rule: "needs a transaction" }
}

#[cfg(test)]
mod tests;

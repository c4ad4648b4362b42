//! Building and dropping secondary indexes.

use std::ops::ControlFlow;

use super::Partition;
use crate::index::Direction;
use crate::method::Method;
use crate::write_set::WriteSet;
use crate::{IndexId, IndexState, KeyRange, Result, Table};

/// Rows whose entries are committed together.
const ROWS: usize = 512;

impl<M: Method> Partition<M> {
    /// Creates a secondary index, with the entries of all rows: in steps, of which a crash leaves nothing.
    ///
    /// # Errors
    /// Those of [`Catalog::create_index`](crate::Catalog::create_index), [`Method::alter`];
    /// [`Error::DuplicateKey`](crate::Error::DuplicateKey) if it is to be unique and the rows are not, and
    /// [`Error::KeyTooLong`](crate::Error::KeyTooLong), and then it is dropped again. Without room for that it stays
    /// unbuilt until it is dropped, created again, or the partition is opened again.
    pub fn create_index(
        &mut self,
        table: &str,
        name: &str,
        columns: &[&str],
        is_unique: bool,
    ) -> Result<IndexId> {
        self.outside("create_index")?;
        self.drop_unbuilt()?;
        let (catalog, id) = self.catalog().create_index(table, name, columns, is_unique)?;
        self.alter("create_index", catalog)?;
        let filled = self.fill(table, name);
        if filled.is_err() {
            let dropped = self.drop_index(table, name);
            filled?;
            dropped?;
        }
        let catalog = self.catalog().index_built(table, name)?;
        self.alter("create_index", catalog)?;
        Ok(id)
    }

    /// Drops a secondary index. [`Partition::reclaim`] gives its space back.
    ///
    /// # Errors
    /// Those of [`Catalog::drop_index`](crate::Catalog::drop_index), [`Method::alter`].
    pub fn drop_index(&mut self, table: &str, name: &str) -> Result<()> {
        self.alter("drop_index", self.catalog().drop_index(table, name)?)
    }

    /// Drops indexes whose building has ended without them.
    pub(super) fn drop_unbuilt(&mut self) -> Result<()> {
        let mut catalog = self.catalog().clone();
        for table in self.catalog().tables() {
            for index in table.indexes().filter(|index| index.state == IndexState::Building) {
                catalog = catalog.drop_index(table.schema().name(), index.schema.name())?;
            }
        }
        match catalog.version() == self.catalog().version() {
            true => Ok(()),
            false => self.method.alter(catalog),
        }
    }

    fn fill(&mut self, table: &str, name: &str) -> Result<()> {
        let table = self.catalog().table(table)?.clone();
        let position = table.schema().index(name)?;
        let mut range = KeyRange::all();
        loop {
            let (writes, last) = self.entries(&table, position, &range)?;
            let Some(last) = last else { return Ok(()) };
            self.method.commit(&writes)?;
            range.from = last;
            range.from.push(0);
        }
    }

    /// The entries of some rows from the beginning of a range on, and the last of these rows' keys.
    fn entries(
        &self,
        table: &Table,
        position: usize,
        range: &KeyRange,
    ) -> Result<(WriteSet, Option<Vec<u8>>)> {
        let index = table.indexes().nth(position).expect("it is there");
        let (mut writes, mut last, mut count) = (WriteSet::default(), None, 0);
        self.scan(table, None, range, Direction::Forward, |key, row| {
            let entry = row.index_entry(index.schema)?;
            let own = writes.of_index(index.id).is_some_and(|own| own.contains_key(&entry));
            if own || self.method.entry(table, position, &entry)?.is_some() {
                return Err(index.schema.key().duplicate(&entry));
            }
            writes.add_entry(index.id, entry, key);
            last = Some(key.to_vec());
            count += 1;
            Ok(if count == ROWS { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok((writes, last))
    }
}

//! The catalog: all tables and indexes of a store, their ids, and their states.
//!
//! A catalog is a value. A statement of the data definition language makes a new one of it, beside the old
//! ([`Catalog::create_table`] and the others); a method encodes that ([`Catalog::encode`]) and puts the bytes in place
//! of the old ones in one atomic step, so that a crash leaves the one or the other.
//!
//! ```text
//!                create_table                     drop_table, truncate_table             reclaimed
//!  table                      ──▶ there, ready ──▶                            dropping ──▶         gone
//!                create_index                  index_built         drop_index              reclaimed
//!  index                      ──▶ building ──▶             ready ──▶           dropping ──▶         gone
//! ```
//!
//! A dropped table has left the catalog with its name at once; what remains is the list of the ids of its rows and its
//! indexes, whose space is reclaimed one id after the other, also behind a crash. An index that is building takes the
//! changes of rows, and answers no reads. After a crash its builder begins again.
//!
//! Tables and indexes share one sequence of ids, and no id is used twice: an id in stored bytes can only mean the table
//! or index that it was given to. Truncating a table gives it and its indexes new ids.
//!
//! A lookup by name costs O(tables), by id O(log tables): procedures look tables up once. A new catalog shares the
//! tables with the old one.

mod ddl;
mod encoding;
mod table;

use std::sync::Arc;

use crate::{Error, Result};

pub use table::{Index, IndexId, IndexState, Table, TableId};

/// The least id: those below are for structures that a method has beside the tables and indexes.
pub const FIRST_ID: u32 = 16;

/// A thing that was dropped, with its space not yet reclaimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dropping {
    /// The rows of a table.
    Table(TableId),
    /// An index, primary or secondary.
    Index(IndexId),
}

impl Dropping {
    /// Its id in the sequence of all.
    #[must_use]
    pub const fn id(self) -> u32 {
        match self {
            Self::Table(TableId(id)) | Self::Index(IndexId(id)) => id,
        }
    }
}

/// All tables and indexes, and what is being dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catalog {
    /// One more with each statement.
    version: u64,
    /// The next id.
    next_id: u32,
    /// In the order of their ids.
    tables: Vec<Arc<Table>>,
    /// In the order of their ids.
    dropping: Vec<Dropping>,
}

impl Default for Catalog {
    fn default() -> Self {
        Self::new()
    }
}

impl Catalog {
    /// The catalog of a new store.
    #[must_use]
    pub const fn new() -> Self {
        Self { version: 0, next_id: FIRST_ID, tables: Vec::new(), dropping: Vec::new() }
    }

    /// The number of statements that made the catalog: of two of a store, the newer has the greater one.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The tables, in the order of their ids.
    #[must_use]
    pub fn tables(&self) -> &[Arc<Table>] {
        &self.tables
    }

    /// The table of this name.
    ///
    /// # Errors
    /// [`Error::UnknownTable`].
    pub fn table(&self, name: &str) -> Result<&Arc<Table>> {
        self.find(name).map(|at| &self.tables[at])
    }

    /// The table of this id.
    ///
    /// # Errors
    /// [`Error::UnknownTable`]; so for a table that is being dropped.
    pub fn table_by_id(&self, id: TableId) -> Result<&Arc<Table>> {
        let found = self.tables.binary_search_by_key(&id, |table| table.id());
        let unknown = |_| Error::UnknownTable { table: format!("#{}", id.0).into() };
        found.map(|at| &self.tables[at]).map_err(unknown)
    }

    /// The table that has an index of this id, and the index's position among its secondary indexes, or `None` for its
    /// primary key: O(all indexes).
    #[must_use]
    pub fn index_by_id(&self, id: IndexId) -> Option<(&Arc<Table>, Option<usize>)> {
        self.tables.iter().find_map(|table| {
            if table.primary() == id {
                return Some((table, None));
            }
            let position = table.indexes().position(|index| index.id == id);
            position.map(|position| (table, Some(position)))
        })
    }

    /// The dropped things whose space is to be reclaimed, in the order of their ids.
    #[must_use]
    pub fn dropping(&self) -> &[Dropping] {
        &self.dropping
    }

    /// The place of the table of this name.
    fn find(&self, name: &str) -> Result<usize> {
        let at = self.tables.iter().position(|table| table.schema().name() == name);
        at.ok_or_else(|| Error::UnknownTable { table: name.into() })
    }
}

#[cfg(test)]
mod tests;

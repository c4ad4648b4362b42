//! A store of the testbed, opened.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use halite::{Database, Durability};
use halite_contract::EngineOptions;
use halite_table::index::Direction;
use halite_table::{KeyRange, RowRef, TableSchema, Testbed, Transaction};

use crate::folder::check_folder;
use crate::interrupt::Interrupt;
use crate::{Error, Result};

/// A store, and the folder that the user named.
pub(super) struct Store {
    pub(super) path: PathBuf,
    pub(super) testbed: Testbed,
}

/// The rows that are to be read.
pub(super) struct Selection<'a> {
    pub(super) table: &'a str,
    /// A secondary index; by default the primary key.
    pub(super) index: Option<&'a str>,
    pub(super) range: KeyRange,
    pub(super) direction: Direction,
}

impl<'a> Selection<'a> {
    /// All rows of a table.
    pub(super) fn all(table: &'a str) -> Self {
        Self { table, index: None, range: KeyRange::all(), direction: Direction::Forward }
    }
}

/// The options of a store in a folder.
pub(in crate::commands) fn options(path: &Path, create: bool) -> EngineOptions {
    EngineOptions { create, ..EngineOptions::new(path.join(Database::POOL_FILE)) }
}

/// An error of the store in `path`.
pub(in crate::commands) fn in_store(path: &Path, source: halite_table::Error) -> Error {
    Error::Tables { path: path.to_owned(), source }
}

impl Store {
    /// Opens the store in a folder, which must be there.
    pub(super) fn open(path: &Path) -> Result<Self> {
        check_folder(path)?;
        if !Database::exists(path) {
            let why = "there is no store of tables here; make one with `halite table create`";
            return Err(Error::input(path.display(), why));
        }
        let testbed = Testbed::open(None, &options(path, false));
        testbed
            .map(|testbed| Self { path: path.to_owned(), testbed })
            .map_err(|error| in_store(path, error))
    }

    /// The result of a statement.
    pub(super) fn done<T>(&self, result: halite_table::Result<T>) -> Result<T> {
        result.map_err(|error| in_store(&self.path, error))
    }

    /// The schema of a table.
    pub(super) fn schema(&self, table: &str) -> Result<std::sync::Arc<TableSchema>> {
        let catalog = self.testbed.catalog();
        self.done(catalog.table(table).map(|table| table.schema().clone()))
    }

    /// Runs a body that reads all partitions.
    pub(super) fn read<T>(
        &self,
        body: impl FnOnce(&mut Transaction<'_>) -> Result<T>,
    ) -> Result<T> {
        let all: Vec<_> = (0..self.testbed.partitions()).collect();
        self.done(self.testbed.transact(&all, Durability::Deferred, |tx| Ok(body(tx))))?
    }

    /// Visits rows of all partitions in the order of their keys, as of one moment, until the visitor breaks.
    pub(super) fn visit(
        &self,
        selection: &Selection<'_>,
        mut visit: impl FnMut(RowRef<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let Selection { table, index, range, direction } = selection;
        let schema = self.schema(table)?;
        self.read(|tx| {
            let mut rows = self.done(tx.merged(table, *index, range, *direction))?;
            while let Some(row) = self.done(rows.next())? {
                if visit(self.done(row.view(&schema))?)?.is_break() {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Gives back the space of what was dropped.
    pub(super) fn reclaim(&self, interrupt: &Interrupt) -> Result<()> {
        while !self.done(self.testbed.reclaim())? {
            if interrupt.is_raised() {
                let left = "it is dropped, and not all of its space is free; the next drop goes on";
                return Err(Error::Stopped { left });
            }
        }
        Ok(())
    }
}

//! Snapshots of a partition.

use super::{CowRows, id_of};
use crate::index::Direction;
use crate::index::cow_file;
use crate::method::{Rows, View};
use crate::{Catalog, KeyRange, Result, Row, Table};

/// A reader of the rows that were durable at a sync, on any thread, while transactions go on. The pages that it may read are
/// not used again while it is there, and neither is the folder.
#[derive(Debug, Clone)]
pub struct Snapshot {
    trees: cow_file::Snapshot,
    catalog: Catalog,
}

impl Snapshot {
    pub(super) fn new(trees: cow_file::Snapshot, catalog: Catalog) -> Self {
        Self { trees, catalog }
    }
}

impl View for Snapshot {
    fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Row>> {
        let stored = self.trees.get(table.primary().0, key)?;
        stored.map(|bytes| Row::from_bytes(table.schema(), bytes)).transpose()
    }

    fn scan<'a>(
        &'a self,
        table: &'a Table,
        position: Option<usize>,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<Box<dyn Rows + 'a>> {
        let scan = self.trees.scan(id_of(table, position).0, range.bounds(), direction)?;
        let get = |key: &[u8]| self.get(table, key);
        Ok(Box::new(CowRows { get, table, is_primary: position.is_none(), scan }))
    }
}

//! Snapshots of a partition, and the rows that entries of trees lead to.

use halite_alloc::heap::NvPtr;

use super::tree_of;
use crate::index::Direction;
use crate::index::cow_heap::{CowHeapScan, HeapSnapshot, Shared};
use crate::method::catalog_slot::owner;
use crate::method::{Rows, View};
use crate::tuple::{Form, Tuples};
use crate::{Catalog, KeyRange, Result, Row, Table};

/// A reader of the rows that were durable at a sync, on any thread, while transactions go on. What it may read is not freed
/// while it is there; a commit waits for one of its reads at most, and a read for a commit or a sync that is going on.
#[derive(Clone)]
pub struct Snapshot {
    trees: HeapSnapshot,
    catalog: Catalog,
}

impl Snapshot {
    pub(super) fn new(trees: HeapSnapshot, catalog: Catalog) -> Self {
        Self { trees, catalog }
    }

    /// The catalog, with the tables that the snapshot has.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The number of the synced state: a later one has a greater number.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.trees.sequence()
    }

    /// The row with a primary key.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged), [`Error::Index`](crate::Error::Index),
    /// [`Error::Heap`](crate::Error::Heap).
    pub fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Row>> {
        let found = self.trees.get(tree_of(table, None), key)?;
        let (tuples, heap) = (self.tuples(table), self.trees.shared().heap());
        found.map(|word| tuples.row(&heap, NvPtr::from_word(word))).transpose()
    }

    /// The rows of a range of the primary key, or of the secondary index at a position.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn scan<'a>(
        &'a self,
        table: &'a Table,
        position: Option<usize>,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<Box<dyn Rows + 'a>> {
        let scan = self.trees.scan(tree_of(table, position), range.bounds(), direction);
        Ok(Box::new(TreeRows::new(self.trees.shared(), self.tuples(table), scan)))
    }

    fn tuples<'a>(&self, table: &'a Table) -> Tuples<'a> {
        let seed = self.trees.shared().salt();
        Tuples { schema: table.schema(), owner: owner(table.id().0), seed, form: Form::Image }
    }
}

impl View for Snapshot {
    fn catalog(&self) -> &Catalog {
        self.catalog()
    }

    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Row>> {
        self.get(table, key)
    }

    fn scan<'a>(
        &'a self,
        table: &'a Table,
        position: Option<usize>,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<Box<dyn Rows + 'a>> {
        self.scan(table, position, range, direction)
    }
}

/// A scan of a tree, which leads to tuples.
pub(super) struct TreeRows<'a> {
    shared: &'a Shared,
    tuples: Tuples<'a>,
    scan: CowHeapScan<'a>,
}

impl<'a> TreeRows<'a> {
    pub(super) fn new(shared: &'a Shared, tuples: Tuples<'a>, scan: CowHeapScan<'a>) -> Self {
        Self { shared, tuples, scan }
    }
}

impl Rows for TreeRows<'_> {
    fn next(&mut self) -> Result<Option<(Vec<u8>, Row)>> {
        let Some((key, word)) = self.scan.next()? else { return Ok(None) };
        let row = self.tuples.row(&self.shared.heap(), NvPtr::from_word(word))?;
        Ok(Some((key, row)))
    }
}

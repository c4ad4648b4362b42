//! Views: readers of the versions that were covered at a moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use halite_alloc::heap::NvPtr;

use super::read::StoredRows;
use super::record::Sight;
use super::shared::Shared;
use crate::index::Direction;
use crate::index::nonvolatile::NonVolatileTree;
use crate::method::catalog_slot::owner;
use crate::method::{Rows, View};
use crate::tuple::{Form, Tuples};
use crate::{Catalog, Error, IndexId, IndexState, KeyRange, Result, Row, Table};

/// A reader of what the record covered when it began. Versions that leave their heads meanwhile are kept for it in DRAM, and
/// entries and heads that it may need are not dropped.
pub(super) struct MomentView {
    shared: Arc<Shared>,
    sight: Sight,
    catalog: Catalog,
    trees: BTreeMap<IndexId, NonVolatileTree>,
}

impl MomentView {
    pub(super) fn new(
        shared: Arc<Shared>,
        sight: Sight,
        catalog: Catalog,
        trees: BTreeMap<IndexId, NonVolatileTree>,
    ) -> Self {
        shared.begin_view(sight.until);
        Self { shared, sight, catalog, trees }
    }

    fn tuples<'a>(&self, table: &'a Table) -> Tuples<'a> {
        Tuples {
            schema: table.schema(),
            owner: owner(table.id().0),
            seed: self.shared.salt,
            form: Form::Image,
        }
    }

    fn tree(&self, table: &Table, index: IndexId) -> Result<NonVolatileTree> {
        self.trees.get(&index).copied().ok_or_else(|| {
            let table = table.schema().name().into();
            Error::UnknownIndex { table, index: format!("#{}", index.0).into() }
        })
    }
}

impl Drop for MomentView {
    fn drop(&mut self) {
        self.shared.end_view(self.sight.until);
    }
}

impl View for MomentView {
    fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Row>> {
        let state = self.shared.state.read();
        let found = self.tree(table, table.primary())?.get(&state.heap, key)?;
        let row =
            found.map(|word| state.row(self.tuples(table), NvPtr::from_word(word), &self.sight));
        Ok(row.transpose()?.flatten())
    }

    fn scan<'a>(
        &'a self,
        table: &'a Table,
        position: Option<usize>,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<Box<dyn Rows + 'a>> {
        let index = position.and_then(|position| table.indexes().nth(position));
        // Entries that are added to an index while it is built are not of the view's moment.
        if let Some(index) = index.filter(|index| index.state != IndexState::Ready) {
            return Err(table.unknown_index(index.schema.name()));
        }
        let tree = self.tree(table, index.map_or(table.primary(), |index| index.id))?;
        let (of, index) = ((&*self.shared, self.sight.clone()), index.map(|index| index.schema));
        let rows = StoredRows::new(of, self.tuples(table), (tree, index), range, direction);
        Ok(Box::new(rows))
    }
}

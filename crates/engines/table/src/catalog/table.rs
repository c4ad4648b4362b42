//! A table of the catalog, with the ids of its parts.

use std::sync::Arc;

use crate::{Error, IndexSchema, Result, TableSchema};

/// The id of a table: the owner of its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u32);

/// The id of an index, primary or secondary: the owner of its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IndexId(pub u32);

/// Whether a secondary index has all rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexState {
    /// The index takes changes, and does not have all rows yet: it answers no reads.
    Building,
    /// The index has all rows.
    Ready,
}

/// A table, its schema, and the ids of its rows and indexes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    pub(super) id: TableId,
    pub(super) primary: IndexId,
    pub(super) schema: Arc<TableSchema>,
    /// Of the schema's secondary indexes, in their order.
    pub(super) indexes: Vec<(IndexId, IndexState)>,
}

/// A secondary index of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Index<'a> {
    /// Its id.
    pub id: IndexId,
    /// Whether it has all rows.
    pub state: IndexState,
    /// Its columns.
    pub schema: &'a IndexSchema,
}

impl Table {
    /// Its id.
    #[must_use]
    #[inline]
    pub fn id(&self) -> TableId {
        self.id
    }

    /// The id of the index of its primary key.
    #[must_use]
    #[inline]
    pub fn primary(&self) -> IndexId {
        self.primary
    }

    /// Its schema.
    #[must_use]
    #[inline]
    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    /// Its secondary indexes, by their positions in the schema.
    pub fn indexes(&self) -> impl ExactSizeIterator<Item = Index<'_>> {
        let schemas = self.schema.indexes().iter().zip(&self.indexes);
        schemas.map(|(schema, &(id, state))| Index { id, state, schema })
    }

    /// The secondary index of this name.
    ///
    /// # Errors
    /// [`Error::UnknownIndex`].
    pub fn index(&self, name: &str) -> Result<Index<'_>> {
        let found = self.indexes().find(|index| index.schema.name() == name);
        found.ok_or_else(|| self.unknown_index(name))
    }

    /// Whether the indexes, primary and secondary, are those of another state of the table.
    pub(crate) fn has_indexes_of(&self, other: &Self) -> bool {
        (self.primary, &self.indexes) == (other.primary, &other.indexes)
    }

    /// The error of an index that is not there, or not yet.
    pub(crate) fn unknown_index(&self, name: &str) -> Error {
        Error::UnknownIndex { table: self.schema.name().into(), index: name.into() }
    }

    /// The defect of an index entry that leads to no row.
    pub(crate) fn dangling(&self, entry: &[u8]) -> Error {
        let why = format!("the entry {} leads to no row", entry.escape_ascii());
        Error::damaged(format!("an index of table {:?}", self.schema.name()), why)
    }
}

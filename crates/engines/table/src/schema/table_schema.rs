//! The schema of a table.

use super::{IndexSchema, Layout, TableBuilder};
use crate::{Column, Error, KeySchema, Result};

/// The columns, the primary key and the secondary indexes of a table, with all that rows and keys need of them.
///
/// Columns are known by their numbers, from 0 in the order of their declaration; [`TableSchema::column`] finds one by
/// its name, once, when a procedure is prepared.
///
/// ```
/// use halite_table::{TableSchema, Type};
/// let customer = TableSchema::builder("customer")
///     .column("c_id", Type::Int32)
///     .column("c_d_id", Type::UInt8)
///     .column("c_last", Type::VarChar(16))
///     .nullable("c_middle", Type::Char(2))
///     .column("c_balance", Type::Decimal(12, 2))
///     .primary_key(["c_d_id", "c_id"])
///     .index("by_name", ["c_d_id", "c_last"])
///     .build()?;
/// assert_eq!(customer.column("c_balance")?, 4);
/// # Ok::<_, halite_table::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSchema {
    pub(super) name: Box<str>,
    pub(super) columns: Box<[Column]>,
    pub(super) primary_key: KeySchema,
    pub(super) indexes: Vec<IndexSchema>,
    pub(super) layout: Layout,
}

impl TableSchema {
    /// A builder of a table of this name.
    #[must_use]
    pub fn builder(name: &str) -> TableBuilder {
        TableBuilder::new(name)
    }

    /// The table's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The columns, by their numbers.
    #[must_use]
    #[inline]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The number of the column of this name: O(columns).
    ///
    /// # Errors
    /// [`Error::UnknownColumn`].
    pub fn column(&self, name: &str) -> Result<usize> {
        let number = self.columns.iter().position(|column| column.name() == name);
        number.ok_or_else(|| Error::UnknownColumn { table: self.name.clone(), column: name.into() })
    }

    /// The columns of the primary key.
    #[must_use]
    #[inline]
    pub fn primary_key(&self) -> &KeySchema {
        &self.primary_key
    }

    /// The secondary indexes, by their positions.
    #[must_use]
    #[inline]
    pub fn indexes(&self) -> &[IndexSchema] {
        &self.indexes
    }

    /// The position of the secondary index of this name: O(indexes).
    ///
    /// # Errors
    /// [`Error::UnknownIndex`].
    pub fn index(&self, name: &str) -> Result<usize> {
        let position = self.indexes.iter().position(|index| index.name() == name);
        position.ok_or_else(|| Error::UnknownIndex { table: self.name.clone(), index: name.into() })
    }

    /// The places of the columns in a row.
    #[must_use]
    #[inline]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The schema as a builder, from which the same or a changed one is built.
    #[must_use]
    pub fn to_builder(&self) -> TableBuilder {
        TableBuilder::of(self)
    }

    #[cold]
    pub(crate) fn no_column(&self, number: usize) -> Error {
        Error::ColumnNumber { table: self.name.clone(), number, columns: self.columns.len() }
    }
}

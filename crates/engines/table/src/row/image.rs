//! An image of a row that is made.

use super::{Change, Field, FixedMut, FixedRef, RowRef};
use crate::{Error, Result, TableSchema, ValueRef};

/// The image of a row, owned.
///
/// ```
/// use halite_table::{Change, Row, TableSchema, Type, values};
/// let schema = TableSchema::builder("item")
///     .column("i_id", Type::Int32)
///     .column("i_name", Type::VarChar(24))
///     .nullable("i_note", Type::VarChar(50))
///     .primary_key(["i_id"])
///     .build()?;
/// let row = Row::from_values(&schema, &values![7, "salt", None::<&str>])?;
/// assert_eq!(row.view(&schema)?.text(1)?, "salt");
/// let changed = row.view(&schema)?.with(&[Change::new(2, "coarse")])?;
/// assert_eq!(changed.view(&schema)?.text(2)?, "coarse");
/// # Ok::<_, halite_table::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    bytes: Vec<u8>,
}

/// The longest column has 1 MiB, and a row 1,024 of them: offsets in an image have 31 bits.
const OFFSETS: &str = "an image has less than 2 GiB";

impl Row {
    /// The row of these values, one for each column in the columns' order.
    ///
    /// # Errors
    /// [`Error::ColumnCount`], and those of [`Column::conform`](crate::Column::conform).
    pub fn from_values(schema: &TableSchema, values: &[ValueRef<'_>]) -> Result<Self> {
        let columns = schema.columns();
        if values.len() != columns.len() {
            let (table, expected) = (schema.name().into(), columns.len());
            return Err(Error::ColumnCount { table, expected, found: values.len() });
        }
        let fixed_len = schema.layout().fixed_len();
        let tail = values.iter().map(|value| match value {
            ValueRef::Text(text) => text.len(),
            ValueRef::Bytes(bytes) => bytes.len(),
            _ => 0,
        });
        let mut row = Self { bytes: Vec::with_capacity(fixed_len + tail.sum::<usize>()) };
        row.bytes.resize(fixed_len, 0);
        for (number, (column, &value)) in columns.iter().zip(values).enumerate() {
            row.put(schema, number, column.conform(value)?);
        }
        Ok(row)
    }

    /// The row that has this image, every byte of which is checked.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub fn from_bytes(schema: &TableSchema, bytes: Vec<u8>) -> Result<Self> {
        RowRef::new(schema, &bytes)?.check()?;
        Ok(Self { bytes })
    }

    /// The row that has this image, which had its check: what its cells say is checked when a column is read.
    ///
    /// # Errors
    /// [`Error::Damaged`], if the bytes end within the fixed part.
    pub(crate) fn of_image(schema: &TableSchema, bytes: Vec<u8>) -> Result<Self> {
        FixedRef::new(schema, &bytes)?;
        Ok(Self { bytes })
    }

    /// The row of a slot: its fixed part, and the bytes of the long columns that are not NULL, which `bytes_of` gives
    /// for a column and the word in its cell.
    ///
    /// # Errors
    /// Those of `bytes_of`; [`Error::Damaged`], if the fixed part is too short, or the bytes too long for their column.
    pub fn assemble<'a, E: From<Error>>(
        schema: &TableSchema,
        fixed: &[u8],
        mut bytes_of: impl FnMut(usize, u64) -> Result<&'a [u8], E>,
    ) -> Result<Self, E> {
        let fixed = FixedRef::new(schema, fixed)?;
        let mut row = Self { bytes: fixed.bytes().to_vec() };
        for &number in schema.layout().long() {
            if let Field::Cell(word) = fixed.field(number)? {
                let value = schema.columns()[number].long_value(bytes_of(number, word)?)?;
                row.put(schema, number, value);
            }
        }
        Ok(row)
    }

    /// The image of a row with changes.
    pub(super) fn changed(before: RowRef<'_>, changes: &[Change<'_>]) -> Result<Self> {
        let (schema, fixed) = (before.schema(), before.fixed().bytes());
        let columns = schema.columns();
        let mut is_long = false;
        for &Change { column, value } in changes {
            let declared = columns.get(column).ok_or_else(|| schema.no_column(column))?;
            declared.conform(value)?;
            is_long |= declared.ty().is_long();
        }
        let kept = if is_long { fixed } else { before.bytes() };
        let mut row = Self { bytes: Vec::with_capacity(before.bytes().len()) };
        row.bytes.extend_from_slice(kept);
        for &Change { column, value } in changes {
            if !columns[column].ty().is_long() {
                row.put(schema, column, columns[column].conform(value)?);
            }
        }
        // The tail is made again, if one of its parts changes.
        let long: &[usize] = if is_long { schema.layout().long() } else { &[] };
        for &number in long {
            let change = changes.iter().rev().find(|change| change.column == number);
            let value = match change {
                Some(change) => columns[number].conform(change.value)?,
                None => before.get(number)?,
            };
            row.put(schema, number, value);
        }
        Ok(row)
    }

    /// Sets a column to a value of its form; long columns are set in their order.
    #[inline]
    fn put(&mut self, schema: &TableSchema, column: usize, value: ValueRef<'_>) {
        let bytes = match value {
            ValueRef::Text(text) => text.as_bytes(),
            ValueRef::Bytes(bytes) => bytes,
            _ => &[],
        };
        if value.is_null() || !schema.layout().places()[column].is_long {
            return FixedMut::new(schema, &mut self.bytes).put(column, value);
        }
        let (offset, len) = (u32::try_from(self.bytes.len()).expect(OFFSETS), bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
        FixedMut::new(schema, &mut self.bytes).set_cell(column, len << 32 | u64::from(offset));
    }

    /// The row, to read its columns; the schema is that of which it was made.
    ///
    /// # Errors
    /// See [`RowRef::new`].
    #[inline]
    pub fn view<'a>(&'a self, schema: &'a TableSchema) -> Result<RowRef<'a>> {
        RowRef::new(schema, &self.bytes)
    }

    /// The image.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The image, owned.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests;

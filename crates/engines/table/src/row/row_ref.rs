//! An image of a row that is read.

use super::{Change, Field, FixedRef, Row, fixed::damaged};
use crate::{Decimal, IndexSchema, Result, TableSchema, Timestamp, Value, ValueRef};

/// The image of a row: its columns are read one by one.
#[derive(Clone, Copy, Debug)]
pub struct RowRef<'a> {
    schema: &'a TableSchema,
    fixed: FixedRef<'a>,
    bytes: &'a [u8],
}

impl<'a> RowRef<'a> {
    /// The row of this schema that has this image.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged), if the bytes end within the fixed part. Further damage is found when
    /// a column is read, or by [`RowRef::check`].
    #[inline]
    pub fn new(schema: &'a TableSchema, bytes: &'a [u8]) -> Result<Self> {
        Ok(Self { schema, fixed: FixedRef::new(schema, bytes)?, bytes })
    }

    /// The schema of its table.
    #[must_use]
    #[inline]
    pub fn schema(&self) -> &'a TableSchema {
        self.schema
    }

    /// The whole image.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The fixed part.
    #[must_use]
    #[inline]
    pub fn fixed(&self) -> FixedRef<'a> {
        self.fixed
    }

    /// The value of a column.
    ///
    /// # Errors
    /// [`Error::ColumnNumber`](crate::Error::ColumnNumber), [`Error::Damaged`](crate::Error::Damaged).
    #[inline]
    pub fn get(&self, column: usize) -> Result<ValueRef<'a>> {
        match self.fixed.field(column)? {
            Field::Value(value) => Ok(value),
            Field::Cell(cell) => {
                let declared = &self.schema.columns()[column];
                let bytes = self
                    .tail(cell)
                    .ok_or_else(|| declared.damaged("its bytes are not in the row"))?;
                declared.long_value(bytes)
            }
        }
    }

    /// The bytes of a long column; `None` if it is NULL or fixed.
    ///
    /// # Errors
    /// See [`RowRef::get`].
    #[inline]
    pub fn long_bytes(&self, column: usize) -> Result<Option<&'a [u8]>> {
        match self.fixed.field(column)? {
            Field::Value(_) => Ok(None),
            Field::Cell(cell) => match self.tail(cell) {
                Some(bytes) => Ok(Some(bytes)),
                None => Err(self.schema.columns()[column].damaged("its bytes are not in the row")),
            },
        }
    }

    /// The bytes that a cell names.
    #[inline]
    fn tail(&self, cell: u64) -> Option<&'a [u8]> {
        let (offset, len) = (cell as u32 as usize, (cell >> 32) as usize);
        (offset >= self.fixed.bytes().len()).then(|| self.bytes.get(offset..offset + len))?
    }

    /// The integer in a column; the methods below read other kinds.
    ///
    /// # Errors
    /// Those of [`RowRef::get`], and [`Error::NotOfKind`](crate::Error::NotOfKind): NULL is of no kind.
    #[inline]
    pub fn int(&self, column: usize) -> Result<i64> {
        self.get(column)?.int()
    }

    /// The integer that is not negative in a column.
    ///
    /// # Errors
    /// See [`RowRef::int`].
    #[inline]
    pub fn uint(&self, column: usize) -> Result<u64> {
        self.get(column)?.uint()
    }

    /// The exact number in a column.
    ///
    /// # Errors
    /// See [`RowRef::int`].
    #[inline]
    pub fn decimal(&self, column: usize) -> Result<Decimal> {
        self.get(column)?.decimal()
    }

    /// The text in a column.
    ///
    /// # Errors
    /// See [`RowRef::int`].
    #[inline]
    pub fn text(&self, column: usize) -> Result<&'a str> {
        self.get(column)?.text()
    }

    /// The moment in a column.
    ///
    /// # Errors
    /// See [`RowRef::int`].
    #[inline]
    pub fn timestamp(&self, column: usize) -> Result<Timestamp> {
        self.get(column)?.timestamp()
    }

    /// The values of all columns, borrowed.
    ///
    /// # Errors
    /// See [`RowRef::get`].
    pub fn values(&self) -> Result<Vec<ValueRef<'a>>> {
        (0..self.schema.columns().len()).map(|column| self.get(column)).collect()
    }

    /// The values of all columns, owned.
    ///
    /// # Errors
    /// See [`RowRef::get`].
    pub fn to_values(&self) -> Result<Vec<Value>> {
        (0..self.schema.columns().len()).map(|column| self.get(column).map(Value::from)).collect()
    }

    /// The image with these changes: one allocation.
    ///
    /// # Errors
    /// [`Error::ColumnNumber`](crate::Error::ColumnNumber), those of
    /// [`Column::conform`](crate::Column::conform), and [`Error::Damaged`](crate::Error::Damaged).
    pub fn with(&self, changes: &[Change<'_>]) -> Result<Row> {
        Row::changed(*self, changes)
    }

    /// The changes that make another image of this table's rows of this one: the columns that differ, with the values
    /// there.
    ///
    /// # Errors
    /// See [`RowRef::get`].
    pub fn changes_to(&self, after: RowRef<'a>) -> Result<Vec<Change<'a>>> {
        let (before, now) = (self.fixed.bytes(), after.fixed.bytes());
        let mut changes = Vec::new();
        for (column, place) in self.schema.layout().places().iter().enumerate() {
            // Equal values have equal bytes; if some had not, that would be a change too many, and no wrong row.
            let is_same = place.is_null(before) == place.is_null(now)
                && match place.is_long {
                    false => place.of(before) == place.of(now),
                    true => self.long_bytes(column)? == after.long_bytes(column)?,
                };
            if !is_same {
                changes.push(Change { column, value: after.get(column)? });
            }
        }
        Ok(changes)
    }

    /// Appends the primary key.
    ///
    /// # Errors
    /// [`Error::KeyTooLong`](crate::Error::KeyTooLong), and those of [`RowRef::get`].
    pub fn append_primary_key(&self, to: &mut Vec<u8>) -> Result<()> {
        self.schema.primary_key().append(to, |column| self.get(column)).map(|_| ())
    }

    /// The primary key.
    ///
    /// # Errors
    /// See [`RowRef::append_primary_key`].
    pub fn primary_key(&self) -> Result<Vec<u8>> {
        let mut key = Vec::with_capacity(24);
        self.append_primary_key(&mut key)?;
        Ok(key)
    }

    /// The entry of the row in a secondary index of its table.
    ///
    /// # Errors
    /// See [`RowRef::append_primary_key`].
    pub fn index_entry(&self, index: &IndexSchema) -> Result<Vec<u8>> {
        let mut entry = Vec::with_capacity(48);
        let has_null = index.key().append(&mut entry, |column| self.get(column))?;
        index.complete(&mut entry, has_null, |entry| self.append_primary_key(entry))?;
        Ok(entry)
    }

    /// Checks every byte: that the image is the one that [`Row::from_values`] makes of the row's values. It costs as
    /// much as making the image.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged).
    pub fn check(&self) -> Result<()> {
        let mut end = self.fixed.bytes().len();
        for &column in self.schema.layout().long() {
            // Cells without overlaps, first: the values together are then no longer than the image.
            if let Field::Cell(cell) = self.fixed.field(column)? {
                if cell as u32 as usize != end {
                    return Err(self.schema.columns()[column]
                        .damaged("its bytes are not where they belong"));
                }
                end += (cell >> 32) as usize;
            }
        }
        let values = self.values()?;
        let again = Row::from_values(self.schema, &values)
            .map_err(|error| damaged(self.schema, &error.to_string()))?;
        match again.bytes() == self.bytes {
            true => Ok(()),
            false => Err(damaged(self.schema, "its bytes are not those of its values")),
        }
    }
}

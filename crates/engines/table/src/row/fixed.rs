//! The fixed part of a row, in an image or in a slot.

use crate::{
    Error, Result, TableSchema, ValueRef,
    schema::layout::{read, write, write_short},
};

/// A column of a fixed part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field<'a> {
    /// The value of a fixed column, or NULL.
    Value(ValueRef<'a>),
    /// The word in the cell of a long column that is not NULL.
    Cell(u64),
}

/// A fixed part that is read.
#[derive(Clone, Copy, Debug)]
pub struct FixedRef<'a> {
    schema: &'a TableSchema,
    bytes: &'a [u8],
}

impl<'a> FixedRef<'a> {
    /// The fixed part of a row of this schema: the first bytes of these, which may be more.
    ///
    /// # Errors
    /// [`Error::Damaged`], if the bytes are less than the fixed part.
    #[inline]
    pub fn new(schema: &'a TableSchema, bytes: &'a [u8]) -> Result<Self> {
        match bytes.get(..schema.layout().fixed_len()) {
            Some(bytes) => Ok(Self { schema, bytes }),
            None => Err(damaged(schema, "it ends within its fixed part")),
        }
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// A column: its value, or what its cell has.
    ///
    /// # Errors
    /// [`Error::ColumnNumber`], [`Error::Damaged`].
    #[inline]
    pub fn field(&self, column: usize) -> Result<Field<'a>> {
        let Some(place) = self.schema.layout().places().get(column) else {
            return Err(self.schema.no_column(column));
        };
        if place.is_null(self.bytes) {
            return Ok(Field::Value(ValueRef::Null));
        }
        let bytes = place.of(self.bytes);
        if place.is_long {
            let word = bytes.try_into().expect("a cell has 8 bytes");
            return Ok(Field::Cell(u64::from_le_bytes(word)));
        }
        let declared = &self.schema.columns()[column];
        let value = read(declared.ty(), bytes).map_err(|why| declared.damaged(why))?;
        Ok(Field::Value(value))
    }
}

#[cold]
pub(super) fn damaged(schema: &TableSchema, why: &str) -> Error {
    Error::damaged(format!("a row of table {:?}", schema.name()), why)
}

/// A fixed part that is changed.
#[derive(Debug)]
pub struct FixedMut<'a> {
    schema: &'a TableSchema,
    bytes: &'a mut [u8],
}

impl<'a> FixedMut<'a> {
    /// The fixed part of a row of this schema.
    ///
    /// # Panics
    /// If there are less bytes than it has: the caller made them.
    #[inline]
    pub fn new(schema: &'a TableSchema, bytes: &'a mut [u8]) -> Self {
        Self { schema, bytes: &mut bytes[..schema.layout().fixed_len()] }
    }

    /// Sets a fixed column, or makes any column NULL.
    ///
    /// # Errors
    /// [`Error::ColumnNumber`], and those of [`Column::conform`](crate::Column::conform).
    ///
    /// # Panics
    /// If the column is long, and the value not NULL: its cell is set by [`FixedMut::set_cell`].
    #[inline]
    pub fn set(&mut self, column: usize, value: ValueRef<'_>) -> Result<()> {
        let Some(declared) = self.schema.columns().get(column) else {
            return Err(self.schema.no_column(column));
        };
        let value = declared.conform(value)?;
        self.put(column, value);
        Ok(())
    }

    /// Sets the cell of a long column, which is not NULL then.
    ///
    /// # Panics
    /// If the column is not long.
    #[inline]
    pub fn set_cell(&mut self, column: usize, word: u64) {
        let place = &self.schema.layout().places()[column];
        assert!(place.is_long, "the column has a cell");
        place.set_null(self.bytes, false);
        place.of_mut(self.bytes).copy_from_slice(&word.to_le_bytes());
    }

    /// Sets a fixed column to a value of its form, or makes any column NULL.
    #[inline]
    pub(super) fn put(&mut self, column: usize, value: ValueRef<'_>) {
        let place = &self.schema.layout().places()[column];
        place.set_null(self.bytes, value.is_null());
        let to = place.of_mut(self.bytes);
        if value.is_null() {
            return to.fill(0);
        }
        assert!(!place.is_long, "the value of a long column has no place in the fixed part");
        let ty = self.schema.columns()[column].ty();
        match value {
            ValueRef::Text(text) => write_short(to, ty, text.as_bytes()),
            ValueRef::Bytes(bytes) => write_short(to, ty, bytes),
            _ => write(to, value),
        }
    }
}

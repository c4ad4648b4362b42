//! The change of a column.

use crate::ValueRef;

/// A new value for a column. In a list of changes, the last of those to one column counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    /// The number of the column.
    pub column: usize,
    /// Its new value.
    pub value: ValueRef<'a>,
}

impl<'a> Change<'a> {
    /// The change of a column to anything that converts into a value.
    #[inline]
    pub fn new(column: usize, value: impl Into<ValueRef<'a>>) -> Self {
        Self { column, value: value.into() }
    }
}

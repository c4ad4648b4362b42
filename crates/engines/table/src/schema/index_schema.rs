//! A secondary index, and its entries.

use crate::{KeySchema, Result};

/// A secondary index of a table: its columns, and whether a key may be there once only.
///
/// An entry is the key of the index's columns. The primary key of the row stands behind it if the index is not unique,
/// or if one of the columns is NULL: NULL equals nothing, so that any number of rows may have it. An entry without a
/// primary key tells its row by the value that the index stores beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexSchema {
    name: Box<str>,
    is_unique: bool,
    key: KeySchema,
}

impl IndexSchema {
    pub(super) fn new(name: Box<str>, is_unique: bool, key: KeySchema) -> Self {
        Self { name, is_unique, key }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether no two rows may have one key without NULL.
    #[must_use]
    pub fn is_unique(&self) -> bool {
        self.is_unique
    }

    /// Its columns: for prefixes, ranges and the values of an entry ([`KeySchema::split`] cuts off the primary key).
    #[must_use]
    pub fn key(&self) -> &KeySchema {
        &self.key
    }

    /// Completes an entry of the index's columns by the primary key, if it needs one.
    pub(crate) fn complete(
        &self,
        entry: &mut Vec<u8>,
        has_null: bool,
        append_primary: impl FnOnce(&mut Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        if !self.is_unique || has_null {
            append_primary(entry)?;
        }
        self.key.check_len(entry.len())
    }
}

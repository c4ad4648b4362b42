//! The columns of a key, and keys from values.

use std::{fmt::Write, ops::Bound};

use super::{KEY_LEN_MAX, KeyRange, part};
use crate::{Column, Error, Result, Value, ValueRef};

/// The columns of a key, in the order in which rows are sorted by them, all ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySchema {
    /// The name for messages.
    name: Box<str>,
    /// The columns with their numbers in the table.
    columns: Box<[(usize, Column)]>,
}

impl KeySchema {
    pub(crate) fn new(name: String, columns: impl Iterator<Item = (usize, Column)>) -> Self {
        Self { name: name.into(), columns: columns.collect() }
    }

    /// The key's name for messages: `primary key of` and the table, or `index`, its name, and the table.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The numbers of the columns in the table.
    pub fn columns(&self) -> impl ExactSizeIterator<Item = usize> {
        self.columns.iter().map(|&(number, _)| number)
    }

    /// Whether the key has a column of the table: a change of it changes the key.
    #[must_use]
    pub fn has(&self, column: usize) -> bool {
        self.columns().any(|number| number == column)
    }

    /// The key of these values, one for each column.
    ///
    /// # Errors
    /// [`Error::KeyParts`], [`Error::KeyTooLong`], and those of [`Column::conform`].
    pub fn encode(&self, values: &[ValueRef<'_>]) -> Result<Vec<u8>> {
        match values.len() == self.columns.len() {
            true => self.prefix(values),
            false => Err(self.parts(values.len())),
        }
    }

    /// The beginning of all keys that have these values in their first columns.
    ///
    /// # Errors
    /// See [`KeySchema::encode`]; fewer values than columns are none.
    pub fn prefix(&self, values: &[ValueRef<'_>]) -> Result<Vec<u8>> {
        if values.len() > self.columns.len() {
            return Err(self.parts(values.len()));
        }
        let mut key = Vec::with_capacity(16 * values.len());
        for ((_, column), &value) in self.columns.iter().zip(values) {
            put(&mut key, column, value)?;
        }
        self.check_len(key.len()).map(|()| key)
    }

    /// The range of the keys between two beginnings, each the values of the first columns: an included bound takes in
    /// all keys that begin with its values, an excluded one none of them.
    ///
    /// # Errors
    /// See [`KeySchema::prefix`].
    pub fn range(
        &self,
        from: Bound<&[ValueRef<'_>]>,
        to: Bound<&[ValueRef<'_>]>,
    ) -> Result<KeyRange> {
        let prefix = |bound: Bound<&[ValueRef<'_>]>| {
            Ok::<_, Error>(match bound {
                Bound::Included(values) => Bound::Included(self.prefix(values)?),
                Bound::Excluded(values) => Bound::Excluded(self.prefix(values)?),
                Bound::Unbounded => Bound::Unbounded,
            })
        };
        Ok(KeyRange::between(prefix(from)?, prefix(to)?))
    }

    /// Appends the key of a row, whose values `value_of` gives by their columns' numbers, and says whether one of them
    /// is NULL.
    ///
    /// # Errors
    /// [`Error::KeyTooLong`], and those of [`Column::conform`] and of `value_of`.
    pub(crate) fn append<'a>(
        &self,
        to: &mut Vec<u8>,
        value_of: impl Fn(usize) -> Result<ValueRef<'a>>,
    ) -> Result<bool> {
        let (before, mut has_null) = (to.len(), false);
        for (number, column) in &self.columns {
            let value = value_of(*number)?;
            has_null |= value.is_null();
            put(to, column, value)?;
        }
        self.check_len(to.len() - before).map(|()| has_null)
    }

    /// The values of a key of all columns.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub fn decode(&self, key: &[u8]) -> Result<Vec<Value>> {
        let (values, rest) = self.values(key)?;
        match rest.is_empty() {
            true => Ok(values),
            false => Err(self.damaged("it has bytes behind its last value")),
        }
    }

    /// The values at the front of a key, and the bytes behind them.
    fn values<'a>(&self, mut key: &'a [u8]) -> Result<(Vec<Value>, &'a [u8])> {
        let mut values = Vec::with_capacity(self.columns.len());
        for (_, column) in &self.columns {
            let (encoded, rest) = self.split_part(column, key)?;
            key = rest;
            let Some(encoded) = encoded else {
                values.push(Value::Null);
                continue;
            };
            let value = part::value(column.ty(), encoded).map_err(|why| self.damaged(why))?;
            // A value that another key schema wrote may not fit.
            column.conform(value.as_ref()).map_err(|error| self.damaged(&error.to_string()))?;
            values.push(value);
        }
        Ok((values, key))
    }

    /// The bytes of the key's own columns, and those behind them: of an index's entry, the primary key.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub fn split<'a>(&self, entry: &'a [u8]) -> Result<(&'a [u8], &'a [u8])> {
        let mut behind = entry;
        for (_, column) in &self.columns {
            behind = self.split_part(column, behind)?.1;
        }
        Ok(entry.split_at(entry.len() - behind.len()))
    }

    /// The values of a key in words, for messages: `(1, Smith)`.
    #[must_use]
    pub fn describe(&self, key: &[u8]) -> String {
        let Ok((values, _)) = self.values(key) else {
            return format!("{}", ValueRef::Bytes(key));
        };
        let mut text = String::from("(");
        for (at, value) in values.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            let _ = write!(text, "{comma}{value}");
        }
        text.push(')');
        text
    }

    /// A row with this key is there already.
    #[must_use]
    pub fn duplicate(&self, key: &[u8]) -> Error {
        Error::DuplicateKey { key: self.name.clone(), value: self.describe(key).into() }
    }

    /// The encoded value at the front, `None` for NULL, and the bytes behind it.
    fn split_part<'a>(
        &self,
        column: &Column,
        key: &'a [u8],
    ) -> Result<(Option<&'a [u8]>, &'a [u8])> {
        let key = match (column.is_nullable(), key) {
            (false, _) => key,
            (true, [part::NULL, rest @ ..]) => return Ok((None, rest)),
            (true, [part::PRESENT, rest @ ..]) => rest,
            (true, []) => return Err(self.damaged("it ends before its last value")),
            (true, _) => {
                return Err(self.damaged("a byte that says whether a value is NULL is wrong"));
            }
        };
        let (encoded, rest) = part::split(column.ty(), key).map_err(|why| self.damaged(why))?;
        Ok((Some(encoded), rest))
    }

    pub(crate) fn check_len(&self, len: usize) -> Result<()> {
        match len <= KEY_LEN_MAX {
            true => Ok(()),
            false => Err(Error::KeyTooLong { key: self.name.clone(), len }),
        }
    }

    #[cold]
    fn parts(&self, found: usize) -> Error {
        Error::KeyParts { key: self.name.clone(), expected: self.columns.len(), found }
    }

    #[cold]
    fn damaged(&self, why: &str) -> Error {
        Error::damaged(format!("a key of the {}", self.name), why)
    }
}

fn put(to: &mut Vec<u8>, column: &Column, value: ValueRef<'_>) -> Result<()> {
    let value = column.conform(value)?;
    if value.is_null() {
        to.push(part::NULL);
        return Ok(());
    }
    if column.is_nullable() {
        to.push(part::PRESENT);
    }
    part::put(to, column.ty(), value);
    Ok(())
}

#[cfg(test)]
mod tests;

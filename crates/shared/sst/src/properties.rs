//! The properties of a table: a block like others, but for its content.
//!
//! ```text
//! tree, entries, deletes, range deletes, key bytes, value bytes, data blocks    varints
//! smallest sequence, largest sequence                                    varints
//! span: first key, last key    length (varint) and bytes; u8: 1 if the last key itself is not in the span
//! root, range deletes          handles (`index`); length 0: none
//! files of large values        if there are any: their count, and of each number, length of the value, and check: varints
//! ```

use halite_codec::{Reader, put_bytes, put_varint};

use crate::Parsed;
use crate::index::Handle;
use crate::value_ref::ValueRef;

/// The keys that a table's entries and range deletes concern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first.
    pub first: Box<[u8]>,
    /// The last, or the bound behind it.
    pub last: Box<[u8]>,
    /// Whether `last` itself does not belong to it: it is the end of a range delete.
    pub is_open: bool,
}

impl Span {
    /// Whether all of it is before a key.
    #[must_use]
    pub fn is_before(&self, key: &[u8]) -> bool {
        if self.is_open { *self.last <= *key } else { *self.last < *key }
    }

    /// Whether it has a key.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        *self.first <= *key && !self.is_before(key)
    }

    /// Whether both have a key in common.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        !self.is_before(&other.first) && !other.is_before(&self.first)
    }

    /// Whether it has keys from `from` on that are below `to`; where there is none, it does not matter.
    #[must_use]
    pub fn overlaps_range(&self, from: Option<&[u8]>, to: Option<&[u8]>) -> bool {
        from.is_none_or(|from| !self.is_before(from)) && to.is_none_or(|to| *self.first < *to)
    }

    /// Makes it reach as far as another one too.
    pub fn extend(&mut self, other: &Self) {
        if other.first < self.first {
            self.first.clone_from(&other.first);
        }
        if other.last > self.last {
            (self.last, self.is_open) = (other.last.clone(), other.is_open);
        } else if other.last == self.last {
            self.is_open &= other.is_open;
        }
    }

    /// Appends its stored form.
    pub fn put(&self, to: &mut Vec<u8>) {
        put_bytes(to, &self.first);
        put_bytes(to, &self.last);
        to.push(u8::from(self.is_open));
    }

    /// Reads what [`Span::put`] has written.
    ///
    /// # Errors
    /// The reason why it is no span.
    pub fn read(reader: &mut Reader<'_>) -> Parsed<Self> {
        let (first, last) = (reader.bytes()?.into(), reader.bytes()?.into());
        let span = Self { first, last, is_open: reader.u8()? != 0 };
        if span.is_before(&span.first) { Err("the last key is before the first") } else { Ok(span) }
    }
}

/// The properties of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Properties {
    /// The tree that it was written for.
    pub tree: u32,
    /// Entries, without range deletes.
    pub entries: u64,
    /// Tombstones among the entries.
    pub deletes: u64,
    /// Range deletes.
    pub range_deletes: u64,
    /// Bytes of all keys.
    pub key_bytes: u64,
    /// Bytes of all values.
    pub value_bytes: u64,
    /// Blocks of entries.
    pub data_blocks: u64,
    /// The smallest sequence number in it.
    pub sequence_min: u64,
    /// The largest sequence number in it.
    pub sequence_max: u64,
    /// The keys that its entries and range deletes concern.
    pub span: Span,
    /// The files of large values that its entries refer to.
    pub values: Vec<ValueRef>,
}

/// Appends references to values, and their count.
pub fn put_values(to: &mut Vec<u8>, values: &[ValueRef]) {
    put_varint(to, values.len() as u64);
    for ValueRef { number, len, check } in values {
        [number, len, check].into_iter().for_each(|number| put_varint(to, *number));
    }
}

/// Reads the references that [`put_values`] has written.
///
/// # Errors
/// The reason why they are none.
pub fn read_values(reader: &mut Reader<'_>) -> Parsed<Vec<ValueRef>> {
    let mut values = Vec::new();
    for _ in 0..reader.varint()? {
        let value =
            ValueRef { number: reader.varint()?, len: reader.varint()?, check: reader.varint()? };
        values.push(ValueRef::of_bytes(&value.bytes())?);
    }
    Ok(values)
}

/// Where the blocks are that are read when a table opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Roots {
    pub(crate) index: Handle,
    pub(crate) range_deletes: Handle,
}

impl Properties {
    pub(crate) fn bytes(&self, roots: Roots) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in [
            u64::from(self.tree),
            self.entries,
            self.deletes,
            self.range_deletes,
            self.key_bytes,
            self.value_bytes,
            self.data_blocks,
            self.sequence_min,
            self.sequence_max,
        ] {
            put_varint(&mut bytes, number);
        }
        self.span.put(&mut bytes);
        roots.index.put(&mut bytes);
        roots.range_deletes.put(&mut bytes);
        if !self.values.is_empty() {
            put_values(&mut bytes, &self.values);
        }
        bytes
    }

    pub(crate) fn of_bytes(bytes: &[u8]) -> Parsed<(Self, Roots)> {
        let mut reader = Reader(bytes);
        let mut properties = Self {
            tree: reader.varint_u32()?,
            entries: reader.varint()?,
            deletes: reader.varint()?,
            range_deletes: reader.varint()?,
            key_bytes: reader.varint()?,
            value_bytes: reader.varint()?,
            data_blocks: reader.varint()?,
            sequence_min: reader.varint()?,
            sequence_max: reader.varint()?,
            span: Span::read(&mut reader)?,
            values: Vec::new(),
        };
        let (index, range_deletes) = (Handle::read(&mut reader)?, Handle::read(&mut reader)?);
        if !reader.is_empty() {
            properties.values = read_values(&mut reader)?;
        }
        Ok((properties, Roots { index, range_deletes }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_overlap_where_they_have_a_key_in_common() {
        let span = |first: &str, last: &str, is_open| Span {
            first: first.as_bytes().into(),
            last: last.as_bytes().into(),
            is_open,
        };
        assert!(span("a", "c", false).overlaps(&span("c", "d", false)));
        assert!(!span("a", "c", true).overlaps(&span("c", "d", false)));
        assert!(span("a", "c", true).contains(b"bz") && !span("a", "c", true).contains(b"c"));
        assert!(!span("a", "c", true).overlaps_range(Some(b"c"), None));
        assert!(!span("c", "d", true).overlaps_range(None, Some(b"c")));
        let mut all = span("b", "c", true);
        all.extend(&span("a", "c", false));
        assert_eq!(all, span("a", "c", false));
    }
}

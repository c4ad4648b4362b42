//! The place of a pair in the table of its key space.
//!
//! ```text
//! key BYTES(1533) | part UINT32            | value BYTES(1015744)
//! ----------------+------------------------+-----------------------------------------------------
//! the key         | 0, 1, ..               | pieces of the value; each but the last one is full
//! a long key's    | n << 10 + 0, 1, ..     | pieces of: length u32 of the rest | its rest | value
//! first bytes     | n = 1, 2, ..           |
//! ```
//!
//! A value is so a row, or some if it is longer than a piece; a piece that is full is followed by another one, or the
//! value ends with it. The primary key has the order of keys: encoded, 1,533 bytes and the part never exceed what the
//! testbed's keys may have. A longer key has its first bytes in the key, and its rest before the value; keys that begin
//! with the same 1,533 bytes are told apart by `n`, in no order: to find one of them is to look at all of them.

use crate::engine::gather;
use crate::{KEY_LEN_MAX, KeyRange, Result, Table, TableSchema, Type, ValueRef};

/// Bytes of a key in its column. Encoded they are twice as many and one, at most, and the part has four.
pub(super) const KEY_MAX: usize = (KEY_LEN_MAX - 5) / 2;

/// Bytes of a piece: two of them fit a segment of a heap.
pub(super) const PIECE: usize = 1_015_744;

/// Bits of the number of a piece.
pub(super) const PIECE_BITS: u32 = 10;

/// The numbers of columns.
pub(super) const KEY: usize = 0;
pub(super) const PART: usize = 1;
pub(super) const VALUE: usize = 2;

const _: () = assert!(
    halite_contract::VALUE_LEN_MAX + halite_contract::KEY_LEN_MAX + 4 < PIECE << PIECE_BITS
);

/// The schema of the table of this name.
pub(super) fn schema(name: &str) -> Result<TableSchema> {
    let builder = TableSchema::builder(name)
        .column("key", Type::Bytes(KEY_MAX as u32))
        .column("part", Type::UInt32)
        .column("value", Type::Bytes(PIECE as u32));
    builder.primary_key(["key", "part"]).build()
}

/// The primary key of a row.
pub(super) fn row_key(table: &Table, column: &[u8], part: u32) -> Result<Vec<u8>> {
    table.schema().primary_key().encode(&[ValueRef::Bytes(column), ValueRef::UInt(part.into())])
}

/// The beginning of the primary keys of all rows with this in their key column.
fn rows_of(table: &Table, column: &[u8]) -> Result<Vec<u8>> {
    table.schema().primary_key().prefix(&[ValueRef::Bytes(column)])
}

/// A key's part in the key column, and the rest.
pub(super) fn split(key: &[u8]) -> (&[u8], &[u8]) {
    key.split_at(key.len().min(KEY_MAX))
}

/// The rows of all keys of a range, and of few others: of long keys that begin as one of its bounds does.
pub(super) fn rows(table: &Table, range: &halite_contract::KeyRange) -> Result<KeyRange> {
    let from = rows_of(table, split(range.start()).0)?;
    let to = range.end().map(|end| {
        let (column, rest) = split(end);
        let to = rows_of(table, column)?;
        Ok::<_, crate::Error>(match rest {
            [] => to,
            _ => crate::key::successor(&to).expect("it ends with a byte that is not 0xff"),
        })
    });
    Ok(KeyRange { from, to: to.transpose()? })
}

/// The rows of the long keys that begin with these bytes.
pub(super) fn long_rows(table: &Table, column: &[u8]) -> Result<KeyRange> {
    let all = KeyRange::of_prefix(rows_of(table, column)?);
    Ok(KeyRange { from: row_key(table, column, 1 << PIECE_BITS)?, ..all })
}

/// The bytes before a long key's value.
pub(super) fn head(rest: &[u8]) -> Vec<u8> {
    [&(rest.len() as u32).to_le_bytes()[..], rest].concat()
}

/// The rest of a long key, and its value, or the beginning of it.
pub(super) fn split_head(bytes: &[u8]) -> Result<(&[u8], &[u8])> {
    let split = bytes.split_first_chunk().and_then(|(len, behind)| {
        let len = u32::from_le_bytes(*len) as usize;
        (len > 0).then(|| behind.split_at_checked(len)).flatten()
    });
    split.ok_or_else(|| gather::damaged("the rest of its key is not there"))
}

//! Deltas: the columns that an update has changed of a row that is whole in an older memtable only.
//!
//! ```text
//! count varint | (column varint | length + 1 varint, 0 for NULL | bytes)..
//! ```
//!
//! The bytes of a fixed column are those in the fixed part of the row, the ones of a long column those of its value.

use std::collections::BTreeMap;

use halite_codec::{Error as CodecError, Reader, put_varint};

use crate::schema::layout;
use crate::{Change, Error, Result, RowRef, TableSchema, ValueRef};

/// The longest delta in bytes: a row of which more has changed is written whole.
pub(super) const DELTA_LEN_MAX: usize = 16 << 10;

/// Bytes of columns, by their numbers; `None` for NULL.
pub(super) type Fields<'a> = BTreeMap<usize, Option<&'a [u8]>>;

/// Adds a column of a row to fields.
pub(super) fn add_column<'a>(
    fields: &mut Fields<'a>,
    row: RowRef<'a>,
    column: usize,
) -> Result<()> {
    let schema = row.schema();
    let Some(place) = schema.layout().places().get(column) else {
        return Err(schema.no_column(column));
    };
    let fixed = row.fixed().bytes();
    let bytes = match place.is_long {
        true => row.long_bytes(column)?,
        false => (!place.is_null(fixed)).then(|| place.of(fixed)),
    };
    fields.insert(column, bytes);
    Ok(())
}

/// The bytes of a delta.
pub(super) fn encode(fields: &Fields<'_>) -> Vec<u8> {
    let mut delta = Vec::new();
    put_varint(&mut delta, fields.len() as u64);
    for (&column, bytes) in fields {
        put_varint(&mut delta, column as u64);
        put_varint(&mut delta, bytes.map_or(0, |bytes| bytes.len() as u64 + 1));
        delta.extend_from_slice(bytes.unwrap_or_default());
    }
    delta
}

/// The fields of a delta.
pub(super) fn decode<'a>(schema: &TableSchema, delta: &'a [u8]) -> Result<Fields<'a>> {
    let fields = || {
        let (mut reader, mut fields) = (Reader(delta), Fields::new());
        for _ in 0..reader.varint()? {
            let column = reader.varint_u32()? as usize;
            let bytes = match reader.varint()? {
                0 => None,
                len => Some(reader.take(usize::try_from(len - 1).unwrap_or(usize::MAX))?),
            };
            fields.insert(column, bytes);
        }
        match reader.is_empty() {
            true => Ok(fields),
            false => Err(CodecError::Truncated),
        }
    };
    fields().map_err(|_| {
        Error::damaged(format!("a delta of table {:?}", schema.name()), "its parts are not whole")
    })
}

/// The changes that fields are.
pub(super) fn changes<'a>(schema: &TableSchema, fields: &Fields<'a>) -> Result<Vec<Change<'a>>> {
    fields.iter().map(|(&column, bytes)| change(schema, column, *bytes)).collect()
}

fn change<'a>(schema: &TableSchema, column: usize, bytes: Option<&'a [u8]>) -> Result<Change<'a>> {
    let Some(declared) = schema.columns().get(column) else {
        return Err(schema.no_column(column));
    };
    let place = schema.layout().places()[column];
    let value = match bytes {
        None => ValueRef::Null,
        Some(bytes) if place.is_long => declared.long_value(bytes)?,
        Some(bytes) if bytes.len() == place.width => {
            layout::read(declared.ty(), bytes).map_err(|why| declared.damaged(why))?
        }
        Some(_) => return Err(declared.damaged("it is not as long as its type says")),
    };
    Ok(Change { column, value })
}

//! Operations as records, and records as operations.

use halite_contract::{KeySpaceId, Op};

use super::{Draft, Kind, Record};

/// The record of an operation, its value inline.
pub(crate) fn draft<'a>(op: &Op<'a>, seq: u64, lag: u64, remaining: u32) -> Draft<'a> {
    let (kind, space, key, value) = match *op {
        Op::Put { space, key, value } => (Kind::Put, space, key, Some(value)),
        Op::Delete { space, key } => (Kind::Delete, space, key, None),
        Op::DeleteRange { space, start, end } => (Kind::DeleteRange, space, start, end),
    };
    Draft { kind, seq, lag, remaining, space: space.0, key, value, pieces: &[] }
}

/// The operation of a record that is replayed; a large value is left where it is.
pub(crate) fn op_of<'a>(record: &Record<'a>) -> Op<'a> {
    let (space, key) = (KeySpaceId(record.header.space.get()), record.key);
    match record.kind {
        Kind::Put => Op::Put { space, key, value: record.inline_value().unwrap_or_default() },
        Kind::Delete => Op::Delete { space, key },
        Kind::DeleteRange => Op::DeleteRange { space, start: key, end: record.range_end() },
    }
}

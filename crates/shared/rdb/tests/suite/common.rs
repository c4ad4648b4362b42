//! Functions that the tests share.

use std::fs;
use std::path::PathBuf;

use halite_rdb::{Event, HashField, Limits, Reader, Result, Value};

/// The path of a file of a real server.
pub(crate) fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/files").join(name)
}

/// A file of a real server.
pub(crate) fn file(name: &str) -> Vec<u8> {
    fs::read(path(name)).unwrap()
}

/// All parts of a file.
pub(crate) fn events(file: &[u8], limits: Limits) -> Result<Vec<Event>> {
    let mut reader = Reader::new(file, limits)?;
    let mut events = Vec::new();
    while let Some(event) = reader.next_event()? {
        events.push(event);
    }
    assert_eq!(reader.offset(), file.len() as u64);
    Ok(events)
}

pub(crate) fn strings(strings: &[&str]) -> Vec<Vec<u8>> {
    strings.iter().map(|string| string.as_bytes().to_vec()).collect()
}

pub(crate) fn field(name: &str, value: &str, expires_ms: Option<u64>) -> HashField {
    HashField { name: name.into(), value: value.into(), expires_ms }
}

/// A value whose elements are in one order, if they can be in any.
pub(crate) fn sorted(value: Value) -> Value {
    match value {
        Value::Set(mut members) => {
            members.sort();
            Value::Set(members)
        }
        Value::Hash(mut fields) => {
            fields.sort_by(|one, other| one.name.cmp(&other.name));
            Value::Hash(fields)
        }
        value => value,
    }
}

//! Changes as lines, or as JSON.

use std::collections::BTreeMap;
use std::io::Write;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use halite::{Change, ChangeOp, KeySpaceId};
use halite_server::stored::Unreadable;
use serde_json::{Map, Value, json};

use crate::values::Values;
use crate::{Error, Result, escape, output};

/// The names of key spaces, as far as they are known.
pub(super) struct Names(BTreeMap<KeySpaceId, String>);

impl Names {
    pub(super) fn new(names: impl Iterator<Item = (KeySpaceId, String)>) -> Self {
        Self(names.collect())
    }

    /// Whether the key space of some operation has no name yet.
    pub(super) fn lack_some(&self, change: &Change) -> bool {
        change.ops.iter().any(|op| match op {
            ChangeOp::Put { space, .. }
            | ChangeOp::Superseded { space, .. }
            | ChangeOp::Delete { space, .. }
            | ChangeOp::DeleteRange { space, .. } => !self.0.contains_key(space),
            _ => false,
        })
    }

    /// Adds those that are not known.
    pub(super) fn add(&mut self, names: impl Iterator<Item = (KeySpaceId, String)>) {
        for (space, name) in names {
            self.0.entry(space).or_insert(name);
        }
    }

    fn learn(&mut self, change: &Change) {
        for op in &change.ops {
            if let ChangeOp::CreateKeySpace { space, name } = op {
                self.0.insert(*space, name.clone());
            }
        }
    }

    /// Takes the tags off the strings of a change, and returns the name of each operation. A collection stays as it is
    /// stored.
    fn take_tags(&self, change: &mut Change, values: &Values) -> Result<Vec<&'static str>> {
        let mut names = Vec::with_capacity(change.ops.len());
        for op in &mut change.ops {
            names.push(name_of(op));
            let ChangeOp::Put { space, key, value } = op else { continue };
            match values.plain(&self.name(*space), key, value).map(<[u8]>::len) {
                Ok(plain_len) => drop(value.drain(..value.len() - plain_len)),
                Err(Error::Value { source: Unreadable::NoString { name }, .. }) => {
                    names.pop();
                    names.push(name_of_collection(name));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(names)
    }

    /// The name of a key space; its number if it was dropped before the first change.
    fn name(&self, space: KeySpaceId) -> String {
        self.0.get(&space).cloned().unwrap_or_else(|| format!("#{}", space.0))
    }
}

/// The name of an operation.
fn name_of(op: &ChangeOp) -> &'static str {
    match op {
        ChangeOp::CreateKeySpace { .. } => "create",
        ChangeOp::DropKeySpace { .. } => "drop",
        ChangeOp::Put { .. } => "put",
        ChangeOp::Superseded { .. } => "superseded",
        ChangeOp::Delete { .. } => "delete",
        ChangeOp::DeleteRange { .. } => "delete-range",
        _ => "other",
    }
}

/// The name of an operation that puts a collection of this type.
fn name_of_collection(kind: &str) -> &'static str {
    match kind {
        "list" => "put-list",
        "set" => "put-set",
        "zset" => "put-zset",
        "hash" => "put-hash",
        "stream" => "put-stream",
        _ => "put-other",
    }
}

/// The key space of an operation, and the rest.
fn parts<'a>(op: &'a ChangeOp, names: &Names) -> (String, Vec<&'a [u8]>) {
    match op {
        ChangeOp::CreateKeySpace { name, .. } | ChangeOp::DropKeySpace { name } => {
            (name.clone(), vec![])
        }
        ChangeOp::Put { space, key, value } => (names.name(*space), vec![key, value]),
        ChangeOp::Superseded { space, key } | ChangeOp::Delete { space, key } => {
            (names.name(*space), vec![key])
        }
        ChangeOp::DeleteRange { space, start, end } => {
            let range = std::iter::once(start).chain(end).map(Vec::as_slice);
            (names.name(*space), range.collect())
        }
        _ => (String::new(), vec![]),
    }
}

/// Prints the changes, in text or in JSON.
pub(super) struct Printer {
    pub(super) names: Names,
    pub(super) values: Values,
    pub(super) as_json: bool,
}

impl Printer {
    /// Prints a change of a partition.
    pub(super) fn print(
        &mut self,
        out: &mut impl Write,
        partition: usize,
        mut change: Change,
    ) -> Result<()> {
        self.names.learn(&change);
        let ops = self.names.take_tags(&mut change, &self.values)?;
        if change.ops.is_empty() {
            return Ok(());
        }
        match self.as_json {
            true => writeln!(out, "{}", as_json(partition, &change, &ops, &self.names)),
            false => write_lines(out, partition, &change, &ops, &self.names),
        }
        .map_err(output::failed)
    }
}

fn write_lines(
    out: &mut impl Write,
    partition: usize,
    change: &Change,
    ops: &[&str],
    names: &Names,
) -> std::io::Result<()> {
    for (op, what) in change.ops.iter().zip(ops) {
        let (space, rest) = parts(op, names);
        write!(out, "{partition}:{}\t{what}\t", change.position)?;
        escape::write(out, space.as_bytes())?;
        for bytes in rest {
            out.write_all(b"\t")?;
            escape::write(out, bytes)?;
        }
        out.write_all(b"\n")?;
    }
    Ok(())
}

fn as_json(partition: usize, change: &Change, ops: &[&str], names: &Names) -> Value {
    let op = |(op, what): (&ChangeOp, &&str)| {
        let (space, rest) = parts(op, names);
        let fields: &[&str] = match op {
            ChangeOp::DeleteRange { .. } => &["start", "end"],
            _ => &["key", "value"],
        };
        let mut object = Map::new();
        object.insert("op".to_owned(), json!(what));
        object.insert("space".to_owned(), json!(space));
        for (field, bytes) in fields.iter().zip(rest) {
            match std::str::from_utf8(bytes) {
                Ok(text) => object.insert((*field).to_owned(), json!(text)),
                Err(_) => object.insert(format!("{field}_base64"), json!(STANDARD.encode(bytes))),
            };
        }
        Value::Object(object)
    };
    let ops: Vec<_> = change.ops.iter().zip(ops).map(op).collect();
    json!({ "partition": partition, "position": change.position, "ops": ops })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_its_line() {
        let space = KeySpaceId(4);
        let names = Names(BTreeMap::from([(space, "db0".to_owned())]));
        let ops = vec![
            ChangeOp::CreateKeySpace { space, name: "db0".to_owned() },
            ChangeOp::Put { space, key: b"k\t".to_vec(), value: vec![0xff] },
            ChangeOp::Delete { space: KeySpaceId(9), key: b"k".to_vec() },
            ChangeOp::DeleteRange { space, start: b"a".to_vec(), end: None },
        ];
        let change = Change { position: 7, ops };
        let ops: Vec<_> = change.ops.iter().map(name_of).collect();
        let mut out = Vec::new();
        write_lines(&mut out, 1, &change, &ops, &names).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(
            text,
            "1:7\tcreate\tdb0\n1:7\tput\tdb0\tk\\t\t\\xff\n1:7\tdelete\t#9\tk\n\
             1:7\tdelete-range\tdb0\ta\n"
        );
        let json = as_json(1, &change, &ops, &names);
        assert_eq!(
            (&json["position"], &json["ops"][1]["value_base64"]),
            (&json!(7), &json!("/w=="))
        );
        assert_eq!(json["ops"][3], json!({ "op": "delete-range", "space": "db0", "start": "a" }));
    }
}

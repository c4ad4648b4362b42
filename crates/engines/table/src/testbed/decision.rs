//! Decisions: changes of several partitions that will happen, whole, as bytes.
//!
//! ```text
//!  rows:       1 u8 | partitions u32 | (number u32 | rows u32 | (table u32 | key | before | after)..)..
//!  back:       3 u8 | the same
//!  statement:  2 u8 | kind u8 | name | second name
//!  bytes:      len u32 | bytes        before, after: 0 u8, or 1 u8 and bytes
//! ```
//!
//! A decision of rows has both images, so that it can be carried out, or taken back if a partition has no room for it: the
//! decision to take it back, which is its inverse, is there in its place then, and is not taken back itself. A statement that makes something is taken back, and any other one is carried out: either way all partitions end alike.

use super::AnyPartition;
use crate::write_set::RowWrite;
use crate::{Result, Row, TableId, WriteSet};

/// A row that changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RowChange {
    pub(super) table: TableId,
    pub(super) key: Vec<u8>,
    pub(super) before: Option<Vec<u8>>,
    pub(super) after: Option<Vec<u8>>,
}

/// The changes of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) partition: usize,
    pub(super) rows: Vec<RowChange>,
}

/// A statement that changes the catalogs of all partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Statement {
    CreateTable { name: String },
    DropTable { name: String },
    TruncateTable { name: String },
    RenameTable { name: String, to: String },
    CreateIndex { table: String, name: String },
    DropIndex { table: String, name: String },
}

/// A decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Decision {
    Rows(Vec<Part>),
    Back(Vec<Part>),
    Statement(Statement),
}

impl Part {
    /// The changes that a transaction has made to a partition.
    pub(super) fn of(partition: usize, writes: &WriteSet) -> Self {
        let bytes = |row: &Option<Row>| row.as_ref().map(|row| row.bytes().to_vec());
        let rows = writes.rows().map(|(table, key, RowWrite { before, after })| RowChange {
            table,
            key: key.to_vec(),
            before: bytes(before),
            after: bytes(after),
        });
        Self { partition, rows: rows.collect() }
    }

    /// The same backwards.
    pub(super) fn inverse(&self) -> Self {
        let rows = self.rows.iter().cloned().map(|row| RowChange {
            before: row.after,
            after: row.before,
            ..row
        });
        Self { partition: self.partition, rows: rows.collect() }
    }

    /// Commits the changes to their partition, whatever of the two images each row has there, and makes that durable.
    pub(super) fn apply(&self, partition: &mut AnyPartition) -> Result<()> {
        partition.begin()?;
        let changed = self.change(partition);
        if changed.is_err() {
            partition.abort()?;
        }
        changed?;
        partition.commit()?;
        partition.sync().map(drop)
    }

    fn change(&self, partition: &mut AnyPartition) -> Result<()> {
        // Unique entries may move from one of the rows to another.
        for row in &self.rows {
            let table = partition.catalog().table_by_id(row.table)?.clone();
            partition.delete(&table, &row.key)?;
        }
        for row in &self.rows {
            let table = partition.catalog().table_by_id(row.table)?.clone();
            if let Some(after) = &row.after {
                partition.insert(&table, &Row::from_bytes(table.schema(), after.clone())?)?;
            }
        }
        Ok(())
    }
}

impl Statement {
    fn parts(&self) -> (u8, &str, &str) {
        match self {
            Self::CreateTable { name } => (1, name, ""),
            Self::DropTable { name } => (2, name, ""),
            Self::TruncateTable { name } => (3, name, ""),
            Self::RenameTable { name, to } => (4, name, to),
            Self::CreateIndex { table, name } => (5, table, name),
            Self::DropIndex { table, name } => (6, table, name),
        }
    }

    fn of_parts(kind: u8, name: String, second: String) -> Option<Self> {
        Some(match kind {
            1 => Self::CreateTable { name },
            2 => Self::DropTable { name },
            3 => Self::TruncateTable { name },
            4 => Self::RenameTable { name, to: second },
            5 => Self::CreateIndex { table: name, name: second },
            6 => Self::DropIndex { table: name, name: second },
            _ => return None,
        })
    }

    /// Takes the statement back in a partition, if it makes something, and carries it out otherwise; whether or not it has
    /// happened there.
    pub(super) fn settle(&self, partition: &mut AnyPartition) -> Result<()> {
        let catalog = partition.catalog();
        let has = |name: &str| catalog.table(name).is_ok();
        let has_index =
            |table, name| catalog.table(table).is_ok_and(|table| table.index(name).is_ok());
        match self {
            Self::CreateTable { name } | Self::DropTable { name } if has(name) => {
                partition.drop_table(name)
            }
            Self::TruncateTable { name } if has(name) => partition.truncate_table(name).map(drop),
            Self::RenameTable { name, to } if has(name) => partition.rename_table(name, to),
            Self::CreateIndex { table, name } | Self::DropIndex { table, name }
                if has_index(table, name) =>
            {
                partition.drop_index(table, name)
            }
            _ => Ok(()),
        }
    }
}

impl Decision {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut to = Vec::new();
        match self {
            Self::Rows(parts) | Self::Back(parts) => {
                to.push(if matches!(self, Self::Rows(_)) { 1 } else { 3 });
                put_number(&mut to, parts.len());
                for Part { partition, rows } in parts {
                    put_number(&mut to, *partition);
                    put_number(&mut to, rows.len());
                    for RowChange { table, key, before, after } in rows {
                        to.extend(table.0.to_le_bytes());
                        put_bytes(&mut to, key);
                        put_image(&mut to, before.as_deref());
                        put_image(&mut to, after.as_deref());
                    }
                }
            }
            Self::Statement(statement) => {
                let (kind, name, second) = statement.parts();
                to.extend([2, kind]);
                put_bytes(&mut to, name.as_bytes());
                put_bytes(&mut to, second.as_bytes());
            }
        }
        to
    }

    /// The decision of these bytes, if they are one.
    pub(super) fn decode(mut from: &[u8]) -> Option<Self> {
        let from = &mut from;
        let decision = match take(from, 1)? {
            [kind @ (1 | 3)] => {
                let mut parts = Vec::new();
                for _ in 0..take_number(from)? {
                    let partition = take_number(from)? as usize;
                    let mut rows = Vec::new();
                    for _ in 0..take_number(from)? {
                        rows.push(RowChange {
                            table: TableId(take_number(from)?),
                            key: take_bytes(from)?,
                            before: take_image(from)?,
                            after: take_image(from)?,
                        });
                    }
                    parts.push(Part { partition, rows });
                }
                if *kind == 1 { Self::Rows(parts) } else { Self::Back(parts) }
            }
            [2] => {
                let kind = take(from, 1)?[0];
                let mut name = || String::from_utf8(take_bytes(from)?).ok();
                Self::Statement(Statement::of_parts(kind, name()?, name()?)?)
            }
            _ => return None,
        };
        from.is_empty().then_some(decision)
    }
}

fn put_number(to: &mut Vec<u8>, number: usize) {
    to.extend((number as u32).to_le_bytes());
}

fn put_bytes(to: &mut Vec<u8>, bytes: &[u8]) {
    put_number(to, bytes.len());
    to.extend_from_slice(bytes);
}

fn put_image(to: &mut Vec<u8>, image: Option<&[u8]>) {
    to.push(image.is_some().into());
    if let Some(bytes) = image {
        put_bytes(to, bytes);
    }
}

fn take<'a>(from: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, rest) = from.split_at_checked(len)?;
    *from = rest;
    Some(taken)
}

fn take_number(from: &mut &[u8]) -> Option<u32> {
    take(from, 4)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

fn take_bytes(from: &mut &[u8]) -> Option<Vec<u8>> {
    let len = take_number(from)? as usize;
    take(from, len).map(<[u8]>::to_vec)
}

/// An image, or none: `None` outside if the bytes are neither.
fn take_image(from: &mut &[u8]) -> Option<Option<Vec<u8>>> {
    match take(from, 1)? {
        [0] => Some(None),
        [1] => take_bytes(from).map(Some),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;

    use super::*;

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        vec(any::<u8>(), 0..20)
    }

    fn decision() -> impl Strategy<Value = Decision> {
        let row = (any::<u32>(), bytes(), option::of(bytes()), option::of(bytes())).prop_map(
            |(table, key, before, after)| RowChange { table: TableId(table), key, before, after },
        );
        let part =
            (0..100_usize, vec(row, 0..5)).prop_map(|(partition, rows)| Part { partition, rows });
        let rows = (vec(part, 0..4), any::<bool>()).prop_map(|(parts, is_back)| match is_back {
            true => Decision::Back(parts),
            false => Decision::Rows(parts),
        });
        let statement = (1..7_u8, "[a-z]{1,9}", "[a-z]{1,9}").prop_map(|(kind, name, second)| {
            Decision::Statement(Statement::of_parts(kind, name, second).unwrap())
        });
        prop_oneof![3 => rows, 1 => statement]
    }

    proptest! {
        #[test]
        fn a_decision_is_read_as_it_was_written_and_nothing_else_is_one(decision in decision(), cut in any::<prop::sample::Index>()) {
            let bytes = decision.encode();
            let read = Decision::decode(&bytes).unwrap();
            // A statement with one name forgets the other one.
            prop_assert_eq!(read.encode(), Decision::decode(&read.encode()).unwrap().encode());
            if !matches!(decision, Decision::Statement(_)) {
                prop_assert_eq!(&read, &decision);
            }
            prop_assert_eq!(Decision::decode(&bytes[..cut.index(bytes.len())]), None);
            prop_assert_eq!(Decision::decode(&[&bytes[..], &[0]].concat()), None);
        }

        #[test]
        fn any_bytes_are_a_decision_or_not(bytes in vec(any::<u8>(), 0..60)) {
            let _ = Decision::decode(&bytes);
        }
    }
}

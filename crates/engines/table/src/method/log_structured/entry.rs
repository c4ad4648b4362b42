//! Entries: the content of a key in the memtable or in a run, and how those of several are one.
//!
//! | entry | kind | value | in |
//! |---|---|---|---|
//! | whole | [`PUT`] | the row's image; the primary key | primary; secondary indexes |
//! | delta | [`DELTA`] | the changed columns (`delta.rs`) | primary indexes |
//! | tombstone | [`DELETE`] | none | both |
//!
//! A key has at most one entry in the memtable and in each run. Its row is what the newest whole entry and the deltas
//! above it make: a reader goes from the newest source to older ones, keeps the deltas, and stops at the first entry that
//! is none ([`Coalescing`]).

use halite_sst::{DELETE, PUT};

use super::delta;
use crate::{Change, Error, Result, Row, TableSchema};

/// The kind of a delta in a run.
pub(super) const DELTA: u8 = 16;

/// An entry of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry {
    Whole(Vec<u8>),
    Delta(Vec<u8>),
    Tombstone,
}

impl Entry {
    /// The delta of an update.
    pub(super) fn of_changes(changes: &[Change<'_>]) -> Self {
        Self::Delta(delta::encode(changes))
    }

    /// The entry of an update: its delta, or the row after it, if that is not longer.
    pub(super) fn of_update(changes: &[Change<'_>], after: &Row) -> Self {
        let delta = delta::encode(changes);
        match delta.is_empty() || delta.len() >= after.bytes().len() {
            true => Self::Whole(after.bytes().to_vec()),
            false => Self::Delta(delta),
        }
    }

    /// Its kind and its value in a run.
    pub(super) fn parts(&self) -> (u8, &[u8]) {
        match self {
            Self::Whole(value) => (PUT, value),
            Self::Delta(delta) => (DELTA, delta),
            Self::Tombstone => (DELETE, &[]),
        }
    }

    /// Bytes of its value.
    pub(super) fn len(&self) -> usize {
        self.parts().1.len()
    }
}

/// The entries of one key, from the newest to older ones.
#[derive(Debug, Default)]
pub(super) struct Coalescing {
    /// The newest first.
    deltas: Vec<Vec<u8>>,
    base: Option<Entry>,
}

impl Coalescing {
    /// Whether older entries do not count.
    pub(super) fn is_settled(&self) -> bool {
        self.base.is_some()
    }

    /// Adds the next older entry of the key.
    pub(super) fn add(&mut self, (kind, value): (u8, &[u8])) -> Result<()> {
        match kind {
            _ if self.is_settled() => {}
            PUT => self.base = Some(Entry::Whole(value.to_vec())),
            DELETE => self.base = Some(Entry::Tombstone),
            DELTA => self.deltas.push(value.to_vec()),
            _ => return Err(damaged(&format!("an entry is of kind {kind}"))),
        }
        Ok(())
    }

    /// The entry that they are together; `None` without any. The schema is that of the table, for a primary index.
    pub(super) fn finish(self, schema: Option<&TableSchema>) -> Result<Option<Entry>> {
        let Self { mut deltas, base } = self;
        if deltas.is_empty() {
            return Ok(base);
        }
        match base {
            Some(Entry::Whole(row)) => {
                let schema = schema.ok_or_else(|| damaged("a delta is not of a table"))?;
                let row = Row::from_bytes(schema, row)?;
                let merged = delta::merge(&deltas).map_err(damaged)?;
                let changes = delta::decode(&merged).map_err(damaged)?;
                let changed = row.view(schema)?.with(&changes);
                let changed = changed.map_err(|error| damaged(&error.to_string()))?;
                Ok(Some(Entry::Whole(changed.into_bytes())))
            }
            Some(_) => Err(damaged("a delta is above a tombstone")),
            None if deltas.len() == 1 => Ok(deltas.pop().map(Entry::Delta)),
            None => Ok(Some(Entry::Delta(delta::merge(&deltas).map_err(damaged)?))),
        }
    }

    /// The row or primary key that they lead to, if no older entry is left.
    pub(super) fn settle(self, schema: Option<&TableSchema>) -> Result<Option<Vec<u8>>> {
        match self.finish(schema)? {
            Some(Entry::Whole(value)) => Ok(Some(value)),
            Some(Entry::Tombstone) | None => Ok(None),
            Some(Entry::Delta(_)) => Err(without_base()),
        }
    }
}

/// The defect of a delta whose row is nowhere.
#[cold]
pub(super) fn without_base() -> Error {
    damaged("a delta has no row that it changes")
}

#[cold]
fn damaged(why: &str) -> Error {
    Error::damaged("an entry of a log-structured partition", why)
}

//! Rows put together from the entries of several memtables: deltas, the newest first, down to a whole row or a tombstone.

use std::collections::btree_map::Entry;

use halite_alloc::heap::Heap;

use super::bytes;
use super::delta::{Fields, changes, decode};
use super::memtable::{Lead, Memtable};
use crate::tuple::Tuples;
use crate::{Error, Result, Row, Table};

/// The entries of a key, the newest first.
pub(super) struct Coalescing<'a> {
    heap: &'a Heap,
    table: &'a Table,
    tuples: Tuples<'a>,
    fields: Fields<'a>,
}

impl<'a> Coalescing<'a> {
    /// No entry yet.
    pub(super) fn new(heap: &'a Heap, table: &'a Table, tuples: Tuples<'a>) -> Self {
        Self { heap, table, tuples, fields: Fields::new() }
    }

    /// Adds the next older entry. Returns what the key comes to if no older one matters.
    pub(super) fn add(&mut self, word: u64) -> Result<Option<Option<Row>>> {
        match Lead::of(word) {
            Lead::Whole(tuple) => {
                let row = self.tuples.row(self.heap, tuple)?;
                if self.fields.is_empty() {
                    return Ok(Some(Some(row)));
                }
                let schema = self.table.schema();
                let changed = row.view(schema)?.with(&changes(schema, &self.fields)?)?;
                Ok(Some(Some(changed)))
            }
            Lead::Delta(delta) => {
                for (column, bytes) in decode(self.table.schema(), bytes::read(self.heap, delta)?)?
                {
                    if let Entry::Vacant(vacant) = self.fields.entry(column) {
                        vacant.insert(bytes);
                    }
                }
                Ok(None)
            }
            Lead::Tombstone => self.end().map(|()| Some(None)),
        }
    }

    /// Adds the entries of memtables, the newest first. Returns the row, if there is one.
    pub(super) fn add_all(
        mut self,
        memtables: &[Memtable],
        key: (&[u8], u64),
    ) -> Result<Option<Row>> {
        for memtable in memtables {
            if let Some(word) = memtable.get(self.heap, key)?
                && let Some(row) = self.add(word)?
            {
                return Ok(row);
            }
        }
        self.end().map(|()| None)
    }

    /// The columns that the entries have changed of an older row; none if there was no entry.
    pub(super) fn fields(&self) -> &Fields<'a> {
        &self.fields
    }

    /// There is no row below.
    pub(super) fn end(&self) -> Result<()> {
        match self.fields.is_empty() {
            true => Ok(()),
            false => {
                let table = format!("table {:?}", self.table.schema().name());
                Err(Error::damaged(table, "it has a delta of a row that is not there"))
            }
        }
    }
}

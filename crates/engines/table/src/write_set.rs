//! The changes of a transaction that has not ended, in DRAM: rows by their keys, and what follows for the indexes.
//!
//! A method has committed rows only. What a transaction changes is kept here beside them: its reads see it first, an abort
//! drops it, a savepoint is a place in the list of what was here before each change, and a commit hands the method the
//! set of rows and entries before and after, each once, however often the transaction changed it.

use std::collections::BTreeMap;

use crate::{IndexId, Result, Row, Table, TableId};

/// A row before a transaction and after it; `None` where there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowWrite {
    /// The committed row.
    pub before: Option<Row>,
    /// The row of the transaction.
    pub after: Option<Row>,
}

/// An entry of a secondary index before a transaction and after it: the primary key that it leads to, or `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EntryWrite {
    /// The committed one.
    pub before: Option<Vec<u8>>,
    /// The one of the transaction.
    pub after: Option<Vec<u8>>,
}

/// A place in a transaction to which it may be rolled back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Savepoint {
    /// Changes before it.
    len: usize,
    /// The number of the last one of them, so that no other transaction's savepoint is taken for this one's, nor one
    /// that was rolled back.
    last: u64,
}

/// What was in the set before a change.
#[derive(Debug)]
enum Undo {
    Row(TableId, Vec<u8>, Option<RowWrite>),
    Entry(IndexId, Vec<u8>, Option<EntryWrite>),
}

/// The changes of a transaction.
#[derive(Debug, Default)]
pub struct WriteSet {
    rows: BTreeMap<TableId, BTreeMap<Vec<u8>, RowWrite>>,
    entries: BTreeMap<IndexId, BTreeMap<Vec<u8>, EntryWrite>>,
    /// The changes, each with its number.
    undo: Vec<(u64, Undo)>,
    /// The number before the first change's, and the last one that was given.
    first: u64,
    last: u64,
}

impl WriteSet {
    /// The set of the transaction with a number.
    pub(crate) fn of_transaction(number: u64) -> Self {
        let first = number << 32;
        Self { first, last: first, ..Self::default() }
    }

    /// The rows that change, by table and primary key.
    pub fn rows(&self) -> impl Iterator<Item = (TableId, &[u8], &RowWrite)> {
        let rows = self.rows.iter().flat_map(|(&table, rows)| {
            rows.iter().map(move |(key, write)| (table, key.as_slice(), write))
        });
        rows.filter(|(_, _, write)| write.before != write.after)
    }

    /// The entries that change, by secondary index and entry.
    pub fn entries(&self) -> impl Iterator<Item = (IndexId, &[u8], &EntryWrite)> {
        let entries = self.entries.iter().flat_map(|(&index, entries)| {
            entries.iter().map(move |(entry, write)| (index, entry.as_slice(), write))
        });
        entries.filter(|(_, _, write)| write.before != write.after)
    }

    /// Whether there is nothing to commit.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows().next().is_none() && self.entries().next().is_none()
    }

    /// The rows of a table that were written to.
    pub(crate) fn of_table(&self, table: TableId) -> Option<&BTreeMap<Vec<u8>, RowWrite>> {
        self.rows.get(&table)
    }

    /// The entries of an index that were written to.
    pub(crate) fn of_index(&self, index: IndexId) -> Option<&BTreeMap<Vec<u8>, EntryWrite>> {
        self.entries.get(&index)
    }

    /// Replaces the row with a key, `was` there and is to be `after`; `committed` is the row without the transaction.
    /// The entries of the table's indexes follow. A failure changes nothing.
    pub(crate) fn replace(
        &mut self,
        table: &Table,
        key: &[u8],
        (was, after): (Option<&Row>, Option<&Row>),
        committed: impl FnOnce() -> Option<Row>,
    ) -> Result<()> {
        let mut entries = Vec::with_capacity(table.indexes().len());
        for index in table.indexes() {
            let of = |row: &Row| row.view(table.schema())?.index_entry(index.schema);
            let (before, after) = (was.map(of).transpose()?, after.map(of).transpose()?);
            if before != after {
                entries.push((index.id, before, after));
            }
        }
        for (index, before, after) in entries {
            // A unique entry that moves to another row is removed first, and then added.
            if let Some(entry) = before {
                self.set_entry(index, entry, Some(key), None);
            }
            if let Some(entry) = after {
                self.set_entry(index, entry, None, Some(key));
            }
        }
        let rows = self.rows.entry(table.id()).or_default();
        let after = after.cloned();
        let was = rows.get(key).cloned();
        let before = was.as_ref().map_or_else(committed, |write| write.before.clone());
        rows.insert(key.to_vec(), RowWrite { before, after });
        self.note(Undo::Row(table.id(), key.to_vec(), was));
        Ok(())
    }

    /// Adds the entry of a committed row to an index that is being built.
    pub(crate) fn add_entry(&mut self, index: IndexId, entry: Vec<u8>, key: &[u8]) {
        self.set_entry(index, entry, None, Some(key));
    }

    /// `committed` is the primary key that the entry leads to, if the transaction has not written to it.
    fn set_entry(
        &mut self,
        index: IndexId,
        entry: Vec<u8>,
        committed: Option<&[u8]>,
        after: Option<&[u8]>,
    ) {
        let entries = self.entries.entry(index).or_default();
        let was = entries.get(&entry).cloned();
        let before =
            was.as_ref().map_or(committed.map(<[u8]>::to_vec), |write| write.before.clone());
        entries.insert(entry.clone(), EntryWrite { before, after: after.map(<[u8]>::to_vec) });
        self.note(Undo::Entry(index, entry, was));
    }

    fn note(&mut self, undo: Undo) {
        self.last += 1;
        self.undo.push((self.last, undo));
    }

    /// The number of the last of so many changes.
    fn number_of(&self, len: usize) -> Option<u64> {
        match len.checked_sub(1) {
            None => Some(self.first),
            Some(at) => self.undo.get(at).map(|&(number, _)| number),
        }
    }

    /// The place where the transaction is.
    #[must_use]
    pub fn savepoint(&self) -> Savepoint {
        let last = self.undo.last().map_or(self.first, |&(number, _)| number);
        Savepoint { len: self.undo.len(), last }
    }

    /// Undoes all that was changed behind a savepoint. Returns false, and changes nothing, if that is none of this
    /// transaction, or was rolled back.
    pub fn rollback_to(&mut self, Savepoint { len, last }: Savepoint) -> bool {
        if self.number_of(len) != Some(last) {
            return false;
        }
        while self.undo.len() > len {
            match self.undo.pop().expect("it is longer").1 {
                Undo::Row(table, key, was) => {
                    restore(self.rows.entry(table).or_default(), key, was)
                }
                Undo::Entry(index, entry, was) => {
                    restore(self.entries.entry(index).or_default(), entry, was);
                }
            }
        }
        true
    }

    /// Forgets all changes.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.entries.clear();
        self.undo.clear();
    }
}

fn restore<T>(map: &mut BTreeMap<Vec<u8>, T>, key: Vec<u8>, was: Option<T>) {
    match was {
        Some(was) => drop(map.insert(key, was)),
        None => drop(map.remove(&key)),
    }
}

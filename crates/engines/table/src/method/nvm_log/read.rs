//! Reads: lookups from the newest memtable to the oldest, and scans of all at once.

use halite_alloc::heap::Heap;

use super::coalesce::Coalescing;
use super::directory::LogIndex;
use super::memtable::key_slot;
use super::merge::MergeScan;
use super::{NvmLog, bytes, filter};
use crate::index::Direction;
use crate::method::Rows;
use crate::tuple::{Form, Tuples};
use crate::{Error, IndexId, KeyRange, Result, Row, Table};

impl NvmLog {
    pub(super) fn index(&self, index: IndexId) -> Result<&LogIndex> {
        let unknown =
            || Error::UnknownIndex { table: "?".into(), index: format!("#{}", index.0).into() };
        self.indexes.get(&index).ok_or_else(unknown)
    }

    /// The entries of one key of a table, of which there is none yet.
    pub(super) fn coalescing<'a>(&'a self, table: &'a Table) -> Result<Coalescing<'a>> {
        let [_, owner] = super::memtable::owners(&self.index(table.primary())?.mutable().tree);
        let tuples =
            Tuples { schema: table.schema(), owner, seed: self.heap.salt(), form: Form::Slots };
        Ok(Coalescing::new(&self.heap, table, tuples))
    }

    /// The row with a primary key.
    pub(super) fn row(&self, table: &Table, key: &[u8]) -> Result<Option<Row>> {
        let memtables = &self.index(table.primary())?.memtables;
        self.coalescing(table)?.add_all(memtables, (key, filter::hash(&self.heap, key)))
    }

    /// The primary key that an entry of a secondary index leads to.
    pub(super) fn primary_key(&self, index: IndexId, entry: &[u8]) -> Result<Option<Vec<u8>>> {
        let hash = filter::hash(&self.heap, entry);
        for memtable in &self.index(index)?.memtables {
            if let Some(word) = memtable.get(&self.heap, (entry, hash))? {
                return read_key(&self.heap, word);
            }
        }
        Ok(None)
    }

    /// Whether one of the immutable memtables of an index has an entry of a key; those before a place are passed over.
    pub(super) fn is_below(&self, index: IndexId, from: usize, key: &[u8]) -> Result<bool> {
        let hash = filter::hash(&self.heap, key);
        for memtable in self.index(index)?.immutable().iter().skip(from) {
            if memtable.get(&self.heap, (key, hash))?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(super) fn rows<'a>(
        &'a self,
        table: &'a Table,
        index: Option<IndexId>,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<LogRows<'a>> {
        let memtables = &self.index(index.unwrap_or(table.primary()))?.memtables;
        let scan = MergeScan::new(&self.heap, memtables, range.bounds(), direction)?;
        Ok(LogRows { log: self, table, is_primary: index.is_none(), scan })
    }
}

/// The primary key of a secondary index's word; `None` for a tombstone.
pub(super) fn read_key(heap: &Heap, word: u64) -> Result<Option<Vec<u8>>> {
    let key = key_slot(word).map(|slot| bytes::read(heap, slot).map(<[u8]>::to_vec));
    key.transpose()
}

/// A scan of an index.
pub(super) struct LogRows<'a> {
    log: &'a NvmLog,
    table: &'a Table,
    is_primary: bool,
    scan: MergeScan<'a>,
}

impl LogRows<'_> {
    /// The row of the newest entries of a key.
    fn coalesced(&self, words: &[u64]) -> Result<Option<Row>> {
        let mut coalescing = self.log.coalescing(self.table)?;
        for &word in words {
            if let Some(row) = coalescing.add(word)? {
                return Ok(row);
            }
        }
        coalescing.end().map(|()| None)
    }
}

impl Rows for LogRows<'_> {
    fn next(&mut self) -> Result<Option<(Vec<u8>, Row)>> {
        while let Some((key, words)) = self.scan.next()? {
            let row = if self.is_primary {
                self.coalesced(&words)?
            } else {
                let primary = read_key(&self.log.heap, words[0])?;
                let row = primary.map(|primary| {
                    self.log.row(self.table, &primary)?.ok_or_else(|| self.table.dangling(key))
                });
                row.transpose()?
            };
            if let Some(row) = row {
                return Ok(Some((key.to_vec(), row)));
            }
        }
        Ok(None)
    }
}

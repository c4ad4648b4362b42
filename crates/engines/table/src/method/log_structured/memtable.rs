//! The memtable: the entries since the last flush, in DRAM.
//!
//! Each index has a volatile B+tree from its keys to the numbers of entries. An entry stays where it is until the memtable
//! is flushed, and is coalesced with the newer ones of its key: so a key has one entry, and a tombstone stays, since a run
//! may have the key.

use std::collections::BTreeMap;

use super::entry::{Coalescing, Entry};
use crate::index::volatile::{VolatileScan, VolatileTree};
use crate::index::{Direction, Range};
use crate::{IndexId, Result, TableSchema};

/// The entries of an index.
pub(super) struct Part {
    tree: VolatileTree,
    entries: Vec<Entry>,
    /// Bytes of keys and values.
    bytes: usize,
}

/// The entries of all indexes.
pub(super) struct Memtable {
    parts: BTreeMap<IndexId, Part>,
    node_len: usize,
}

impl Memtable {
    pub(super) fn new(node_len: usize) -> Self {
        Self { parts: BTreeMap::new(), node_len }
    }

    pub(super) fn get(&self, index: IndexId, key: &[u8]) -> Option<&Entry> {
        self.parts.get(&index)?.get(key)
    }

    /// The entry of a key when a newer one is added.
    pub(super) fn coalesced(
        &self,
        (index, key): (IndexId, &[u8]),
        newer: Entry,
        schema: Option<&TableSchema>,
    ) -> Result<Entry> {
        let older = self.get(index, key).filter(|_| matches!(newer, Entry::Delta(_)));
        let Some(older) = older else { return Ok(newer) };
        let mut both = Coalescing::default();
        both.add(newer.parts())?;
        both.add(older.parts())?;
        Ok(both.finish(schema)?.expect("there are two"))
    }

    /// Sets the entry of a key.
    pub(super) fn set(&mut self, index: IndexId, key: &[u8], entry: Entry) {
        let node_len = self.node_len;
        let new = || Part { tree: VolatileTree::new(node_len), entries: Vec::new(), bytes: 0 };
        let part = self.parts.entry(index).or_insert_with(new);
        let next = part.entries.len() as u64;
        part.bytes += entry.len();
        match part.tree.insert(key, next) {
            Some(number) => {
                let older = std::mem::replace(&mut part.entries[number as usize], entry);
                part.bytes -= older.len();
            }
            None => {
                part.bytes += key.len();
                part.entries.push(entry);
            }
        }
    }

    /// The entries of each index.
    pub(super) fn parts(&self) -> impl Iterator<Item = (IndexId, &Part)> {
        self.parts.iter().map(|(index, part)| (*index, part))
    }

    pub(super) fn part(&self, index: IndexId) -> Option<&Part> {
        self.parts.get(&index)
    }

    /// Bytes of all keys and values.
    pub(super) fn bytes(&self) -> usize {
        self.parts.values().map(|part| part.bytes).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}

impl Part {
    fn get(&self, key: &[u8]) -> Option<&Entry> {
        self.tree.get(key).map(|number| self.entry(number))
    }

    pub(super) fn entry(&self, number: u64) -> &Entry {
        &self.entries[number as usize]
    }

    pub(super) fn scan(&self, range: Range<'_>, direction: Direction) -> VolatileScan<'_> {
        self.tree.scan(range, direction)
    }

    /// Bytes of memory that it takes.
    pub(super) fn memory_bytes(&self) -> usize {
        let entries = self.entries.iter().map(Entry::len).sum::<usize>();
        self.tree.memory_bytes() + entries + self.entries.capacity() * size_of::<Entry>()
    }
}

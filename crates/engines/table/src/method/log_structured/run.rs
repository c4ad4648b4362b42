//! A run: a sorted table in a file, with entries of all indexes, never changed.
//!
//! ```text
//!  RUN-000007:  blocks of 64 KiB, block index, filters, properties, footer   (`halite_sst`)
//!  key of an entry = id of the index, u32 big-endian | key
//! ```
//!
//! A run has one entry of a key. Its number is that of its file, and no other run ever has it. The manifest has the bytes
//! of each index in it beside the number: so what an index takes is known without reading, and what remains of a dropped
//! one is found.

use std::sync::Arc;

use halite_cache::BlockCache;
use halite_codec::Compression;
use halite_disk::Disk;
use halite_sst::{DELETE, Table as SortedTable, TableBuilder, TableId, TableOptions};

use super::entry::Entry;
use crate::index::KEY_LEN_MAX;
use crate::{Error, IndexId, KeyRange, Result};

/// Bytes of a block (Arulraj).
pub(super) const BLOCK: usize = 64 << 10;

/// The name of a run's file begins so.
const PREFIX: &str = "RUN-";

/// Bytes of the index's id before a key.
pub(super) const ID: usize = 4;

/// The name of a run's file.
pub(super) fn name_of(number: u64) -> String {
    format!("{PREFIX}{number:06}")
}

/// The number of the run that a file of this name is.
pub(super) fn number_of(name: &str) -> Option<u64> {
    let number = name.strip_prefix(PREFIX)?.parse().ok()?;
    (name_of(number) == name).then_some(number)
}

/// The key of an index's key in a run.
pub(super) fn key_of(index: IndexId, key: &[u8]) -> Vec<u8> {
    [&index.0.to_be_bytes(), key].concat()
}

/// The keys in a run of a range of an index.
pub(super) fn range_of(index: IndexId, range: &KeyRange) -> KeyRange {
    let all = KeyRange::of_prefix(key_of(index, &[]));
    let to = range.to.as_ref().map(|to| key_of(index, to));
    KeyRange { from: key_of(index, &range.from), to: to.or(all.to) }
}

/// The index and the key of a key in a run.
pub(super) fn split(key: &[u8]) -> Result<(IndexId, &[u8])> {
    match key.split_first_chunk::<ID>() {
        Some((index, key)) if key.len() <= KEY_LEN_MAX => {
            Ok((IndexId(u32::from_be_bytes(*index)), key))
        }
        _ => Err(Error::damaged("a run", "a key is too short or too long")),
    }
}

/// The entries of an index in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) index: IndexId,
    pub(super) entries: u64,
    /// Bytes of their keys and values.
    pub(super) bytes: u64,
}

/// A run as the manifest has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Meta {
    pub(super) number: u64,
    pub(super) file_len: u64,
    /// In the order of the indexes' ids.
    pub(super) parts: Vec<Part>,
}

/// A run that is open.
#[derive(Clone)]
pub(super) struct Run {
    pub(super) meta: Arc<Meta>,
    pub(super) table: SortedTable,
}

/// The place of runs, and the cache that their blocks go through.
#[derive(Clone)]
pub(super) struct Home {
    pub(super) disk: Disk,
    pub(super) store_id: u128,
    pub(super) cache: Arc<BlockCache>,
}

impl Home {
    /// Opens a run.
    pub(super) fn open(&self, meta: Meta) -> Result<Run> {
        let (name, number) = (name_of(meta.number), meta.number);
        let id = TableId { store_id: self.store_id, number };
        let table = SortedTable::open(&self.disk, &name, id, &self.cache)?;
        let entries = meta.parts.iter().map(|part| part.entries).sum::<u64>();
        if (table.file_len(), table.properties().entries) != (meta.file_len, entries) {
            return Err(Error::damaged(name, "it is not as long as the manifest says"));
        }
        Ok(Run { meta: Arc::new(meta), table })
    }

    /// Begins a run.
    pub(super) fn begin(&self, number: u64) -> Result<RunBuilder> {
        let options = TableOptions {
            block_bytes: BLOCK,
            compression: Compression::None,
            ..TableOptions::default()
        };
        let (name, id) = (name_of(number), TableId { store_id: self.store_id, number });
        let writer = self.disk.create(&name)?;
        let table = TableBuilder::new(writer, id, 0, options);
        Ok(RunBuilder { number, table, parts: Vec::new() })
    }
}

impl Run {
    /// The first key, and the last one.
    pub(super) fn span(&self) -> (&[u8], &[u8]) {
        let span = &self.table.properties().span;
        (&span.first, &span.last)
    }

    /// Whether it may have a key between these two.
    pub(super) fn overlaps(&self, (first, last): (&[u8], &[u8])) -> bool {
        let own = self.span();
        own.0 <= last && first <= own.1
    }
}

/// A run that is being written.
pub(super) struct RunBuilder {
    number: u64,
    table: TableBuilder,
    parts: Vec<Part>,
}

impl RunBuilder {
    /// Adds an entry behind the others.
    pub(super) fn add(&mut self, key: &[u8], entry: &Entry) -> Result<()> {
        let (index, _) = split(key)?;
        let (kind, value) = entry.parts();
        debug_assert!(kind != DELETE || value.is_empty());
        self.table.add(halite_sst::Entry { key, sequence: 0, kind, value })?;
        if self.parts.last().is_none_or(|part| part.index != index) {
            self.parts.push(Part { index, entries: 0, bytes: 0 });
        }
        let part = self.parts.last_mut().expect("there is one");
        part.entries += 1;
        part.bytes += (key.len() + value.len()) as u64;
        Ok(())
    }

    /// Bytes of its file, as far as they are known.
    pub(super) fn len(&self) -> u64 {
        self.table.len()
    }

    /// Makes its bytes durable, and opens it. Its name is durable after a sync of the folder's names.
    pub(super) fn finish(self, home: &Home) -> Result<Run> {
        let (_, file_len) = self.table.finish()?;
        home.open(Meta { number: self.number, file_len, parts: self.parts })
    }
}

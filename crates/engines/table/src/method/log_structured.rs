//! Log: log-structured updates, in a memtable and in sorted runs in files (Arulraj, "Log-structured Updates Engine").
//!
//! ```text
//!  commit ──► log ─────► LOG-000001 ..        redo log, one sync for all commits since the last
//!     │
//!     └─────► memtable ──► flush ──► RUN-000001 .. of level 0 ──► compaction ──► level 1, 2, ..
//!                              └───────────────┬───────────────────────┘
//!                                          MANIFEST: levels, catalog, place in the log
//!
//!  get ◄── memtable, then level 0 newest first, then one run of each level, coalesced
//! ```
//!
//! An update writes only the columns that it changes: a row is what its newest whole entry and the deltas above it make
//! (`entry`). The memtable has the entries since the last flush in DRAM; a flush writes all of it as one run, sorted, of
//! which nothing ever changes (`run`). Runs are in levels, each ten times as long as the one above, and compaction merges
//! them downwards, coalesces, and drops what is out of date (`levels`, `compaction`). There is no thread: the owner of the
//! partition compacts some bytes before each commit.
//!
//! The manifest names the runs, and the place in the log up to which they have all commits (`manifest`). It is replaced as a
//! whole, when the new runs are durable, and only then are the log's files released and the inputs of a compaction removed.
//! After a crash the log is replayed into a memtable from that place on; files that the manifest does not name are removed.
//!
//! | operation | syncs |
//! |---|---|
//! | commit | none |
//! | sync | 1, of the log |
//! | flush; statement that changes the catalog | 5: log, run, manifest, names twice |
//! | compaction | 3, and one for each output |
//!
//! **Failures** leave everything as it was. Where there is no space, a flush or a compaction is put off, and the memtable goes
//! on to grow, as long as the log has room for commits. Only a failed sync of the log or of names leaves a partition of
//! which nobody knows what is durable: nothing is read or written any more until it is opened again.

mod compaction;
mod delta;
mod entry;
mod levels;
mod maintenance;
mod manifest;
mod memtable;
mod merge;
mod recovery;
mod run;
mod verify;

use halite_disk::Disk;
use halite_wal::Shape;

use self::compaction::Compaction;
use self::entry::{Coalescing, Entry, without_base};
use self::levels::Levels;
use self::maintenance::Due;
use self::manifest::{MANIFEST, State};
use self::memtable::Memtable;
use self::merge::{Indexed, Merge, Source};
use self::run::{Home, key_of, number_of, range_of, split};
use super::redo_log::{self, Position, RedoLog};
use super::{Footprint, Method, Rows, Ticket};
use crate::index::Direction;
use crate::index::volatile::NODE_LEN;
use crate::write_set::{EntryWrite, RowWrite, WriteSet};
use crate::{Catalog, Error, IndexId, KeyRange, Result, Row, Table, TableSchema};

/// The longest row: it has to fit into a block.
const ROW_LEN_MAX: u64 = 512 << 20;

/// The sizes of a partition's parts.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Bytes of keys and values at which the memtable is flushed. It is, too, when the log has four times as many.
    pub memtable_bytes: usize,
    /// Bytes of a run below level 0.
    pub table_bytes: u64,
    /// How many times longer a level is than the one above.
    pub fanout: u64,
    /// Runs of level 0 at which they are merged to level 1, which may have as many bytes.
    pub level0_max: usize,
    /// Bytes that are merged before a commit, while a compaction is due.
    pub step_bytes: u64,
    /// Bytes of the cache of blocks.
    pub cache_bytes: u64,
    /// The size of a node of the memtable in bytes: a power of two from 64 to 16,384.
    pub node_len: usize,
    /// The files of the log.
    pub log: Shape,
}

impl Default for Options {
    /// A memtable and a cache of 64 MiB each, runs of 8 MiB, levels of ten times the one above.
    fn default() -> Self {
        Self {
            memtable_bytes: 64 << 20,
            table_bytes: 8 << 20,
            fanout: 10,
            level0_max: 4,
            step_bytes: 256 << 10,
            cache_bytes: 64 << 20,
            node_len: NODE_LEN,
            log: Shape { file_bytes: 16 << 20, kept_bytes: 64 << 20 },
        }
    }
}

impl Options {
    /// Bytes that a level below the first may have.
    fn level_bytes(&self, level: usize) -> u64 {
        let first = (self.memtable_bytes as u64).saturating_mul(self.level0_max as u64);
        (1..level).fold(first, |bytes, _| bytes.saturating_mul(self.fanout))
    }
}

/// The storage of a partition in runs and a log.
pub struct LogStructured {
    home: Home,
    options: Options,
    catalog: Catalog,
    log: RedoLog,
    /// The entries behind the place in the log that the manifest has.
    memtable: Memtable,
    levels: Levels,
    /// The place in the log up to which the runs have all commits.
    flushed: Position,
    next_number: u64,
    compaction: Option<Compaction>,
    /// Runs that are no part of the partition any more, and could not be removed yet.
    garbage: Vec<u64>,
    /// Of each level the last key that was merged downwards.
    merged: Vec<Vec<u8>>,
    /// When the memtable is flushed the next time.
    due: Due,
    /// Whether no compaction is due, or one has failed: the next one is looked for after a flush.
    is_idle: bool,
    /// The last commit.
    committed: Ticket,
}

impl LogStructured {
    /// Makes the storage of a partition without tables, in a folder of its own, for a store of this id.
    ///
    /// # Errors
    /// [`Error::Exists`]; those of the disk.
    pub fn create(disk: &Disk, store_id: u128, options: Options) -> Result<Self> {
        let is_ours = |name: &str| name == MANIFEST || number_of(name).is_some();
        if let Some((name, _)) = disk.list()?.into_iter().find(|(name, _)| is_ours(name)) {
            return Err(Error::Exists { what: "partition, with the file", name: name.into() });
        }
        let log = RedoLog::create(disk, store_id, options.log)?;
        let (log, levels, catalog) = (log.position(), Vec::new(), Catalog::new());
        let state = State { store_id, next_number: 1, log, catalog, levels };
        state.write(disk).map_err(|unnamed| unnamed.error)?;
        Self::open(disk, store_id, options)
    }

    /// Opens the storage of a partition of the store of this id. Its time is that of the log behind the last flush.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Foreign`], [`Error::Version`], [`Error::Run`], [`Error::Log`]; those of the disk.
    pub fn open(disk: &Disk, store_id: u128, options: Options) -> Result<Self> {
        Self::recover(disk, store_id, options)
    }

    /// Blocks of runs that were read from files, as the cache did not have them.
    #[must_use]
    pub fn blocks_read(&self) -> u64 {
        self.home.cache.reads()
    }

    /// The number of runs in each level.
    #[must_use]
    pub fn runs(&self) -> Vec<usize> {
        self.levels.0.iter().map(Vec::len).collect()
    }

    /// The row or primary key of a key of an index.
    fn value(
        &self,
        index: IndexId,
        key: &[u8],
        schema: Option<&TableSchema>,
    ) -> Result<Option<Vec<u8>>> {
        let mut entries = Coalescing::default();
        if let Some(entry) = self.memtable.get(index, key) {
            entries.add(entry.parts())?;
        }
        if !entries.is_settled() {
            self.levels.collect(&key_of(index, key), &mut entries)?;
        }
        entries.settle(schema)
    }

    /// The entries that the memtable is to have for a transaction.
    fn entries(&self, writes: &WriteSet) -> Result<Vec<(IndexId, Vec<u8>, Entry)>> {
        let mut entries = Vec::new();
        for (table, key, RowWrite { before, after }) in writes.rows() {
            let table = self.catalog.table_by_id(table)?;
            let len = after.as_ref().map_or(0, |row| row.bytes().len() as u64);
            if len > ROW_LEN_MAX {
                return Err(Error::TransactionTooLarge { len, max: ROW_LEN_MAX });
            }
            let (index, schema) = (table.primary(), table.schema());
            let is_whole = || matches!(self.memtable.get(index, key), Some(Entry::Whole(_)));
            let entry = match (before, after) {
                (_, None) => Entry::Tombstone,
                (Some(before), Some(after)) if !is_whole() => {
                    let changes = before.view(schema)?.changes_to(after.view(schema)?)?;
                    Entry::of_update(&changes, after)
                }
                (_, Some(after)) => Entry::Whole(after.bytes().to_vec()),
            };
            let entry = self.memtable.coalesced((index, key), entry, Some(schema))?;
            entries.push((index, key.to_vec(), entry));
        }
        for (index, entry, EntryWrite { after, .. }) in writes.entries() {
            let leads_to = after.clone().map_or(Entry::Tombstone, Entry::Whole);
            entries.push((index, entry.to_vec(), leads_to));
        }
        Ok(entries)
    }
}

impl Drop for LogStructured {
    fn drop(&mut self) {
        // A partition that is closed keeps its commits. If this fails, they are lost like those of a crash.
        if !std::thread::panicking() {
            let _ = self.log.close();
        }
    }
}

/// The id of an index of a table.
fn id_of(table: &Table, position: Option<usize>) -> IndexId {
    position.map_or(table.primary(), |position| {
        table.indexes().nth(position).expect("the caller has it from the table").id
    })
}

impl Method for LogStructured {
    fn name(&self) -> &'static str {
        "log"
    }

    fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Row>> {
        self.log.check()?;
        let stored = self.value(table.primary(), key, Some(table.schema()))?;
        stored.map(|bytes| Row::from_bytes(table.schema(), bytes)).transpose()
    }

    fn entry(&self, table: &Table, position: usize, entry: &[u8]) -> Result<Option<Vec<u8>>> {
        self.log.check()?;
        self.value(id_of(table, Some(position)), entry, None)
    }

    fn scan<'a>(
        &'a self,
        table: &'a Table,
        position: Option<usize>,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<Box<dyn Rows + 'a>> {
        self.log.check()?;
        let index = id_of(table, position);
        let part = self.memtable.part(index).into_iter();
        let newest = part.map(|part| Source::of_memtable(part, index, range, direction));
        let mut sources: Vec<Source<'a>> = newest.collect();
        sources.extend(self.levels.sources(&range_of(index, range), direction)?);
        let content = match position {
            None => Indexed::Rows(table.schema()),
            Some(_) => Indexed::PrimaryKeys,
        };
        Ok(Box::new(MergedRows {
            method: self,
            table,
            content,
            merge: Merge::new(sources, direction),
        }))
    }

    fn commit(&mut self, writes: &WriteSet) -> Result<Ticket> {
        self.log.check()?;
        self.maintain()?;
        let entries = self.entries(writes)?;
        let batch = redo_log::transaction(&self.catalog, writes)?;
        if !batch.is_empty() {
            self.log.append(&batch)?;
        }
        for (index, key, entry) in entries {
            self.memtable.set(index, &key, entry);
        }
        self.committed.0 += 1;
        Ok(self.committed)
    }

    fn sync(&mut self) -> Result<Ticket> {
        self.log.sync()?;
        Ok(self.committed)
    }

    fn alter(&mut self, catalog: Catalog) -> Result<()> {
        self.log.check()?;
        self.flush(catalog)
    }

    fn reclaim(&mut self) -> Result<bool> {
        self.log.check()?;
        self.compact_all()?;
        if !self.catalog.dropping().is_empty() {
            self.drop_entries()?;
            let catalog = self.catalog.reclaimed(self.catalog.dropping());
            self.flush(catalog)?;
        }
        Ok(true)
    }

    fn checkpoint(&mut self) -> Result<()> {
        self.log.check()?;
        match self.memtable.is_empty() {
            true => self.log.sync(),
            false => self.flush(self.catalog.clone()),
        }
    }

    fn footprint(&self) -> Result<Footprint> {
        self.log.check()?;
        self.used()
    }

    fn verify(&mut self) -> Result<()> {
        self.log.sync()?;
        self.verify_files()
    }
}

/// A scan of an index, which leads to rows.
struct MergedRows<'a> {
    method: &'a LogStructured,
    table: &'a Table,
    content: Indexed<'a>,
    merge: Merge<'a>,
}

impl Rows for MergedRows<'_> {
    fn next(&mut self) -> Result<Option<(Vec<u8>, Row)>> {
        loop {
            let Some((key, entry)) = self.merge.next(|_| Ok(self.content))? else {
                return Ok(None);
            };
            let value = match entry {
                Some(Entry::Whole(value)) => value,
                Some(Entry::Delta(_)) => return Err(without_base()),
                Some(Entry::Tombstone) | None => continue,
            };
            let key = split(&key)?.1.to_vec();
            let row = match self.content {
                Indexed::Rows(schema) => Row::from_bytes(schema, value)?,
                _ => {
                    let row = self.method.get(self.table, &value)?;
                    row.ok_or_else(|| self.table.dangling(&key))?
                }
            };
            return Ok(Some((key, row)));
        }
    }
}

#[cfg(test)]
mod tests;

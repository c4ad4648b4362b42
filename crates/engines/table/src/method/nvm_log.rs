//! NVM-Log: a log-structured merge tree whose memtables stay in the heap (Arulraj, "NVM-Aware Log-Structured Updates
//! Engine").
//!
//! ```text
//!  heap:   roots ─► catalog, log
//!          root of each index ─► directory ─► mutable memtable │ immutable ones, the newest first: tree, filter
//!                                             tree ─► rows, deltas, tombstones
//!
//!  commit:  write slots, prepare the mutable memtables' trees, write the log │ fence │ states, words │ fence │ empty the log
//!  read:    newest memtable ─► ... ─► oldest, whose filter lets the key pass; deltas down to a whole row
//! ```
//!
//! Each index, primary or secondary, has memtables of its own (`memtable.rs`): non-volatile trees that lead to slots.
//! Changes go to the mutable one (`commit.rs`), by the protocol of NVM-InP and its undo log of pointers and words
//! (`undo_log.rs`). What a transaction changes of a row that only an older memtable has is a delta, or the whole row if
//! that is most of it, and a removal is a tombstone; a row that the mutable memtable has is changed in its place.
//!
//! **A full memtable** is written nowhere: one publication lists it as immutable, with a new mutable one before it
//! (`list.rs`, `directory.rs`). Immutable memtables get Bloom filters (`filter.rs`), and are merged into larger ones, in
//! steps after commits (`compaction.rs`).
//!
//! **Recovery** undoes at most the one transaction that the log has, and drops the output of an unfinished compaction, which
//! is one publication however large it is. No memtable is rebuilt: opening reads the catalog and the directories, and its
//! time does not grow with the number of rows.
//!
//! **Costs.** A commit costs two fences, however many rows it changes; beside that are those of leaves that are divided, of
//! a memtable that becomes immutable, and of steps of compaction. An insertion writes the row, and later once in each
//! compaction that it takes part in (about one for each power of four in the number of rows); an update of an older row writes the columns that have changed, or twice their bytes at most,
//! and a removal 16 bytes and the key. A lookup reads a block of the filter in each memtable, and the trees of those that have the key.
//!
//! **Lack of room** refuses a transaction that adds anything, also a tombstone, and leaves some room for statements that drop
//! something; a compaction is given up, and tried again later. **A failure** of the medium behind the first fence of a commit
//! leaves a transaction half stored: the partition reads and writes no row any more until it is opened again.

mod bytes;
mod coalesce;
mod commit;
mod compaction;
mod delta;
mod directory;
mod filter;
mod list;
mod memtable;
mod merge;
mod read;
mod verify;

use std::collections::BTreeMap;

use halite_alloc::Device;
use halite_alloc::heap::{Heap, NvPtr, Publication};
use halite_sim::planted;

use self::compaction::Job;
use self::directory::LogIndex;
use self::memtable::Memtable;
use super::catalog_slot::{CatalogSlot, check_ids, indexes};
use super::house::{self, root_of};
use super::undo_log::{self, UndoLog};
use super::{Footprint, Method, Rows, Ticket, Wear};
use crate::cushion::Cushion;
use crate::index::Direction;
use crate::index::nonvolatile::{NODE_LEN, NonVolatileTree};
use crate::write_set::WriteSet;
use crate::{Catalog, Error, IndexId, KeyRange, Result, Row, Table};

/// Memtables have owners from this number on, and the catalog has ids below it.
const FIRST_OWNER: u32 = 1 << 19;

/// Memtables of an index at most: none becomes immutable as long as there are so many.
const MEMTABLES_MAX: usize = 64;

/// Chunks that are held back for statements that drop something: for slots of the catalog, and of roots.
const CUSHION: usize = 2;

/// Segments of the heap that one step of reclamation looks at.
const SEGMENTS: u32 = 64;

/// Keys that compaction merges for each entry that changes.
const PACE: usize = 16;

/// Steps that are left out when there was no room for one.
const REST: usize = 64;

/// Steps that a reclamation does at once.
const RECLAIMED: usize = 16;

/// How a partition is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The size of a new tree's nodes in bytes: a power of two from 256 to 16,384.
    pub node_len: usize,
    /// The bytes of entries, and of the slots that they lead to, with which a memtable is full.
    pub memtable_bytes: u64,
    /// Immutable memtables of about one size that compaction merges, 2 at least; the merged one is as many times larger.
    pub fanout: u64,
    /// Keys that a step of compaction merges; not 0.
    pub step_keys: usize,
}

impl Default for Options {
    /// Nodes of [`NODE_LEN`] bytes, memtables of 64 MiB, of which four are merged, and steps of 1,024 keys.
    fn default() -> Self {
        Self { node_len: NODE_LEN, memtable_bytes: 64 << 20, fanout: 4, step_keys: 1024 }
    }
}

/// The storage of a partition in a heap.
pub struct NvmLog {
    heap: Heap,
    options: Options,
    catalog: Catalog,
    catalog_slot: NvPtr<CatalogSlot>,
    indexes: BTreeMap<IndexId, LogIndex>,
    log: UndoLog,
    /// The compaction that goes on.
    job: Option<Job>,
    /// Space for statements that drop something.
    cushion: Cushion,
    /// Keys that compaction may merge.
    credit: usize,
    /// Steps that it rests.
    rest: usize,
    /// Where the search for the number of a new memtable's owner begins.
    next_owner: u32,
    /// The last commit, which is durable.
    committed: Ticket,
    /// Why nothing is read or written any more.
    failed: Option<Box<str>>,
}

impl NvmLog {
    /// Opens the storage of a partition in the segments of `device`, which have no other user; without a segment, it
    /// makes one. Its time is that of [`Heap::open`], of the catalog and the directories, and of at most one transaction
    /// that is undone.
    ///
    /// # Errors
    /// Those of [`Heap::open`]; [`Error::Damaged`].
    pub fn open(device: &Device, options: Options) -> Result<Self> {
        let mut heap = Heap::open(device)?;
        house::furnish(&mut heap, undo_log::LEN)?;
        let log = UndoLog::open(&mut heap)?;
        let (catalog, catalog_slot) = house::read_catalog(&heap)?;
        check_ids(&catalog, FIRST_OWNER)?;
        let mut opened = Self {
            heap,
            options,
            catalog,
            catalog_slot,
            indexes: BTreeMap::new(),
            log,
            job: None,
            cushion: Cushion::new(0, CUSHION),
            credit: 0,
            rest: 0,
            next_owner: FIRST_OWNER,
            committed: Ticket::default(),
            failed: None,
        };
        for (table, index) in indexes(&opened.catalog) {
            let Some(word) = opened.heap.root(&root_of(index)) else {
                let why = format!("index {} has no root", index.0);
                return Err(Error::damaged(format!("table {table:?}"), why));
            };
            opened.indexes.insert(index, LogIndex::read(&opened.heap, index, word)?);
        }
        opened.drop_leftovers()?;
        for index in opened.indexes.keys().copied().collect::<Vec<_>>() {
            planted!("table.nvm-log-unfinished-output-kept", Ok(()), opened.drop_building(index))?;
        }
        Ok(opened)
    }

    /// Its heap.
    #[must_use]
    pub fn heap(&self) -> &Heap {
        &self.heap
    }

    fn check(&self) -> Result<()> {
        match &self.failed {
            Some(why) => Err(Error::Lost { why: why.clone() }),
            None => Ok(()),
        }
    }

    /// Remembers a failure behind which nothing may be read or written.
    fn failing<T>(&mut self, done: Result<T>) -> Result<T> {
        if let Err(error) = &done {
            self.failed = Some(error.to_string().into());
        }
        done
    }

    /// Has compaction go on by the steps that a commit's entries make.
    fn compact(&mut self, entries: usize) -> Result<()> {
        let step = self.options.step_keys.max(1);
        self.credit += PACE * entries;
        while self.credit >= step {
            self.credit -= step;
            if self.rest > 0 {
                self.rest -= 1;
                continue;
            }
            match self.work(step) {
                Ok(true) => {}
                Ok(false) => self.credit = 0,
                Err(error) if error.is_refusal() => self.rest = REST,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Puts a catalog in its place, with an index for each that it has and the other had not.
    fn publish_catalog(&mut self, catalog: Catalog) -> Result<()> {
        // The log may still be one to be undone on the medium.
        self.heap.fence()?;
        let mut publication = Publication::new();
        publication.free(self.catalog_slot);
        let slot = house::write_catalog(&mut self.heap, &catalog, &mut publication)?;
        let mut created = Vec::new();
        for (_, index) in indexes(&catalog) {
            if self.indexes.contains_key(&index) {
                continue;
            }
            let (number, len) = (self.take_owner(), self.options.node_len);
            let tree = NonVolatileTree::create(&mut self.heap, number, len, &mut publication)?;
            let list = (vec![Memtable { tree, bytes: 0, filter: None }], None);
            let listed = LogIndex::write(&mut self.heap, index, list, None, &mut publication)?;
            created.push((index, listed));
        }
        self.heap.publish(&mut publication)?;
        self.indexes.extend(created);
        (self.catalog, self.catalog_slot) = (catalog, slot);
        Ok(())
    }

    /// Drops the indexes that the catalog has no more, and the compaction of one.
    fn drop_others(&mut self) -> Result<()> {
        let left: Vec<IndexId> = indexes(&self.catalog).into_iter().map(|(_, id)| id).collect();
        self.indexes.retain(|index, _| left.contains(index));
        self.job.take_if(|job| !left.contains(&job.index));
        self.drop_leftovers()
    }
}

impl Method for NvmLog {
    fn name(&self) -> &'static str {
        "nvm-log"
    }

    fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Row>> {
        self.check()?;
        self.row(table, key)
    }

    fn entry(&self, table: &Table, position: usize, entry: &[u8]) -> Result<Option<Vec<u8>>> {
        self.check()?;
        let index = table.indexes().nth(position).expect("the caller has it from the table").id;
        self.primary_key(index, entry)
    }

    fn scan<'a>(
        &'a self,
        table: &'a Table,
        position: Option<usize>,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<Box<dyn Rows + 'a>> {
        self.check()?;
        let index = position.and_then(|position| table.indexes().nth(position));
        Ok(Box::new(self.rows(table, index.map(|index| index.id), range, direction)?))
    }

    fn commit(&mut self, writes: &WriteSet) -> Result<Ticket> {
        self.check()?;
        let entries = self.commit_changes(writes)?;
        self.committed.0 += 1;
        let compacted = self.compact(entries);
        self.failing(compacted)?;
        Ok(self.committed)
    }

    fn sync(&mut self) -> Result<Ticket> {
        self.check()?;
        Ok(self.committed)
    }

    fn alter(&mut self, catalog: Catalog) -> Result<()> {
        self.check()?;
        check_ids(&catalog, FIRST_OWNER)?;
        let drops = catalog.dropping().len() > self.catalog.dropping().len();
        let mut published = self.publish_catalog(catalog.clone());
        if drops
            && published.as_ref().is_err_and(Error::is_refusal)
            && self.cushion.give(&mut self.heap)?
        {
            published = self.publish_catalog(catalog);
        }
        match published {
            // Nothing has changed; what was reserved for it is free when the heap is opened again.
            Err(refused) if refused.is_refusal() => return Err(refused),
            published => self.failing(published)?,
        }
        let dropped = self.drop_others();
        self.failing(dropped)
    }

    fn reclaim(&mut self) -> Result<bool> {
        self.check()?;
        self.rest = 0;
        match self.work(RECLAIMED * self.options.step_keys.max(1)) {
            Ok(true) => return Ok(false),
            Ok(false) => {}
            Err(refused) if refused.is_refusal() => return Err(refused),
            failed => return self.failing(failed),
        }
        if self.catalog.dropping().is_empty() {
            return Ok(true);
        }
        let catalog = self.catalog.reclaimed(self.catalog.dropping());
        self.alter(catalog).map(|()| true)
    }

    fn footprint(&self) -> Result<Footprint> {
        self.check()?;
        self.used()
    }

    fn wear(&self) -> Result<Option<Wear>> {
        self.check()?;
        Wear::of(&self.heap).map(Some)
    }

    fn verify(&mut self) -> Result<()> {
        self.check()?;
        self.heap.forget_proofs();
        self.verify_slots()
    }
}

#[cfg(test)]
mod tests;

//! NVM-WBL: versions in a heap, and a log that is written behind them (Arulraj, Perron, Pavlo, "Write-Behind Logging").
//!
//! ```text
//!  heap:   roots ─► catalog, record: covered, limit, gaps
//!          primary index ──┬─► head of a row ─► version ─► long values
//!          secondary index ┘                └─► version before it
//!
//!  commit: write versions to reserved slots │   sync: link them to their heads, `covered` │ fence
//!  read:   index ─► head ─► the newest version that the record covers
//! ```
//!
//! A row that changes is written as another version, and nothing is overwritten. A transaction's versions have its
//! timestamp, and the log has no images, only the last timestamp that is durable, and the one up to which others may have
//! begun (`record.rs`): a reader takes the newest version up to the former. A commit writes versions, and keeps in DRAM
//! which they are (`commit.rs`, `group.rs`). A sync links those of a group of commits, and then has the record cover
//! them (`sync.rs`).
//!
//! **A crash** may leave versions that no record covers. Opening makes their timestamps a gap, in which readers see nothing;
//! it undoes and redoes nothing, and its time is that of the catalog and the record. The versions are found and reclaimed in
//! steps afterwards (`sweep.rs`).
//!
//! **Versions.** The head of a row has two (`head.rs`): the newest one that is covered, and the one before it, whose place the
//! next one takes. So a version is freed by the publication that links the second one after it, when the record that covers
//! the first one is durable. Slots of long values that did not change are those of several versions.
//! Entries of secondary indexes lead to heads, and are left alone while they are right; those of former versions
//! go later (`garbage.rs`), and do not count till then (`read.rs`).
//!
//! **Views** see the versions up to the record of their beginning. What leaves its head meanwhile is copied to DRAM for them.
//!
//! **Failures.** A transaction for which there is no room changes nothing. Space is held back for the indexes in syncs; if it
//! does not do, the group stays as it is. After a failure of the medium in a sync, no row is read or written any more until
//! the partition is opened again.
//!
//! **Costs.** A commit has no fence. A sync has one for each 1,200 changes of its group, the record among them, and another
//! one if it adds entries to indexes; each leaf that is divided, or merged with another, costs two. Opening is one fence
//! beside those of the heap. A row takes 32 bytes for its head, and its former version until it changes again.

mod alter;
mod commit;
mod garbage;
mod group;
mod head;
mod read;
mod record;
mod shared;
mod step;
mod sweep;
mod sync;
mod verify;
mod view;

use std::collections::BTreeMap;
use std::sync::Arc;

use halite_alloc::Device;
use halite_alloc::heap::{Heap, NvPtr, Publication};
use halite_sim::planted;

use self::garbage::Garbage;
use self::group::Group;
use self::read::{entry_of, tree_key};
use self::record::Commits;
use self::shared::Shared;
use self::sweep::Sweep;
use self::view::MomentView;
use super::catalog_slot::{CatalogSlot, OWNERS_END, check_ids, indexes, owner};
use super::house::{self, root_of};
use super::nvm_cow::is_full;
use super::{Footprint, Method, Rows, Ticket, View, Wear};
use crate::cushion::Cushion;
use crate::index::Direction;
use crate::index::nonvolatile::{NODE_LEN, NonVolatileTree, TreeHeader};
use crate::tuple::{Form, Tuples};
use crate::write_set::WriteSet;
use crate::{Catalog, Error, IndexId, KeyRange, Result, Row, Table};

/// Segments of the heap that one step of reclamation looks at.
const SEGMENTS: u32 = 64;

/// Entries that the sweep looks at behind a commit, and those of a reclamation.
const WALKED: usize = 16;
const RECLAIMED: usize = 1024;

/// Chunks of the heap that are held back, and the fewest with which something may be added.
const CUSHION_MAX: usize = 8;
const CUSHION_MIN: usize = 2;

/// How a partition is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The size of an index's nodes in bytes: a power of two from 256 to 16,384.
    pub node_len: usize,
    /// Changes of slots and words that a step of a sync takes, unless a single row has more; at most 1,200.
    pub step: usize,
}

impl Default for Options {
    /// Nodes of [`NODE_LEN`] bytes, and steps of 1,200 changes.
    fn default() -> Self {
        Self { node_len: NODE_LEN, step: 1200 }
    }
}

/// The storage of a partition in a heap.
pub struct NvmWbl {
    shared: Arc<Shared>,
    options: Options,
    catalog: Catalog,
    catalog_slot: NvPtr<CatalogSlot>,
    trees: BTreeMap<IndexId, NonVolatileTree>,
    commits: Commits,
    /// The timestamp of the last transaction.
    last: u64,
    group: Group,
    garbage: Garbage,
    /// The search for the versions and entries that a crash has left, if it is not done.
    sweep: Option<Sweep>,
    cushion: Cushion,
    /// The timestamp that the record covered when a table or an index was dropped last.
    dropped_at: Option<u64>,
    /// The last commit.
    committed: Ticket,
    /// Why nothing is read or written any more.
    failed: Option<Box<str>>,
}

impl NvmWbl {
    /// Opens the storage of a partition in the segments of `device`, which have no other user; without a segment, it
    /// makes one. Its time is that of [`Heap::open`] and of the catalog. Only if its record has no room for
    /// another gap, as 30 crashes have left some that are not reclaimed, all rows are looked at.
    ///
    /// # Errors
    /// Those of [`Heap::open`]; [`Error::Damaged`].
    pub fn open(device: &Device, options: Options) -> Result<Self> {
        let mut heap = Heap::open(device)?;
        if !Commits::is_there(&heap) {
            let mut publication = Publication::new();
            house::write_catalog(&mut heap, &Catalog::new(), &mut publication)?;
            Commits::create(&mut heap, &mut publication)?;
            heap.publish(&mut publication)?;
        }
        let (catalog, catalog_slot) = house::read_catalog(&heap)?;
        check_ids(&catalog, OWNERS_END)?;
        let mut trees = BTreeMap::new();
        for (table, index) in indexes(&catalog) {
            let Some(header) = heap.root(&root_of(index)).map(NvPtr::<TreeHeader>::from_word)
            else {
                let why = format!("index {} has no root", index.0);
                return Err(Error::damaged(format!("table {table:?}"), why));
            };
            trees.insert(index, NonVolatileTree::open(&heap, header)?);
        }
        let commits = Commits::read(&heap)?;
        let sweep = (!commits.gaps.is_empty()).then(|| Sweep::of(&catalog));
        let mut opened = Self {
            shared: Arc::new(Shared::new(heap)),
            options,
            catalog,
            catalog_slot,
            trees,
            last: commits.covered,
            commits,
            group: Group::default(),
            garbage: Garbage::default(),
            sweep,
            cushion: Cushion::new(CUSHION_MIN, CUSHION_MAX),
            dropped_at: None,
            committed: Ticket::default(),
            failed: None,
        };
        while !opened.commits.has_room() {
            opened.walk(RECLAIMED)?;
            opened.collect(usize::MAX)?;
        }
        opened.commits.begin(&mut opened.shared.state.write().heap)?;
        Ok(opened)
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

    fn tree(&self, index: IndexId) -> Result<NonVolatileTree> {
        let unknown =
            || Error::UnknownIndex { table: "?".into(), index: format!("#{}", index.0).into() };
        self.trees.get(&index).copied().ok_or_else(unknown)
    }

    fn tuples<'a>(&self, table: &'a Table) -> Tuples<'a> {
        Tuples {
            schema: table.schema(),
            owner: owner(table.id().0),
            seed: self.shared.salt,
            form: Form::Image,
        }
    }

    /// Makes all durable, and leaves nothing to be found by the next opening.
    fn close(&mut self) -> Result<()> {
        self.collect(usize::MAX)?;
        // The first one has covered the group: items that waited for that can go now.
        self.collect(usize::MAX)?;
        match self.garbage.is_empty() || self.sweep.is_some() {
            true => self.commits.end(&mut self.shared.state.write().heap),
            false => Ok(()),
        }
    }
}

impl Drop for NvmWbl {
    fn drop(&mut self) {
        // A partition that is closed keeps its commits. If this fails, they are lost like those of a crash.
        if self.failed.is_none() && !std::thread::panicking() {
            let _ = self.close();
        }
    }
}

impl Method for NvmWbl {
    fn name(&self) -> &'static str {
        "nvm-wbl"
    }

    fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Row>> {
        self.check()?;
        let Some(pending) = self.group.row(table.id(), key) else {
            return self.stored_row(table, key);
        };
        let state = self.shared.state.read();
        let tuple = (!pending.tuple.is_null()).then_some(pending.tuple);
        tuple.map(|tuple| self.tuples(table).row(&state.heap, tuple)).transpose()
    }

    fn entry(&self, table: &Table, position: usize, entry: &[u8]) -> Result<Option<Vec<u8>>> {
        self.check()?;
        let index = table.indexes().nth(position).expect("the caller has it from the table");
        match self.group.entry(index.id, entry) {
            Some(key) => Ok(key.map(<[u8]>::to_vec)),
            None => self.stored_entry(table, (index.id, index.schema), entry),
        }
    }

    fn scan<'a>(
        &'a self,
        table: &'a Table,
        position: Option<usize>,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<Box<dyn Rows + 'a>> {
        self.check()?;
        self.rows(table, position, range, direction)
    }

    fn commit(&mut self, writes: &WriteSet) -> Result<Ticket> {
        self.check()?;
        if !writes.is_empty() {
            self.commit_to_group(writes)?;
        }
        self.committed.0 += 1;
        let walked = self.walk(WALKED);
        self.failing(walked)?;
        Ok(self.committed)
    }

    fn sync(&mut self) -> Result<Ticket> {
        self.check()?;
        planted!("table.nvm-wbl-sync-does-nothing", Ok(()), self.sync_group())?;
        Ok(self.committed)
    }

    fn alter(&mut self, catalog: Catalog) -> Result<()> {
        self.check()?;
        self.change_catalog(catalog)
    }

    fn reclaim(&mut self) -> Result<bool> {
        self.check()?;
        self.walk(RECLAIMED)?;
        self.collect(RECLAIMED)?;
        let is_swept = self.sweep.is_none() && self.garbage.is_empty();
        if !is_swept || self.is_dropped_viewed() {
            return Ok(false);
        }
        if self.catalog.dropping().is_empty() {
            return Ok(true);
        }
        if !self.shared.state.write().heap.reclaim(SEGMENTS)? {
            return Ok(false);
        }
        let catalog = self.catalog.reclaimed(self.catalog.dropping());
        self.alter(catalog).map(|()| true)
    }

    fn view(&self) -> Result<Box<dyn View>> {
        self.check()?;
        let (shared, sight) = (Arc::clone(&self.shared), self.commits.sight());
        Ok(Box::new(MomentView::new(shared, sight, self.catalog.clone(), self.trees.clone())))
    }

    fn footprint(&self) -> Result<Footprint> {
        self.check()?;
        self.used()
    }

    fn wear(&self) -> Result<Option<Wear>> {
        self.check()?;
        Wear::of(&self.shared.state.read().heap).map(Some)
    }

    fn verify(&mut self) -> Result<()> {
        self.sync()?;
        self.shared.state.write().heap.forget_proofs();
        self.verify_slots()
    }
}

#[cfg(test)]
mod tests;

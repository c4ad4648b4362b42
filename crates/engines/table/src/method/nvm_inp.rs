//! NVM-InP: updates in place in a heap, with non-volatile indexes and an undo log of pointers (Arulraj, "NVM-Aware In-Place
//! Updates Engine").
//!
//! ```text
//!  heap:  roots ─► catalog, log, header of each index
//!         index ─► tuple ─► long values
//!
//!  commit:  write tuples, prepare indexes, write the log │ fence │ states, fields, leaves' words │ fence │ empty the log
//! ```
//!
//! Tuples are in slots of their table, with a slot for each long value, and the indexes lead to them (`tuple.rs`,
//! [`nonvolatile`](crate::index::nonvolatile)). What a transaction adds is written to slots that are only reserved, and what
//! its indexes will show is prepared unseen. Then its log names what is about to change: the slots that become persisted or
//! free, and words with what is in them before and after. Behind the first fence these changes are stored in their places,
//! and the second fence makes them durable. So a commit costs two fences, however many rows it changes; each leaf of an
//! index that is split or merged costs two more.
//!
//! **The log** has no copies of tuples: an insertion is a pointer, and an update its changed words. Emptying it is a store,
//! which the next commit's first fence makes durable: recovery finds that a transaction has all its changes in their
//! places, and keeps it, or undoes it (`undo_log.rs`). There is nothing else to recover, and nothing grows with the number of
//! transactions or of rows.
//!
//! **A failure** of the medium behind the first fence leaves a transaction that nobody can finish: no row is read or written
//! any more until the partition is opened again.

mod commit;
mod recent;
mod verify;

use std::collections::BTreeMap;

use halite_alloc::Device;
use halite_alloc::heap::{DEAD_OWNERS_MAX, Heap, NvPtr, Publication};
use halite_sim::planted;

use self::recent::Recent;
use super::catalog_slot::{CatalogSlot, OWNERS_END, check_ids, indexes, owner};
use super::house::{self, root_of};
use super::undo_log::{self, UndoLog};
use super::{Footprint, Method, Rows, Ticket, Wear};
use crate::catalog::Dropping;
use crate::cushion::Cushion;
use crate::index::Direction;
use crate::index::nonvolatile::{NODE_LEN, NonVolatileScan, NonVolatileTree, TreeHeader};
use crate::tuple::{Form, Tuple, Tuples, cancel};
use crate::write_set::WriteSet;
use crate::{Catalog, Error, IndexId, KeyRange, Result, Row, Table};

/// Chunks that are held back for statements that drop something: for slots of the catalog, and of roots.
const CUSHION: usize = 2;

/// Segments of the heap that one step of reclamation looks at.
const SEGMENTS: u32 = 64;

/// How a partition is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The size of an index's nodes in bytes: a power of two from 256 to 16,384.
    pub node_len: usize,
    /// Bytes of the undo log at first. A transaction that needs more makes it longer, at two fences.
    pub log_len: u64,
}

impl Default for Options {
    /// Nodes of [`NODE_LEN`] bytes, and a log of 30 KiB.
    fn default() -> Self {
        Self { node_len: NODE_LEN, log_len: undo_log::LEN }
    }
}

/// The storage of a partition in a heap.
pub struct NvmInP {
    heap: Heap,
    options: Options,
    catalog: Catalog,
    catalog_slot: NvPtr<CatalogSlot>,
    trees: BTreeMap<IndexId, NonVolatileTree>,
    recent: Recent,
    cushion: Cushion,
    log: UndoLog,
    /// The last commit, which is durable.
    committed: Ticket,
    /// Why nothing is read or written any more.
    failed: Option<Box<str>>,
}

impl NvmInP {
    /// Opens the storage of a partition in the segments of `device`, which have no other user; without a segment, it
    /// makes one. Its time is that of [`Heap::open`], of the catalog, and of at most one transaction that is undone.
    ///
    /// # Errors
    /// Those of [`Heap::open`]; [`Error::Damaged`].
    pub fn open(device: &Device, options: Options) -> Result<Self> {
        let mut heap = Heap::open(device)?;
        house::furnish(&mut heap, options.log_len)?;
        let log = UndoLog::open(&mut heap)?;
        let (catalog, catalog_slot) = house::read_catalog(&heap)?;
        check_ids(&catalog, OWNERS_END)?;
        let (committed, failed) = (Ticket::default(), None);
        let (trees, recent) = (BTreeMap::new(), Recent::new());
        let cushion = Cushion::new(0, CUSHION);
        let mut opened = Self {
            heap,
            options,
            catalog,
            catalog_slot,
            trees,
            recent,
            cushion,
            log,
            committed,
            failed,
        };
        for (table, index) in indexes(&opened.catalog) {
            let header = opened.heap.root(&root_of(index)).map(NvPtr::<TreeHeader>::from_word);
            let Some(header) = header else {
                let why = format!("index {} has no root", index.0);
                return Err(Error::damaged(format!("table {table:?}"), why));
            };
            opened.trees.insert(index, NonVolatileTree::open(&opened.heap, header)?);
        }
        planted!("table.nvm-inp-opening-reads-rows", opened.verify(), Ok::<_, Error>(()))?;
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

    fn tree(&self, index: IndexId) -> Result<NonVolatileTree> {
        let unknown =
            || Error::UnknownIndex { table: "?".into(), index: format!("#{}", index.0).into() };
        self.trees.get(&index).copied().ok_or_else(unknown)
    }

    /// The tuple with a primary key.
    fn tuple(&self, table: &Table, key: &[u8]) -> Result<Option<NvPtr<Tuple>>> {
        if let Some(tuple) = self.recent.get(table.id(), key) {
            return Ok(Some(tuple));
        }
        let found = self.tree(table.primary())?.get(&self.heap, key)?;
        let tuple = found.map(NvPtr::<Tuple>::from_word);
        if let Some(tuple) = tuple {
            self.recent.put(table.id(), key, tuple);
        }
        Ok(tuple)
    }

    fn tuples<'a>(&self, table: &'a Table) -> Tuples<'a> {
        Tuples {
            schema: table.schema(),
            owner: owner(table.id().0),
            seed: self.heap.salt(),
            form: Form::Slots,
        }
    }

    /// Puts a catalog in its place, with an index for each that it has and the other had not, and without what was dropped.
    fn publish_catalog(&mut self, catalog: Catalog, publication: &mut Publication) -> Result<()> {
        // The log may still be one to be undone on the medium.
        self.heap.fence()?;
        publication.free(self.catalog_slot);
        let (slot, trees) = self.plan_catalog(&catalog, publication)?;
        self.heap.publish(publication)?;
        (self.catalog, self.catalog_slot, self.trees) = (catalog, slot, trees);
        self.recent.forget_all();
        Ok(())
    }

    /// Puts a catalog in its place, or changes nothing if there is no room.
    fn alter_once(&mut self, catalog: &Catalog) -> Result<()> {
        let mut publication = Publication::new();
        match self.publish_catalog(catalog.clone(), &mut publication) {
            Err(error) if error.is_refusal() => {
                cancel(&mut self.heap, publication.activated())?;
                Err(error)
            }
            done => self.failing(done),
        }
    }

    fn plan_catalog(
        &mut self,
        catalog: &Catalog,
        publication: &mut Publication,
    ) -> Result<(NvPtr<CatalogSlot>, BTreeMap<IndexId, NonVolatileTree>)> {
        let slot = house::write_catalog(&mut self.heap, catalog, publication)?;
        let mut trees = BTreeMap::new();
        for (_, index) in indexes(catalog) {
            let tree = match self.trees.get(&index) {
                Some(tree) => *tree,
                None => {
                    let (owner, len) = (owner(index.0), self.options.node_len);
                    let tree = NonVolatileTree::create(&mut self.heap, owner, len, publication)?;
                    publication.set_root(&root_of(index), tree.header().word());
                    tree
                }
            };
            trees.insert(index, tree);
        }
        for dropping in catalog.dropping().iter().filter(|it| !self.catalog.dropping().contains(it))
        {
            publication.drop_owner(owner(dropping.id()));
            if let Dropping::Index(index) = *dropping {
                publication.remove_root(&root_of(index));
            }
        }
        Ok((slot, trees))
    }
}

impl Method for NvmInP {
    fn name(&self) -> &'static str {
        "nvm-inp"
    }

    fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Row>> {
        self.check()?;
        let tuple = self.tuple(table, key)?;
        tuple.map(|tuple| self.tuples(table).row(&self.heap, tuple)).transpose()
    }

    fn contains(&self, table: &Table, key: &[u8]) -> Result<bool> {
        self.check()?;
        Ok(self.recent.get(table.id(), key).is_some()
            || self.tree(table.primary())?.contains(&self.heap, key)?)
    }

    fn entry(&self, table: &Table, position: usize, entry: &[u8]) -> Result<Option<Vec<u8>>> {
        self.check()?;
        let index = table.indexes().nth(position).expect("the caller has it from the table").id;
        let found = self.tree(index)?.get(&self.heap, entry)?;
        let row = found.map(|word| self.tuples(table).row(&self.heap, NvPtr::from_word(word)));
        row.map(|row| row?.view(table.schema())?.primary_key()).transpose()
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
        let tree = self.tree(index.map_or(table.primary(), |index| index.id))?;
        let scan = tree.scan(&self.heap, range.bounds(), direction)?;
        Ok(Box::new(HeapRows { heap: &self.heap, tuples: self.tuples(table), scan }))
    }

    fn commit(&mut self, writes: &WriteSet) -> Result<Ticket> {
        self.check()?;
        self.commit_changes(writes)?;
        self.committed.0 += 1;
        Ok(self.committed)
    }

    fn sync(&mut self) -> Result<Ticket> {
        self.check()?;
        Ok(self.committed)
    }

    fn alter(&mut self, catalog: Catalog) -> Result<()> {
        self.check()?;
        check_ids(&catalog, OWNERS_END)?;
        let dropped =
            catalog.dropping().len() - self.catalog.dropping().len().min(catalog.dropping().len());
        if self.heap.dropped_owners().count() + dropped > DEAD_OWNERS_MAX {
            while !self.heap.reclaim(SEGMENTS)? {}
        }
        match self.alter_once(&catalog) {
            Err(error)
                if error.is_refusal() && dropped > 0 && self.cushion.give(&mut self.heap)? =>
            {
                self.alter_once(&catalog)
            }
            done => done,
        }
    }

    fn reclaim(&mut self) -> Result<bool> {
        self.check()?;
        if self.catalog.dropping().is_empty() {
            return Ok(true);
        }
        if !self.heap.reclaim(SEGMENTS)? {
            return Ok(false);
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

/// A scan of an index, which leads to tuples.
struct HeapRows<'a> {
    heap: &'a Heap,
    tuples: Tuples<'a>,
    scan: NonVolatileScan<'a>,
}

impl Rows for HeapRows<'_> {
    fn next(&mut self) -> Result<Option<(Vec<u8>, Row)>> {
        let Some((key, word)) = self.scan.next()? else { return Ok(None) };
        let row = self.tuples.row(self.heap, NvPtr::from_word(word))?;
        Ok(Some((key.to_vec(), row)))
    }
}

#[cfg(test)]
mod tests;

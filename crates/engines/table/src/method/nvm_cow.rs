//! NVM-CoW: copy-on-write updates of trees in a heap (Arulraj, "NVM-Aware Copy-on-Write Engine").
//!
//! ```text
//!  master ─► directory ─► catalog
//!                └─► index ─► tuple ─► long values
//!
//!  commit:  write tuples, copy nodes │      sync:  write nodes, publish │ fence │ words in their places
//! ```
//!
//! Tuples are in slots of their table, with a slot for each long value (`tuple.rs`), and the trees of `index/cow_heap.rs`
//! lead to them: one for the primary key, and one for each secondary index. A directory has the roots of all. A row that
//! changes is written as another tuple, which takes over the slots of the long values that did not change. What commits
//! change is the dirty directory, and a sync puts it in place of the current one by one word: group commit. There is no
//! log, and nothing to recover: a crash leaves the current directory, and forgets the slots of the dirty one.
//!
//! Entries of secondary indexes lead to tuples, too, and not to primary keys: a read takes one descent, and all entries of
//! trees are as long. So a row that changes has all its entries set again; the nodes that this copies are copied once a
//! group.
//!
//! **Snapshots** ([`NvmCow::snapshot`]) read what was durable at the last sync, on any thread, and nobody waits for them to
//! end.
//!
//! **Failures.** A transaction for which there is no room is undone, and the group before it stays; so does the group if
//! there is no room for its sync. Space is held back for removals. After a failure of the medium in a sync, no row is read
//! or written any more until the partition is opened again.
//!
//! **Costs.** A commit writes its tuples, and costs no fence; a sync costs one, whatever the group has. Slabs of new slots
//! cost two each now and then, as in every heap.

mod commit;
mod snapshot;
mod verify;

use halite_alloc::heap::NvPtr;
use halite_alloc::{Device, Error as SpaceError};
use halite_sim::planted;

pub use self::snapshot::Snapshot;
use self::snapshot::TreeRows;
use super::catalog_slot::{self, CatalogSlot, OWNERS_END, check_ids, owner};
use super::{Footprint, Method, Rows, Ticket, View, Wear};
use crate::catalog::Dropping;
use crate::index::Direction;
use crate::index::cow_heap::{self, Alteration, CowHeap, HOUSE, NODE_LEN, Reclaimed};
use crate::tuple::{Form, Tuples};
use crate::write_set::WriteSet;
use crate::{Catalog, Error, IndexId, KeyRange, Result, Row, Table};

/// How a partition is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The size of an index's nodes in bytes: a power of two from 256 to 16,384.
    pub node_len: usize,
}

impl Default for Options {
    /// Nodes of 512 bytes.
    fn default() -> Self {
        Self { node_len: NODE_LEN }
    }
}

/// The storage of a partition in copy-on-write trees of a heap.
pub struct NvmCow {
    store: CowHeap,
    catalog: Catalog,
    /// The last commit.
    committed: Ticket,
    /// The last durable one.
    durable: Ticket,
    /// Why nothing is read or written any more.
    failed: Option<Box<str>>,
}

impl NvmCow {
    /// Opens the storage of a partition in the segments of `device`, which have no other user; without a segment, it
    /// makes one. Its time is that of [`Heap::open`](halite_alloc::heap::Heap::open), of the catalog and of the directory.
    /// A snapshot that is there from before keeps the segments.
    ///
    /// # Errors
    /// Those of [`Heap::open`](halite_alloc::heap::Heap::open); [`Error::Damaged`], [`Error::Index`].
    ///
    /// # Panics
    /// If the size of nodes is none of those.
    pub fn open(device: &Device, options: Options) -> Result<Self> {
        let store = CowHeap::open(device, options.node_len)?;
        let catalog = match NvPtr::<CatalogSlot>::from_word(store.attached()) {
            slot if slot.is_null() => Catalog::new(),
            slot => catalog_slot::read(&store.shared().heap(), slot)?,
        };
        let (committed, durable) = (Ticket::default(), Ticket::default());
        Ok(Self { store, catalog, committed, durable, failed: None })
    }

    /// A reader of what was durable at the last sync, which stays as it is, on any thread.
    ///
    /// # Errors
    /// [`Error::Lost`].
    pub fn snapshot(&self) -> Result<Snapshot> {
        self.check()?;
        Ok(Snapshot::new(self.store.snapshot(), self.catalog.clone()))
    }

    fn check(&self) -> Result<()> {
        match &self.failed {
            Some(why) => Err(Error::Lost { why: why.clone() }),
            None => Ok(()),
        }
    }

    /// Remembers a failure behind which nothing may be read or written.
    fn losing<T>(&mut self, done: Result<T>) -> Result<T> {
        if let Err(error) = &done
            && self.store.is_lost()
        {
            self.failed = Some(error.to_string().into());
        }
        done
    }

    fn tuples<'a>(&self, table: &'a Table) -> Tuples<'a> {
        let seed = self.store.shared().salt();
        Tuples { schema: table.schema(), owner: owner(table.id().0), seed, form: Form::Image }
    }

    /// Puts a catalog in its place, and gives the owners up that are dropped by it.
    fn publish_catalog(&mut self, catalog: &Catalog, dropped: &[u32]) -> Result<()> {
        let slot = catalog_slot::write(&mut self.store.heap_mut(), owner(HOUSE), catalog)?;
        let alteration = Alteration { attached: slot.any(), dropped: dropped.to_vec() };
        let altered = self.store.alter(&alteration);
        if altered.is_err() && !self.store.is_lost() {
            self.store.heap_mut().cancel(slot)?;
        }
        Ok(altered?)
    }

    /// Reclaims what was dropped before so many others are.
    fn reclaim_for(&mut self, dropped: usize) -> Result<()> {
        while !self.store.can_drop(dropped) {
            if self.store.reclaim()? == Reclaimed::Waits {
                let why = "a snapshot needs tables and indexes that were dropped before".to_owned();
                return Err(SpaceError::Publication { why }.into());
            }
        }
        Ok(())
    }
}

impl Drop for NvmCow {
    fn drop(&mut self) {
        // A partition that is closed keeps its commits. If this fails, they are lost like those of a crash.
        if self.failed.is_none() && !std::thread::panicking() {
            let _ = self.store.sync();
        }
    }
}

/// Whether there is no room.
pub(super) fn is_full(error: &Error) -> bool {
    match error {
        Error::Heap(error) => matches!(**error, SpaceError::Full { .. }),
        Error::Index(error) => cow_heap::is_full(error),
        _ => false,
    }
}

/// The tree of an index.
fn tree_of(table: &Table, position: Option<usize>) -> u32 {
    let IndexId(tree) = position.map_or(table.primary(), |position| {
        table.indexes().nth(position).expect("the caller has it from the table").id
    });
    tree
}

impl Method for NvmCow {
    fn name(&self) -> &'static str {
        "nvm-cow"
    }

    fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Row>> {
        self.check()?;
        let found = self.store.get(tree_of(table, None), key)?;
        let (tuples, heap) = (self.tuples(table), self.store.shared().heap());
        found.map(|word| tuples.row(&heap, NvPtr::from_word(word))).transpose()
    }

    fn contains(&self, table: &Table, key: &[u8]) -> Result<bool> {
        self.check()?;
        Ok(self.store.get(tree_of(table, None), key)?.is_some())
    }

    fn entry(&self, table: &Table, position: usize, entry: &[u8]) -> Result<Option<Vec<u8>>> {
        self.check()?;
        let found = self.store.get(tree_of(table, Some(position)), entry)?;
        let (tuples, heap) = (self.tuples(table), self.store.shared().heap());
        let row = found.map(|word| tuples.row(&heap, NvPtr::from_word(word)));
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
        let scan = self.store.scan(tree_of(table, position), range.bounds(), direction);
        Ok(Box::new(TreeRows::new(self.store.shared(), self.tuples(table), scan)))
    }

    fn commit(&mut self, writes: &WriteSet) -> Result<Ticket> {
        self.check()?;
        self.commit_to_group(writes)?;
        self.committed.0 += 1;
        Ok(self.committed)
    }

    fn sync(&mut self) -> Result<Ticket> {
        self.check()?;
        let synced = planted!("table.nvm-cow-sync-does-nothing", Ok(()), self.store.sync());
        self.losing(synced.map_err(Error::from))?;
        self.durable = self.committed;
        Ok(self.durable)
    }

    fn alter(&mut self, catalog: Catalog) -> Result<()> {
        check_ids(&catalog, OWNERS_END)?;
        self.sync()?;
        let is_new = |dropping: &&Dropping| !self.catalog.dropping().contains(dropping);
        let dropped: Vec<u32> =
            catalog.dropping().iter().filter(is_new).map(|dropping| dropping.id()).collect();
        let altered = self.reclaim_for(dropped.len()).and_then(|()| {
            if catalog.dropping() == self.catalog.dropping() {
                self.store.hold_space()?;
                return self.publish_catalog(&catalog, &dropped);
            }
            match self.publish_catalog(&catalog, &dropped) {
                Err(error) if is_full(&error) && self.store.give_space()? => {
                    self.publish_catalog(&catalog, &dropped)
                }
                published => published,
            }
        });
        self.losing(altered)?;
        self.catalog = catalog;
        Ok(())
    }

    fn reclaim(&mut self) -> Result<bool> {
        self.check()?;
        let reclaimed = self.store.reclaim().map_err(Error::from);
        if self.losing(reclaimed)? != Reclaimed::All {
            return Ok(false);
        }
        if !self.catalog.dropping().is_empty() {
            self.alter(self.catalog.reclaimed(self.catalog.dropping()))?;
        }
        Ok(true)
    }

    fn view(&self) -> Result<Box<dyn View>> {
        Ok(Box::new(self.snapshot()?))
    }

    fn footprint(&self) -> Result<Footprint> {
        self.check()?;
        self.used()
    }

    fn wear(&self) -> Result<Option<Wear>> {
        self.check()?;
        Wear::of(&self.store.shared().heap()).map(Some)
    }

    fn verify(&mut self) -> Result<()> {
        self.sync()?;
        self.store.heap_mut().forget_proofs();
        self.verify_slots()
    }
}

#[cfg(test)]
mod tests;

//! Recovery methods: how a partition keeps the committed rows of its tables, and what a crash leaves of a transaction.
//!
//! ```text
//!  transaction ──► write set ──► commit ──► ticket ──► sync ──► durable
//!      │  reads        ▲           │
//!      └───────────────┴── rows ◄──┴── Method: indexes, tuples, log
//! ```
//!
//! A method sees whole transactions, one after another: the rows and index entries that one changes, before and after
//! ([`WriteSet`]). It makes them visible at once and durable together, at the latest when [`Method::sync`] returns; a crash
//! before that keeps a prefix of the commits, each whole. All that is above, constraints, reads of a transaction's own
//! changes, aborts and savepoints, is the same for all methods ([`Partition`](crate::Partition)), so that what they cost
//! can be compared.

mod catalog_slot;
pub mod cow;
mod house;
pub mod inp;
mod kind;
pub mod log_structured;
pub mod nvm_cow;
pub mod nvm_inp;
pub mod nvm_log;
pub mod nvm_wbl;
mod redo_log;
mod undo_log;

pub use kind::Kind;

use halite_alloc::heap::{Heap, Usage};

use crate::component::Component;
use crate::index::Direction;
use crate::write_set::WriteSet;
use crate::{Catalog, KeyRange, Result, Row, Table};

/// The number of a commit: durable when a sync has returned one as great.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Bytes that a partition takes of its medium, and of memory that does not persist.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Tuples, with their long columns.
    pub table: u64,
    /// Indexes, primary and secondary.
    pub index: u64,
    /// Logs.
    pub log: u64,
    /// Checkpoints.
    pub checkpoint: u64,
    /// Everything else: free space that the allocator holds, catalogs, directories.
    pub other: u64,
}

impl Footprint {
    /// All of it.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.table + self.index + self.log + self.checkpoint + self.other
    }
}

/// The wear of a heap's segments of 2 MiB since it was opened.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wear {
    /// Lines written back to the segment that has the most.
    pub lines_max: u64,
    /// Those of a segment on average.
    pub lines_mean: f64,
}

impl Wear {
    pub(crate) fn of(heap: &Heap) -> Result<Self> {
        let Usage { lines_max, lines_mean, .. } = heap.usage()?;
        Ok(Self { lines_max, lines_mean })
    }
}

/// The committed rows of a range, one after the other.
pub trait Rows {
    /// The next row, with its key in the scanned index.
    ///
    /// # Errors
    /// Those of the method.
    fn next(&mut self) -> Result<Option<(Vec<u8>, Row)>>;
}

/// A reader of the rows that were durable at a sync, which stays as it is while transactions go on, on any thread.
pub trait View: Send + Sync {
    /// The catalog of that moment.
    fn catalog(&self) -> &Catalog;

    /// The row with a primary key. The table is one of the view's catalog, as for all calls.
    ///
    /// # Errors
    /// Those of [`Method::get`].
    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Row>>;

    /// The rows of a range of the primary key, or of the secondary index at a position.
    ///
    /// # Errors
    /// Those of [`Method::get`].
    fn scan<'a>(
        &'a self,
        table: &'a Table,
        position: Option<usize>,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<Box<dyn Rows + 'a>>;
}

/// The storage of one partition. One owner at a time changes it.
pub trait Method {
    /// The name of the method.
    fn name(&self) -> &'static str;

    /// The catalog.
    fn catalog(&self) -> &Catalog;

    /// The committed row with a primary key.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged); those of the medium.
    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Row>>;

    /// Whether there is a committed row with a primary key. Methods whose index tells it do not read the row.
    ///
    /// # Errors
    /// Those of [`Method::get`].
    fn contains(&self, table: &Table, key: &[u8]) -> Result<bool> {
        Ok(self.get(table, key)?.is_some())
    }

    /// The primary key that an entry of the secondary index at a position leads to.
    ///
    /// # Errors
    /// As [`Method::get`].
    fn entry(&self, table: &Table, position: usize, entry: &[u8]) -> Result<Option<Vec<u8>>>;

    /// The committed rows of a range of the primary key, or of the secondary index at a position.
    ///
    /// # Errors
    /// As [`Method::get`].
    fn scan<'a>(
        &'a self,
        table: &'a Table,
        position: Option<usize>,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<Box<dyn Rows + 'a>>;

    /// Commits a transaction, whole: later reads see it.
    ///
    /// # Errors
    /// Those of the medium, also for lack of space: nothing has changed then, or nothing is read or written any more until
    /// the partition is opened again.
    fn commit(&mut self, writes: &WriteSet) -> Result<Ticket>;

    /// Makes all commits durable. Returns the last one's ticket.
    ///
    /// # Errors
    /// Those of the medium; the commits since the last sync may be lost then.
    fn sync(&mut self) -> Result<Ticket>;

    /// Puts a catalog in place of the one that is there, durably and with all commits so far. Its new tables and indexes
    /// are empty.
    ///
    /// # Errors
    /// As [`Method::commit`].
    fn alter(&mut self, catalog: Catalog) -> Result<()>;

    /// Gives back some space of things that were dropped. Returns whether none is left.
    ///
    /// # Errors
    /// As [`Method::commit`].
    fn reclaim(&mut self) -> Result<bool>;

    /// Shortens the recovery, for methods that replay a log.
    ///
    /// # Errors
    /// As [`Method::commit`].
    fn checkpoint(&mut self) -> Result<()> {
        self.sync().map(drop)
    }

    /// A view of what was durable at the last sync. Methods that copy on write, or keep versions, have it.
    ///
    /// # Errors
    /// [`Error::NoViews`](crate::Error::NoViews) of the others.
    fn view(&self) -> Result<Box<dyn View>> {
        Err(crate::Error::NoViews { method: self.name() })
    }

    /// Bytes on the medium by use.
    ///
    /// # Errors
    /// As [`Method::get`].
    fn footprint(&self) -> Result<Footprint>;

    /// The wear of its heap, if it has one that persists.
    ///
    /// # Errors
    /// As [`Method::get`].
    fn wear(&self) -> Result<Option<Wear>> {
        Ok(None)
    }

    /// Checks all that is stored: bytes, order of keys, that indexes and tables agree, and that no space is lost.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged) for the first defect.
    fn verify(&mut self) -> Result<()>;
}

/// The door of partitions of any method: what is inside is storage, or has a door of its own.
impl<M: Method + ?Sized> Method for Box<M> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn catalog(&self) -> &Catalog {
        (**self).catalog()
    }

    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Row>> {
        let _in = Component::Storage.enter();
        (**self).get(table, key)
    }

    fn contains(&self, table: &Table, key: &[u8]) -> Result<bool> {
        let _in = Component::Storage.enter();
        (**self).contains(table, key)
    }

    fn entry(&self, table: &Table, position: usize, entry: &[u8]) -> Result<Option<Vec<u8>>> {
        let _in = Component::Storage.enter();
        (**self).entry(table, position, entry)
    }

    fn scan<'a>(
        &'a self,
        table: &'a Table,
        position: Option<usize>,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<Box<dyn Rows + 'a>> {
        let _in = Component::Storage.enter();
        (**self).scan(table, position, range, direction)
    }

    fn commit(&mut self, writes: &WriteSet) -> Result<Ticket> {
        let _in = Component::Storage.enter();
        (**self).commit(writes)
    }

    fn sync(&mut self) -> Result<Ticket> {
        let _in = Component::Storage.enter();
        (**self).sync()
    }

    fn alter(&mut self, catalog: Catalog) -> Result<()> {
        let _in = Component::Storage.enter();
        (**self).alter(catalog)
    }

    fn reclaim(&mut self) -> Result<bool> {
        let _in = Component::Storage.enter();
        (**self).reclaim()
    }

    fn checkpoint(&mut self) -> Result<()> {
        let _in = Component::Storage.enter();
        (**self).checkpoint()
    }

    fn view(&self) -> Result<Box<dyn View>> {
        (**self).view()
    }

    fn footprint(&self) -> Result<Footprint> {
        (**self).footprint()
    }

    fn wear(&self) -> Result<Option<Wear>> {
        (**self).wear()
    }

    fn verify(&mut self) -> Result<()> {
        (**self).verify()
    }
}

//! InP: updates in place in volatile memory, with a redo log and checkpoints in files (Arulraj, "In-Place Updates Engine").
//!
//! ```text
//!  memory:  indexes ─► tuples ─► long values
//!  files:   LOG-000007, ..    CHECKPOINT-000003
//!
//!  commit:  write tuples unseen │ append to the log │ states, fields, entries │ a step of the checkpoint under way
//!  sync:    the log, for all commits since the last
//!  opening: newest checkpoint │ redo of the log behind it │ all indexes
//! ```
//!
//! Tuples are in slots of a heap in memory, as NVM-InP has them in persistent memory (`tuple.rs`), and B+trees in memory
//! lead to them ([`volatile`](crate::index::volatile)): the two methods differ in what they do for recovery.
//!
//! **The log** (`redo_log.rs`) has the images of what a transaction changes before any of it is changed. The passes of ARIES
//! shrink to one: a transaction reaches the method when it commits, and whole, so that the log has no loser. There is nothing
//! to analyse and nothing to undo, and a torn batch is cut. The images from before a change are what redo compares with.
//!
//! **Checkpoints** (`checkpoint.rs`) are fuzzy: copied in bounded steps, between commits. Each commit takes the one under
//! way a step further, and begins one when the log has grown by so much since the last. So the recovery's time is that of the
//! rows and of a bounded log.
//!
//! Costs: a commit copies its batch to memory, and syncs nothing; a sync is one sync, whatever it covers. An insertion or a
//! deletion logs the bytes of its row, an update twice those of the columns that change. A checkpoint syncs its file, the
//! log, and the folder. There is no fence: memory is lost with the process.
//!
//! **A failure** of the medium loses the commits since the last sync: no row is read or written any more until the partition is
//! opened again. Lack of space, in memory, for the log or for a checkpoint, leaves everything as it was.

mod change;
mod checkpoint;
mod recovery;
mod tables;
mod verify;

use halite_codec::Seed;
use halite_disk::Disk;
use halite_wal::Shape;

use self::checkpoint::Checkpoints;
pub use self::recovery::Recovery;
use self::tables::{Tables, TupleRows};
use super::catalog_slot::{OWNERS_END, check_ids};
use super::redo_log::{self, RedoLog};
use super::{Footprint, Method, Rows, Ticket};
use crate::index::Direction;
use crate::index::volatile::NODE_LEN;
use crate::write_set::WriteSet;
use crate::{Catalog, Error, KeyRange, Result, Row, Table};

/// How a partition is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The size of an index's nodes in bytes: a power of two from 64 to 16,384.
    pub node_len: usize,
    /// Bytes of memory that tuples may take.
    pub memory_bytes: u64,
    /// Bytes of each file of the log.
    pub log_file_bytes: u64,
    /// A checkpoint begins when the log has so many bytes behind the begin of the last.
    pub checkpoint_bytes: u64,
    /// Bytes of rows, about, that a step of a checkpoint copies.
    pub step_bytes: usize,
}

impl Default for Options {
    /// Nodes of [`NODE_LEN`] bytes, 4 GiB of memory, files of 4 MiB, a checkpoint every 64 MiB in steps of 64 KiB.
    fn default() -> Self {
        Self {
            node_len: NODE_LEN,
            memory_bytes: 4 << 30,
            log_file_bytes: 4 << 20,
            checkpoint_bytes: 64 << 20,
            step_bytes: 64 << 10,
        }
    }
}

impl Options {
    fn log_shape(&self) -> Shape {
        Shape { file_bytes: self.log_file_bytes, kept_bytes: self.checkpoint_bytes }
    }
}

/// The storage of a partition in memory, with a log and checkpoints in a folder that has no other user.
pub struct InP {
    disk: Disk,
    store_id: u128,
    options: Options,
    tables: Tables,
    log: RedoLog,
    checkpoints: Checkpoints,
    /// The last commit.
    committed: Ticket,
    recovery: Recovery,
}

impl InP {
    /// Makes the storage of a partition without tables, for a store of this id. A crash meanwhile leaves none.
    ///
    /// # Errors
    /// [`Error::Exists`] if there is one; those of the disk.
    pub fn create(disk: &Disk, store_id: u128, options: Options) -> Result<Self> {
        if Self::is_there(disk)? {
            let name = disk.path().display().to_string().into();
            return Err(Error::Exists { what: "partition", name });
        }
        let tables = Tables::new(options, Catalog::new())?;
        let log = RedoLog::create(disk, store_id, options.log_shape())?;
        let mut made = Self {
            disk: disk.clone(),
            store_id,
            options,
            tables,
            checkpoints: Checkpoints::none(log.position()),
            log,
            committed: Ticket::default(),
            recovery: Recovery::default(),
        };
        made.checkpoint()?;
        Ok(made)
    }

    /// Whether a folder has the storage of a partition.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn is_there(disk: &Disk) -> Result<bool> {
        Ok(!checkpoint::files::named(disk)?.is_empty())
    }

    /// Opens the storage of a partition: reads its newest checkpoint and the log behind that, and makes the indexes.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::Version`], [`Error::Damaged`] of a checkpoint; those of the log, of the disk, and of
    /// memory.
    pub fn open(disk: &Disk, store_id: u128, options: Options) -> Result<Self> {
        let recovered = recovery::recover(disk, store_id, options)?;
        let recovery::Recovered { tables, log, checkpoints, recovery } = recovered;
        let (disk, committed) = (disk.clone(), Ticket::default());
        Ok(Self { disk, store_id, options, tables, log, checkpoints, committed, recovery })
    }

    /// The work that the opening took.
    #[must_use]
    pub fn recovery(&self) -> Recovery {
        self.recovery
    }

    /// The lack of space for which the last checkpoint was given up, if it was. The next one tries again.
    #[must_use]
    pub fn checkpoint_failure(&self) -> Option<&Error> {
        self.checkpoints.failure()
    }
}

impl Drop for InP {
    fn drop(&mut self) {
        // A partition that is closed keeps its commits. If this fails, they are lost like those of a crash.
        if !std::thread::panicking() && self.log.sync().is_ok() {
            self.give_up();
            let _ = self.log.close();
        }
    }
}

/// The seed of the checks of catalogs.
fn seed(store_id: u128) -> Seed {
    Seed::of_store(store_id)
}

impl Method for InP {
    fn name(&self) -> &'static str {
        "inp"
    }

    fn catalog(&self) -> &Catalog {
        self.tables.catalog()
    }

    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Row>> {
        self.log.check()?;
        self.tables.get(table, key)
    }

    fn contains(&self, table: &Table, key: &[u8]) -> Result<bool> {
        self.log.check()?;
        Ok(self.tables.tree(table.primary())?.get(key).is_some())
    }

    fn entry(&self, table: &Table, position: usize, entry: &[u8]) -> Result<Option<Vec<u8>>> {
        self.log.check()?;
        self.tables.entry(table, position, entry)
    }

    fn scan<'a>(
        &'a self,
        table: &'a Table,
        position: Option<usize>,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<Box<dyn Rows + 'a>> {
        self.log.check()?;
        let rows: TupleRows<'a> = self.tables.scan(table, position, range, direction)?;
        Ok(Box::new(rows))
    }

    fn commit(&mut self, writes: &WriteSet) -> Result<Ticket> {
        self.log.check()?;
        let batch = redo_log::transaction(self.tables.catalog(), writes)?;
        let plan = self.tables.prepare(writes)?;
        // The entries of an index that is being built are made again after a crash.
        if !batch.is_empty()
            && let Err(error) = self.log.append(&batch)
        {
            let cancelled = self.tables.cancel(plan);
            self.log.failing(cancelled)?;
            return Err(error);
        }
        let shown = self.tables.show(plan);
        self.log.failing(shown)?;
        self.committed.0 += 1;
        self.advance()?;
        Ok(self.committed)
    }

    fn sync(&mut self) -> Result<Ticket> {
        self.log.sync()?;
        Ok(self.committed)
    }

    fn alter(&mut self, catalog: Catalog) -> Result<()> {
        self.log.check()?;
        check_ids(&catalog, OWNERS_END)?;
        // A checkpoint is of one catalog.
        self.give_up();
        self.log.append(&redo_log::catalog(&catalog, seed(self.store_id)))?;
        self.log.sync()?;
        let altered = self.tables.alter(catalog);
        self.log.failing(altered)
    }

    fn reclaim(&mut self) -> Result<bool> {
        self.log.check()?;
        let catalog = self.tables.catalog();
        if catalog.dropping().is_empty() {
            return Ok(true);
        }
        let catalog = catalog.reclaimed(catalog.dropping());
        let reclaimed = self.tables.reclaim();
        if !self.log.failing(reclaimed)? {
            return Ok(false);
        }
        self.alter(catalog).map(|()| true)
    }

    fn checkpoint(&mut self) -> Result<()> {
        self.log.check()?;
        self.give_up();
        self.whole_checkpoint()
    }

    fn footprint(&self) -> Result<Footprint> {
        self.log.check()?;
        self.used()
    }

    fn verify(&mut self) -> Result<()> {
        self.log.sync()?;
        self.tables.check()?;
        self.check_files()
    }
}

#[cfg(test)]
mod tests;

//! Walks through the entries of a table, both ways.

use crate::block::{Block, BlockCursor};
use crate::entry::{Entry, Value};
use crate::index::{Handle, Partition};
use crate::read_ahead::{ReadAhead, Step};
use crate::table::Table;
use crate::{Parsed, Result};

/// How a cursor reads blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// Through the cache; from the file the more blocks at once, the further it goes.
    Cached,
    /// From the file, many blocks at once, and past the cache: the blocks that a compaction reads once are not those
    /// that others will want.
    Ahead,
}

/// A position in a table: at an entry, or at none, as it is at first.
pub struct TableCursor {
    table: Table,
    root: BlockCursor,
    partition: BlockCursor,
    data: BlockCursor,
    reads: Reads,
    ahead: ReadAhead,
    /// The end of the bytes that may be read ahead.
    ahead_end: u64,
}

impl TableCursor {
    pub(crate) fn new(table: Table, reads: Reads) -> Self {
        let root = BlockCursor::new(table.root().clone());
        let (partition, data) = (BlockCursor::empty(), BlockCursor::empty());
        let ahead = match reads {
            Reads::Cached => ReadAhead::growing(),
            Reads::Ahead => ReadAhead::full(),
        };
        Self { table, root, partition, data, reads, ahead, ahead_end: 0 }
    }

    /// The entry that it is at.
    #[must_use]
    #[inline]
    pub fn entry(&self) -> Option<Entry<'_>> {
        self.data.entry()
    }

    /// The value of the entry that it is at, which can outlive the cursor.
    ///
    /// # Panics
    /// If it is at none.
    #[must_use]
    pub fn value(&self) -> Value {
        self.data.value()
    }

    /// Goes to the first entry.
    ///
    /// # Errors
    /// [`crate::Error::Damaged`], or an error of the disk: it is then at no entry. So for the other moves.
    pub fn first(&mut self) -> Result<()> {
        self.move_root(BlockCursor::first)?;
        self.enter_partition()?;
        self.move_partition(BlockCursor::first)?;
        self.enter_data(Step::Sought)?;
        self.move_data(BlockCursor::first)?;
        self.skip_forward()
    }

    /// Goes to the last entry.
    ///
    /// # Errors
    /// See [`TableCursor::first`].
    pub fn last(&mut self) -> Result<()> {
        self.move_root(BlockCursor::last)?;
        self.enter_partition()?;
        self.move_partition(BlockCursor::last)?;
        self.enter_data(Step::Sought)?;
        self.move_data(BlockCursor::last)?;
        self.skip_backward()
    }

    /// Goes to the first entry that is not before a version.
    ///
    /// # Errors
    /// See [`TableCursor::first`].
    pub fn seek(&mut self, key: &[u8], sequence: u64) -> Result<()> {
        self.move_root(|cursor| cursor.seek(key, sequence))?;
        self.enter_partition()?;
        self.move_partition(|cursor| cursor.seek(key, sequence))?;
        self.enter_data(Step::Sought)?;
        self.move_data(|cursor| cursor.seek(key, sequence))?;
        self.skip_forward()
    }

    /// Goes to the last entry that is before a version.
    ///
    /// # Errors
    /// See [`TableCursor::first`].
    pub fn seek_before(&mut self, key: &[u8], sequence: u64) -> Result<()> {
        self.seek(key, sequence)?;
        if self.entry().is_some() { self.backward() } else { self.last() }
    }

    /// Goes to the next entry; from none, to none.
    ///
    /// # Errors
    /// See [`TableCursor::first`].
    #[inline]
    pub fn forward(&mut self) -> Result<()> {
        if self.data.entry().is_none() {
            return Ok(());
        }
        self.move_data(BlockCursor::forward)?;
        self.skip_forward()
    }

    /// Goes to the entry before; from none, to none.
    ///
    /// # Errors
    /// See [`TableCursor::first`].
    pub fn backward(&mut self) -> Result<()> {
        if self.data.entry().is_none() {
            return Ok(());
        }
        self.move_data(BlockCursor::backward)?;
        self.skip_backward()
    }

    /// From behind a block's last entry to the first of the next block that has one.
    #[inline]
    fn skip_forward(&mut self) -> Result<()> {
        while self.data.entry().is_none() {
            self.move_partition(BlockCursor::forward)?;
            if self.partition.entry().is_none() {
                self.move_root(BlockCursor::forward)?;
                if self.root.entry().is_none() {
                    return Ok(());
                }
                self.enter_partition()?;
                self.move_partition(BlockCursor::first)?;
            }
            self.enter_data(Step::Forward)?;
            self.move_data(BlockCursor::first)?;
        }
        Ok(())
    }

    /// From before a block's first entry to the last of the block before that has one.
    fn skip_backward(&mut self) -> Result<()> {
        while self.data.entry().is_none() {
            self.move_partition(BlockCursor::backward)?;
            if self.partition.entry().is_none() {
                self.move_root(BlockCursor::backward)?;
                if self.root.entry().is_none() {
                    return Ok(());
                }
                self.enter_partition()?;
                self.move_partition(BlockCursor::last)?;
            }
            self.enter_data(Step::Backward)?;
            self.move_data(BlockCursor::last)?;
        }
        Ok(())
    }

    /// Enters the partition that the root is at, if it is at one.
    fn enter_partition(&mut self) -> Result<()> {
        self.partition.leave();
        self.data.leave();
        let Some(entry) = self.root.entry() else { return Ok(()) };
        let partition = Partition::of_value(entry.value);
        let partition = partition.map_err(|why| self.table.damaged("root", why))?;
        let (block, end) = match self.reads {
            Reads::Cached => (self.table.block("index", partition.index)?, partition.index.offset),
            // Partitions that follow will be read, too.
            Reads::Ahead => {
                (self.table.reader().block("index", partition.index)?, self.table.file_len())
            }
        };
        self.partition.enter(block);
        self.ahead_end = end;
        Ok(())
    }

    /// Enters the block that the partition is at, if it is at one.
    fn enter_data(&mut self, step: Step) -> Result<()> {
        self.data.leave();
        let Some(entry) = self.partition.entry() else { return Ok(()) };
        let handle = Handle::of_value(entry.value);
        let handle = handle.map_err(|why| self.table.damaged("index", why))?;
        let (table, ahead, end) = (&self.table, &mut self.ahead, self.ahead_end);
        let mut read = || ahead.block(table, handle, step, end);
        let bytes = match self.reads {
            Reads::Cached => table.cached(handle, read)?,
            Reads::Ahead => read()?,
        };
        let block =
            Block::new(bytes).map_err(|why| table.reader().damaged("block", handle, why))?;
        self.data.enter(block);
        Ok(())
    }

    fn move_root(&mut self, to: impl FnOnce(&mut BlockCursor) -> Parsed<()>) -> Result<()> {
        let moved = to(&mut self.root);
        moved.map_err(|why| self.stop("root", why))
    }

    fn move_partition(&mut self, to: impl FnOnce(&mut BlockCursor) -> Parsed<()>) -> Result<()> {
        let moved = to(&mut self.partition);
        moved.map_err(|why| self.stop("index", why))
    }

    #[inline]
    fn move_data(&mut self, to: impl FnOnce(&mut BlockCursor) -> Parsed<()>) -> Result<()> {
        let moved = to(&mut self.data);
        moved.map_err(|why| self.stop("block", why))
    }

    /// Leaves the entry, for the reason `why`.
    fn stop(&mut self, what: &str, why: &str) -> crate::Error {
        self.data.leave();
        self.table.damaged(what, why)
    }
}

//! Entries in an order, one after the other.

use std::sync::Arc;

use halite_sst::{Entry, RangeDelete, Reads, SEQUENCE_MAX, Span, TableCursor};

use super::error::Result;
use super::version::{Run, TableFile};

/// Entries in an order: at one of them, or behind the last.
pub trait Source {
    /// The entry that it is at.
    fn entry(&self) -> Option<Entry<'_>>;

    /// Goes to the next one.
    ///
    /// # Errors The error that kept it from being read. No source goes on behind an error.
    fn advance(&mut self) -> Result<()>;
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn entry(&self) -> Option<Entry<'_>> {
        (**self).entry()
    }

    fn advance(&mut self) -> Result<()> {
        (**self).advance()
    }
}

/// A run that is to become part of the levels: a memtable, or a frozen global index. Several threads read its ranges
/// at once.
pub trait SortedRun: Sync {
    /// The entries with keys from `from` on that are below `to`, in their order; at the first of them.
    ///
    /// # Errors The error that kept them from being read.
    fn range<'a>(&'a self, from: Option<&[u8]>, to: Option<&[u8]>) -> Result<Box<dyn Source + 'a>>;

    /// The range deletes, in any order. Their keys may be outside of the entries' span.
    fn range_deletes(&self) -> Vec<RangeDelete>;

    /// The keys that entries and range deletes concern; `None` if there are neither.
    fn span(&self) -> Option<Span>;

    /// Keys in ascending order that cut it into at most `parts` parts of about the same size.
    fn split(&self, parts: usize) -> Vec<Box<[u8]>>;

    /// About how many bytes its keys and values have.
    fn bytes(&self) -> u64;
}

/// The direction of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the smallest key to the largest, of a key the newest version first.
    Forward,
    /// Exactly the other way round.
    Reverse,
}

/// The entries of a run's tables, one table after the other.
pub(crate) struct RunCursor {
    run: RunTables,
    reads: Reads,
    direction: Direction,
    /// Tables that are left, the current one not among them.
    left: std::ops::Range<usize>,
    cursor: Option<TableCursor>,
}

/// The tables of a cursor.
pub(crate) enum RunTables {
    Run(Arc<Run>),
    Some(Vec<Arc<TableFile>>),
}

impl RunTables {
    fn tables(&self) -> &[Arc<TableFile>] {
        match self {
            Self::Run(run) => &run.tables,
            Self::Some(tables) => tables,
        }
    }
}

impl RunCursor {
    /// At the first entry with a key from `from` on, or, in reverse, at the last that is below `to`. The other
    /// bound is where the last table ends that is looked at: the entries have to be compared with it.
    pub(crate) fn new(
        run: RunTables,
        reads: Reads,
        direction: Direction,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
    ) -> Result<Self> {
        let tables = run.tables();
        let start =
            from.map_or(0, |from| tables.partition_point(|table| table.meta.span.is_before(from)));
        let end = to.map_or(tables.len(), |to| {
            tables.partition_point(|table| *table.meta.span.first < *to)
        });
        let left = start..end.max(start);
        let mut found = Self { run, reads, direction, left, cursor: None };
        match (direction, from, to) {
            (Direction::Forward, Some(from), _) => {
                found.enter(|cursor| cursor.seek(from, SEQUENCE_MAX))?;
            }
            (Direction::Reverse, _, Some(to)) => {
                found.enter(|cursor| cursor.seek_before(to, SEQUENCE_MAX))?;
            }
            _ => found.enter_whole()?,
        }
        found.skip()?;
        Ok(found)
    }

    /// Enters the next table that is left, and moves in it.
    fn enter(&mut self, go: impl FnOnce(&mut TableCursor) -> halite_sst::Result<()>) -> Result<()> {
        self.cursor = None;
        let next = match self.direction {
            Direction::Forward => self.left.next(),
            Direction::Reverse => self.left.next_back(),
        };
        if let Some(at) = next {
            let mut cursor = self.run.tables()[at].table()?.cursor(self.reads);
            go(&mut cursor)?;
            self.cursor = Some(cursor);
        }
        Ok(())
    }

    fn enter_whole(&mut self) -> Result<()> {
        match self.direction {
            Direction::Forward => self.enter(TableCursor::first),
            Direction::Reverse => self.enter(TableCursor::last),
        }
    }

    /// Goes on to the next table that has an entry, if this one has none left.
    fn skip(&mut self) -> Result<()> {
        while self.cursor.as_ref().is_some_and(|cursor| cursor.entry().is_none()) {
            self.enter_whole()?;
        }
        Ok(())
    }
}

impl Source for RunCursor {
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        self.cursor.as_ref().and_then(TableCursor::entry)
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        match self.direction {
            Direction::Forward => cursor.forward()?,
            Direction::Reverse => cursor.backward()?,
        }
        self.skip()
    }
}

//! The merge of sources: their entries in the order of keys, those of one key coalesced.
//!
//! ```text
//!  memtable          ──┐
//!  run of level 0    ──┤  newest first
//!  older one         ──┼──► least key ──► its entries, coalesced
//!  runs of level 1   ──┤
//!  runs of level 2   ──┘
//! ```
//!
//! A level below the first is one source: its runs have no key in common, and one is entered when the one before has
//! ended. A step compares the keys of all sources, which are few.

use std::collections::VecDeque;

use halite_sst::{Reads, SEQUENCE_MAX, Table as SortedTable, TableCursor};

use super::entry::{Coalescing, Entry};
use super::memtable::Part;
use super::run::{ID, key_of};
use crate::index::Direction;
use crate::index::volatile::VolatileScan;
use crate::{Catalog, IndexId, KeyRange, Result, TableSchema};

/// The content of an index.
#[derive(Debug, Clone, Copy)]
pub(super) enum Indexed<'s> {
    /// The rows of a table of this schema.
    Rows(&'s TableSchema),
    /// Primary keys.
    PrimaryKeys,
    /// Nothing any more.
    Dropped,
}

impl<'s> Indexed<'s> {
    /// The content of an index of this id.
    pub(super) fn of(catalog: &'s Catalog, index: IndexId) -> Self {
        match catalog.index_by_id(index) {
            Some((table, None)) => Self::Rows(table.schema()),
            Some((_, Some(_))) => Self::PrimaryKeys,
            None => Self::Dropped,
        }
    }
}

/// One of the sources: the memtable, or runs.
pub(super) enum Source<'a> {
    Memtable {
        part: &'a Part,
        scan: VolatileScan<'a>,
        /// The key that it is at, as in a run.
        key: Vec<u8>,
        number: Option<u64>,
    },
    Runs {
        cursor: Option<Box<TableCursor>>,
        /// The runs behind, in the direction of the scan.
        rest: VecDeque<SortedTable>,
        range: KeyRange,
        direction: Direction,
        reads: Reads,
    },
}

impl<'a> Source<'a> {
    /// The entries of a range of an index in the memtable.
    pub(super) fn of_memtable(
        part: &'a Part,
        index: IndexId,
        range: &KeyRange,
        direction: Direction,
    ) -> Self {
        let scan = part.scan(range.bounds(), direction);
        let mut source = Self::Memtable { part, scan, key: key_of(index, &[]), number: None };
        source.enter_next();
        source
    }

    /// The entries of a range of keys in runs that have none in common, in the direction of the scan.
    pub(super) fn of_runs(
        runs: VecDeque<SortedTable>,
        range: KeyRange,
        direction: Direction,
        reads: Reads,
    ) -> Result<Self> {
        let mut source = Self::Runs { cursor: None, rest: runs, range, direction, reads };
        source.skip()?;
        Ok(source)
    }

    /// The key that it is at; `None` at its end.
    fn key(&self) -> Option<&[u8]> {
        match self {
            Self::Memtable { key, number, .. } => number.map(|_| key.as_slice()),
            Self::Runs { cursor, .. } => cursor.as_ref()?.entry().map(|entry| entry.key),
        }
    }

    /// Kind and value of the entry that it is at.
    fn parts(&self) -> Option<(u8, &[u8])> {
        match self {
            Self::Memtable { part, number, .. } => number.map(|number| part.entry(number).parts()),
            Self::Runs { cursor, .. } => {
                cursor.as_ref()?.entry().map(|entry| (entry.kind, entry.value))
            }
        }
    }

    fn advance(&mut self) -> Result<()> {
        match self {
            Self::Memtable { .. } => self.enter_next(),
            Self::Runs { cursor, direction, .. } => {
                if let Some(cursor) = cursor {
                    match direction {
                        Direction::Forward => cursor.forward()?,
                        Direction::Reverse => cursor.backward()?,
                    }
                }
                self.skip()?;
            }
        }
        Ok(())
    }

    /// Takes the next entry of the memtable.
    fn enter_next(&mut self) {
        let Self::Memtable { scan, key, number, .. } = self else { return };
        *number = scan.next().map(|(found, number)| {
            key.truncate(ID);
            key.extend_from_slice(found);
            number
        });
    }

    /// Goes on to the next run while this one has no more entry, and ends behind the range.
    fn skip(&mut self) -> Result<()> {
        let Self::Runs { cursor, rest, range, direction, reads } = self else { return Ok(()) };
        loop {
            if let Some(entry) = cursor.as_ref().and_then(|cursor| cursor.entry()) {
                if !range.contains(entry.key) {
                    (*cursor, *rest) = (None, VecDeque::new());
                }
                return Ok(());
            }
            let Some(next) = rest.pop_front() else {
                *cursor = None;
                return Ok(());
            };
            let mut entered = next.cursor(*reads);
            match (*direction, &range.to) {
                (Direction::Forward, _) => entered.seek(&range.from, SEQUENCE_MAX)?,
                (Direction::Reverse, Some(to)) => entered.seek_before(to, SEQUENCE_MAX)?,
                (Direction::Reverse, None) => entered.last()?,
            }
            *cursor = Some(Box::new(entered));
        }
    }
}

/// The entries of sources, merged.
pub(super) struct Merge<'a> {
    /// The newest first.
    sources: Vec<Source<'a>>,
    direction: Direction,
}

impl<'a> Merge<'a> {
    pub(super) fn new(sources: Vec<Source<'a>>, direction: Direction) -> Self {
        Self { sources, direction }
    }

    /// The least key of all sources, or the greatest in reverse.
    fn next_key(&self) -> Option<Vec<u8>> {
        let keys = self.sources.iter().filter_map(Source::key);
        let key = match self.direction {
            Direction::Forward => keys.min(),
            Direction::Reverse => keys.max(),
        };
        key.map(<[u8]>::to_vec)
    }

    /// The next key, in the form of runs, and the entry that its entries are together: none, if its index was dropped.
    pub(super) fn next<'s>(
        &mut self,
        index_of: impl FnOnce(&[u8]) -> Result<Indexed<'s>>,
    ) -> Result<Option<(Vec<u8>, Option<Entry>)>> {
        let Some(key) = self.next_key() else { return Ok(None) };
        let index = index_of(&key)?;
        let mut entries = Coalescing::default();
        for source in &mut self.sources {
            if source.key() == Some(&key) {
                if !matches!(index, Indexed::Dropped) {
                    entries.add(source.parts().expect("it is at a key"))?;
                }
                source.advance()?;
            }
        }
        let schema = if let Indexed::Rows(schema) = index { Some(schema) } else { None };
        Ok(Some((key, entries.finish(schema)?)))
    }
}

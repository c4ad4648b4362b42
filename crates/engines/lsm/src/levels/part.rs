//! A part of a run, and runs of tables as one: what is merged bit by bit where the disk has no room for all at once.

use std::sync::Arc;

use super::merge::Merge;
use super::source::{Direction, RunCursor, RunTables, SortedRun, Source};
use super::version::TableFile;
use crate::sst::{Entry, RangeDelete, Reads, Result, Span};

/// What a run has from a key on, below another.
pub(super) struct Part<'a> {
    pub(super) run: &'a dyn SortedRun,
    pub(super) from: Option<Box<[u8]>>,
    pub(super) to: Option<Box<[u8]>>,
}

impl SortedRun for Part<'_> {
    fn range<'a>(&'a self, from: Option<&[u8]>, to: Option<&[u8]>) -> Result<Box<dyn Source + 'a>> {
        let from = from.max(self.from.as_deref());
        let to = match (to, self.to.as_deref()) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        let source = self.run.range(from, to)?;
        Ok(Box::new(Below { source, end: to.map(Into::into) }))
    }

    fn range_deletes(&self) -> Vec<RangeDelete> {
        let cut = |delete: RangeDelete| {
            let start =
                self.from.clone().map_or(delete.start.clone(), |from| from.max(delete.start));
            let end = self.to.clone().map_or(delete.end.clone(), |to| to.min(delete.end));
            (start < end).then_some(RangeDelete { start, end, sequence: delete.sequence })
        };
        self.run.range_deletes().into_iter().filter_map(cut).collect()
    }

    fn span(&self) -> Option<Span> {
        let mut span = self.run.span()?;
        if let Some(from) = self.from.clone().filter(|from| *from > span.first) {
            if span.is_before(&from) {
                return None;
            }
            span.first = from;
        }
        if let Some(to) = self.to.clone().filter(|to| !span.is_before(to)) {
            (span.last, span.is_open) = (to, true);
        }
        (span.first < span.last || span.first == span.last && !span.is_open).then_some(span)
    }

    fn split(&self, _: usize) -> Vec<Box<[u8]>> {
        Vec::new()
    }

    fn bytes(&self) -> u64 {
        0
    }
}

/// The entries of a source up to an end.
struct Below<'a> {
    source: Box<dyn Source + 'a>,
    end: Option<Box<[u8]>>,
}

impl Source for Below<'_> {
    fn entry(&self) -> Option<Entry<'_>> {
        let entry = self.source.entry()?;
        self.end.as_deref().is_none_or(|end| entry.key < end).then_some(entry)
    }

    fn advance(&mut self) -> Result<()> {
        self.source.advance()
    }
}

/// Runs of a level, the newer before the older.
pub(super) struct Runs {
    /// The tables of each do not overlap, and are in their order.
    runs: Vec<Vec<Arc<TableFile>>>,
    deletes: Vec<RangeDelete>,
}

impl Runs {
    pub(super) fn new(runs: Vec<Vec<Arc<TableFile>>>) -> Result<Self> {
        let mut deletes = Vec::new();
        for table in runs.iter().flatten().filter(|table| table.meta.range_deletes > 0) {
            deletes.extend_from_slice(table.table()?.range_deletes().as_slice());
        }
        Ok(Self { runs, deletes })
    }
}

impl SortedRun for Runs {
    fn range<'a>(&'a self, from: Option<&[u8]>, to: Option<&[u8]>) -> Result<Box<dyn Source + 'a>> {
        let cursor = |tables: &Vec<Arc<TableFile>>| {
            let tables = RunTables::Some(tables.clone());
            RunCursor::new(tables, Reads::Ahead, Direction::Forward, from, to)
        };
        let cursors = self.runs.iter().map(cursor).collect::<Result<_>>()?;
        Ok(Box::new(Merge::new(cursors, Direction::Forward)))
    }

    fn range_deletes(&self) -> Vec<RangeDelete> {
        self.deletes.clone()
    }

    fn span(&self) -> Option<Span> {
        let mut spans = self.runs.iter().flatten().map(|table| &table.meta.span);
        let mut hull = spans.next()?.clone();
        spans.for_each(|span| hull.extend(span));
        Some(hull)
    }

    fn split(&self, _: usize) -> Vec<Box<[u8]>> {
        Vec::new()
    }

    fn bytes(&self) -> u64 {
        self.runs.iter().flatten().map(|table| table.meta.file_len).sum()
    }
}

//! A part of a run, and runs of tables as one: for merging part by part where the disk has no room for all at once.

use std::sync::Arc;

use halite_sst::{Entry, RangeDelete, RangeDeletes, Reads, Span};

use super::error::Result;
use super::merge::Merge;
use super::source::{Direction, RunCursor, RunTables, SortedRun, Source};
use super::version::TableFile;

/// A run that is merged part by part, with the data that its parts share: each finds its range deletes by a search.
pub(super) struct Whole<'a> {
    run: &'a dyn SortedRun,
    span: Option<Span>,
    deletes: RangeDeletes,
}

impl<'a> Whole<'a> {
    /// All range deletes of the run are visible: a snapshot that is taken later than `snapshots` sees the newest of
    /// all.
    pub(super) fn new(run: &'a dyn SortedRun, snapshots: &[u64]) -> Self {
        let deletes = RangeDeletes::fragments_seen(run.range_deletes(), snapshots);
        Self { run, span: run.span(), deletes }
    }

    /// The part of the run from a key on, below another.
    pub(super) fn part(&self, from: Option<Box<[u8]>>, to: Option<Box<[u8]>>) -> Part<'_> {
        Part { whole: self, from, to }
    }
}

/// The part of a run from a key on, below another.
pub(super) struct Part<'a> {
    whole: &'a Whole<'a>,
    from: Option<Box<[u8]>>,
    to: Option<Box<[u8]>>,
}

impl SortedRun for Part<'_> {
    fn range<'a>(&'a self, from: Option<&[u8]>, to: Option<&[u8]>) -> Result<Box<dyn Source + 'a>> {
        let from = from.max(self.from.as_deref());
        let to = match (to, self.to.as_deref()) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        let source = self.whole.run.range(from, to)?;
        Ok(Box::new(Below { source, end: to.map(Into::into) }))
    }

    fn range_deletes(&self) -> Vec<RangeDelete> {
        self.whole.deletes.cut(self.from.as_deref(), self.to.as_deref()).into_vec()
    }

    fn span(&self) -> Option<Span> {
        let mut span = self.whole.span.clone()?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost;

    /// Range deletes and nothing else.
    struct Deletes(Vec<RangeDelete>);

    impl SortedRun for Deletes {
        fn range<'a>(&'a self, _: Option<&[u8]>, _: Option<&[u8]>) -> Result<Box<dyn Source + 'a>> {
            Ok(Box::new(Merge::new(Vec::<RunCursor>::new(), Direction::Forward)))
        }

        fn range_deletes(&self) -> Vec<RangeDelete> {
            self.0.iter().cloned().inspect(|_| cost::step()).collect()
        }

        fn span(&self) -> Option<Span> {
            let spans = self.0.iter().inspect(|_| cost::step()).map(|delete| Span {
                first: delete.start.clone(),
                last: delete.end.clone(),
                is_open: true,
            });
            spans.reduce(|mut hull, span| {
                hull.extend(&span);
                hull
            })
        }

        fn split(&self, _: usize) -> Vec<Box<[u8]>> {
            Vec::new()
        }

        fn bytes(&self) -> u64 {
            0
        }
    }

    #[test]
    fn parts_look_at_each_range_delete_of_the_whole_a_bounded_number_of_times() {
        const PARTS: u16 = 100;
        let bytes = |number: u16| -> Box<[u8]> { number.to_be_bytes().into() };
        let delete = |start, end, sequence: u16| RangeDelete {
            start: bytes(start),
            end: bytes(end),
            sequence: sequence.into(),
        };
        type Shape = fn(u16) -> (u16, u16);
        let shapes: [(&str, Shape); 2] =
            [("beside", |n| (n * 3, n * 3 + 2)), ("within", |n| (n, u16::MAX - n))];
        for (shape, bounds) in shapes {
            for many in [100, 10_000] {
                let all = (1..=many).map(|n| delete(bounds(n).0, bounds(n).1, n));
                let run = Deletes(all.collect());
                let mut found = 0;
                let steps = cost::of(|| {
                    let whole = Whole::new(&run, &[]);
                    for number in 0..PARTS {
                        let from = bytes(number * (u16::MAX / PARTS));
                        let to = bytes((number + 1) * (u16::MAX / PARTS));
                        let part = whole.part(Some(from), Some(to));
                        assert!(part.span().is_some() || part.range_deletes().is_empty());
                        found += part.range_deletes().len();
                    }
                });
                let most = 8 * u64::from(many) + 100 * u64::from(PARTS);
                assert!(steps <= most, "{many} {shape} each other: {steps} steps");
                assert!(found >= usize::from(many) / 2, "{many} {shape} each other: {found}");
            }
        }
    }
}

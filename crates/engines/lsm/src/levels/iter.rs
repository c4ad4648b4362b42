//! Scans of a tree's levels.

use std::sync::Arc;

use halite_sst::{Entry, Reads};

use super::error::Result;
use super::merge::Merge;
use super::source::{Direction, RunCursor, RunTables, Source};
use super::version::{Run, TreeVersion};

/// All versions of the keys of a range, as they were when the scan began: a snapshot's number says which of them
/// count. Tombstones come like other versions; for range deletes, the reader asks [`LevelsIter::covering`].
///
/// Files that it reads stay until it is dropped.
pub struct LevelsIter {
    merge: Merge<RunCursor>,
    /// The runs that have range deletes.
    with_deletes: Vec<Arc<Run>>,
    direction: Direction,
    from: Option<Box<[u8]>>,
    to: Option<Box<[u8]>>,
    at: u64,
    has_begun: bool,
}

impl LevelsIter {
    pub(crate) fn new(
        version: &Arc<TreeVersion>,
        (from, to): (Option<&[u8]>, Option<&[u8]>),
        direction: Direction,
        at: u64,
    ) -> Result<Self> {
        let (mut sources, mut with_deletes) = (Vec::new(), Vec::new());
        for (_, run) in version.runs() {
            if run.has_range_deletes {
                with_deletes.push(Arc::clone(run));
            }
            let run = RunTables::Run(Arc::clone(run));
            sources.push(RunCursor::new(run, Reads::Cached, direction, from, to)?);
        }
        Ok(Self {
            merge: Merge::new(sources, direction),
            with_deletes,
            direction,
            from: from.map(Into::into),
            to: to.map(Into::into),
            at,
            has_begun: false,
        })
    }

    /// The newest range delete of a key that the scan sees.
    ///
    /// # Errors
    /// [`super::Error::Damaged`], [`super::Error::Missing`] of a table that may have one, or what the disk says.
    pub fn covering(&self, key: &[u8]) -> Result<Option<u64>> {
        let mut newest = None;
        for run in &self.with_deletes {
            if let Some(table) = run.find(key).filter(|table| table.meta.range_deletes > 0) {
                newest = newest.max(table.table()?.range_deletes().covering(key, self.at));
            }
        }
        Ok(newest)
    }

    /// Whether the scan sees a range delete that concerns its range and is newer than `then`.
    ///
    /// # Errors
    /// As [`LevelsIter::covering`].
    pub(crate) fn has_deletes_since(&self, then: u64) -> Result<bool> {
        let (from, to) = (self.from.as_deref(), self.to.as_deref());
        for run in &self.with_deletes {
            for table in run.overlapping(from, to) {
                if table.meta.range_deletes == 0 || table.meta.sequence_max <= then {
                    continue;
                }
                let deletes = table.table()?.range_deletes().overlapping(from, to);
                if deletes.iter().any(|delete| (then + 1..=self.at).contains(&delete.sequence)) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// The next version that is not above the sequence number of the scan.
    ///
    /// # Errors
    /// [`super::Error::Damaged`], [`super::Error::Missing`], or an error of the disk. Then the scan is over.
    pub fn next_entry(&mut self) -> Result<Option<Entry<'_>>> {
        if std::mem::replace(&mut self.has_begun, true) {
            self.merge.advance()?;
        }
        while self.merge.entry().is_some_and(|entry| entry.sequence > self.at) {
            self.merge.advance()?;
        }
        Ok(self.entry())
    }

    /// The version that came last.
    #[must_use]
    pub fn entry(&self) -> Option<Entry<'_>> {
        let is_within = |entry: &Entry<'_>| match self.direction {
            Direction::Forward => self.to.as_deref().is_none_or(|to| entry.key < to),
            Direction::Reverse => self.from.as_deref().is_none_or(|from| entry.key >= from),
        };
        self.merge.entry().filter(is_within)
    }
}

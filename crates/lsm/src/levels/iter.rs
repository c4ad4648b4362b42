//! Scans of a tree's levels.

use std::sync::Arc;

use super::merge::Merge;
use super::source::{Direction, RunCursor, RunTables, Source};
use super::version::TreeVersion;
use crate::sst::{Entry, RangeDelete, RangeDeletes, Reads, Result};

/// All versions of the keys of a range, as they were when the scan began: a snapshot's number says which of
/// them count. Tombstones come like other versions; what range deletes say is for the reader to ask
/// [`LevelsIter::range_deletes`].
///
/// Files that it reads stay until it is dropped.
pub struct LevelsIter {
    merge: Merge<RunCursor>,
    range_deletes: RangeDeletes,
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
        let (mut sources, mut deletes) = (Vec::new(), Vec::new());
        for (_, run) in version.runs() {
            for table in run.overlapping(from, to) {
                if table.meta.range_deletes > 0 {
                    let all = table.table()?.range_deletes().cut(from, to);
                    deletes.extend(
                        all.into_vec().into_iter().filter(|d: &RangeDelete| d.sequence <= at),
                    );
                }
            }
            let run = RunTables::Run(Arc::clone(run));
            sources.push(RunCursor::new(run, Reads::Cached, direction, from, to)?);
        }
        Ok(Self {
            merge: Merge::new(sources, direction),
            range_deletes: RangeDeletes::fragments_seen(deletes, &[]),
            direction,
            from: from.map(Into::into),
            to: to.map(Into::into),
            at,
            has_begun: false,
        })
    }

    /// The range deletes that concern the range.
    #[must_use]
    pub fn range_deletes(&self) -> &RangeDeletes {
        &self.range_deletes
    }

    /// The next version that is not above the sequence number of the scan.
    ///
    /// # Errors
    /// [`crate::sst::Error::Damaged`], [`crate::sst::Error::Missing`], or what the disk says. Then the scan is over.
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

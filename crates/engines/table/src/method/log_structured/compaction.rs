//! A compaction: runs of a level and those of the next become runs of the next, step by step.
//!
//! ```text
//!  begin ──► step ──► step ──► ... ──► outputs whole ──► named in the manifest ──► inputs removed
//! ```
//!
//! Deltas are coalesced onto their rows. A tombstone goes where no run below may have its key, and entries of dropped
//! indexes go everywhere. The owner of the partition does the steps between commits; a flush may come between two of
//! them, as it only adds newer entries. Outputs are not named before all of them are whole: after a crash in the midst
//! the inputs are there as before, and the opening removes the outputs.

use std::collections::VecDeque;

use halite_sim::planted;
use halite_sst::Reads;

use super::entry::{Entry, without_base};
use super::levels::{Levels, Task};
use super::merge::{Indexed, Merge, Source};
use super::run::{Home, Run, RunBuilder, split};
use crate::index::Direction;
use crate::{Catalog, KeyRange, Result};

/// A compaction that has begun.
pub(super) struct Compaction {
    pub(super) task: Task,
    merge: Merge<'static>,
    /// The outputs that are whole.
    pub(super) outputs: Vec<Run>,
    builder: Option<RunBuilder>,
    /// The numbers of the runs that it has begun to write.
    pub(super) written: Vec<u64>,
    /// Bytes at which an output is whole.
    table_bytes: u64,
}

impl Compaction {
    pub(super) fn begin(task: Task, table_bytes: u64) -> Result<Self> {
        let mut sources = Vec::new();
        for group in &task.inputs {
            let tables: VecDeque<_> = group.iter().map(|run| run.table.clone()).collect();
            let (all, forward) = (KeyRange::all(), Direction::Forward);
            sources.push(Source::of_runs(tables, all, forward, Reads::Ahead)?);
        }
        let merge = Merge::new(sources, Direction::Forward);
        // A run of level 0 is one.
        let table_bytes = if task.to_level == 0 { u64::MAX } else { table_bytes };
        Ok(Self {
            task,
            merge,
            outputs: Vec::new(),
            builder: None,
            written: Vec::new(),
            table_bytes,
        })
    }

    /// Merges some bytes. Returns whether all of it is done.
    pub(super) fn step(
        &mut self,
        home: &Home,
        levels: &Levels,
        catalog: &Catalog,
        next_number: &mut u64,
        bytes: u64,
    ) -> Result<bool> {
        let mut left = bytes;
        while left > 0 {
            let index_of = |key: &[u8]| Ok(Indexed::of(catalog, split(key)?.0));
            let Some((key, entry)) = self.merge.next(index_of)? else {
                self.end_output(home)?;
                return Ok(true);
            };
            left = left.saturating_sub((key.len() + entry.as_ref().map_or(0, Entry::len)) as u64);
            let Some(entry) = entry else { continue };
            if self.is_dropped(&key, &entry, levels)? {
                continue;
            }
            if self.builder.is_none() {
                let number = *next_number;
                *next_number += 1;
                self.written.push(number);
                self.builder = Some(home.begin(number)?);
            }
            let builder = self.builder.as_mut().expect("it has begun");
            builder.add(&key, &entry)?;
            if builder.len() >= self.table_bytes {
                self.end_output(home)?;
            }
        }
        Ok(false)
    }

    /// Whether an entry has no effect in the outputs. A delta whose row is in no run is damage.
    fn is_dropped(&self, key: &[u8], entry: &Entry, levels: &Levels) -> Result<bool> {
        if self.task.is_rewriting || matches!(entry, Entry::Whole(_)) {
            return Ok(false);
        }
        let is_below = levels.is_below(self.task.to_level, key);
        match entry {
            Entry::Delta(_) if !is_below => Err(without_base()),
            Entry::Tombstone => Ok(planted!("table.log-tombstone-dropped-early", true, !is_below)),
            _ => Ok(false),
        }
    }

    fn end_output(&mut self, home: &Home) -> Result<()> {
        if let Some(builder) = self.builder.take() {
            self.outputs.push(builder.finish(home)?);
        }
        Ok(())
    }
}

//! Flushes, and the steps of compactions: how the state of the manifest changes.

use halite_sim::planted;

use super::compaction::Compaction;
use super::levels::{Levels, Task};
use super::manifest::State;
use super::memtable::Memtable;
use super::run::{Meta, Run, key_of, name_of};
use super::{LogStructured, Options, Position};
use crate::index::Direction;
use crate::{Catalog, Error, KeyRange, Result};

/// The log behind the last flush may be so many times as long as the memtable: changes of few rows are one in the memtable,
/// and all of them are in the log.
const LOG_TIMES: u64 = 4;

/// A flush that failed is tried again when the memtable or the log has grown by this part of its size.
const RETRY: u64 = 8;

/// When the memtable is flushed the next time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Due {
    /// Bytes of the memtable.
    memtable: u64,
    /// Bytes of batches that have passed the log.
    log: u64,
}

impl Due {
    /// When both have grown by these parts of their sizes.
    pub(super) fn after(options: &Options, (memtable, log): (u64, u64), part: u64) -> Self {
        let size = options.memtable_bytes as u64;
        let log_size = size.saturating_mul(LOG_TIMES);
        Self { memtable: memtable + (size / part).max(1), log: log + (log_size / part).max(1) }
    }
}

impl LogStructured {
    /// Flushes the memtable if that is due, and compacts some bytes: before a commit, so that a failure is one before
    /// anything has changed.
    pub(super) fn maintain(&mut self) -> Result<()> {
        let (memtable, log) = (self.memtable.bytes() as u64, self.log.passed());
        if memtable >= self.due.memtable || log >= self.due.log {
            let flushed = self.flush_full();
            if flushed.is_err() {
                self.due = Due::after(&self.options, (memtable, log), RETRY);
            }
            forgive(flushed)?;
        }
        if self.is_idle {
            return Ok(());
        }
        let compacted = self.compact(self.options.step_bytes);
        self.is_idle = !matches!(compacted, Ok(true));
        forgive(compacted.map(drop))
    }

    /// Flushes the memtable. Writers wait for compactions that they are too far ahead of.
    fn flush_full(&mut self) -> Result<()> {
        let mut compacted = Ok(true);
        while self.levels.level(0).len() >= 2 * self.options.level0_max
            && matches!(compacted, Ok(true))
        {
            compacted = self.compact(u64::MAX);
        }
        forgive(compacted.map(drop))?;
        self.flush(self.catalog.clone())
    }

    /// Writes the memtable as a run, and puts a catalog in place of the one that is there, in one step.
    pub(super) fn flush(&mut self, catalog: Catalog) -> Result<()> {
        // The runs are to have nothing that the log may lose.
        self.log.sync()?;
        let position = self.log.position();
        let run = self.write_memtable(&catalog)?;
        let levels = match &run {
            Some(run) => self.levels.with_flushed(run.clone()),
            None => self.levels.clone(),
        };
        planted!("table.log-released-early", drop(self.log.release(position)));
        let named = self.name(levels, catalog, position);
        if let Err(error) = named {
            self.give_up(run.map(|run| run.meta.number));
            return Err(error);
        }
        self.memtable = Memtable::new(self.options.node_len);
        self.due = Due::after(&self.options, (0, self.log.passed()), 1);
        self.is_idle = false;
        // Files that are not released now are with the next flush.
        let released = self.log.release(position);
        if self.home.disk.check_synced().is_err() {
            return self.log.failing(released);
        }
        Ok(())
    }

    /// Writes a run of all entries of the memtable whose indexes a catalog has.
    fn write_memtable(&mut self, catalog: &Catalog) -> Result<Option<Run>> {
        let parts = self.memtable.parts();
        let parts: Vec<_> =
            parts.filter(|(index, _)| catalog.index_by_id(*index).is_some()).collect();
        if parts.is_empty() {
            return Ok(None);
        }
        let number = self.next_number;
        self.next_number += 1;
        let write = || {
            let mut builder = self.home.begin(number)?;
            for (index, part) in parts {
                let mut scan = part.scan(KeyRange::all().bounds(), Direction::Forward);
                while let Some((key, number)) = scan.next() {
                    builder.add(&key_of(index, key), part.entry(number))?;
                }
            }
            builder.finish(&self.home)
        };
        let written = write();
        if written.is_err() {
            self.remove([number]);
        }
        written.map(Some)
    }

    /// Makes levels and a catalog those of the partition, with the commits before a place in the log. If that fails
    /// nothing has changed, or nothing is read or written any more.
    fn name(&mut self, levels: Levels, catalog: Catalog, log: Position) -> Result<()> {
        let metas = |level: &Vec<Run>| -> Vec<Meta> {
            level.iter().map(|run| Meta::clone(&run.meta)).collect()
        };
        let state = State {
            store_id: self.home.store_id,
            next_number: self.next_number,
            log,
            catalog,
            levels: levels.0.iter().map(metas).collect(),
        };
        if let Err(unnamed) = state.write(&self.home.disk) {
            let failed = Err(unnamed.error);
            return if unnamed.may_count { self.log.failing(failed) } else { failed };
        }
        (self.levels, self.catalog, self.flushed) = (levels, state.catalog, log);
        Ok(())
    }

    /// Removes the files of runs that are no part of the partition. Those that stay are removed later.
    fn remove(&mut self, numbers: impl IntoIterator<Item = u64>) {
        self.garbage.extend(numbers);
        let disk = &self.home.disk;
        self.garbage.retain(|number| {
            let removed = disk.remove(&name_of(*number));
            !matches!(removed, Ok(()) | Err(halite_disk::Error::Missing { .. }))
        });
    }

    /// Removes runs that were written, unless they may be named.
    fn give_up(&mut self, numbers: impl IntoIterator<Item = u64>) {
        if self.log.check().is_ok() {
            self.remove(numbers);
        }
    }

    /// Compacts some bytes, if a compaction has begun or is due. Returns whether one was: there may be more. A failed one
    /// has no effect.
    fn compact(&mut self, bytes: u64) -> Result<bool> {
        let mut compaction = match self.compaction.take() {
            Some(compaction) => compaction,
            None => match self.levels.pick(&self.options, &self.merged) {
                Some(task) => Compaction::begin(task, self.options.table_bytes)?,
                None => return Ok(false),
            },
        };
        let next = &mut self.next_number;
        let stepped = compaction.step(&self.home, &self.levels, &self.catalog, next, bytes);
        match stepped {
            Ok(false) => {
                self.compaction = Some(compaction);
                Ok(true)
            }
            Ok(true) => self.end(compaction).map(|()| true),
            Err(error) => {
                self.remove(compaction.written);
                Err(error)
            }
        }
    }

    /// Puts the outputs of a compaction in place of its inputs.
    fn end(&mut self, compaction: Compaction) -> Result<()> {
        let Compaction { task, outputs, .. } = compaction;
        let levels = self.levels.with(&task, outputs);
        let inputs = task.inputs.iter().flatten().map(|run| run.meta.number);
        planted!("table.log-inputs-removed-early", self.remove(inputs.clone()));
        if let Err(error) = self.name(levels, self.catalog.clone(), self.flushed) {
            self.give_up(compaction.written);
            return Err(error);
        }
        if let Some(from) = task.to_level.checked_sub(1).filter(|_| !task.is_rewriting) {
            self.merged.resize(self.merged.len().max(from + 1), Vec::new());
            self.merged[from] = task.inputs[0][0].span().1.to_vec();
        }
        self.remove(inputs);
        Ok(())
    }

    /// Does all compaction that is due.
    pub(super) fn compact_all(&mut self) -> Result<()> {
        while self.compact(u64::MAX)? {}
        Ok(())
    }

    /// Writes the runs that have entries of dropped indexes anew, without these. No compaction is under way.
    pub(super) fn drop_entries(&mut self) -> Result<()> {
        let is_dropped = |run: &Run| {
            let mut parts = run.meta.parts.iter();
            parts.any(|part| self.catalog.index_by_id(part.index).is_none())
        };
        let runs = self.levels.runs().filter(|(_, run)| is_dropped(run));
        let runs: Vec<_> = runs.map(|(level, run)| (level, run.clone())).collect();
        for (to_level, run) in runs {
            let task = Task { to_level, inputs: vec![vec![run]], is_rewriting: true };
            self.compaction = Some(Compaction::begin(task, self.options.table_bytes)?);
            self.compact(u64::MAX)?;
        }
        Ok(())
    }
}

/// Forgives what commits can go on without: a lack of space, and damage in a run, which reads name.
fn forgive(done: Result<()>) -> Result<()> {
    let is_space = |error: &halite_disk::Error| matches!(error, halite_disk::Error::NoSpace { .. });
    match &done {
        Err(Error::Disk(error)) if is_space(error) => Ok(()),
        Err(Error::Run(error)) => match &**error {
            halite_sst::Error::Disk(error) if !is_space(error) => done,
            _ => Ok(()),
        },
        Err(Error::Damaged { .. }) => Ok(()),
        _ => done,
    }
}

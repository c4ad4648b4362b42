//! Bringing data into the levels, and moving it down in them.

use std::sync::atomic::Ordering;

use super::commit::{edit_of, values_of};
use super::compaction::{Outputs, Task};
use super::edit::Place;
use super::emptying::Terms;
use super::error::{Error, Result};
use super::inner::{Change, Inner, Levels};
use super::names;
use super::pick::{Compaction, into_base};
use super::source::SortedRun;

impl Levels {
    /// Writes a run as tables of level 0, above all that the tree has. Runs of a tree are added one after the other,
    /// and the entries of a run are newer than all that were there.
    ///
    /// # Errors
    /// An error of the disk, or of the run. Then nothing has changed, and it can be done again; if the manifest could
    /// not be appended to, a crash may show it as done.
    pub fn add_run(&self, tree: u32, run: &dyn SortedRun, change: &Change) -> Result<()> {
        self.add_run_with(tree, run, change, Terms::default())
    }

    pub(super) fn add_run_with(
        &self,
        tree: u32,
        run: &dyn SortedRun,
        change: &Change,
        terms: Terms<'_>,
    ) -> Result<()> {
        // Space of files that can be removed may be needed.
        self.inner.bury();
        let version = self.inner.version(tree).unwrap_or_default();
        let compaction = Compaction { tree, version, inputs: Vec::new(), to_level: 0 };
        self.inner.execute(&compaction, Some(run), change, terms)?;
        self.retry();
        self.inner.bury();
        Ok(())
    }

    /// Merges a run into the base. It is newer than everything that the tree has. Waits for compactions
    /// of the same tables.
    ///
    /// If a table that it would be merged with cannot be read, the run becomes one of level 0, and waits there until
    /// that table is repaired.
    ///
    /// # Errors
    /// As [`Levels::add_run`]; [`Error::Closing`].
    pub fn merge_run(&self, tree: u32, run: &dyn SortedRun, change: &Change) -> Result<()> {
        self.merge_run_with(tree, run, change, Terms::default())
    }

    pub(super) fn merge_run_with(
        &self,
        tree: u32,
        run: &dyn SortedRun,
        change: &Change,
        terms: Terms<'_>,
    ) -> Result<()> {
        let inner = &*self.inner;
        inner.bury();
        let span = run.span();
        let compaction = {
            let mut locked = inner.locked.lock();
            loop {
                if inner.stop.load(Ordering::Relaxed) {
                    locked.base_wanted.remove(&tree);
                    return Err(Error::Closing);
                }
                // The thread that would have released the tables may be gone.
                inner.check_healthy()?;
                let version = inner.version(tree).unwrap_or_default();
                let unreadable = locked.unreadable(&version);
                let blocked = into_base(tree, &version, span.as_ref(), &unreadable, &inner.options);
                let is_free = !locked.into_base.contains(&tree);
                let found = into_base(tree, &version, span.as_ref(), &locked.busy, &inner.options);
                match found {
                    Some(compaction) if is_free => {
                        locked.base_wanted.remove(&tree);
                        locked.into_base.insert(tree);
                        locked.take(&compaction);
                        break Some(compaction);
                    }
                    _ if blocked.is_none() => {
                        locked.base_wanted.remove(&tree);
                        break None;
                    }
                    _ => {
                        locked.base_wanted.insert(tree);
                        inner.changed.wait(&mut locked);
                    }
                }
            }
        };
        let Some(compaction) = compaction else {
            return self.add_run_with(tree, run, change, terms);
        };
        let done = inner.execute(&compaction, Some(run), change, terms);
        inner.release(&compaction, true, done.as_ref().err());
        let is_blocked = compaction.tables().any(|(_, table)| table.is_unreadable());
        drop(compaction);
        inner.bury();
        match done {
            Err(_) if is_blocked => self.add_run_with(tree, run, change, terms),
            done => {
                done?;
                self.retry();
                Ok(())
            }
        }
    }

    /// Makes a change durable that comes without tables.
    ///
    /// # Errors
    /// As [`Levels::add_run`].
    pub fn note(&self, tree: u32, change: &Change) -> Result<()> {
        let edit = edit_of(tree, change);
        self.inner.commit(tree, edit, &mut Outputs::none(&self.inner.files), 0, 0)
    }

    /// Does the most urgent compaction, in this thread and [`super::LevelsOptions::threads`] in all. Returns false if
    /// none is to be done.
    ///
    /// # Errors
    /// As [`Levels::add_run`]; [`Error::Closing`].
    pub fn compact(&self) -> Result<bool> {
        match self.inner.pick() {
            Some((compaction, is_into_base)) => {
                let done = self.inner.compact(&compaction, is_into_base);
                drop(compaction);
                self.inner.bury();
                done.map(|()| true)
            }
            None => Ok(false),
        }
    }
}

impl Inner {
    pub(super) fn compact(&self, compaction: &Compaction, is_into_base: bool) -> Result<()> {
        let done = self.execute(compaction, None, &Change::default(), Terms::default());
        self.release(compaction, is_into_base, done.as_ref().err());
        done
    }

    /// Frees the tables for other compactions, but for one that could not be read.
    pub(super) fn release(
        &self,
        compaction: &Compaction,
        is_into_base: bool,
        error: Option<&Error>,
    ) {
        let mut locked = self.locked.lock();
        for (_, table) in compaction.tables() {
            let name = names::table(table.meta.number);
            if error.and_then(Error::file) == Some(&name) {
                table.set_unreadable();
            } else {
                locked.busy.remove(&table.meta.number);
            }
        }
        if is_into_base {
            locked.into_base.remove(&compaction.tree);
        }
        self.changed.notify_all();
    }

    /// Does a compaction, and makes it and a change durable. After a panic, the levels take nothing more.
    pub(super) fn execute(
        &self,
        compaction: &Compaction,
        external: Option<&dyn SortedRun>,
        change: &Change,
        terms: Terms<'_>,
    ) -> Result<()> {
        self.check_healthy()?;
        self.guard("a compaction", || self.execute_unguarded(compaction, external, change, terms))
    }

    fn execute_unguarded(
        &self,
        compaction: &Compaction,
        external: Option<&dyn SortedRun>,
        change: &Change,
        terms: Terms<'_>,
    ) -> Result<()> {
        let tree = compaction.tree;
        let mut edit = edit_of(tree, change);
        let tables = compaction.tables();
        edit.removed = tables.map(|(level, table)| (tree, level, table.meta.number)).collect();
        let run = match compaction.to_level {
            0 => self.numbers.fetch_add(1, Ordering::Relaxed),
            _ => 0,
        };
        let place = Place { tree, level: compaction.to_level, run };
        let counters = &self.counters;
        let mut outputs = Outputs::none(&self.files);
        let (mut read, mut added) = (0, 0);
        if external.is_none() && compaction.is_move() {
            let moved = compaction.tables().map(|(_, table)| (place, table.meta.clone()));
            edit.added = moved.collect();
        } else {
            let snapshots = (self.snapshots)();
            debug_assert!(snapshots.is_sorted());
            let task = Task {
                files: &self.files,
                options: &self.options,
                numbers: &self.numbers,
                snapshots: &snapshots,
                stop: &self.stop,
                health: &self.health,
                compaction,
                external,
                terms,
            };
            outputs = task.run()?;
            edit.added = outputs.tables.iter().map(|meta| (place, meta.clone())).collect();
            (read, added) = (compaction.bytes(), external.map_or(0, SortedRun::bytes));
        }
        let is_move = outputs.tables.is_empty() && !edit.added.is_empty();
        let values: Vec<u64> = values_of(edit.added.iter().map(|(_, meta)| meta)).collect();
        self.commit(tree, edit, &mut outputs, read, added)?;
        if external.is_some() {
            self.files.values.in_levels(tree, &values);
        }
        let counter = if is_move { &counters.moves } else { &counters.compactions };
        counter.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

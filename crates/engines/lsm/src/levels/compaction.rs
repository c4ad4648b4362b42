//! Makes tables of others, and of runs that come from outside.
//!
//! The keys are divided into ranges, each of which is a job: it merges the inputs' entries there, leaves out those
//! that no reader can see (`retention`), and writes tables. Several threads do the jobs. The tables that a compaction
//! has written are removed again if they do not become part of the levels.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use halite_sst::{Entry, RangeDelete, RangeDeletes, Reads, TableBuilder, TableId};
use parking_lot::Mutex;

use super::edit::TableMeta;
use super::emptying::Terms;
use super::error::{Error, Result};
use super::merge::Merge;
use super::names::{self, UNFINISHED};
use super::options::LevelsOptions;
use super::pick::Compaction;
use super::retention::{Retention, range_deletes_kept};
use super::source::{Direction, RunCursor, RunTables, SortedRun, Source};
use super::version::Files;
use halite_contract::Health;

/// Jobs for each thread, so that one that takes longer keeps no other waiting for long.
const JOBS_PER_THREAD: usize = 2;

/// A compaction that is under way.
pub(crate) struct Task<'a> {
    pub(crate) files: &'a Arc<Files>,
    pub(crate) options: &'a LevelsOptions,
    /// Numbers that no file has.
    pub(crate) numbers: &'a AtomicU64,
    pub(crate) snapshots: &'a [u64],
    pub(crate) stop: &'a AtomicBool,
    pub(crate) health: &'a Health,
    pub(crate) compaction: &'a Compaction,
    /// A run that is newer than all inputs.
    pub(crate) external: Option<&'a dyn SortedRun>,
    pub(crate) terms: Terms<'a>,
}

/// Tables that were written, and are removed when this is dropped.
pub(crate) struct Outputs {
    files: Arc<Files>,
    pub(crate) tables: Vec<TableMeta>,
}

impl Outputs {
    pub(crate) fn none(files: &Arc<Files>) -> Self {
        Self { files: Arc::clone(files), tables: Vec::new() }
    }

    /// Lets the files stay.
    pub(crate) fn keep(&mut self) -> Vec<TableMeta> {
        std::mem::take(&mut self.tables)
    }
}

impl Drop for Outputs {
    fn drop(&mut self) {
        for table in &self.tables {
            // If the file stays, the next opening removes it.
            let _ = self.files.disk.remove(&names::table(table.number));
        }
    }
}

/// Keys from the first on, below the second.
type Range = (Option<Box<[u8]>>, Option<Box<[u8]>>);

impl Task<'_> {
    /// Writes the tables.
    pub(crate) fn run(&self) -> Result<Outputs> {
        let deletes = self.range_deletes()?;
        let outputs = Mutex::new(Outputs::none(self.files));
        let jobs = Mutex::new(VecDeque::from(self.ranges()));
        let failed: Mutex<Option<Error>> = Mutex::new(None);
        let has_failed = AtomicBool::new(false);
        let work = || {
            loop {
                let Some((from, to)) = jobs.lock().pop_front() else { return };
                let job = Job { task: self, deletes: &deletes, has_failed: &has_failed };
                let mut written = Vec::new();
                let done = job.run(from.as_deref(), to.as_deref(), &mut written);
                outputs.lock().tables.extend(written);
                if let Err(error) = done {
                    // The reason is kept before other jobs stop because of it, with another error.
                    failed.lock().get_or_insert(error);
                    has_failed.store(true, Ordering::Relaxed);
                    return;
                }
            }
        };
        let guarded = |work: &dyn Fn()| {
            if !self.options.background {
                return work();
            }
            if self.health.guard("a thread of a compaction", work).is_none() {
                let why = self.health.failure().unwrap_or_default().to_owned();
                failed.lock().get_or_insert(Error::Stopped { why });
                has_failed.store(true, Ordering::Relaxed);
            }
        };
        thread::scope(|scope| {
            for _ in 1..self.options.threads.min(jobs.lock().len()) {
                // Without the thread the others do its part.
                let beside = || {
                    self.health.place("a thread beside a compaction's");
                    work();
                };
                let _ = thread::Builder::new().spawn_scoped(scope, move || guarded(&beside));
            }
            guarded(&work);
        });
        if let Some(error) = failed.into_inner() {
            return Err(error);
        }
        let outputs = outputs.into_inner();
        let bytes: u64 = outputs.tables.iter().map(|table| table.file_len).sum();
        let bytes_max = |growth: u64| self.compaction.bytes().saturating_add(growth);
        if self.terms.growth_max.is_some_and(|growth| bytes > bytes_max(growth)) {
            let path = self.files.disk.path().to_owned();
            return Err(halite_disk::Error::NoSpace { path }.into());
        }
        Ok(outputs)
    }

    /// The range deletes of all inputs.
    fn range_deletes(&self) -> Result<RangeDeletes> {
        let mut deletes = self.external.map_or_else(Vec::new, SortedRun::range_deletes);
        for (_, table) in self.compaction.tables() {
            if table.meta.range_deletes > 0 {
                deletes.extend_from_slice(table.table()?.range_deletes().as_slice());
            }
        }
        Ok(RangeDeletes::fragments_seen(deletes, self.snapshots))
    }

    /// The ranges of the jobs.
    fn ranges(&self) -> Vec<Range> {
        let bytes = self.compaction.bytes() + self.external.map_or(0, SortedRun::bytes);
        let jobs = (bytes / self.options.table_bytes.max(1)) as usize;
        let jobs = jobs.min(self.options.threads * JOBS_PER_THREAD).max(1);
        let mut keys: Vec<Box<[u8]>> =
            self.compaction.tables().map(|(_, table)| table.meta.span.first.clone()).collect();
        if let Some(external) = self.external
            && jobs > 1
        {
            keys.extend(external.split(jobs));
        }
        keys.sort_unstable();
        keys.dedup();
        let mut bounds: Vec<Box<[u8]>> =
            (1..jobs).filter_map(|job| keys.get(keys.len() * job / jobs).cloned()).collect();
        bounds.dedup();
        let starts = std::iter::once(None).chain(bounds.iter().cloned().map(Some));
        starts.zip(bounds.iter().cloned().map(Some).chain(std::iter::once(None))).collect()
    }
}

/// A part of a task.
struct Job<'a> {
    task: &'a Task<'a>,
    deletes: &'a RangeDeletes,
    /// Whether another job has failed.
    has_failed: &'a AtomicBool,
}

impl Job<'_> {
    fn run(
        &self,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        written: &mut Vec<TableMeta>,
    ) -> Result<()> {
        let Task { options, compaction, snapshots, terms, .. } = *self.task;
        self.task.health.place("compaction");
        let mut merge = Merge::new(self.sources(from, to)?, Direction::Forward);
        // Level 0 has older runs beside those that are added.
        let is_below = |key: &[u8], end: Option<&[u8]>| {
            compaction.to_level == 0 || compaction.version.is_below(compaction.to_level, key, end)
        };
        let mut retention = Retention::new(snapshots, self.deletes, |key| is_below(key, None));
        let deletes = range_deletes_kept(&self.deletes.cut(from, to), snapshots, |delete| {
            is_below(&delete.start, Some(&delete.end))
        });
        let mut lower: Option<Box<[u8]>> = from.map(Into::into);
        let mut builder: Option<Unfinished<'_>> = None;
        while let Some(entry) = merge.entry() {
            if to.is_some_and(|to| entry.key >= to) {
                break;
            }
            if self.task.stop.load(Ordering::Relaxed) || self.has_failed.load(Ordering::Relaxed) {
                return Err(Error::Closing);
            }
            let is_hidden =
                terms.hidden.is_some_and(|is_hidden| is_hidden(entry.key, entry.sequence));
            if !is_hidden && retention.keeps(entry) {
                // Versions of one key stay in one table, so that a level has a key once.
                let is_full = builder.as_ref().is_some_and(|table| {
                    table.builder().len() >= options.table_bytes
                        && table.builder().last_key() != entry.key
                });
                if is_full && let Some(mut table) = builder.take() {
                    // Behind its last key, the range of the next table begins.
                    let bound = [table.builder().last_key(), &[0]].concat();
                    table.add(&deletes.cut(lower.as_deref(), Some(&bound)));
                    written.push(table.finish()?);
                    lower = Some(bound.into());
                }
                if builder.is_none() {
                    builder = Some(Unfinished::new(self.task)?);
                }
                builder.as_mut().expect("just made").add_entry(entry)?;
            }
            merge.advance()?;
        }
        let rest = deletes.cut(lower.as_deref(), to);
        if builder.is_none() && !rest.as_slice().is_empty() {
            builder = Some(Unfinished::new(self.task)?);
        }
        if let Some(mut table) = builder {
            table.add(&rest);
            written.push(table.finish()?);
        }
        Ok(())
    }

    fn sources<'s>(
        &'s self,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
    ) -> Result<Vec<Box<dyn Source + 's>>> {
        let mut sources: Vec<Box<dyn Source + 's>> = Vec::new();
        if let Some(external) = self.task.external {
            sources.push(external.range(from, to)?);
        }
        for (_, tables) in &self.task.compaction.inputs {
            let run = RunTables::Some(tables.clone());
            sources.push(Box::new(RunCursor::new(
                run,
                Reads::Ahead,
                Direction::Forward,
                from,
                to,
            )?));
        }
        Ok(sources)
    }
}

/// A table that is being written, whose file is removed when this is dropped.
struct Unfinished<'a> {
    files: &'a Files,
    number: u64,
    builder: Option<TableBuilder>,
}

impl<'a> Unfinished<'a> {
    fn new(task: &Task<'a>) -> Result<Self> {
        let (files, number) = (&**task.files, task.numbers.fetch_add(1, Ordering::Relaxed));
        let writer = files.disk.create(&format!("{}{UNFINISHED}", names::table(number)))?;
        let id = TableId { store_id: files.store_id, number };
        let builder = TableBuilder::new(writer, id, task.compaction.tree, task.options.table);
        Ok(Self { files, number, builder: Some(builder) })
    }

    fn builder(&self) -> &TableBuilder {
        self.builder.as_ref().expect("not finished")
    }

    fn add_entry(&mut self, entry: Entry<'_>) -> Result<()> {
        Ok(self.builder.as_mut().expect("not finished").add(entry)?)
    }

    fn add(&mut self, deletes: &RangeDeletes) {
        let builder = self.builder.as_mut().expect("not finished");
        deletes.as_slice().iter().for_each(|delete: &RangeDelete| builder.add_range_delete(delete));
    }

    /// Makes the table durable, and gives it its name: a table that has its name is whole.
    fn finish(mut self) -> Result<TableMeta> {
        let name = names::table(self.number);
        let builder = self.builder.take().expect("not finished");
        let done = builder.finish().map_err(Error::from).and_then(|written| {
            self.files.disk.rename(&format!("{name}{UNFINISHED}"), &name)?;
            Ok(written)
        });
        let (properties, file_len) = done.inspect_err(|_| self.remove())?;
        Ok(TableMeta::of(self.number, file_len, &properties))
    }

    fn remove(&self) {
        // If the file stays, the next opening removes it.
        let _ = self.files.disk.remove(&format!("{}{UNFINISHED}", names::table(self.number)));
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if self.builder.is_some() {
            self.remove();
        }
    }
}

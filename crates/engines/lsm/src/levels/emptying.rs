//! Emptying a full disk: removed data goes, with no more room than was set aside for that.
//!
//! Merging writes new tables before the old ones are removed, so a full disk has no room for it, however much of the
//! merged data was removed. Here a table is removed whole, unread, where a removed range covers it; others are merged
//! table by table, each with the [`super::ballast`] if there is no other room, as long as no table becomes larger
//! than those that it replaces. An entry that a newer one in memory hides is left out ([`Hidden`]): so removals do
//! not have to come down first.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use halite_sst::{Entry, PUT_FILE, RangeDelete, RangeDeletes, Reads, ValueRef};

use super::compaction::{Outputs, Task};
use super::edit::{Edit, LEVELS, Place, TableMeta};
use super::error::{Error, Result};
use super::inner::{Change, Inner, Levels};
use super::part::{Runs, Whole};
use super::pick::{Compaction, Shape};
use super::source::{Direction, RunCursor, RunTables, SortedRun, Source};
use super::version::TableFile;

/// Whether memory durably has a newer version of a key, so that no reader sees the version with this sequence any
/// more.
pub(crate) type Hidden<'a> = &'a (dyn Fn(&[u8], u64) -> bool + Sync);

/// How a compaction is done.
#[derive(Clone, Copy, Default)]
pub(crate) struct Terms<'a> {
    pub(crate) hidden: Option<Hidden<'a>>,
    /// How many bytes more than the tables that they replace the new ones may have, where that is limited.
    pub(crate) growth_max: Option<u64>,
}

/// Keys from the first on, below the second.
type Range = (Option<Box<[u8]>>, Option<Box<[u8]>>);

/// The part of a table's bytes that has to go for it to be written anew: an eighth.
const PURGED_PART: u64 = 8;

/// A table that is written anew without references to removed files may grow by this part of it: a sixteenth, and by
/// no more than the files have. Blocks that are cut elsewhere are compressed otherwise.
const GROWN_PART: u64 = 16;

/// Whether the disk has no room.
pub(crate) fn is_no_space(error: &Error) -> bool {
    matches!(error, Error::Disk(error) if matches!(**error, halite_disk::Error::NoSpace { .. }))
}

/// The outcome of moving tables further down.
enum Pushed {
    One,
    /// A table is to be moved, and another compaction works on it, or on its destination.
    Blocked,
    None,
}

impl Levels {
    /// [`Levels::add_run`], with the ballast if there is no other room: for a run whose coming down gives room back.
    pub(crate) fn add_run_in_need(
        &self,
        tree: u32,
        run: &dyn SortedRun,
        change: &Change,
        hidden: Hidden<'_>,
    ) -> Result<()> {
        let terms = Terms { hidden: Some(hidden), growth_max: None };
        match self.add_run_with(tree, run, change, terms) {
            Err(error) if is_no_space(&error) => {
                let _lent = self.inner.ballast.lend();
                self.add_run_with(tree, run, change, terms)
            }
            done => done,
        }
    }

    /// [`Levels::merge_run`], table by table of the base: so it needs no room but for the final growth. A part also
    /// has the ballast, if it does not grow, and something may be hidden.
    ///
    /// # Errors
    /// As there. Parts of the run may be in the levels then, and the manifest does not say so: they are merged once
    /// more.
    pub(crate) fn merge_run_in_parts(
        &self,
        tree: u32,
        run: &dyn SortedRun,
        change: &Change,
        hidden: Option<Hidden<'_>>,
    ) -> Result<()> {
        let version = self.inner.version(tree).unwrap_or_default();
        let base = Shape::of(&version.level_bytes(), &self.inner.options).base;
        let tables = version.levels[base].iter().flat_map(|run| &run.tables);
        let mut bounds: Vec<_> =
            tables.skip(1).map(|table| table.meta.span.first.clone()).collect();
        drop(version);
        let parts = run.bytes() / self.inner.options.table_bytes.max(1);
        if parts > 1 {
            bounds.extend(run.split(parts as usize));
        }
        bounds.sort_unstable();
        bounds.dedup();
        let mut left = between(bounds);
        let whole = Whole::new(run, &(self.inner.snapshots)());
        while !left.is_empty() {
            let (before, mut failure) = (left.len(), None);
            let mut not_done = Vec::new();
            for (from, to) in left {
                let part = whole.part(from.clone(), to.clone());
                if part.span().is_none() {
                    continue;
                }
                let none = Change::default();
                let terms = Terms { hidden, growth_max: None };
                let done = match self.merge_run_with(tree, &part, &none, terms) {
                    Err(error) if is_no_space(&error) && hidden.is_some() => {
                        let _lent = self.inner.ballast.lend();
                        self.merge_run_with(
                            tree,
                            &part,
                            &none,
                            Terms { growth_max: Some(0), ..terms },
                        )
                    }
                    done => done,
                };
                match done {
                    Err(error) if is_no_space(&error) => {
                        failure = Some(error);
                        not_done.push((from, to));
                    }
                    done => done?,
                }
            }
            left = not_done;
            // Space that other compactions gave back may suffice for the parts that are left.
            if let Some(error) = failure.filter(|_| left.len() == before) {
                return Err(error);
            }
        }
        let _lent = self.inner.ballast.lend();
        self.note(tree, change)?;
        self.retry();
        Ok(())
    }

    /// Removes the tables of a tree that removed ranges cover, with everything in them, if no snapshot needs them.
    /// The removals are durable, and in memory. Returns whether there were any tables.
    ///
    /// # Errors
    /// An error of the disk. Then nothing has changed.
    pub(crate) fn drop_covered(&self, tree: u32, deletes: Vec<RangeDelete>) -> Result<bool> {
        if deletes.is_empty() {
            return Ok(false);
        }
        let inner = &*self.inner;
        let snapshots = (inner.snapshots)();
        // A table goes for the newest that covers it.
        let deletes = RangeDeletes::fragments_seen(deletes, &[]);
        let mut edit = Edit::default();
        {
            let mut locked = inner.locked.lock();
            let Some(version) = inner.version(tree) else { return Ok(false) };
            for (level, run) in version.runs() {
                for table in &run.tables {
                    let is_busy = locked.busy.contains(&table.meta.number);
                    if !is_busy && is_covered(&table.meta, deletes.as_slice(), &snapshots) {
                        edit.removed.push((tree, level, table.meta.number));
                    }
                }
            }
            locked.busy.extend(edit.removed.iter().map(|(.., number)| *number));
        }
        if edit.removed.is_empty() {
            return Ok(false);
        }
        let numbers: Vec<u64> = edit.removed.iter().map(|(.., number)| *number).collect();
        let done = {
            let _lent = inner.ballast.lend();
            let done = inner.commit(tree, edit, &mut Outputs::none(&inner.files), 0, 0);
            inner.bury();
            done
        };
        inner.free(&numbers, None);
        done.map(|()| true)
    }

    /// Sets aside the missing part of the ballast, as others have given space back. Returns whether all of it is there.
    pub(crate) fn take_ballast(&self) -> bool {
        self.inner.ballast.take()
    }

    /// Lets a file beside the tables have space by `reserve`, if all of the ballast is there.
    ///
    /// # Errors
    /// [`halite_disk::Error::NoSpace`]; the errors of `reserve`.
    pub(crate) fn reserve_beside_ballast<E: From<halite_disk::Error>>(
        &self,
        reserve: impl FnOnce() -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        self.inner.ballast.reserve_beside(reserve)
    }

    /// Writes tables of a tree anew, of which an eighth or more is hidden, counting their files, without the hidden
    /// entries: one after the other, with the ballast, as none becomes larger than the table and the files that go.
    /// Behind each, `between` is called. Returns whether there were any.
    ///
    /// # Errors
    /// An error of the disk, or of a table that cannot be read.
    pub(crate) fn purge(&self, tree: u32, hidden: Hidden<'_>, between: &dyn Fn()) -> Result<bool> {
        let inner = &*self.inner;
        let (mut purged, mut failure) = (false, None);
        let version = inner.version(tree).unwrap_or_default();
        let number = |table: &Arc<TableFile>| table.meta.number;
        let numbers = version.runs().flat_map(|(_, run)| run.tables.iter().map(number));
        let numbers: Vec<u64> = numbers.collect();
        drop(version);
        for number in numbers {
            if inner.stop.load(Ordering::Relaxed) {
                return Err(Error::Closing);
            }
            let taken = {
                let mut locked = inner.locked.lock();
                let version = inner.version(tree).unwrap_or_default();
                // Another compaction may be at work on the table, or have replaced it.
                let place = version.place_of(number).filter(|_| !locked.busy.contains(&number));
                if place.is_some() {
                    locked.busy.insert(number);
                }
                place
            };
            let Some((place, table)) = taken else { continue };
            let done = inner.purge_one(Place { tree, ..place }, table, hidden);
            inner.free(&[number], None);
            inner.bury();
            between();
            match done {
                // Others are smaller.
                Err(error) if is_no_space(&error) => failure = Some(error),
                done => purged |= done?,
            }
        }
        match failure {
            Some(error) if !purged => Err(error),
            _ => Ok(purged),
        }
    }

    /// Brings the runs of level 0 to the base, and tables with tombstones further down, until there are none above
    /// the last level that has data for them. Behind each part, `between` is called. Returns whether anything was
    /// moved, and whether no more is to be: another compaction may be at work.
    ///
    /// # Errors
    /// As [`Levels::add_run`].
    pub(crate) fn push_removals_down(
        &self,
        tree: u32,
        hidden: Hidden<'_>,
        between: &dyn Fn(),
    ) -> Result<(bool, bool)> {
        let mut moved = false;
        // Tables that are made meanwhile are examined the next time.
        let below = self.inner.numbers.load(Ordering::Relaxed);
        loop {
            match self.push_one_down(tree, below, hidden, between)? {
                Pushed::One => moved = true,
                Pushed::Blocked => return Ok((moved, false)),
                Pushed::None => return Ok((moved, true)),
            }
        }
    }

    fn push_one_down(
        &self,
        tree: u32,
        below: u64,
        hidden: Hidden<'_>,
        between: &dyn Fn(),
    ) -> Result<Pushed> {
        let inner = &*self.inner;
        let (level, to_level, upper, lower, base) = {
            let mut locked = inner.locked.lock();
            let Some(version) = inner.version(tree) else { return Ok(Pushed::None) };
            let is_free = |table: &Arc<TableFile>| !locked.busy.contains(&table.meta.number);
            let base = Shape::of(&version.level_bytes(), &inner.options).base;
            let is_base_free =
                !locked.into_base.contains(&tree) && !locked.base_wanted.contains(&tree);
            // All of them at once: the base is written anew for each push.
            let older = version.levels[0].iter().filter(|run| run.number < below);
            let older: Vec<_> = older.map(|run| run.tables.clone()).collect();
            let found = match older.is_empty() {
                false if is_base_free => Some((0, base, older)),
                false => return Ok(Pushed::Blocked),
                true => (base..LEVELS - 1).find_map(|level| {
                    let tables = version.levels[level].iter().flat_map(|run| &run.tables);
                    let mut tables = tables.filter(|table| {
                        let has_removals = table.meta.deletes + table.meta.range_deletes > 0;
                        has_removals && table.meta.number < below && is_free(table)
                    });
                    Some((level, level + 1, vec![vec![Arc::clone(tables.next()?)]]))
                }),
            };
            let Some((level, to_level, upper)) = found else { return Ok(Pushed::None) };
            let mut tables = upper.iter().flatten();
            let Some(first) = tables.next() else { return Ok(Pushed::None) };
            let mut span = first.meta.span.clone();
            tables.for_each(|table| span.extend(&table.meta.span));
            let lower = version.levels[to_level].iter();
            let lower: Vec<_> =
                lower.flat_map(|run| run.overlapping_span(&span)).cloned().collect();
            if !upper.iter().flatten().chain(&lower).all(is_free) {
                return Ok(Pushed::Blocked);
            }
            let numbers = upper.iter().flatten().chain(&lower).map(|table| table.meta.number);
            locked.busy.extend(numbers);
            if level <= base {
                locked.into_base.insert(tree);
            }
            let numbers: Vec<u64> = lower.iter().map(|table| table.meta.number).collect();
            (level, to_level, upper, (parts_of(lower.iter()), numbers), level <= base)
        };
        let numbers = upper.iter().flatten().map(|table| table.meta.number).chain(lower.1);
        let numbers: Vec<u64> = numbers.collect();
        let done = inner.push_down(tree, (level, upper), (to_level, lower.0), hidden, between);
        inner.free(&numbers, base.then_some(tree));
        done.map(|()| Pushed::One)
    }
}

impl Inner {
    /// Writes a table anew without its hidden entries, if these, with their files, have as many bytes as an eighth of
    /// it. It is busy.
    fn purge_one(&self, place: Place, table: Arc<TableFile>, hidden: Hidden<'_>) -> Result<bool> {
        let (mut hidden_bytes, mut of_files, mut bytes) = (0_u64, 0_u64, 0_u64);
        let tables = RunTables::Some(vec![Arc::clone(&table)]);
        let mut cursor = RunCursor::new(tables, Reads::Ahead, Direction::Forward, None, None)?;
        while let Some(entry) = cursor.entry() {
            let len = (entry.key.len() + entry.value.len()) as u64;
            bytes += len;
            if hidden(entry.key, entry.sequence) {
                // The file of a large value goes, too, and is not written anew with those that stay.
                hidden_bytes = hidden_bytes.saturating_add(len);
                of_files = of_files.saturating_add(file_bytes(&entry));
            }
            cursor.advance()?;
        }
        drop(cursor);
        let given = hidden_bytes.saturating_add(of_files);
        if given == 0 || given.saturating_mul(PURGED_PART) < bytes {
            return Ok(false);
        }
        let (tree, to_level) = (place.tree, place.level);
        let version = self.version(tree).unwrap_or_default();
        let removed = vec![(tree, to_level, table.meta.number)];
        let inputs = vec![(to_level, vec![table])];
        let compaction = Compaction { tree, version, inputs, to_level };
        let snapshots = (self.snapshots)();
        let _lent = self.ballast.lend();
        let task = Task {
            files: &self.files,
            options: &self.options,
            numbers: &self.numbers,
            snapshots: &snapshots,
            stop: &self.stop,
            health: &self.health,
            compaction: &compaction,
            external: None,
            terms: Terms {
                hidden: Some(hidden),
                growth_max: Some(of_files.min(bytes / GROWN_PART)),
            },
        };
        let mut outputs = task.run()?;
        let added = outputs.tables.iter().map(|meta| (place, meta.clone())).collect();
        let edit = Edit { removed, added, ..Edit::default() };
        self.commit(tree, edit, &mut outputs, compaction.bytes(), 0)?;
        drop(compaction);
        // The files go before the ballast takes the space back.
        self.bury();
        Ok(true)
    }

    /// Merges runs of a level with the tables of the level below, part by part, each with the ballast. All of them are
    /// busy.
    fn push_down(
        &self,
        tree: u32,
        (level, upper): (usize, Vec<Vec<Arc<TableFile>>>),
        (to_level, parts): (usize, Vec<Range>),
        hidden: Hidden<'_>,
        between: &dyn Fn(),
    ) -> Result<()> {
        let terms = Terms { hidden: Some(hidden), growth_max: None };
        let numbers: HashSet<u64> = upper.iter().flatten().map(|table| table.meta.number).collect();
        let run = Runs::new(upper)?;
        let whole = Whole::new(&run, &(self.snapshots)());
        for (from, to) in parts {
            let part = whole.part(from, to);
            let Some(span) = part.span() else { continue };
            {
                let _lent = self.ballast.lend();
                let version = self.version(tree).unwrap_or_default();
                let tables = version.levels[to_level].iter();
                let tables: Vec<_> =
                    tables.flat_map(|run| run.overlapping_span(&span)).cloned().collect();
                let inputs = if tables.is_empty() { Vec::new() } else { vec![(to_level, tables)] };
                let compaction = Compaction { tree, version, inputs, to_level };
                self.execute(&compaction, Some(&part), &Change::default(), terms)?;
                drop(compaction);
                self.bury();
            }
            between();
        }
        let _lent = self.ballast.lend();
        let removed = numbers.iter().map(|number| (tree, level, *number)).collect();
        let edit = Edit { removed, ..Edit::default() };
        self.commit(tree, edit, &mut Outputs::none(&self.files), 0, 0)?;
        drop(run);
        // The files go before the ballast takes the space back.
        self.bury();
        Ok(())
    }

    /// Frees tables, and the base of a tree, for other compactions.
    fn free(&self, numbers: &[u64], into_base: Option<u32>) {
        let mut locked = self.locked.lock();
        numbers.iter().for_each(|number| {
            locked.busy.remove(number);
        });
        if let Some(tree) = into_base {
            locked.into_base.remove(&tree);
        }
        self.changed.notify_all();
    }
}

/// Bytes of the large value that an entry refers to.
fn file_bytes(entry: &Entry<'_>) -> u64 {
    match entry.kind {
        PUT_FILE => ValueRef::of_bytes(entry.value).map_or(0, |value| value.len),
        _ => 0,
    }
}

/// The ranges that bounds, which ascend, divide all keys into.
fn between(bounds: Vec<Box<[u8]>>) -> Vec<Range> {
    let starts = std::iter::once(None).chain(bounds.iter().cloned().map(Some));
    starts.zip(bounds.iter().cloned().map(Some).chain(std::iter::once(None))).collect()
}

/// The ranges that tables, in their order, divide all keys into: one for each, at least one.
fn parts_of<'a>(tables: impl Iterator<Item = &'a Arc<TableFile>>) -> Vec<Range> {
    between(tables.skip(1).map(|table| table.meta.span.first.clone()).collect())
}

/// Whether removed ranges, as fragments, cover all of a table, and no snapshot sees anything of it.
fn is_covered(table: &TableMeta, deletes: &[RangeDelete], snapshots: &[u64]) -> bool {
    let mut at = &table.span.first;
    loop {
        // The newest delete of the same keys is the first.
        let first = deletes.partition_point(|delete| delete.end <= *at);
        let Some(delete) = deletes.get(first).filter(|delete| delete.start <= *at) else {
            return false;
        };
        let is_seen = |snapshot: &u64| (table.sequence_min..delete.sequence).contains(snapshot);
        if delete.sequence <= table.sequence_max || snapshots.iter().any(is_seen) {
            return false;
        }
        if table.span.is_before(&delete.end) {
            return true;
        }
        at = &delete.end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_sst::Span;

    #[test]
    fn a_table_is_covered_by_ranges_without_a_gap_that_are_newer_and_not_by_what_a_snapshot_sees() {
        let table = |first: &str, last: &str, is_open| TableMeta {
            number: 1,
            file_len: 1,
            entries: 1,
            deletes: 0,
            range_deletes: 0,
            sequence_min: 10,
            sequence_max: 20,
            values: Vec::new(),
            span: Span { first: first.as_bytes().into(), last: last.as_bytes().into(), is_open },
        };
        let delete = |start: &str, end: &str, sequence| RangeDelete {
            start: start.as_bytes().into(),
            end: end.as_bytes().into(),
            sequence,
        };
        let deletes = [delete("b", "d", 30), delete("b", "d", 15), delete("d", "f", 25)];
        let covered = |table: &TableMeta, snapshots: &[u64]| is_covered(table, &deletes, snapshots);
        assert!(covered(&table("b", "e", false), &[40]));
        assert!(covered(&table("c", "f", true), &[9, 30, 40]));
        assert!(!covered(&table("c", "f", false), &[40]), "the last key is behind all ranges");
        assert!(!covered(&table("a", "c", false), &[40]), "the first is before them");
        assert!(!covered(&table("b", "c", false), &[10, 40]), "a snapshot sees it");
        assert!(!covered(&table("b", "c", false), &[29]));
        let newer = TableMeta { sequence_max: 26, ..table("b", "e", false) };
        assert!(!covered(&newer, &[40]), "something in it may be newer than one range");
        assert!(covered(&TableMeta { sequence_max: 26, ..table("b", "c", false) }, &[40]));
    }
}

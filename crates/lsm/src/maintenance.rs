//! What moves memtables on: into the global index, and from there to the levels.
//!
//! Two threads do it, so that merging memtables, which takes milliseconds, does not wait for the levels. A store
//! without threads (the crash lab's) does both where a writer would wake them. Writers are slowed while room has to
//! last ([`crate::pace`]), and only wait where there is none.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use halite_engine::{Error, Result};
use halite_pmem::{locks, planted};
use parking_lot::{Condvar, Mutex};

use crate::address::{SLOTS_MAX, ZONE};
use crate::commit::is_full;
use crate::flushed::Flushed;
use crate::global_index::GlobalIndex;
use crate::layer::Layer;
use crate::layout;
use crate::levels::{Change, FLUSHES};
use crate::memtable::Memtable;
use crate::read::from_levels;
use crate::rows::Rows;
use crate::run::Run;
use crate::store::Store;
use crate::tree::{Tree, View};
use crate::wal::Wal;

/// How long a thread waits before it tries again what failed.
const RETRY: Duration = Duration::from_secs(1);

/// How long a thread waits for batches to be committed in a memtable that is full.
const SETTLING: Duration = Duration::from_millis(10);

/// What wakes the threads, and those who wait for them.
#[derive(Default)]
pub(crate) struct Signals {
    state: Mutex<State>,
    work: Condvar,
    done: Condvar,
    are_threads_there: AtomicBool,
}

#[derive(Default)]
struct State {
    /// Counts what there may be to do.
    due: u64,
    /// Counts what was done, or failed.
    done: u64,
    stopping: bool,
    /// Writers that wait for room.
    waiting: u32,
    /// What kept the levels from taking a global index, the last time it was tried.
    failure: Option<Arc<Error>>,
}

impl Signals {
    /// There may be something to do.
    pub(crate) fn wake(&self) {
        self.state.lock().due += 1;
        self.work.notify_all();
    }

    fn note(&self, failure: Option<Error>) {
        let mut state = self.state.lock();
        state.done += 1;
        state.failure = failure.map(Arc::new);
        self.done.notify_all();
    }

    /// Whether somebody waits for room: the pool may have less than it seems, where its device is full.
    fn is_room_wanted(&self) -> bool {
        self.state.lock().waiting > 0
    }

    fn is_stopping(&self) -> bool {
        self.state.lock().stopping
    }
}

/// What a thread does; whether it did anything.
type Task = fn(&Store) -> Result<bool>;

/// The threads of an open store.
pub(crate) struct Maintenance {
    store: Arc<Store>,
    threads: Vec<JoinHandle<()>>,
}

impl Maintenance {
    pub(crate) fn start(store: &Arc<Store>) -> Self {
        let mut threads = Vec::new();
        if store.on_threads {
            let tasks: [(&str, Task); 2] =
                [("lsm-merge", Store::merge_all), ("lsm-flush", Store::flush_all)];
            for &(name, task) in &tasks {
                let store = Arc::clone(store);
                let thread =
                    thread::Builder::new().name(name.into()).spawn(move || run(&store, task));
                threads.extend(thread.ok());
            }
            // Without one of them, writers do the work themselves when there is no room.
            store.signals.are_threads_there.store(threads.len() == tasks.len(), Ordering::Relaxed);
        }
        Self { store: Arc::clone(store), threads }
    }
}

impl Drop for Maintenance {
    fn drop(&mut self) {
        self.store.signals.state.lock().stopping = true;
        self.store.signals.work.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Does a task whenever there may be something to do.
fn run(store: &Store, task: Task) {
    let mut seen = 0;
    loop {
        let outcome = task(store);
        let failed = outcome.is_err();
        match outcome {
            Ok(true) => {
                store.set_pace();
                store.signals.note(None);
                // Others may have something to do now.
                store.signals.wake();
            }
            Ok(false) => {}
            Err(error) => {
                store.set_pace();
                store.signals.note(Some(error));
            }
        }
        let mut state = store.signals.state.lock();
        while state.due == seen && !state.stopping {
            if failed {
                store.signals.work.wait_for(&mut state, RETRY);
                break;
            }
            if store.has_immutables() {
                // What is still being committed may be settled by then; nobody tells.
                store.signals.work.wait_for(&mut state, SETTLING);
                break;
            }
            store.signals.work.wait(&mut state);
        }
        if state.stopping {
            return;
        }
        seen = state.due;
    }
}

impl Store {
    /// Merges all memtables that can be, keeps room free for others, and prepares the next zones. Returns whether
    /// anything was merged or made free.
    pub(crate) fn merge_all(&self) -> Result<bool> {
        let wanted = if self.is_all_wanted() { u64::MAX } else { self.limits.spare };
        let mut merged = self.spare(wanted);
        for tree in 0..self.trees.len() {
            if !self.signals.is_stopping() && self.on_threads {
                self.prepare_zone(tree)?;
            }
            while !self.signals.is_stopping() && self.merge_one(tree)? {
                merged = true;
            }
        }
        Ok(merged)
    }

    /// Adds the next zone of a tree's active memtable, where there is plenty of room.
    fn prepare_zone(&self, tree: usize) -> Result<()> {
        if self.room() < self.limits.slow_below {
            return Ok(());
        }
        self.take_from_rows(ZONE);
        match self.trees[tree].view().active.zones.prepare_next() {
            Err(Error::Alloc(halite_alloc::Error::Full { .. })) => Ok(()),
            other => other,
        }
    }

    /// Brings to the levels what is to go there. Returns whether anything was.
    pub(crate) fn flush_all(&self) -> Result<bool> {
        let _flushing = self.flushing.lock();
        self.flush_alone()
    }

    /// [`Store::flush_all`], of who holds `flushing`.
    fn flush_alone(&self) -> Result<bool> {
        let mut flushed = false;
        if self.is_logged() {
            for tree in 0..self.trees.len() {
                flushed |= !self.signals.is_stopping() && self.flush_memtable(tree)?;
            }
        } else if !self.signals.is_stopping()
            && let Some((tree, frozen)) = self.next_frozen()
        {
            self.flush_frozen(tree, &frozen)?;
            flushed = true;
        }
        Ok(flushed)
    }

    /// The global index that goes to the levels now: one that could not before; or the largest, if all together
    /// are large enough, or a writer has no room.
    fn next_frozen(&self) -> Option<(usize, Arc<GlobalIndex>)> {
        let views: Vec<_> = self.trees.iter().map(|tree| tree.view()).collect();
        let frozen = |(tree, view): (usize, &arc_swap::Guard<Arc<View>>)| {
            view.frozen.as_ref().map(|frozen| (tree, Arc::clone(frozen)))
        };
        if let Some(frozen) = views.iter().enumerate().find_map(frozen) {
            return Some(frozen);
        }
        let bytes: Vec<u64> = views.iter().map(|view| view.global.pool_bytes()).collect();
        let memtables: usize = views.iter().map(|view| view.global.memtables()).sum();
        let is_due =
            bytes.iter().sum::<u64>() >= self.limits.global_index_bytes || memtables >= MERGED_MAX;
        let largest = (0..bytes.len()).max_by_key(|&tree| bytes[tree])?;
        let is_empty = views[largest].global.is_empty();
        drop(views);
        let is_wanted = is_due || self.signals.is_room_wanted();
        (is_wanted && !is_empty).then(|| (largest, self.freeze(largest)))
    }

    /// Lets an empty global index take the place of a tree's.
    fn freeze(&self, tree: usize) -> Arc<GlobalIndex> {
        let _changing = self.merging.lock();
        let mut frozen = None;
        self.trees[tree].change(|view| {
            let global = std::mem::replace(&mut view.global, Arc::new(GlobalIndex::new()));
            view.frozen = Some(Arc::clone(&global));
            frozen = Some(global);
        });
        frozen.expect("it was frozen")
    }

    /// Merges a frozen global index with the levels. Its zones go back when their room is wanted.
    fn flush_frozen(&self, tree: usize, frozen: &Arc<GlobalIndex>) -> Result<()> {
        self.check_healthy()?;
        // Recovery will look for a gap behind `commit_id`: what goes to the levels now must not be one.
        if !planted!(LevelsAheadOfCommitId) {
            self.persist_commit_points()?;
        }
        let merged = frozen.merged();
        let newest = merged.iter().map(|zones| zones.id).max();
        let flushes = self.levels.flushes() + 1;
        let change = Change { memtables: newest, words: vec![(FLUSHES.to_owned(), flushes)] };
        self.flush_paced(&**frozen, |run| {
            self.levels.merge_run(tree as u32, run, &change)?;
            // Before memory lets go of them.
            self.rows.iter().for_each(|rows| rows.flushed(tree, frozen));
            Ok(())
        })?;
        // What was flushed before is read no more.
        let may_stay = merged.len() < MERGED_MAX && !self.is_all_wanted();
        let flushed = Flushed::new(frozen).filter(|_| may_stay);
        self.trees[tree].change(|view| (view.frozen, view.flushed) = (None, flushed));
        merged.iter().for_each(|zones| zones.release());
        self.rows.iter().for_each(Rows::grow);
        layout::raise(&self.home, layout::FLUSHES, flushes)
    }

    /// Brings a layer to the levels, by which writers are paced.
    fn flush_paced<L: Layer>(
        &self,
        layer: &L,
        flush: impl FnOnce(&Run<'_, L>) -> crate::sst::Result<()>,
    ) -> Result<()> {
        self.pace.begin(layer.index().len());
        self.set_pace();
        let flushed = flush(&Run { layer, pace: &self.pace }).map_err(from_levels);
        self.pace.end(flushed.is_ok());
        flushed
    }

    /// Writes the oldest immutable memtable as a run of level 0: where there is a log, and no global index.
    fn flush_memtable(&self, tree: usize) -> Result<bool> {
        let view = self.trees[tree].view();
        let Some(oldest) = view.immutables.last() else { return Ok(false) };
        if !self.is_settled(oldest) {
            return Ok(false);
        }
        // What was refused must not be kept.
        self.check_healthy()?;
        let last = oldest.last.load(Ordering::Acquire);
        let flushes = self.levels.flushes() + 1;
        let words = vec![(flushed_word(tree), last), (FLUSHES.to_owned(), flushes)];
        let change = Change { memtables: None, words };
        if let Some(wal) = self.wal.as_ref().filter(|_| planted!(LogRemovedBeforeTable)) {
            wal.release(u64::MAX).map_err(from_levels)?;
        }
        self.flush_paced(&**oldest, |run| self.levels.add_run(tree as u32, run, &change))?;
        self.trees[tree].change(|view| {
            view.immutables.pop();
        });
        oldest.zones.release();
        layout::raise(&self.home, layout::FLUSHES, flushes)?;
        if let Some(wal) = &self.wal {
            let first = self.first_log_needed(wal);
            layout::raise(&self.home, layout::LOG_FIRST, first)?;
            let files = wal.release(first).map_err(from_levels)?;
            if files > LOG_FILES_MAX * self.trees.len() {
                // A tree that is seldom written to keeps the log from getting shorter.
                self.roll_all()?;
            }
        }
        Ok(true)
    }

    /// The first file of the log that a memtable needs.
    fn first_log_needed(&self, wal: &Wal) -> u64 {
        // First: what is empty after that gets nothing from an earlier file.
        let current = wal.number();
        let views = self.trees.iter().map(|tree| tree.view());
        let first = |view: arc_swap::Guard<Arc<View>>| {
            let memtables = view.memtables().filter(|memtable| memtable.zones.used_bytes() > 0);
            memtables.map(|memtable| memtable.first_log).min()
        };
        views.filter_map(first).fold(current, u64::min)
    }

    /// Whether there are full memtables that were not merged yet.
    fn has_immutables(&self) -> bool {
        self.trees.iter().any(|tree| !tree.view().immutables.is_empty())
    }

    /// Whether everything that a memtable was granted for is committed.
    fn is_settled(&self, memtable: &Memtable) -> bool {
        let frozen_at = memtable.frozen_at();
        frozen_at != u64::MAX && (frozen_at == 0 || self.ring.is_committed(frozen_at - 1))
    }

    /// Merges a tree's oldest immutable memtable into its global index, if all of it is committed. Returns
    /// whether there was one.
    fn merge_one(&self, tree: usize) -> Result<bool> {
        if self.is_logged() {
            return Ok(false);
        }
        let tree = &self.trees[tree];
        let _changing = self.merging.lock();
        let view = tree.view();
        let Some(oldest) = view.immutables.last() else { return Ok(false) };
        if !self.is_settled(oldest) {
            return Ok(false);
        }
        // Behind the look at what is settled: batches are then, too, that were refused since something failed.
        self.check_healthy()?;
        self.finish_gidx(oldest)?;
        let kept = self.snapshots.kept(&self.visible);
        view.global.merge(oldest, &kept);
        tree.change(|view| {
            view.immutables.pop();
        });
        Ok(true)
    }

    /// Whether full memtables go to level 0, as there is a log, and there is no global index.
    pub(crate) fn is_logged(&self) -> bool {
        self.wal.is_some() || self.is_replaying.load(Ordering::Relaxed)
    }

    /// Whether somebody else makes room for a writer.
    fn has_threads(&self) -> bool {
        self.signals.are_threads_there.load(Ordering::Relaxed)
            && !self.is_replaying.load(Ordering::Relaxed)
    }

    /// One step of what threads do for a tree, where there are none: merges a memtable, or brings something to
    /// the levels, or compacts those. Returns whether it did.
    pub(crate) fn collect_ahead(&self, tree: usize) -> Result<bool> {
        if self.on_threads || tree >= self.trees.len() {
            return Ok(false);
        }
        self.check_healthy()?;
        if self.merge_one(tree)? {
            return Ok(true);
        }
        let _flushing = self.flushing.lock();
        Ok(self.flush_alone()? || self.levels.compact().map_err(from_levels)?)
    }

    /// Whether all that was flushed is to go: others wait for room. A writer who makes it says how much.
    fn is_all_wanted(&self) -> bool {
        self.has_threads() && self.signals.is_room_wanted()
    }

    /// Bytes of the pool that nobody has, or only what was read from the levels ([`Store::take_from_rows`]).
    pub(crate) fn free(&self) -> u64 {
        let rows = self.rows.as_ref().map_or(0, Rows::pool_bytes);
        self.segments.available() * ZONE + rows
    }

    /// Lets what was read from the levels go until so many bytes are free without growth. Returns whether they are, and
    /// something went.
    fn take_from_rows(&self, wanted: u64) -> bool {
        let has_enough = || self.segments.free() * ZONE >= wanted;
        let give_back = || self.rows.as_ref().is_some_and(Rows::give_back);
        let mut taken = false;
        while !has_enough() && give_back() {
            taken = true;
        }
        taken && has_enough()
    }

    /// Bytes that writers may have: those that are free or will be when nobody reads there any more, and those of
    /// what is in the levels, too.
    fn room(&self) -> u64 {
        let flushed = |tree: &Tree| tree.view().flushed.as_ref().map_or(0, |all| all.pool_bytes());
        self.free() + self.held() + self.trees.iter().map(flushed).sum::<u64>()
    }

    /// Bytes of memtables that were given back, and that somebody still reads.
    fn held(&self) -> u64 {
        let mut held = 0;
        self.spared.lock().retain(|zones| match zones.upgrade() {
            Some(zones) => {
                held += zones.pool_bytes();
                true
            }
            None => false,
        });
        held
    }

    /// Gives back memtables that are in the levels, the oldest first, until so many bytes are free or will be
    /// when nobody reads there any more. Returns whether there was one.
    pub(crate) fn spare(&self, wanted: u64) -> bool {
        let mut free = self.free() + self.held();
        let mut spared = false;
        while free < wanted {
            let flushed = |tree: &Tree| tree.view().flushed.as_ref().map(|all| all.oldest().id);
            let of_trees = self.trees.iter().filter_map(|tree| Some((flushed(tree)?, tree)));
            let Some((_, tree)) = of_trees.min_by_key(|(id, _)| *id) else { break };
            tree.change(|view| {
                let Some(flushed) = view.flushed.take() else { return };
                free += flushed.oldest().pool_bytes();
                self.spared.lock().push(Arc::downgrade(flushed.oldest()));
                view.flushed = flushed.without_oldest();
            });
            spared = true;
        }
        if spared {
            self.rows.iter().for_each(Rows::grow);
        }
        spared
    }

    /// That there is no room, and nothing in the pool can go.
    pub(crate) fn full(&self) -> Error {
        let limit = self.pool().len_max();
        Error::Full { used: limit.saturating_sub(self.free()), limit, held: self.held() }
    }

    /// Has a writer wait, where room has to last or the levels are behind.
    pub(crate) fn slow_down(&self, bytes: u64) {
        self.pace.wait(bytes, || self.set_pace());
    }

    /// Finds how fast writers may be.
    pub(crate) fn set_pace(&self) {
        if self.has_threads() {
            self.pace.renew(|| self.speed());
        }
    }

    /// Bytes a second that writers may take.
    fn speed(&self) -> f64 {
        let room = self.room().saturating_sub(self.limits.reserve) as f64;
        let mut speed = match self.pace.time_left() {
            Some(left) => room / left.as_secs_f64().max(1e-3),
            // It failed, and is tried again.
            None if self.trees.iter().any(|tree| tree.view().frozen.is_some()) => {
                room / FAILING.as_secs_f64()
            }
            // Memtables are not merged as fast as they are filled.
            None if room < self.limits.slow_below as f64 && self.has_immutables() => {
                FULL_SPEED * room / self.limits.slow_below as f64
            }
            None => f64::INFINITY,
        };
        let pressure = if self.wal.is_some() { self.levels.pressure() } else { 0.0 };
        if pressure > 0.5 {
            speed = speed.min(FULL_SPEED * 2.0 * (1.0 - pressure));
        }
        speed
    }

    /// Waits until there is room, where a batch found none.
    ///
    /// # Errors
    /// [`Error::Full`] if nothing can be done about it; what kept the levels from taking more.
    pub(crate) fn wait_for_room(&self, needed: u64, full: Error) -> Result<()> {
        let enough = needed.next_multiple_of(ZONE) + self.trees.len() as u64 * ZONE;
        if self.take_from_rows(enough) {
            return Ok(());
        }
        match self.roll_all() {
            // There is no room for others in place of these, either.
            Err(error) if is_full(&error) => {}
            rolled => rolled?,
        }
        let before = self.free();
        self.signals.state.lock().waiting += 1;
        let waited = if self.has_threads() {
            self.wait_for_others(before, needed, full)
        } else {
            self.make_room_now(before, needed).and_then(|made| made.then_some(()).ok_or(full))
        };
        self.signals.state.lock().waiting -= 1;
        waited
    }

    /// Waits until the threads have made room.
    fn wait_for_others(&self, before: u64, needed: u64, full: Error) -> Result<()> {
        let began = Instant::now();
        let mut state = self.signals.state.lock();
        let mut idle = 0;
        loop {
            let done = state.done;
            state.due += 1;
            self.signals.work.notify_all();
            let timed_out =
                self.signals.done.wait_for(&mut state, Duration::from_millis(100)).timed_out();
            if self.free() > before.max(needed) {
                return Ok(());
            }
            if let Some(failure) = &state.failure
                && state.done != done
            {
                return Err(Error::NoRoomBelow { reason: Arc::clone(failure) });
            }
            let is_busy = self.trees.iter().any(|tree| {
                let view = tree.view();
                let is_moving = view.frozen.is_some() || view.flushed.is_some();
                is_moving || !view.immutables.is_empty() || !view.global.is_empty()
            });
            idle = if timed_out && !is_busy { idle + 1 } else { 0 };
            if idle > 1 || state.stopping {
                return if self.free() > before { Ok(()) } else { Err(full) };
            }
            if began.elapsed() > WAIT_MAX {
                let failure = state.failure.as_ref().map(Arc::clone);
                return Err(failure.map_or(full, |reason| Error::NoRoomBelow { reason }));
            }
        }
    }

    /// Makes room in the writer's thread. Returns whether there is more than before, or enough for so many bytes.
    fn make_room_now(&self, before: u64, needed: u64) -> Result<bool> {
        let enough = needed.next_multiple_of(ZONE) + self.trees.len() as u64 * ZONE;
        for _ in 0..TRIES_OF_WRITERS {
            self.spare(before + enough);
            self.merge_all()?;
            self.flush_all()?;
            if self.free() > before || self.free() >= enough {
                return Ok(true);
            }
            // Others may still write to a memtable that is full, or read one whose zones are to go.
            locks::point();
        }
        Ok(false)
    }

    /// Freezes every active memtable that has something.
    fn roll_all(&self) -> Result<()> {
        self.check_healthy()?;
        let turn = self.ring.enter(|_, entry| self.do_commit(entry));
        let bid = turn.bid();
        for tree in 0..self.trees.len() {
            if self.trees[tree].view().active.zones.used_bytes() > 0 {
                self.roll(tree, bid).inspect_err(|error| self.poison_by(error))?;
            }
        }
        turn.pass();
        Ok(())
    }
}

/// The levels' word for the last sequence of a tree that is in the levels, where there is a log.
pub(crate) fn flushed_word(tree: usize) -> String {
    format!("flushed:{tree}")
}

/// Bytes a second of writers where there begins to be too little room for memtables, or the levels are behind.
const FULL_SPEED: f64 = 1e9;

/// How long room is to last, and ever less of it, while the levels take nothing.
const FAILING: Duration = Duration::from_secs(2);

/// Memtables of global indexes from which on the largest goes to the levels, however small they are: there may be as
/// many on their way, as many that were flushed, and others that are full, and no more than all slots.
const MERGED_MAX: usize = SLOTS_MAX as usize / 4;

/// Files of the log for each tree, one for each of its memtables, before memtables are flushed that keep them.
const LOG_FILES_MAX: usize = 8;

/// How often a writer tries to make room itself before there is none.
const TRIES_OF_WRITERS: u32 = 100;

/// How long a writer waits for room while some is made.
const WAIT_MAX: Duration = Duration::from_secs(60);

//! Room in the pool: which data takes it, and how writers get more of it.
//!
//! Records that were read from the levels, and flushed memtables that are still in memory, are dropped when their
//! room is wanted. Writers are slowed while room has to last ([`crate::pace`]), and only wait where there is none.

use std::sync::Arc;
use std::time::{Duration, Instant};

use halite_contract::{Error, Result};
use halite_sim::locks;
use halite_wal::Wal;

use crate::address::ZONE;
use crate::cost;
use crate::error::Error as LsmError;
use crate::failure::is_full;
use crate::memtable::Memtable;
use crate::refusals::Purpose;
use crate::rows::Rows;
use crate::store::Store;
use crate::tree::Tree;
use crate::zones::Zones;

impl Store {
    /// Adds the next zone of a tree's active memtable, where there is plenty of room.
    pub(crate) fn prepare_zone(&self, tree: usize) -> Result<()> {
        if self.room() < self.limits.slow_below {
            return Ok(());
        }
        self.take_from_rows(ZONE);
        // The reserve for removals is not for later puts.
        if !self.memory.segments().keep_free(1 + self.limits.removals / ZONE)? {
            return Ok(());
        }
        match self.trees[tree].view().active.zones.prepare_next() {
            Err(Error::Alloc(halite_alloc::Error::Full { .. })) => Ok(()),
            other => other,
        }
    }

    /// Whether fragments of these lengths find room in a memtable, and leave the reserve that other purposes need.
    pub(crate) fn has_room_for(
        &self,
        memtable: &Memtable,
        lens: impl Iterator<Item = u64> + Clone,
        purpose: Purpose,
    ) -> Result<bool> {
        let (missing, free) = (memtable.zones.missing(lens.clone()), self.free());
        if missing * ZONE > free {
            return Ok(false);
        }
        let reserve = self.reserve_behind(purpose);
        if reserve == 0 {
            return Ok(true);
        }
        // The rest of its zone is the tree's own, and each tree has its part of the free zones.
        let own = match missing {
            0 => memtable.zones.left().saturating_sub(lens.sum()),
            _ => 0,
        };
        let trees = self.trees.len() as u64;
        if own * trees + free - missing * ZONE < reserve {
            return Ok(false);
        }
        // The device may have less than the pool may grow by. A batch that takes no zone does not change that.
        let on_device = match purpose {
            Purpose::Put => self.limits.removals,
            Purpose::Bookkeeping => self.limits.removals / 2,
            Purpose::Removal => 0,
        };
        let zones = missing + on_device / ZONE;
        Ok(missing == 0
            || self.memory.segments().keep_free(zones)?
            || self.take_from_rows(zones * ZONE))
    }

    /// Bytes of the pool that a batch leaves to batches for purposes behind its own.
    fn reserve_behind(&self, purpose: Purpose) -> u64 {
        // Where the levels take nothing, the records of removals may have to wait until most keys are removed.
        let for_others = match self.refusals.is_stuck() && !self.is_logged() {
            true => self.pool().len_max() / STUCK_PART,
            false => self.limits.removals,
        };
        match purpose {
            Purpose::Put => for_others,
            Purpose::Bookkeeping => for_others / 2,
            Purpose::Removal => 0,
        }
    }

    /// Whether all flushed memtables are to be dropped: writers wait for room. A writer that makes it says how much.
    pub(crate) fn is_all_wanted(&self) -> bool {
        self.has_threads() && self.signals.is_room_wanted()
    }

    /// Bytes of the pool that are free, or hold only records read from the levels ([`Store::take_from_rows`]).
    pub(crate) fn free(&self) -> u64 {
        let rows = self.rows.as_ref().map_or(0, Rows::pool_bytes);
        self.memory.segments().available() * ZONE + rows
    }

    /// Bytes of DRAM of memtables whose records are in the log, and of the records on their way there.
    pub(crate) fn volatile_bytes(&self) -> u64 {
        self.memory.volatile_bytes() + self.wal.as_ref().map_or(0, Wal::buffer_bytes)
    }

    /// Drops records read from the levels until so many bytes are free without growth. Returns whether they are, and
    /// any record was dropped.
    fn take_from_rows(&self, wanted: u64) -> bool {
        let has_enough = || self.memory.segments().free() * ZONE >= wanted;
        let give_back = || self.rows.as_ref().is_some_and(Rows::give_back);
        let mut taken = false;
        while !has_enough() && give_back() {
            taken = true;
        }
        taken && has_enough()
    }

    /// Bytes that writers may have: those that are free, those that will be when no reader uses them any more, and
    /// those of flushed memtables.
    fn room(&self) -> u64 {
        let flushed = |tree: &Tree| tree.view().flushed.as_ref().map_or(0, |all| all.pool_bytes());
        self.free() + self.held() + self.trees.iter().map(flushed).sum::<u64>()
    }

    /// Bytes of memtables that were given back, and that readers still use.
    fn held(&self) -> u64 {
        let mut held = 0;
        self.spared.lock().retain(|zones| match cost::counted(zones).upgrade() {
            Some(zones) => {
                held += zones.pool_bytes();
                true
            }
            None => false,
        });
        held
    }

    /// Notes memtables that were given back, and are freed when no reader uses them any more.
    pub(crate) fn note_spared<'z>(&self, memtables: impl IntoIterator<Item = &'z Arc<Zones>>) {
        self.spared.lock().extend(memtables.into_iter().map(Arc::downgrade));
        self.scans.tick();
    }

    /// Gives back flushed memtables, the oldest first, until so many bytes are free or will be when no reader uses
    /// them any more; scans let go of them. Returns whether any was given back, or let go of.
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
                self.note_spared([flushed.oldest()]);
                view.flushed = flushed.without_oldest();
            });
            spared = true;
        }
        if spared {
            self.rows.iter().for_each(Rows::grow);
        }
        let is_held = self.free() < wanted && self.held() > 0;
        (is_held && self.scans.let_go()) || spared
    }

    /// Removes tables that only scans need, which let go of them: the disk may be full.
    pub(crate) fn give_up_tables(&self) {
        self.scans.tick();
        self.scans.let_go();
        self.levels.bury();
    }

    /// The error that there is no room, and nothing in the pool can be dropped.
    pub(crate) fn full(&self) -> Error {
        let limit = self.pool().len_max();
        let (used, held) = (limit.saturating_sub(self.free()), self.held());
        Error::Full { used, limit, held, holder: None }
    }

    /// Makes a writer wait, where room has to last or the levels are behind.
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
        if self.check_healthy().is_err() {
            // A writer that is refused does not have to wait.
            return f64::INFINITY;
        }
        let room = self.room().saturating_sub(self.limits.reserve) as f64;
        let mut speed = match self.pace.time_left() {
            Some(left) => room / left.as_secs_f64().max(1e-3),
            // The flush failed, and is tried again.
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

    /// Waits until there is room for a batch that found none.
    ///
    /// # Errors [`Error::Full`] if no room can be made; the error that kept the levels from taking more.
    ///
    /// Active memtables are handed on only where nothing else can be, or if `all` is set: the rest of their zones is
    /// lost to later removals.
    pub(crate) fn wait_for_room(&self, needed: u64, full: Error, all: bool) -> Result<()> {
        let enough = needed.next_multiple_of(ZONE) + self.trees.len() as u64 * ZONE;
        if self.take_from_rows(enough) {
            return Ok(());
        }
        if all || !self.has_more_to_hand_on() {
            match self.roll_all() {
                // There is no room for others in place of these, either.
                Err(error) if is_full(&error) => {}
                rolled => rolled?,
            }
        }
        let before = self.free();
        let _waiting = self.signals.want_room();
        if self.has_threads() {
            self.wait_for_others(before, needed, full)
        } else {
            self.make_room_now(before, needed).and_then(|made| made.then_some(()).ok_or(full))
        }
    }

    /// Whether any data but active memtables can go to the levels.
    pub(crate) fn has_more_to_hand_on(&self) -> bool {
        self.trees.iter().any(|tree| {
            let view = tree.view();
            view.frozen.is_some() || !view.immutables.is_empty() || !view.global.is_empty()
        })
    }

    /// Waits until the threads have made room.
    fn wait_for_others(&self, before: u64, needed: u64, full: Error) -> Result<()> {
        let began = Instant::now();
        let (mut idle, mut before_wait) = (0, self.signals.seen());
        let begun = before_wait.begun;
        loop {
            let seen = self.signals.wake_and_wait(&before_wait, WAIT);
            // After a failure, no thread makes room any more.
            self.check_healthy()?;
            if self.free() > before.max(needed) {
                return Ok(());
            }
            // A task that began before may have had less to hand on.
            if let Some(reason) = &seen.failure
                && seen.failed_begun > begun
            {
                return Err(LsmError::NoRoomBelow { reason: Arc::clone(reason) }.into());
            }
            let has_flushed = |tree: &Tree| tree.view().flushed.is_some();
            let is_busy = self.has_more_to_hand_on() || self.trees.iter().any(has_flushed);
            // Readers soon let go of memtables that were given back.
            let is_busy = is_busy || self.held() > 0;
            idle = if seen.done != before_wait.done || is_busy { 0 } else { idle + 1 };
            if idle > 1 || seen.stopping {
                return if self.free() > before { Ok(()) } else { Err(full) };
            }
            if began.elapsed() > WAIT_MAX {
                let below = |reason| LsmError::NoRoomBelow { reason }.into();
                return Err(seen.failure.map_or(full, below));
            }
            before_wait = seen;
        }
    }

    /// Makes room in the writer's thread. Returns whether there is more than before, or enough for so many bytes.
    fn make_room_now(&self, before: u64, needed: u64) -> Result<bool> {
        let enough = needed.next_multiple_of(ZONE) + self.trees.len() as u64 * ZONE;
        for number in 0..TRIES_OF_WRITERS {
            // Memtables that are read may stay for longer than this tries.
            self.spare(if number == 0 { before + enough } else { u64::MAX });
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
}

/// Bytes a second of writers at the point where room for memtables begins to be too little, or the levels are behind.
const FULL_SPEED: f64 = 1e9;

/// The part of a pool that puts leave while the levels take nothing: a quarter.
const STUCK_PART: u64 = 4;

/// How long the room that is left at each moment is to last, while the levels take nothing.
const FAILING: Duration = Duration::from_secs(2);

/// How often a writer tries to make room itself before it gives up.
const TRIES_OF_WRITERS: u32 = 100;

/// How long a writer waits before it looks again.
const WAIT: Duration = Duration::from_millis(100);

/// How long a writer waits for room while some is made.
const WAIT_MAX: Duration = Duration::from_secs(60);

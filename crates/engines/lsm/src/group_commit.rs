//! Group commit: the batches that are visible, those of them that are durable, and the commit points between them.
//!
//! Stage 4 of the ring ([`Holder::commit`]) makes one batch after the other visible, in the order of their sequences.
//! A batch that is to be durable at once was fenced before it came here, and takes all earlier deferred ones along: one
//! fence for all of their lines. A sync ([`Holder::make_durable`]) does the same without a batch of its own.
//!
//! With a log, batches come here before they are synced, so that no thread waits for another one to be woken: one that
//! is to be durable, and those behind it, become visible when the log is durable up to there ([`Holder::reveal`]). Until
//! then only a later batch in its turn sees them, for which [`GroupCommit::granted`] is the present: if the log loses
//! them, it loses that batch too.
//!
//! # Invariants
//!
//! - `visible` < `next_sequence`, and neither goes back, once the log is replayed.
//! - The commit points (`commit_id`, and `gidx` of each memtable) never pass a line that is not fenced.
//! - Without a log, a visible batch is durable or its lines are in `unsynced`; with one, its records are in the log, and
//!   durable if that was asked for.
//! - No table has more than what is visible: a memtable is frozen in a turn, behind a sync that reveals what was
//!   committed, and what is committed later has its log synced, and is revealed at once.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use halite_alloc::Segments;
use halite_contract::{Health, Result};
use halite_pmem::{Flushed, Words};
use halite_sim::locks::{Mutex, MutexGuard};
use halite_sim::planted;
use halite_wal::Wal;

use crate::experiments::CommitPoints;
use crate::layout::COMMIT_ID;
use crate::unsynced::{End, Entry, Unrevealed, Unsynced};
use crate::values::Values;
use crate::zones::LINES;

/// The state of a store's commits.
pub(crate) struct GroupCommit {
    /// The pool that memtables lie in.
    memory: Arc<Segments>,
    /// `commit_id`, in the pool.
    commit_id: Words,
    points: CommitPoints,
    /// Whether a log makes batches durable, and memtables are volatile.
    is_logged: bool,
    health: Arc<Health>,
    unsynced: Apart<Mutex<Unsynced>>,
    /// The sequence up to which everything is committed.
    visible: Arc<AtomicU64>,
    /// The next sequence, changed in turns alone.
    next_sequence: Apart<AtomicU64>,
    user_bytes: AtomicU64,
}

/// A word in cache lines of its own: one thread is granted sequences while another commits, and neither takes the
/// other's line.
#[repr(align(128))]
struct Apart<T>(T);

/// The pool, its word, and how it is used, of a new [`GroupCommit`].
pub(crate) struct Points {
    pub(crate) memory: Arc<Segments>,
    pub(crate) commit_id: Words,
    pub(crate) order: CommitPoints,
    pub(crate) is_logged: bool,
}

impl GroupCommit {
    /// Goes on behind the sequence in `visible`, which is committed.
    pub(crate) fn new(points: Points, visible: Arc<AtomicU64>, health: Arc<Health>) -> Self {
        let Points { memory, commit_id, order, is_logged } = points;
        Self {
            memory,
            commit_id,
            points: order,
            is_logged,
            health,
            unsynced: Apart(Mutex::new(Unsynced::default())),
            next_sequence: Apart(AtomicU64::new(visible.load(Ordering::Acquire) + 1)),
            visible,
            user_bytes: AtomicU64::new(0),
        }
    }

    /// The sequence up to which everything is visible.
    pub(crate) fn visible(&self) -> u64 {
        self.visible.load(Ordering::Acquire)
    }

    /// The word that has [`GroupCommit::visible`], for readers that register.
    pub(crate) fn visible_word(&self) -> &AtomicU64 {
        &self.visible
    }

    /// Whether a log makes batches durable.
    pub(crate) fn is_logged(&self) -> bool {
        self.is_logged
    }

    /// The first of so many sequences of a batch, in its turn.
    pub(crate) fn take_sequences(&self, records: u32) -> u64 {
        let base = self.next_sequence.0.load(Ordering::Relaxed);
        self.next_sequence.0.store(base + u64::from(records), Ordering::Relaxed);
        base
    }

    /// The last sequence that was granted, in a turn: with all before it committed, the state that a batch changes.
    pub(crate) fn granted(&self) -> u64 {
        self.next_sequence.0.load(Ordering::Relaxed) - 1
    }

    /// Lets the next batch have the sequence that it had in the log, which may be below that of batches in the levels.
    /// Only replaying does this.
    pub(crate) fn set_next_sequence(&self, next: u64) {
        self.next_sequence.0.store(next, Ordering::Relaxed);
    }

    /// Takes everything up to a sequence for committed. Only opening does this, before others commit.
    pub(crate) fn resume_behind(&self, last: u64) {
        self.next_sequence.0.store(last + 1, Ordering::Relaxed);
        self.visible.store(last, Ordering::Release);
    }

    /// Bytes of keys and values that were committed since opening.
    pub(crate) fn user_bytes(&self) -> u64 {
        self.user_bytes.load(Ordering::Relaxed)
    }

    /// Batches that are visible and not durable.
    pub(crate) fn unsynced_batches(&self) -> u64 {
        self.unsynced.0.lock().batches
    }

    /// Notes that a log has made so many of these batches durable.
    pub(crate) fn note_synced(&self, batches: u64) {
        let mut unsynced = self.unsynced.0.lock();
        unsynced.batches = unsynced.batches.saturating_sub(batches);
    }

    /// `commit_id`, as the pool has it.
    pub(crate) fn commit_id(&self) -> u64 {
        self.commit_id.load(COMMIT_ID)
    }

    /// Starts the write-back of `commit_id`.
    pub(crate) fn flush_commit_id(&self) -> Flushed {
        self.commit_id.flush(COMMIT_ID..COMMIT_ID + 8)
    }

    /// Moves `commit_id` behind a batch whose lines are fenced.
    pub(crate) fn set_commit_id(&self, last: u64) {
        self.commit_id.store(COMMIT_ID, last);
    }

    /// Keeps all others from committing.
    pub(crate) fn hold(&self) -> Holder<'_> {
        Holder { of: self, unsynced: self.unsynced.0.lock() }
    }
}

/// The thread that moves the commit points, alone.
pub(crate) struct Holder<'a> {
    of: &'a GroupCommit,
    unsynced: MutexGuard<'a, Unsynced>,
}

impl Holder<'_> {
    /// Makes the next batch in the ring's order visible, or, with a log, lets it wait for that. If it is to be durable,
    /// all earlier ones become durable too; an error of that poisons the store.
    pub(crate) fn commit(&mut self, entry: Entry, values: &Values, wal: Option<&Wal>) {
        let of = self.of;
        // No batch is committed behind one that could not be.
        if of.health.failure().is_some() {
            return;
        }
        // Only one thread at a time is here: the sum need not be made in one step.
        of.user_bytes.store(of.user_bytes() + entry.user_bytes, Ordering::Relaxed);
        if let Some(wal) = wal {
            let Entry { last, log_end, .. } = entry;
            self.unsynced.waiting.push_back(Unrevealed { last, log_end });
            self.reveal(wal);
            return;
        }
        if entry.durable {
            let moved =
                self.make_durable(values).and_then(|()| of.advance(&entry.ends, entry.last));
            if let Err(error) = moved {
                of.health.poison(error.to_string());
                return;
            }
        } else {
            self.unsynced.batches += 1;
            // While a log is replayed, it has them: memtables may go before.
            if !of.is_logged {
                self.unsynced.ends.extend(entry.ends);
            }
        }
        of.visible.store(entry.last, Ordering::Release);
    }

    /// Makes the batches visible that wait, up to the first one of which the log is not durable.
    pub(crate) fn reveal(&mut self, wal: &Wal) {
        let has_come = |waiting: &mut Unrevealed| match waiting.log_end {
            Some(end) => planted!("lsm.revealed-before-log", true, wal.is_synced(end)),
            None => true,
        };
        while let Some(Unrevealed { last, log_end }) = self.unsynced.waiting.pop_front_if(has_come)
        {
            self.unsynced.batches = if log_end.is_some() { 0 } else { self.unsynced.batches + 1 };
            debug_assert!(last > self.of.visible() && last <= self.of.granted());
            self.of.visible.store(last, Ordering::Release);
        }
    }

    /// Up to where the log has to be durable before everything up to a sequence is visible, once it is committed.
    pub(crate) fn awaited_by(&self, last: u64) -> Option<u64> {
        let waiting = self.unsynced.waiting.iter().take_while(|waiting| waiting.last <= last);
        waiting.filter_map(|waiting| waiting.log_end).last()
    }

    /// Makes every batch durable that was committed and is not, but for those that a log has. One fence; one more if
    /// a zone was begun.
    pub(crate) fn make_durable(&mut self, values: &Values) -> Result<()> {
        let (of, unsynced) = (self.of, &mut *self.unsynced);
        unsynced.batches = 0;
        if unsynced.ends.is_empty() {
            return Ok(());
        }
        let (mut flushed, mut begun) = (Vec::new(), Vec::new());
        for run in runs(&unsynced.ends) {
            run.zones.flush(run.lines.clone(), &mut flushed);
            if begins_zone(&run.lines) {
                begun.push(run.zones);
            }
        }
        of.memory.pool().fence_all(&flushed)?;
        let (ends, visible) = (std::mem::take(&mut unsynced.ends), of.visible());
        of.advance(&ends, visible)?;
        if !begun.is_empty() {
            let mut points: Vec<_> = begun.iter().map(|zones| zones.flush_gidx()).collect();
            points.push(of.flush_commit_id());
            of.memory.pool().fence_all(&points)?;
        }
        values.note_durable(visible);
        Ok(())
    }
}

impl GroupCommit {
    /// Moves the commit points behind batches that are durable.
    fn advance(&self, ends: &[End], last: u64) -> Result<()> {
        let pool = self.memory.pool();
        for end in ends {
            end.zones.advance_gidx(end.lines.end);
        }
        if self.points == CommitPoints::Ordered {
            let points: Vec<_> = ends.iter().map(|end| end.zones.flush_gidx()).collect();
            pool.fence_all(&points)?;
        }
        self.set_commit_id(last);
        if self.points == CommitPoints::Ordered {
            pool.fence([self.flush_commit_id()])?;
        }
        Ok(())
    }
}

/// Whether the first line of a zone is among these lines of a memtable. Then the commit points become durable, too,
/// so that damage in the zones before is told from a batch that was not finished.
pub(crate) fn begins_zone(lines: &Range<u32>) -> bool {
    lines.start.next_multiple_of(LINES as u32) < lines.end
}

/// Ends with neighbours of one memtable made one.
fn runs(ends: &[End]) -> impl Iterator<Item = End> {
    let mut sorted: Vec<_> = ends.iter().collect();
    sorted.sort_by_key(|end| (end.zones.id, end.lines.start));
    let mut runs: Vec<End> = Vec::new();
    for end in sorted {
        match runs.last_mut() {
            Some(run) if run.zones.id == end.zones.id => run.lines.end = end.lines.end,
            _ => runs.push(End { zones: Arc::clone(&end.zones), lines: end.lines.clone() }),
        }
    }
    runs.into_iter()
}

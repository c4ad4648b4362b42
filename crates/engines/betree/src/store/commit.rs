//! Commits: one turn after the other, in the order of the log.
//!
//! In its turn, a batch gets its sequences, is appended to the log, and added to the active memtable, where no reader
//! sees it yet. Behind its turn, a durable one waits for the log, in one sync with others. Then it is visible, and so
//! are all before it: they are durable by then, or need not be.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use halite_contract::{Durability, Error, Result};
use halite_sim::locks::Mutex;

use crate::catalogue::Catalogue;
use crate::memtable::Memtable;
use crate::purpose::Purpose;
use crate::record::{Batch, Changes};
use crate::store::Store;
use crate::store::view::{Behind, Graft, View};

/// Frozen memtables that wait to be flushed, at most: then writers wait.
pub(crate) const FROZEN_MAX: usize = 2;

/// Frozen memtables from which on a commit waits that ends the active one: mostly, these are small.
const ENDED_MAX: usize = 16;

/// The order of commits.
pub(crate) struct Commits {
    turn: Mutex<Turn>,
    /// The sequence up to which readers see everything.
    visible: AtomicU64,
}

/// The state that a batch changes in its turn.
pub(crate) struct Turn {
    /// The next sequence.
    next: u64,
    /// The last sequence of the batches that have to be durable before they are visible.
    immediate: u64,
}

/// The conditions of a commit, checked in its turn, and its effects beside its changes.
pub(crate) trait Commit {
    /// Refuses the commit, if it may not go ahead.
    fn check(&mut self, store: &Store) -> Result<()>;

    /// The batch, if [`Self::check`] has put it together by the state in the turn.
    fn batch(&self) -> Option<&Batch> {
        None
    }

    /// Notes the effects of the commit that the next one in turn has to know: its batch is in the log.
    fn appended(&mut self) {}

    /// The catalogue behind the commit, if it is another one.
    fn catalogue(&mut self) -> Option<Catalogue> {
        None
    }

    /// Whether the memtable ends behind the commit.
    fn ends_memtable(&self) -> bool {
        false
    }

    /// The effect of the commit that is not in the memtable, which it ends.
    fn behind(&mut self) -> Option<Behind> {
        None
    }
}

impl Commits {
    /// Commits go on behind a sequence.
    pub(crate) fn behind(last: u64) -> Self {
        let turn = Turn { next: last + 1, immediate: 0 };
        Self { turn: Mutex::new(turn), visible: AtomicU64::new(last) }
    }

    /// The sequence up to which readers see everything.
    #[inline]
    pub(crate) fn visible(&self) -> u64 {
        self.visible.load(Ordering::Acquire)
    }

    /// Lets readers see everything up to a sequence.
    pub(crate) fn reveal(&self, last: u64) {
        self.visible.fetch_max(last, Ordering::AcqRel);
    }

    /// Runs something between two turns.
    pub(crate) fn between_turns<T>(&self, run: impl FnOnce() -> T) -> T {
        let _turn = self.turn.lock();
        run()
    }
}

impl Store {
    /// Commits a batch. Returns when it is durable, if that is asked for, and visible.
    pub(crate) fn commit(
        &self,
        batch: &Batch,
        purpose: Purpose,
        durability: Durability,
        commit: &mut dyn Commit,
    ) -> Result<()> {
        let (last, end) = self.take_turn(batch, purpose, durability, commit)?;
        if let Some(end) = end {
            self.log.sync_to(end).inspect_err(|error| self.health.poison(error.to_string()))?;
            self.commits.reveal(last);
        }
        if !self.settings.on_threads && !self.view().frozen.is_empty() {
            // The batch is committed. A flush that lacks room is tried again when a batch has none; other failures
            // are the last.
            match self.move_on() {
                Err(error) if !error.lacks_space() && !error.lacks_descriptors() => {
                    return Err(error);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Takes a turn. Returns the last sequence, and up to where the log has to be durable before the batch is visible;
    /// no end, if it is visible already.
    fn take_turn(
        &self,
        batch: &Batch,
        purpose: Purpose,
        durability: Durability,
        commit: &mut dyn Commit,
    ) -> Result<(u64, Option<u64>)> {
        let (mut has_shortened, mut has_looked) = (false, false);
        loop {
            let mut turn = self.commits.turn.lock();
            self.health.check()?;
            let view = self.view();
            commit.check(self)?;
            let batch = commit.batch().unwrap_or(batch);
            self.check_len(batch)?;
            if batch.changes() == 0 {
                let last = turn.next - 1;
                drop(turn);
                if durability == Durability::Immediate {
                    // Earlier commits that were deferred are durable behind any that is not.
                    self.sync()?;
                }
                return Ok((last, None));
            }
            let is_full = view.active.bytes() >= self.settings.memtable_bytes;
            let frozen = view.frozen.len();
            let ends = commit.ends_memtable();
            if is_full && frozen >= FROZEN_MAX || ends && frozen >= ENDED_MAX {
                drop((turn, view));
                self.wait_until(&|view| view.frozen.len() < frozen)?;
                continue;
            }
            if purpose == Purpose::Put
                && (is_full || self.room.is_full())
                && !self.has_room(&view)?
            {
                drop((turn, view));
                if has_looked || !self.room.take_removed() {
                    return Err(self.no_room());
                }
                has_looked = true;
                self.make_room()?;
                continue;
            }
            let view = if is_full { self.rotate(&turn)? } else { view };
            match self.log.prepare(batch.bytes().len(), purpose) {
                Err(error) if error.lacks_space() && !has_shortened => {
                    has_shortened = true;
                    drop((turn, view));
                    self.shorten_log()?;
                    continue;
                }
                prepared => prepared?,
            }
            let first = turn.next;
            let last = first + u64::from(batch.changes()) - 1;
            let next = if ends { Some(self.next_memtable(last)?) } else { None };
            let added = self.health.watch("a commit", || add(&view.active, first, batch));
            // The log has no batch of which the memtable has a part only.
            added.inspect_err(|error| self.health.poison(error.to_string()))?;
            let waits = durability == Durability::Immediate;
            let end = self.log.append(first, batch, waits);
            let end = end.inspect_err(|error| self.health.poison(error.to_string()))?;
            turn.next = last + 1;
            if purpose == Purpose::Removal {
                self.room.note_removal();
            }
            commit.appended();
            if durability == Durability::Immediate {
                turn.immediate = last;
            }
            if let Some(next) = next {
                self.install(next, first - 1, commit.behind());
            }
            // A clone that is found here has its base in the view.
            if let Some(catalogue) = commit.catalogue() {
                self.catalogue.store(Arc::new(catalogue));
            }
            if self.commits.visible() < turn.immediate {
                return Ok((last, Some(end)));
            }
            self.commits.reveal(last);
            return Ok((last, None));
        }
    }

    /// Refuses a batch that is too long for the log, or for a memtable.
    fn check_len(&self, batch: &Batch) -> Result<()> {
        let lens = [
            (batch.bytes().len() as u64, self.log.batch_max()),
            (Memtable::memory_of(batch), Memtable::BATCH_MAX),
        ];
        match lens.into_iter().find(|(len, limit)| len > limit) {
            Some((len, limit)) => Err(Error::BatchTooLarge { len, limit }),
            None => Ok(()),
        }
    }

    /// Lets a new memtable take the active one's place, in a turn. Returns the view behind that.
    fn rotate(&self, turn: &Turn) -> Result<Arc<View>> {
        let next = self.next_memtable(turn.next - 1)?;
        Ok(self.install(next, turn.next - 1, None))
    }

    /// A memtable for what comes behind a sequence, from the log's current file on.
    fn next_memtable(&self, before: u64) -> Result<Arc<Memtable>> {
        Ok(Arc::new(Memtable::new(&self.memory, before, self.log.end().0)?))
    }

    /// Installs a memtable behind a commit, before which everything up to a sequence was committed.
    fn install(&self, next: Arc<Memtable>, at: u64, behind: Option<Behind>) -> Arc<View> {
        self.recent.note(&next);
        let (before, sequence) = (self.view(), next.before);
        if let Some(Behind::Graft(grafting)) = &behind
            && !grafting.is_noted
        {
            before.active.note_graft(grafting.dataset);
        }
        let view = self.publish(Vec::new(), |view| {
            let rotated = view.rotated(next);
            match behind {
                None => rotated,
                Some(Behind::Base { dataset, base, is_new }) => {
                    rotated.replacing(sequence, (dataset, base), is_new)
                }
                Some(Behind::Graft(of)) => {
                    rotated.with_graft(Graft { of, sequence, view: before, at })
                }
            }
        });
        self.signals.wake();
        view
    }

    /// Brings everything into a checkpoint, so that the log gets room.
    pub(crate) fn shorten_log(&self) -> Result<()> {
        self.freeze()?;
        self.flush_frozen()?;
        self.checkpoint()
    }

    /// Freezes the active memtable, if it has anything.
    pub(crate) fn freeze(&self) -> Result<()> {
        let turn = self.commits.turn.lock();
        self.health.check()?;
        if !self.view().active.is_empty() {
            self.rotate(&turn)?;
        }
        Ok(())
    }

    /// Makes every write durable that has returned.
    #[track_caller]
    pub(crate) fn sync(&self) -> Result<()> {
        self.health.check()?;
        self.log.sync().inspect_err(|error| self.health.poison(error.to_string()))
    }
}

/// Adds the changes of a batch to a memtable.
pub(crate) fn add(memtable: &Memtable, first: u64, batch: &Batch) -> Result<()> {
    for (sequence, change) in (first..).zip(Changes::of(batch.bytes())) {
        memtable.add(sequence, change.expect("a batch has whole changes"))?;
    }
    Ok(())
}

//! Moving memtables on: into the global index, and from there to the levels; without persistent memory, from
//! memtables to level 0.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use halite_contract::Result;
use halite_sim::planted;
use halite_wal::Wal;

use crate::address::SLOTS_MAX;
use crate::failure::{from_levels, from_log, lacks_space};
use crate::flushed::Flushed;
use crate::global_index::GlobalIndex;
use crate::layer::Layer;
use crate::layout::{self, flushed_word};
use crate::levels::{Change, FLUSHES, is_no_space};
use crate::memtable::Memtable;
use crate::rows::Rows;
use crate::run::Run;
use crate::store::Store;
use crate::tree::View;

impl Store {
    /// Merges all memtables that can be, keeps room free for others, and prepares the next zones. Returns whether
    /// anything was merged or made free.
    pub(crate) fn merge_all(&self) -> Result<bool> {
        let wanted = if self.is_all_wanted() { u64::MAX } else { self.limits.spare };
        let mut merged = self.spare(wanted);
        // The versions that hide them may have become durable since they were committed.
        self.let_values_go();
        self.levels.values().bury();
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

    /// Brings memory to the levels, as far as that is due. Returns whether any was brought.
    pub(crate) fn flush_all(&self) -> Result<bool> {
        let _emptying = self.turns.empty();
        let empty = || self.refusals.empty(|| self.empty());
        let hand_on = || {
            let _flushing = self.turns.flush();
            self.hand_on(None)
        };
        let mut flushed = if self.refusals.is_emptying_due() { empty() } else { hand_on() };
        if flushed.as_ref().is_err_and(lacks_space) && !self.refusals.is_stuck() {
            self.refusals.set_stuck(true);
            if self.refusals.are_removals_due() {
                flushed = empty();
            }
        }
        match &flushed {
            Ok(true) => {
                self.refusals.set_stuck(false);
                self.refusals.look_again();
            }
            Ok(false) => {}
            Err(error) => self.refusals.set_stuck(lacks_space(error)),
        }
        flushed
    }

    /// Brings memory to the levels, as far as that is due. If a sequence is given up to which removals are durable,
    /// removed versions are left out, and no more room is needed than there is for that. Called by the thread that
    /// has the turn to flush.
    pub(crate) fn hand_on(&self, durable: Option<u64>) -> Result<bool> {
        let mut flushed = false;
        if self.is_logged() {
            for tree in 0..self.trees.len() {
                flushed |= !self.signals.is_stopping() && self.flush_memtable(tree, durable)?;
            }
        } else if !self.signals.is_stopping()
            && let Some((tree, frozen)) = self.next_frozen()
        {
            self.flush_frozen(tree, &frozen, durable)?;
            flushed = true;
        }
        Ok(flushed)
    }

    /// The global index that goes to the levels now: a frozen one that could not before; or the largest, if all
    /// together are large enough, or a writer has no room.
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
        let is_wanted = is_due || self.signals.is_room_wanted() || self.refusals.is_stuck();
        (is_wanted && !is_empty).then(|| (largest, self.freeze(largest)))
    }

    /// Replaces a tree's global index by an empty one, and returns it frozen.
    fn freeze(&self, tree: usize) -> Arc<GlobalIndex> {
        let _changing = self.turns.merge();
        let mut frozen = None;
        self.trees[tree].change(|view| {
            let global = std::mem::replace(&mut view.global, Arc::new(GlobalIndex::new()));
            view.frozen = Some(Arc::clone(&global));
            frozen = Some(global);
        });
        frozen.expect("it was frozen")
    }

    /// Merges a frozen global index with the levels. Its zones go back when their room is wanted.
    fn flush_frozen(
        &self,
        tree: usize,
        frozen: &Arc<GlobalIndex>,
        durable: Option<u64>,
    ) -> Result<()> {
        self.check_healthy()?;
        // Recovery will look for a gap behind `commit_id`: records that go to the levels now must not leave one.
        planted!("lsm.levels-ahead-of-commit-id", Ok(()), self.persist_commit_points())?;
        let merged = frozen.merged();
        let newest = merged.iter().map(|zones| zones.id).max();
        let flushes = self.levels.flushes() + 1;
        let change = Change { memtables: newest, words: vec![(FLUSHES.to_owned(), flushes)] };
        self.flush_paced(tree, &**frozen, |run| {
            match durable {
                None => match self.levels.merge_run(tree as u32, run, &change) {
                    // Merging in parts is not repeated where nothing has changed since the last attempt.
                    Err(error) if is_no_space(&error) && !self.refusals.is_stuck() => {
                        self.levels.merge_run_in_parts(tree as u32, run, &change, None)?;
                    }
                    merged => merged?,
                },
                Some(durable) => self.without_hidden(tree, durable, |hidden| {
                    self.levels.merge_run_in_parts(tree as u32, run, &change, Some(hidden))
                })?,
            }
            // The rows go before memory lets go of the flushed versions.
            self.rows.iter().for_each(|rows| rows.flushed(tree, &**frozen));
            Ok(())
        })?;
        // The global index that was flushed before is read no more.
        let may_stay = merged.len() < MERGED_MAX && !self.is_all_wanted();
        let flushed = Flushed::new(frozen).filter(|_| may_stay);
        let stays = flushed.is_some();
        self.trees[tree].change(|view| {
            let before = std::mem::replace(&mut view.flushed, flushed);
            self.note_spared(before.iter().flat_map(|before| before.memtables()));
            view.frozen = None;
        });
        if !stays {
            self.note_spared(&merged);
        }
        merged.iter().for_each(|zones| zones.release());
        self.rows.iter().for_each(Rows::grow);
        layout::raise(self.memory.home(), layout::FLUSHES, flushes)
    }

    /// Brings a layer to the levels, and paces writers by that.
    fn flush_paced<L: Layer>(
        &self,
        tree: usize,
        layer: &L,
        flush: impl FnOnce(&Run<'_, L>) -> crate::levels::Result<()>,
    ) -> Result<()> {
        self.pace.begin(layer.index().len());
        self.set_pace();
        self.health.place("lsm-flush");
        let (values, tree) = (self.levels.values(), tree as u32);
        let flushed = flush(&Run { layer, pace: &self.pace, values, tree }).map_err(from_levels);
        if flushed.is_ok() {
            values.settle(tree);
            // The versions that hide them became durable before.
            self.let_values_go();
            values.bury();
        }
        self.pace.end(flushed.is_ok());
        flushed
    }

    /// Writes the oldest immutable memtable as a run of level 0: where there is a log, and no global index.
    fn flush_memtable(&self, tree: usize, durable: Option<u64>) -> Result<bool> {
        let oldest = self.trees[tree].view().immutables.last().map(Arc::clone);
        let Some(oldest) = oldest.filter(|oldest| self.is_settled(oldest)) else {
            return Ok(false);
        };
        // The records of a refused batch must not be kept.
        self.check_healthy()?;
        let last = oldest.last.load(Ordering::Acquire);
        let flushes = self.levels.flushes() + 1;
        let words = vec![(flushed_word(tree), last), (FLUSHES.to_owned(), flushes)];
        let change = Change { memtables: None, words };
        planted!(
            "lsm.log-removed-before-table",
            (self.wal.iter())
                .try_for_each(|wal| wal.release(u64::MAX, true).map(drop))
                .map_err(from_log)?
        );
        self.flush_paced(tree, &*oldest, |run| match durable {
            None => self.levels.add_run(tree as u32, run, &change),
            Some(durable) => self.without_hidden(tree, durable, |hidden| {
                self.levels.add_run_in_need(tree as u32, run, &change, hidden)
            }),
        })?;
        // The rows go before memory lets go of the flushed versions.
        self.rows.iter().for_each(|rows| rows.flushed(tree, &*oldest));
        self.trees[tree].change(|view| {
            view.immutables.pop();
        });
        self.note_spared([&oldest.zones]);
        oldest.zones.release();
        // Writers have its room before the log is shorter.
        drop(oldest);
        layout::raise(self.memory.home(), layout::FLUSHES, flushes)?;
        if let Some(wal) = &self.wal {
            let first = self.first_log_needed(wal);
            layout::raise(self.memory.home(), layout::LOG_FIRST, first)?;
            // The new table may have its space from the ballast: the log's files give theirs for it.
            let keeps = durable.is_none() && self.levels.take_ballast();
            wal.release(first, keeps).map_err(from_log)?;
            self.levels.take_ballast();
            self.refill_log();
            let memtables = LOG_MEMTABLES_MAX * self.trees.len() as u64;
            if wal.used_bytes() > memtables * self.limits.memtable_bytes {
                // A tree that is seldom written to keeps the log from getting shorter.
                self.roll_all()?;
            }
        }
        Ok(true)
    }

    /// The first file of the log that a memtable needs.
    fn first_log_needed(&self, wal: &Wal) -> u64 {
        // Read first: a memtable that is empty after that gets nothing from an earlier file.
        let current = wal.number();
        let views = self.trees.iter().map(|tree| tree.view());
        let first = |view: arc_swap::Guard<Arc<View>>| {
            let memtables = view.memtables().filter(|memtable| memtable.zones.used_bytes() > 0);
            memtables.map(|memtable| memtable.first_log).min()
        };
        views.filter_map(first).fold(current, u64::min)
    }

    /// Whether there are full memtables that were not merged yet.
    pub(crate) fn has_immutables(&self) -> bool {
        self.trees.iter().any(|tree| !tree.view().immutables.is_empty())
    }

    /// Whether every batch that was granted space in a memtable is committed.
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
        let _changing = self.turns.merge();
        let view = tree.view();
        let Some(oldest) = view.immutables.last() else { return Ok(false) };
        if !self.is_settled(oldest) {
            return Ok(false);
        }
        // Checked behind `is_settled`, for which batches that were refused since a failure are committed, too.
        self.check_healthy()?;
        self.finish_gidx(oldest)?;
        let kept = self.snapshots.kept(self.commits.visible_word());
        self.health.place("lsm-merge");
        view.global.merge(oldest, &kept);
        tree.change(|view| {
            view.immutables.pop();
        });
        Ok(true)
    }

    /// Whether full memtables go to level 0, as there is a log, and there is no global index.
    pub(crate) fn is_logged(&self) -> bool {
        self.commits.is_logged()
    }

    /// Whether threads make room for a writer.
    pub(crate) fn has_threads(&self) -> bool {
        self.signals.are_threads_there() && !self.is_replaying.load(Ordering::Relaxed)
    }

    /// Takes one step of a tree's maintenance, where there are no threads: merges a memtable, or brings memory to the
    /// levels, or compacts those. Returns whether it did.
    pub(crate) fn collect_ahead(&self, tree: usize) -> Result<bool> {
        if self.on_threads || tree >= self.trees.len() {
            return Ok(false);
        }
        self.check_healthy()?;
        if self.prepare_log()? || self.merge_one(tree)? {
            return Ok(true);
        }
        if self.flush_all()? {
            return Ok(true);
        }
        let _flushing = self.turns.flush();
        self.levels.compact().map_err(from_levels)
    }
}

/// Memtables of global indexes from which on the largest goes to the levels, however small they are: there may be as
/// many on their way, as many that were flushed, and others that are full, and no more than all slots.
const MERGED_MAX: usize = SLOTS_MAX as usize / 4;

/// Memtables of each tree that the log may have the bytes of, before memtables are flushed that keep it so long.
const LOG_MEMTABLES_MAX: u64 = 8;

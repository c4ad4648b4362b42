//! Emptying a full store: removals hide older versions, and the store drops these, so that room comes back.
//!
//! A removed version is dead wherever it lies: in memtables, on its way to the levels, and in these. The removal that
//! hides it is newer, and in memory. So the removal is made durable, and then everything is handed on without the
//! hidden versions ([`crate::levels`], `emptying`): removals need not come down themselves, and the other versions
//! need less room.

use std::sync::Arc;

use halite_contract::Result;
use halite_sst::RangeDelete;

use crate::failure::{from_levels, lacks_space};
use crate::levels::Hidden;
use crate::read::At;
use crate::store::Store;

impl Store {
    /// Drops removed versions, in the levels and on their way to them. Returns whether there were any. Called by the
    /// thread that holds `emptying`: it may take as long as reading everything, and others bring memory to the levels
    /// meanwhile.
    pub(crate) fn empty(&self) -> Result<bool> {
        self.check_healthy()?;
        if !self.is_logged() {
            self.merge_all()?;
            if !self.has_more_to_hand_on() {
                self.roll_all()?;
                self.merge_all()?;
            }
        }
        let durable = self.visible();
        if self.is_logged() {
            self.sync()?;
        } else {
            self.persist_commit_points()?;
        }
        // Removals may wait for space in the log.
        let refill = || {
            self.refill_log();
        };
        let (mut emptied, mut failure) = (false, None);
        for tree in 0..self.trees.len() {
            let dropped = self.levels.drop_covered(tree as u32, self.removed_ranges(tree, durable));
            emptied |= dropped.map_err(from_levels)?;
            let purged = self.without_hidden(tree, durable, |hidden| {
                self.levels.purge(tree as u32, hidden, &refill)
            });
            match purged.map_err(from_levels) {
                // Memory that is handed on may give back enough for the next time.
                Err(error) if lacks_space(&error) => failure = Some(error),
                purged => emptied |= purged?,
            }
        }
        // Removals that stay in memory, together with later ones, will hide enough of tables of which they hide
        // little now: so they stay as long as anything else can be dropped.
        if self.is_logged() && !emptied {
            self.roll_all()?;
        }
        let handed_on = {
            let _flushing = self.turns.flush();
            self.hand_on(Some(durable))
        };
        let mut is_done = true;
        for tree in 0..self.trees.len() {
            let pushed = self.without_hidden(tree, durable, |hidden| {
                self.levels.push_removals_down(tree as u32, hidden, &refill)
            });
            match pushed.map_err(from_levels) {
                // Memory that was handed on has given room back all the same.
                Err(error) if lacks_space(&error) => (failure, is_done) = (Some(error), false),
                pushed => {
                    let (moved, is_all) = pushed?;
                    emptied |= moved;
                    is_done &= is_all;
                }
            }
        }
        let emptied = handed_on? || emptied;
        // Tables that were busy, or for which there was no room, may go now.
        if emptied || !is_done {
            self.refusals.try_removals_again();
        }
        match failure {
            Some(error) if !emptied => Err(error),
            _ => Ok(emptied),
        }
    }

    /// The ranges of a tree that were removed up to a sequence, as far as memory has them.
    fn removed_ranges(&self, tree: usize, until: u64) -> Vec<RangeDelete> {
        let view = self.trees[tree].view();
        let memtables = view.memtables().flat_map(|memtable| memtable.deletes.all());
        let globals = view.global_indexes().flat_map(|global| global.deletes.all());
        memtables.chain(globals).filter(|delete| delete.sequence <= until).collect()
    }

    /// Calls `f` with a function that tells whether a version of a tree is hidden by a removal in memory, of those up
    /// to a sequence, which are durable, and no snapshot sees the version. A get that found nothing in memory before
    /// the removal was there, and finds nothing below either, returns a state that held while it read. Newer values
    /// hide nothing here: such a get would miss both.
    pub(crate) fn without_hidden<R>(
        &self,
        tree: usize,
        durable: u64,
        f: impl FnOnce(Hidden<'_>) -> R,
    ) -> R {
        let kept = self.snapshots.kept(self.commits.visible_word());
        let view = Arc::clone(&self.trees[tree].view());
        f(&|key, sequence| {
            self.removed_in_memory(&view, key, At::Sequence(durable))
                .is_some_and(|removed| removed > sequence && !kept.is_needed(sequence, removed))
        })
    }
}

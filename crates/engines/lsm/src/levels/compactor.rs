//! The choice of the next compaction, and the thread that does it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::MutexGuard;

use super::inner::{Inner, Locked};
use super::pick::{Compaction, Shape, pick};

/// How long the thread waits before it tries a failed compaction again.
const RETRY: Duration = Duration::from_secs(5);

impl Inner {
    /// Picks the most urgent compaction, marks its tables as busy, and returns it and whether it goes into the base.
    pub(super) fn pick(&self) -> Option<(Compaction, bool)> {
        self.pick_locked(&mut self.locked.lock())
    }

    pub(super) fn pick_locked(
        &self,
        locked: &mut MutexGuard<'_, Locked>,
    ) -> Option<(Compaction, bool)> {
        let candidates = self.versions().into_iter().filter_map(|(tree, version)| {
            let base_is_busy =
                locked.into_base.contains(&tree) || locked.base_wanted.contains(&tree);
            pick(tree, &version, &locked.busy, base_is_busy, &self.options)
        });
        let (_, compaction) = candidates.max_by(|a, b| a.0.total_cmp(&b.0))?;
        locked.take(&compaction);
        let is_into_base = compaction.inputs.iter().any(|(level, _)| *level == 0);
        if is_into_base {
            locked.into_base.insert(compaction.tree);
        }
        Some((compaction, is_into_base))
    }

    pub(super) fn measure_pressure(&self) {
        let options = &self.options;
        let mut levels_bytes = 0;
        let pressure = self.versions().into_iter().map(|(_, version)| {
            let beyond = version.levels[0].len().saturating_sub(options.runs_min) as f64;
            let room = options.runs_max.saturating_sub(options.runs_min).max(1) as f64;
            let bytes = version.level_bytes();
            levels_bytes += bytes.iter().sum::<u64>();
            let debt =
                Shape::of(&bytes, options).debt(&bytes) / options.debt_bytes_max.max(1) as f64;
            (beyond / room).max(debt)
        });
        let pressure = pressure.fold(0.0, f64::max).min(1.0);
        self.pressure.store(pressure.to_bits(), Ordering::Relaxed);
        self.ballast.follow(levels_bytes);
    }

    /// The work of the thread that compacts.
    pub(super) fn compact_guarded(&self) {
        let ended = self.guard("the thread that compacts the levels", || {
            self.compact_until_stopped();
            Ok(())
        });
        // The store reports its panic.
        drop(ended);
    }

    fn compact_until_stopped(&self) {
        loop {
            self.health.place("halite-levels");
            self.bury();
            let next = {
                let mut locked = self.locked.lock();
                if self.stop.load(Ordering::Relaxed) {
                    return;
                }
                // A compaction would take the space that is lent to one that gives room back.
                let is_lent = self.ballast.is_lent();
                let may_compact = locked.failure.is_none() && !is_lent;
                let next = if may_compact { self.pick_locked(&mut locked) } else { None };
                if next.is_none() {
                    let is_to_wake = locked.failure.is_some()
                        || !self.files.graveyard.lock().is_empty()
                        || is_lent;
                    if !is_to_wake {
                        self.changed.wait(&mut locked);
                    } else if self.changed.wait_for(&mut locked, RETRY).timed_out() {
                        locked.failure = None;
                    }
                }
                next
            };
            if let Some((compaction, is_into_base)) = next
                && let Err(error) = self.compact(&compaction, is_into_base)
            {
                self.locked.lock().failure = Some(error);
            }
        }
    }
}

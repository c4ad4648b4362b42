//! How often runs and large values are used: counters that migration reads.
//!
//! A run, or a value, has one of a fixed number of counters, chosen by a hash of its checksum, so the counts survive
//! the eviction of nodes from the cache and cost a fixed 1 MiB. Two of them may share a counter: of 10,000 used ones,
//! one in 13 does, and is taken for as hot as both. The counts decay: each round of migration keeps a part of them, so
//! a count is `Σ αʳ · uses r rounds ago`, the exponential smoothing of Zhang, Hellander and Toor, and LFU with ageing.
//!
//! A use is a part that is read from a device or in place, or a value that is read: what the DRAM cache answers gains
//! nothing in another class. Cost: one relaxed addition a use; none where migration is off.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters.
const COUNTERS: usize = 1 << 17;

/// The count that one use adds: counts keep so many fractions of a use when they decay.
const USE: u64 = 1 << 8;

/// The counters of a store.
pub(crate) struct Heat(Box<[AtomicU64]>);

impl Heat {
    /// Counters of no use.
    pub(crate) fn new() -> Self {
        Self(std::iter::repeat_with(AtomicU64::default).take(COUNTERS).collect())
    }

    fn of(&self, id: u64) -> &AtomicU64 {
        // Ids are checksums; a multiplication spreads those of a forger, too.
        &self.0[(id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - COUNTERS.ilog2())) as usize]
    }

    /// Counts a use.
    #[inline]
    pub(crate) fn note(&self, id: u64) {
        self.of(id).fetch_add(USE, Ordering::Relaxed);
    }

    /// The decayed number of uses.
    pub(crate) fn get(&self, id: u64) -> f64 {
        self.of(id).load(Ordering::Relaxed) as f64 / USE as f64
    }

    /// Gives what has another id now its uses.
    pub(crate) fn rename(&self, from: u64, to: u64) {
        let uses = self.of(from).swap(0, Ordering::Relaxed);
        self.of(to).fetch_add(uses, Ordering::Relaxed);
    }

    /// Gives the uses of runs that were merged to those that they became, in equal parts, and each of these one more:
    /// it was written.
    pub(crate) fn pass_on(
        &self,
        from: impl Iterator<Item = u64>,
        to: impl Iterator<Item = u64> + Clone,
    ) {
        let uses: u64 = from.map(|id| self.of(id).swap(0, Ordering::Relaxed)).sum();
        let each = uses / (to.clone().count() as u64).max(1) + USE;
        to.for_each(|id| {
            self.of(id).fetch_add(each, Ordering::Relaxed);
        });
    }

    /// Keeps a part of all counts.
    pub(crate) fn decay(&self, kept: f64) {
        for counter in &self.0 {
            let count = counter.load(Ordering::Relaxed);
            let lost = count - (count as f64 * kept) as u64;
            // Uses that are counted meanwhile stay.
            counter.fetch_sub(lost, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_decay_and_move_with_a_name() {
        let heat = Heat::new();
        (0..10).for_each(|_| heat.note(7));
        heat.note(8);
        assert_eq!((heat.get(7), heat.get(8), heat.get(9)), (10.0, 1.0, 0.0));
        heat.decay(0.8);
        assert!((heat.get(7) - 8.0).abs() < 0.01);
        heat.pass_on([1, 2].into_iter(), [3].into_iter());
        assert_eq!(heat.get(3), 1.0);
        heat.rename(7, 9);
        assert_eq!((heat.get(7), heat.get(9) > 7.9), (0.0, true));
        (0..40).for_each(|_| heat.decay(0.5));
        assert_eq!(heat.get(9), 0.0);
    }
}

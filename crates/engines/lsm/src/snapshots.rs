//! The states of the past that readers may still read.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use halite_sim::locks::Mutex;

use crate::cost;

/// The sequences at which readers read, and how many do.
#[derive(Default)]
pub(crate) struct Snapshots {
    at: Mutex<BTreeMap<u64, u64>>,
}

impl Snapshots {
    /// Registers a reader of the state that is visible now, and returns its sequence.
    pub(crate) fn register(&self, visible: &AtomicU64) -> u64 {
        let mut at = self.at.lock();
        // Under the lock: the result of [`Snapshots::kept`] includes it, or was made before and keeps the state that
        // was visible then, or a later one.
        let sequence = visible.load(Ordering::Acquire);
        *at.entry(sequence).or_default() += 1;
        sequence
    }

    /// Ends a reader.
    pub(crate) fn unregister(&self, sequence: u64) {
        let mut at = self.at.lock();
        if let Some(readers) = at.get_mut(&sequence) {
            *readers -= 1;
            if *readers == 0 {
                at.remove(&sequence);
            }
        }
    }

    /// The sequences that are read at now, or may be from now on.
    pub(crate) fn kept(&self, visible: &AtomicU64) -> Kept {
        let at = self.at.lock();
        let mut sequences: Vec<_> = at.keys().copied().inspect(|_| cost::step()).collect();
        let now = visible.load(Ordering::Acquire);
        if sequences.last() != Some(&now) {
            sequences.push(now);
        }
        Kept(sequences)
    }
}

/// Sequences at which readers read, ascending; the last was visible when this was made. Newer states are read too.
#[derive(Debug, Clone)]
pub(crate) struct Kept(Vec<u64>);

impl Kept {
    /// Whether a reader sees a version although there is a newer one.
    pub(crate) fn is_needed(&self, older: u64, newer: u64) -> bool {
        let visible = self.0.last().copied().unwrap_or(0);
        // A state between the two that is still to come reads the older one.
        newer > visible
            || self.0[self.0.partition_point(|&at| cost::counted(at < older))..]
                .first()
                .is_some_and(|&at| at < newer)
    }

    pub(crate) fn sequences(&self) -> &[u64] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_reader_sees_is_needed() {
        let (snapshots, visible) = (Snapshots::default(), AtomicU64::new(10));
        let (first, second) = (snapshots.register(&visible), snapshots.register(&visible));
        assert_eq!((first, second), (10, 10));
        visible.store(20, Ordering::Relaxed);
        let kept = snapshots.kept(&visible);
        assert_eq!(kept.sequences(), [10, 20]);
        assert!(kept.is_needed(10, 11) && kept.is_needed(5, 15) && !kept.is_needed(5, 10));
        assert!(!kept.is_needed(11, 20) && kept.is_needed(11, 21), "20 is visible, 21 is to come");
        snapshots.unregister(10);
        assert_eq!(snapshots.kept(&visible).sequences(), [10, 20]);
        snapshots.unregister(10);
        assert_eq!(snapshots.kept(&visible).sequences(), [20]);
        assert!(!snapshots.kept(&visible).is_needed(5, 15));
    }
}

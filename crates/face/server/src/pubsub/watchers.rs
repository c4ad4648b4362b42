//! The clients that get to know of commands of others: by MONITOR, or because they cache keys.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::pubsub::Threads;

/// The watching clients of all threads. A command looks once whether there are any: in cache lines of their own, which
/// nothing else writes.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Watchers {
    count: AtomicUsize,
    trackers: AtomicUsize,
    /// A bit for each thread that has monitors.
    monitored: AtomicU64,
    /// A bit for each thread that has clients which are told of changes.
    tracking: AtomicU64,
    /// A bit for each thread that has clients which are told of all changes, of keys with some prefix.
    broadcast: AtomicU64,
    pub(crate) tracked: Tracked,
}

/// The keys that are remembered for clients that have read them, in all partitions.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Tracked {
    keys: AtomicUsize,
    /// Pairs of a key and a client.
    items: AtomicUsize,
}

impl Watchers {
    /// Whether there are any.
    #[inline]
    pub(crate) fn has_any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// A client has begun to watch.
    pub(crate) fn add(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// A client has ceased to watch.
    pub(crate) fn remove(&self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// A client has begun to cache keys.
    pub(crate) fn add_tracker(&self) {
        self.trackers.fetch_add(1, Ordering::Relaxed);
        self.add();
    }

    /// A client has ceased to cache keys.
    pub(crate) fn remove_tracker(&self) {
        self.trackers.fetch_sub(1, Ordering::Relaxed);
        self.remove();
    }

    /// The number of clients that cache keys.
    pub(crate) fn trackers(&self) -> usize {
        self.trackers.load(Ordering::Relaxed)
    }

    /// Notes whether a thread has monitors.
    pub(crate) fn set_monitored(&self, thread: usize, has_some: bool) {
        set(&self.monitored, thread, has_some);
    }

    /// The threads that have monitors.
    pub(crate) fn monitored(&self) -> Threads {
        get(&self.monitored)
    }

    /// Notes whether a thread has clients that cache keys.
    pub(crate) fn set_tracking(&self, thread: usize, has_some: bool) {
        set(&self.tracking, thread, has_some);
    }

    /// The threads that have clients which cache keys.
    pub(crate) fn tracking(&self) -> Threads {
        get(&self.tracking)
    }

    /// Notes whether a thread has clients that are told of all changes.
    pub(crate) fn set_broadcast(&self, thread: usize, has_some: bool) {
        set(&self.broadcast, thread, has_some);
    }

    /// The threads that have clients which are told of all changes.
    pub(crate) fn broadcast(&self) -> Threads {
        get(&self.broadcast)
    }
}

impl Tracked {
    pub(crate) fn add(&self, keys: usize, items: usize) {
        self.keys.fetch_add(keys, Ordering::Relaxed);
        self.items.fetch_add(items, Ordering::Relaxed);
    }

    pub(crate) fn remove(&self, keys: usize, items: usize) {
        self.keys.fetch_sub(keys, Ordering::Relaxed);
        self.items.fetch_sub(items, Ordering::Relaxed);
    }

    pub(crate) fn keys(&self) -> usize {
        self.keys.load(Ordering::Relaxed)
    }

    pub(crate) fn items(&self) -> usize {
        self.items.load(Ordering::Relaxed)
    }
}

fn get(bits: &AtomicU64) -> Threads {
    Threads::from_bits(bits.load(Ordering::Relaxed))
}

fn set(bits: &AtomicU64, thread: usize, is_in: bool) {
    match is_in {
        true => bits.fetch_or(1 << thread, Ordering::Relaxed),
        false => bits.fetch_and(!(1 << thread), Ordering::Relaxed),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_with_watchers_are_known() {
        let watchers = Watchers::default();
        assert!(!watchers.has_any());
        watchers.add();
        watchers.set_monitored(3, true);
        watchers.add_tracker();
        watchers.set_tracking(1, true);
        watchers.set_broadcast(63, true);
        assert!(watchers.has_any() && watchers.monitored().contains(3));
        assert!(watchers.tracking().contains(1) && watchers.broadcast().contains(63));
        watchers.set_monitored(3, false);
        watchers.remove();
        assert!(watchers.has_any() && watchers.monitored().is_empty());
        watchers.remove_tracker();
        assert!(!watchers.has_any() && watchers.trackers() == 0);
    }
}

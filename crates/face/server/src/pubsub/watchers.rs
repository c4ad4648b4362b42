//! The clients that get to know of commands of others: by MONITOR.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::pubsub::Threads;

/// The watching clients of all threads. A command looks once whether there are any.
#[derive(Debug, Default)]
pub(crate) struct Watchers {
    count: AtomicUsize,
    /// A bit for each thread that has monitors.
    monitored: AtomicU64,
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

    /// Notes whether a thread has monitors.
    pub(crate) fn set_monitored(&self, thread: usize, has_some: bool) {
        set(&self.monitored, thread, has_some);
    }

    /// The threads that have monitors.
    pub(crate) fn monitored(&self) -> Threads {
        Threads::from_bits(self.monitored.load(Ordering::Relaxed))
    }
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
    fn threads_with_monitors_are_known() {
        let watchers = Watchers::default();
        assert!(!watchers.has_any());
        watchers.add();
        watchers.set_monitored(3, true);
        assert!(watchers.has_any() && watchers.monitored().contains(3));
        watchers.set_monitored(3, false);
        watchers.remove();
        assert!(!watchers.has_any() && watchers.monitored() == Threads::default());
    }
}

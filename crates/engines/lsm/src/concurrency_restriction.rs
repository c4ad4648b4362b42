//! Restricted concurrency (Dice and Kogan, "Avoiding scalability collapse by restricting concurrency", 2019).
//!
//! Commits are in order, so a thread that is interrupted keeps all later ones waiting until it runs again; when it
//! does, it wakes them, and they interrupt it. With many more threads than processors, most of the time is spent on
//! that. So at most twice as many threads as processors are in the ring; the others wait outside. A thread that
//! leaves and comes back goes before them, which costs nothing; each time that [`LEAVES`] threads have left, one that
//! waits is woken.

use crate::experiments::WaitStrategy;
use crate::sync::{AtomicU64, Ordering};
use crate::wait::{Place, Waiting};

/// How many threads leave until one that waits is woken.
const LEAVES: u64 = 32;

/// The threads that commit, and those that wait until they may.
pub(crate) struct ConcurrencyRestriction {
    active: AtomicU64,
    active_max: u64,
    left: AtomicU64,
    outside: Place,
    waiting: Waiting,
}

/// A thread that may commit.
pub(crate) struct Active<'a>(&'a ConcurrencyRestriction);

impl ConcurrencyRestriction {
    pub(crate) fn new(strategy: WaitStrategy) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            active: AtomicU64::new(0),
            active_max: 2 * processors as u64,
            left: AtomicU64::new(0),
            outside: Place::new(),
            waiting: Waiting::new(strategy),
        }
    }

    /// Waits until this thread may commit.
    pub(crate) fn join(&self) -> Active<'_> {
        let more = |active| (active < self.active_max).then_some(active + 1);
        self.waiting.wait(&self.outside, || {
            self.active.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
        });
        Active(self)
    }
}

impl Drop for Active<'_> {
    fn drop(&mut self) {
        let restriction = self.0;
        let is_last = restriction.active.fetch_sub(1, Ordering::Relaxed) == 1;
        let left = restriction.left.load(Ordering::Relaxed) + 1;
        restriction.left.store(left, Ordering::Relaxed);
        // No other thread would wake them.
        if is_last || left.is_multiple_of(LEAVES) {
            restriction.waiting.wake_one(&restriction.outside);
        }
    }
}

//! How a thread waits for others of the ring.

use std::hint;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::thread;

use halite_engine::WaitStrategy;
use halite_pmem::locks;
use parking_lot::{Condvar, Mutex};

/// Spins before a thread yields or parks: about a microsecond.
const SPINS: u32 = 100;

/// Threads that wait for one of a ring's counters.
pub(crate) struct Waiters {
    strategy: WaitStrategy,
    parked: AtomicU32,
    lock: Mutex<()>,
    woken: Condvar,
}

impl Waiters {
    pub(crate) fn new(strategy: WaitStrategy) -> Self {
        Self { strategy, parked: AtomicU32::new(0), lock: Mutex::new(()), woken: Condvar::new() }
    }

    /// Waits until `is_done`, which somebody makes true before they call [`Waiters::wake`].
    #[inline]
    pub(crate) fn wait(&self, is_done: impl Fn() -> bool) {
        if !is_done() {
            self.wait_long(is_done);
        }
    }

    #[cold]
    fn wait_long(&self, is_done: impl Fn() -> bool) {
        // Threads that a scheduler simulates take turns.
        if locks::is_scheduled() {
            while !is_done() {
                locks::point();
            }
            return;
        }
        let mut spins = 0;
        while !is_done() {
            if spins < SPINS || self.strategy == WaitStrategy::Spin {
                spins += 1;
                hint::spin_loop();
            } else if self.strategy == WaitStrategy::Yield {
                thread::yield_now();
            } else {
                self.park(&is_done);
            }
        }
    }

    fn park(&self, is_done: &impl Fn() -> bool) {
        let mut guard = self.lock.lock();
        self.parked.fetch_add(1, Ordering::Relaxed);
        // Whoever makes it true sees that somebody is parked, or this sees that it is true.
        fence(Ordering::SeqCst);
        if !is_done() {
            self.woken.wait(&mut guard);
        }
        self.parked.fetch_sub(1, Ordering::Relaxed);
    }

    /// Lets those look again who wait.
    #[inline]
    pub(crate) fn wake(&self) {
        if self.strategy != WaitStrategy::Park {
            return;
        }
        fence(Ordering::SeqCst);
        if self.parked.load(Ordering::Relaxed) > 0 {
            drop(self.lock.lock());
            self.woken.notify_all();
        }
    }
}

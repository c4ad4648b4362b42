//! How a thread waits for others of the ring.

use halite_engine::WaitStrategy;
use halite_pmem::locks;

use crate::sync::{AtomicU32, Lot, Ordering, fence, spin_loop, yield_now};

/// Spins before a thread yields or parks: about a microsecond. In a model, where time does not pass, none.
const SPINS: u32 = if cfg!(loom) { 0 } else { 100 };

/// Spins of [`WaitStrategy::Spin`] before a thread yields once: about 0.1 ms. Where there are more threads than
/// processors, the one that is waited for would else not run before the waiting thread's time is over.
const LONG_SPINS: u32 = if cfg!(loom) { 0 } else { 10_000 };

/// How often a thread lets others run before it parks. To be woken takes 50 us, a commit 1 us: mostly it is done
/// by then.
const YIELDS: u32 = if cfg!(loom) { 0 } else { 16 };

/// Threads that wait for one of a ring's counters.
pub(crate) struct Waiters {
    strategy: WaitStrategy,
    parked: AtomicU32,
    lot: Lot,
}

impl Waiters {
    pub(crate) fn new(strategy: WaitStrategy) -> Self {
        Self { strategy, parked: AtomicU32::new(0), lot: Lot::new() }
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
        let spins_max = if self.strategy == WaitStrategy::Spin { LONG_SPINS } else { SPINS };
        let (mut spins, mut yields) = (0, 0);
        while !is_done() {
            if spins < spins_max {
                spins += 1;
                spin_loop();
                continue;
            }
            match self.strategy {
                WaitStrategy::Spin => {
                    yield_now();
                    spins = 0;
                }
                WaitStrategy::Yield => yield_now(),
                WaitStrategy::Park if yields < YIELDS => {
                    yield_now();
                    yields += 1;
                }
                WaitStrategy::Park => self.park(&is_done),
            }
        }
    }

    fn park(&self, is_done: &impl Fn() -> bool) {
        self.lot.sleep_if(|| {
            self.parked.fetch_add(1, Ordering::Relaxed);
            // Whoever makes it true sees that somebody is parked, or this sees that it is true.
            fence(Ordering::SeqCst);
            !is_done()
        });
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
            self.lot.wake_all();
        }
    }
}

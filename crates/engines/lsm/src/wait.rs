//! How a thread waits for others of the ring.

use crate::experiments::WaitStrategy;
use halite_sim::locks;

use crate::sync::{AtomicBool, AtomicU32, Lot, Ordering, fence, spin_loop, yield_now};

/// Spins before a thread yields or parks: about a microsecond. In a model, where time does not pass, none.
const SPINS: u32 = if cfg!(loom) { 0 } else { 100 };

/// Spins of [`WaitStrategy::Spin`] before a thread yields once: about 0.1 ms. Where there are more threads than
/// processors, the one that is waited for would else not run before the waiting thread's time is over.
const LONG_SPINS: u32 = if cfg!(loom) { 0 } else { 10_000 };

/// How often a thread lets others run before it parks, if there is a processor to spare for it. To be woken takes
/// tens of microseconds, a commit one: mostly it is done by then.
const YIELDS: u32 = if cfg!(loom) { 0 } else { 16 };

/// How threads of a ring wait.
pub(crate) struct Waiting {
    strategy: WaitStrategy,
    /// Threads that wait, and how many of them may look for longer before they park: as many as processors.
    waiting: AtomicU32,
    looking_max: u32,
}

/// A place at which threads wait for the same condition.
pub(crate) struct Place {
    parked: AtomicU32,
    /// Whether a thread was woken and does not look yet: then no other has to be.
    waking: AtomicBool,
    lot: Lot,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { parked: AtomicU32::new(0), waking: AtomicBool::new(false), lot: Lot::new() }
    }

    fn park(&self, is_done: &impl Fn() -> bool) -> bool {
        let mut done = false;
        self.lot.sleep_if(|| {
            self.parked.fetch_add(1, Ordering::Relaxed);
            self.waking.store(false, Ordering::Relaxed);
            // The thread that makes it true sees that one is parked, or this one sees that it is true.
            fence(Ordering::SeqCst);
            done = is_done();
            !done
        });
        self.parked.fetch_sub(1, Ordering::Relaxed);
        done
    }
}

impl Waiting {
    pub(crate) fn new(strategy: WaitStrategy) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self { strategy, waiting: AtomicU32::new(0), looking_max: processors as u32 }
    }

    /// Waits until `is_done`, which another thread makes true before it wakes those at this place. It is not asked
    /// again once it was.
    #[inline]
    pub(crate) fn wait(&self, at: &Place, is_done: impl Fn() -> bool) {
        if !is_done() {
            self.wait_long(at, is_done);
        }
    }

    #[cold]
    fn wait_long(&self, at: &Place, is_done: impl Fn() -> bool) {
        // Threads that a scheduler simulates take turns.
        if locks::is_scheduled() {
            while !is_done() {
                locks::point();
            }
            return;
        }
        let others = self.waiting.fetch_add(1, Ordering::Relaxed);
        let yields_max = if others < self.looking_max { YIELDS } else { 0 };
        let spins_max = if self.strategy == WaitStrategy::Spin { LONG_SPINS } else { SPINS };
        let (mut spins, mut yields, mut was_parked) = (0, 0, false);
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
                WaitStrategy::Park if yields < yields_max => {
                    yield_now();
                    yields += 1;
                }
                WaitStrategy::Park => {
                    was_parked = true;
                    if at.park(&is_done) {
                        break;
                    }
                }
            }
        }
        if was_parked {
            at.waking.store(false, Ordering::Relaxed);
        }
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// Lets all threads that wait at a place look again.
    #[inline]
    pub(crate) fn wake_all(&self, at: &Place) {
        if self.has_parked(at) {
            at.lot.wake_all();
        }
    }

    /// Lets one of the threads that wait at a place look again, where only one can succeed.
    #[inline]
    pub(crate) fn wake_one(&self, at: &Place) {
        if self.has_parked(at) && !at.waking.swap(true, Ordering::Relaxed) {
            at.lot.wake_one();
        }
    }

    fn has_parked(&self, at: &Place) -> bool {
        if self.strategy != WaitStrategy::Park {
            return false;
        }
        fence(Ordering::SeqCst);
        at.parked.load(Ordering::Relaxed) > 0
    }
}

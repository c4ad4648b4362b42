//! The primitives that threads of the ring share: of the standard library, or of loom, which tries every order.

#[cfg(loom)]
pub(crate) use loom::hint::spin_loop;
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(loom)]
use loom::sync::{Condvar, Mutex};
#[cfg(loom)]
pub(crate) use loom::thread::yield_now;
#[cfg(not(loom))]
use parking_lot::{Condvar, Mutex};
#[cfg(not(loom))]
pub(crate) use std::hint::spin_loop;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::thread::yield_now;

/// The right order; in a model that shows that it needs that order, a weaker one.
#[cfg(not(all(test, loom)))]
macro_rules! unless_weakened {
    ($weakness:ident, $weaker:expr, $right:expr) => {
        $right
    };
}
#[cfg(all(test, loom))]
macro_rules! unless_weakened {
    ($weakness:ident, $weaker:expr, $right:expr) => {
        if crate::weakness::Weakness::$weakness.is_there() { $weaker } else { $right }
    };
}
pub(crate) use unless_weakened;

/// Where threads sleep.
pub(crate) struct Lot {
    lock: Mutex<()>,
    woken: Condvar,
}

impl Lot {
    pub(crate) fn new() -> Self {
        Self { lock: Mutex::new(()), woken: Condvar::new() }
    }

    /// Sleeps until woken, if `must_sleep` says so; a thread that wakes it does so before that or after the sleep
    /// began.
    pub(crate) fn sleep_if(&self, must_sleep: impl FnOnce() -> bool) {
        #[cfg(not(loom))]
        {
            let mut guard = self.lock.lock();
            if must_sleep() {
                self.woken.wait(&mut guard);
            }
        }
        #[cfg(loom)]
        {
            let guard = self.lock.lock().expect("nobody panicked");
            if must_sleep() {
                drop(self.woken.wait(guard));
            }
        }
    }

    /// Wakes one thread that sleeps.
    pub(crate) fn wake_one(&self) {
        drop(self.lock.lock());
        self.woken.notify_one();
    }

    /// Wakes all threads that sleep.
    pub(crate) fn wake_all(&self) {
        drop(self.lock.lock());
        self.woken.notify_all();
    }
}

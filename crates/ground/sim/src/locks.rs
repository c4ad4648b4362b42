//! Locks of the threads that share a pool, which a deterministic scheduler can hold.
//!
//! They are `parking_lot`'s. On a thread that [`scheduled`] runs, taking a lock is a point at which the
//! scheduler may switch to another of the threads that it simulates, and a thread waits for a held lock by
//! yielding. Every access to a modelled medium is such a point, too. Elsewhere this costs the load of a
//! flag.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

pub use parking_lot::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

/// Whether any thread was ever scheduled.
static IN_USE: AtomicBool = AtomicBool::new(false);

thread_local! {
    static YIELD: Cell<Option<fn()>> = const { Cell::new(None) };
}

/// Runs `simulation`, in which `yield_now` switches to another of its threads, all of which share the
/// thread of the caller.
pub fn scheduled<T>(yield_now: fn(), simulation: impl FnOnce() -> T) -> T {
    struct Restore(Option<fn()>);
    impl Drop for Restore {
        fn drop(&mut self) {
            YIELD.set(self.0);
        }
    }
    IN_USE.store(true, Ordering::Relaxed);
    let _restore = Restore(YIELD.replace(Some(yield_now)));
    simulation()
}

/// Whether a scheduler is in use; without the hooks (`--cfg halite_unhooked`, to measure their cost) none is.
#[inline]
fn is_in_use() -> bool {
    !cfg!(halite_unhooked) && IN_USE.load(Ordering::Relaxed)
}

/// A place at which another thread may go on.
#[inline]
pub fn point() {
    if is_in_use() {
        yield_if_scheduled();
    }
}

/// Whether a scheduler simulates this thread: then it waits by [`point`], not by sleeping.
#[must_use]
pub fn is_scheduled() -> bool {
    is_in_use() && YIELD.get().is_some()
}

#[cold]
fn yield_if_scheduled() -> bool {
    let yield_now = YIELD.get();
    if let Some(yield_now) = yield_now {
        yield_now();
    }
    yield_now.is_some()
}

/// Takes a lock by `try_take` on a scheduled thread, by `take` on another.
#[inline]
fn acquire<G>(try_take: impl Fn() -> Option<G>, take: impl FnOnce() -> G) -> G {
    if is_in_use() {
        while yield_if_scheduled() {
            if let Some(guard) = try_take() {
                return guard;
            }
        }
    }
    take()
}

/// Mutual exclusion.
#[derive(Debug, Default)]
pub struct Mutex<T>(parking_lot::Mutex<T>);

impl<T> Mutex<T> {
    /// A lock around `value`.
    pub const fn new(value: T) -> Self {
        Self(parking_lot::Mutex::new(value))
    }

    /// Waits for the lock.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        acquire(|| self.0.try_lock(), || self.0.lock())
    }

    /// The lock, if no thread holds it.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        point();
        self.0.try_lock()
    }

    /// The value, which no other thread can reach.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}

/// Many readers or one writer.
#[derive(Debug, Default)]
pub struct RwLock<T>(parking_lot::RwLock<T>);

impl<T> RwLock<T> {
    /// A lock around `value`.
    pub const fn new(value: T) -> Self {
        Self(parking_lot::RwLock::new(value))
    }

    /// Waits until no thread writes.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        acquire(|| self.0.try_read(), || self.0.read())
    }

    /// Waits until no thread reads or writes.
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        acquire(|| self.0.try_write(), || self.0.write())
    }
}

/// A gate at which threads wait until another thread opens it, once.
#[derive(Debug, Default)]
pub struct Gate {
    is_open: parking_lot::Mutex<bool>,
    opened: parking_lot::Condvar,
}

impl Gate {
    /// Lets all threads through, from now on.
    pub fn open(&self) {
        *self.is_open.lock() = true;
        self.opened.notify_all();
    }

    /// Waits until it is open, or until a moment; returns whether it is open. On a scheduled thread, no
    /// time passes.
    pub fn wait(&self, until: Option<Instant>) -> bool {
        if is_in_use() {
            while yield_if_scheduled() {
                if *self.is_open.lock() {
                    return true;
                }
            }
        }
        let mut is_open = self.is_open.lock();
        while !*is_open {
            match until {
                Some(until) if self.opened.wait_until(&mut is_open, until).timed_out() => break,
                Some(_) => {}
                None => self.opened.wait(&mut is_open),
            }
        }
        *is_open
    }
}

//! The synchronisation primitives: of the standard library, or of loom, which tries every order.

#[cfg(loom)]
use loom::cell::UnsafeCell;
#[cfg(loom)]
pub(crate) use loom::hint::spin_loop;
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(loom)]
pub(crate) use loom::thread::yield_now;
#[cfg(not(loom))]
use std::cell::UnsafeCell;
#[cfg(not(loom))]
pub(crate) use std::hint::spin_loop;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::thread::yield_now;

/// A value that another atomic guards. Loom checks that each access happens after those that it must not
/// run beside, and that the value is dropped.
pub(crate) struct Guarded<T> {
    value: UnsafeCell<T>,
    #[cfg(loom)]
    _dropped: loom::alloc::Track<()>,
}

impl<T> Guarded<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            value: UnsafeCell::new(value),
            #[cfg(loom)]
            _dropped: loom::alloc::Track::new(()),
        }
    }

    /// The value, to be read from now on.
    #[inline(always)]
    pub(crate) fn get(&self) -> *const T {
        #[cfg(loom)]
        return self.value.with(|value| value);
        #[cfg(not(loom))]
        return self.value.get();
    }

    /// The value, to be changed from now on.
    #[inline(always)]
    pub(crate) fn get_mut(&self) -> *mut T {
        #[cfg(loom)]
        return self.value.with_mut(|value| value);
        #[cfg(not(loom))]
        return self.value.get();
    }
}

#[cfg(loom)]
impl<T> Drop for Guarded<T> {
    fn drop(&mut self) {
        // Loom by itself does not take this for an access.
        self.get_mut();
    }
}

//! How a thread of the server is woken.
//!
//! A thread that is about to sleep announces it, and looks for messages once more; a sender wakes only a thread that
//! has announced its sleep. Both sides have a sequentially consistent fence between their write and their read, so at
//! least one of them sees the other's write.

use std::sync::atomic::{AtomicBool, Ordering, fence};

use mio::Waker;

/// How a thread is woken.
#[derive(Debug)]
pub(crate) struct Bell {
    waker: Waker,
    asleep: AtomicBool,
}

impl Bell {
    pub(crate) fn new(waker: Waker) -> Self {
        Self { waker, asleep: AtomicBool::new(false) }
    }

    /// Wakes the thread, whether it sleeps or not.
    pub(crate) fn ring(&self) {
        // Should the wake-up fail, the thread looks at its rings at its next tick.
        let _ = self.waker.wake();
    }

    /// Wakes the thread if it has announced its sleep: a message was written for it.
    pub(crate) fn ring_if_asleep(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            self.ring();
        }
    }

    /// Announces that the thread is about to sleep, before it looks for messages once more.
    pub(crate) fn announce_sleep(&self) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Says that the thread is awake.
    pub(crate) fn wake_up(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }
}

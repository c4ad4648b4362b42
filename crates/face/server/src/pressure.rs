//! The signals between threads when there is no room: see [`crate::eviction`].

use std::sync::atomic::{AtomicBool, Ordering};

/// The signals of evictions between threads.
#[derive(Debug)]
pub(crate) struct Pressure {
    /// By thread: it has no key that the policy lets go.
    pub(crate) dry: Box<[AtomicBool]>,
    /// Some thread needs room that it cannot make.
    pub(crate) is_asked: AtomicBool,
}

impl Pressure {
    pub(crate) fn new(threads: usize) -> Self {
        let dry = (0..threads).map(|_| AtomicBool::new(false)).collect();
        Self { dry, is_asked: AtomicBool::new(false) }
    }

    /// Whether no thread has a key that may go.
    pub(crate) fn is_all_dry(&self) -> bool {
        self.dry.iter().all(|dry| dry.load(Ordering::Relaxed))
    }
}

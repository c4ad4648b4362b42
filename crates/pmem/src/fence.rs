//! Proofs that bytes are on their way, and that they have arrived.

use std::marker::PhantomData;

/// The proof that the write-back of a range has begun; [`crate::Pool::fence`] waits for it.
///
/// It stays on its thread: a processor's fence waits for that processor's own write-backs only.
#[derive(Debug)]
#[must_use = "a flushed range is not durable before it is fenced"]
pub struct Flushed {
    pub(crate) pool: u64,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) on_this_thread: PhantomData<*const ()>,
}

/// The proof that a range was durable at some moment, in its pool's [`crate::Domain`].
#[derive(Debug)]
pub struct Fenced {
    pub(crate) pool: u64,
    offset: u64,
    len: u64,
}

impl Fenced {
    /// Only a pool's fence makes one.
    pub(crate) fn after_fence(flushed: &Flushed) -> Self {
        Self { pool: flushed.pool, offset: flushed.offset, len: flushed.len }
    }

    /// Whether the proof is about all of a range of its pool.
    #[must_use]
    pub fn covers(&self, offset: u64, len: u64) -> bool {
        offset >= self.offset
            && offset - self.offset <= self.len
            && len <= self.len - (offset - self.offset)
    }
}

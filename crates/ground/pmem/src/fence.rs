//! Proofs that bytes are on their way, and that they have arrived.

use std::marker::PhantomData;

/// The proof that the write-back of a range has begun; [`crate::Pool::fence`] waits for it.
///
/// It stays on its thread: a processor's fence waits for that processor's own write-backs only.
#[derive(Debug)]
#[must_use = "a flushed range is not durable before it is fenced"]
pub struct Flushed {
    pub(crate) proves: Range,
    pub(crate) on_this_thread: PhantomData<*const ()>,
}

impl Flushed {
    /// The caller has begun the write-back of the range, on this thread.
    pub(crate) fn of(proves: Range) -> Self {
        Self { proves, on_this_thread: PhantomData }
    }
}

/// The proof that a range was durable at some moment, in its pool's [`crate::Domain`].
#[derive(Debug, Clone)]
pub struct Fenced {
    pub(crate) proves: Range,
}

/// The bytes that a proof covers: of one life of a region, as they were after so many writes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    pub(crate) pool: u64,
    /// The life of the region; no two have the same.
    pub(crate) life: u64,
    /// Writes that the region's one owner had made. Appends are not counted, as appended bytes do not
    /// change.
    pub(crate) writes: u64,
    /// The offset in the pool.
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

impl Range {
    /// Whether all of `offset..offset + len` is in the range.
    pub(crate) fn covers(&self, offset: u64, len: u64) -> bool {
        offset
            .checked_sub(self.offset)
            .is_some_and(|before| before.checked_add(len).is_some_and(|needed| needed <= self.len))
    }
}

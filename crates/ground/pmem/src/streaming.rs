//! Stores past the cache that one fence ends.

use std::marker::PhantomData;
use std::ops::Range;

use crate::traffic::Streamed;
use crate::{Fresh, Result};

/// Stores to a [`Fresh`] past the cache; see [`Fresh::persist_stream`].
///
/// It leaves neither its thread nor the call that lent it, and gives no reference to the stored bytes:
/// other threads may see such stores only behind a fence of the thread that made them.
pub struct Streaming<'a> {
    fresh: &'a mut Fresh,
    /// Around all that was stored.
    hull: Option<Range<u64>>,
    counted: Streamed,
    waited: bool,
    on_this_thread: PhantomData<*const ()>,
}

impl<'a> Streaming<'a> {
    pub(crate) fn new(fresh: &'a mut Fresh) -> Self {
        let counted = Streamed::default();
        Self { fresh, hull: None, counted, waited: false, on_this_thread: PhantomData }
    }

    /// Stores `bytes` at `at`. One store; as a write-back, its lines.
    ///
    /// # Panics
    /// If they do not fit.
    #[inline]
    #[track_caller]
    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        self.fresh.store_past_cache(at, bytes);
        let len = bytes.len() as u64;
        self.counted.add(self.fresh.offset() + at, len);
        let end = at + len;
        self.hull = Some(match &self.hull {
            Some(hull) => hull.start.min(at)..hull.end.max(end),
            None => at..end,
        });
    }

    /// Copies the bytes at `at`, including those stored here, to `bytes`. Counts as one load.
    ///
    /// # Panics
    /// If that is not all inside.
    #[inline]
    pub fn read_to(&self, at: u64, bytes: &mut [u8]) {
        bytes.copy_from_slice(self.fresh.read(at, bytes.len() as u64));
    }

    /// Prefetches as [`Fresh::prefetch`]: lines needed next can arrive while the stores made here are still on their
    /// way.
    ///
    /// # Panics
    /// If it is not inside.
    #[inline]
    pub fn prefetch(&self, at: u64) {
        self.fresh.prefetch(at);
    }

    /// Waits until all stores are durable; without a store, returns at once.
    #[inline]
    #[track_caller]
    pub(crate) fn wait(&mut self) -> Result<()> {
        if let Some(hull) = self.hull.clone() {
            self.fresh.pool().fence([self.fresh.hull(hull)])?;
        }
        self.waited = true;
        Ok(())
    }
}

impl Drop for Streaming<'_> {
    fn drop(&mut self) {
        self.fresh.pool().counters().streamed(&self.counted);
        if !self.waited {
            self.fresh.pool().drain();
        }
    }
}

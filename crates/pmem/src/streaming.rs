//! Stores past the cache that one fence ends.

use std::marker::PhantomData;
use std::ops::Range;

use crate::{Fresh, Result};

/// Stores to a [`Fresh`] past the cache; see [`Fresh::persist_stream`].
///
/// It does not leave its thread, and not the call that gave it: other threads may see such stores
/// only behind a fence of the thread that made them.
pub struct Streaming<'a> {
    fresh: &'a mut Fresh,
    /// Around all that was stored.
    hull: Option<Range<u64>>,
    waited: bool,
    on_this_thread: PhantomData<*const ()>,
}

impl<'a> Streaming<'a> {
    pub(crate) fn new(fresh: &'a mut Fresh) -> Self {
        Self { fresh, hull: None, waited: false, on_this_thread: PhantomData }
    }

    /// Stores `bytes` at `at`. One store; as a write-back, its lines.
    ///
    /// # Panics
    /// If they do not fit.
    #[inline]
    #[track_caller]
    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        // Its proof is covered by that of the hull.
        let _ = self.fresh.store_past_cache(at, bytes);
        let end = at + bytes.len() as u64;
        self.hull = Some(match &self.hull {
            Some(hull) => hull.start.min(at)..hull.end.max(end),
            None => at..end,
        });
    }

    /// What is there, with what was stored here. Counts as one load.
    ///
    /// # Panics
    /// If `at..at + len` is not inside.
    #[must_use]
    pub fn read(&self, at: u64, len: u64) -> &[u8] {
        self.fresh.read(at, len)
    }

    /// Waits until everything is durable; without a store, there is nothing to wait for.
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
        if !self.waited {
            self.fresh.pool().drain();
        }
    }
}

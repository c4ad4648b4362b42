//! The holders of a frame's latch: one writer, or many readers.

use std::ops::Range;

use crate::frames::latch::Latch;
use crate::frames::words::FrameWords;
use crate::region::Region;
use crate::{Fenced, Flushed, Pool, Result};

/// A frame and its latch.
#[derive(Clone, Copy)]
pub(super) struct Frame<'a> {
    pub(super) region: &'a Region,
    pub(super) latch: &'a Latch,
    pub(super) start: u64,
    pub(super) len: u64,
}

impl<'a> Frame<'a> {
    pub(super) fn words(self) -> FrameWords<'a> {
        FrameWords::new(self.region, self.start, self.len)
    }

    #[track_caller]
    fn flush(self, range: Range<u64>) -> Flushed {
        assert!(range.end <= self.len, "{range:?} is outside a frame of {} bytes", self.len);
        self.region.flush(self.start + range.start..self.start + range.end, 0)
    }

    #[track_caller]
    fn persist(self, range: Range<u64>) -> Result<Fenced> {
        let [fenced] = self.region.pool().fence([self.flush(range)])?;
        Ok(fenced)
    }
}

/// The one writer of a frame, until it is dropped: then the frame has another version. Offsets are relative to the frame's
/// start. Nothing that it stores has to be flushed.
#[must_use = "the latch is released when this is dropped"]
pub struct FrameMut<'a>(Frame<'a>);

impl<'a> FrameMut<'a> {
    /// The caller has taken the latch for writing.
    pub(super) fn new(frame: Frame<'a>) -> Self {
        Self(frame)
    }

    /// The pool.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        self.0.region.pool()
    }

    /// The words, as all readers see them.
    #[inline]
    #[must_use]
    pub fn words(&self) -> FrameWords<'_> {
        self.0.words()
    }

    /// All bytes where they lie. Counts as one load, and is not waited for under a [`crate::Profile`].
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `self` holds the latch exclusively, and stores through `&mut self` only.
        unsafe { self.0.words().bytes() }
    }

    /// Stores `bytes` at `at`, each word of 8 bytes at once, in any order. One store.
    ///
    /// # Panics
    /// If they do not fit.
    #[inline]
    #[track_caller]
    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.0.words().write(at, bytes);
        }
    }

    /// Stores a word. One store.
    ///
    /// # Panics
    /// If `at` is no word of the frame.
    #[inline]
    #[track_caller]
    pub fn store(&mut self, at: u64, word: u64) {
        self.0.words().write_words(at, &[word]);
    }

    /// Stores words; in a line, they persist in this order. One store.
    ///
    /// # Panics
    /// If they do not fit, or `at` is no multiple of 8.
    #[inline]
    #[track_caller]
    pub fn write_words(&mut self, at: u64, words: &[u64]) {
        self.0.words().write_words(at, words);
    }

    /// Starts the write-back of the lines of `range`. [`Pool::fence`] waits for it, of several frames at once, also when
    /// the latch is released.
    ///
    /// # Panics
    /// If it reaches beyond the end.
    #[inline]
    #[track_caller]
    pub fn flush(&self, range: Range<u64>) -> Flushed {
        self.0.flush(range)
    }

    /// Makes `range` durable: the write-back of its lines, and a fence.
    ///
    /// # Errors
    /// As [`Pool::fence`].
    ///
    /// # Panics
    /// If it reaches beyond the end.
    #[inline]
    #[track_caller]
    pub fn persist(&self, range: Range<u64>) -> Result<Fenced> {
        self.0.persist(range)
    }
}

impl Drop for FrameMut<'_> {
    fn drop(&mut self) {
        self.0.latch.release_exclusive();
    }
}

impl std::fmt::Debug for FrameMut<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FrameMut").field("words", &self.0.words()).finish_non_exhaustive()
    }
}

/// A reader of a frame, which keeps writers out until it is dropped. Offsets are relative to the frame's start.
#[must_use = "the latch is released when this is dropped"]
pub struct FrameRef<'a>(Frame<'a>);

impl<'a> FrameRef<'a> {
    /// The caller has taken the latch for reading.
    pub(super) fn new(frame: Frame<'a>) -> Self {
        Self(frame)
    }

    /// The words, as all readers see them.
    #[inline]
    #[must_use]
    pub fn words(&self) -> FrameWords<'_> {
        self.0.words()
    }

    /// All bytes where they lie. Counts as one load, and is not waited for under a [`crate::Profile`].
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: a writer would need the latch, which `self` holds.
        unsafe { self.0.words().bytes() }
    }

    /// Starts the write-back of the lines of `range`, as [`FrameMut::flush`] does.
    ///
    /// # Panics
    /// If it reaches beyond the end.
    #[inline]
    #[track_caller]
    pub fn flush(&self, range: Range<u64>) -> Flushed {
        self.0.flush(range)
    }

    /// Makes `range` durable, as [`FrameMut::persist`] does.
    ///
    /// # Errors
    /// As [`Pool::fence`].
    ///
    /// # Panics
    /// If it reaches beyond the end.
    #[inline]
    #[track_caller]
    pub fn persist(&self, range: Range<u64>) -> Result<Fenced> {
        self.0.persist(range)
    }
}

impl Drop for FrameRef<'_> {
    fn drop(&mut self) {
        self.0.latch.release_shared();
    }
}

impl std::fmt::Debug for FrameRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FrameRef").field("words", &self.0.words()).finish_non_exhaustive()
    }
}

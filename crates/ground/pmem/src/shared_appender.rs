//! Space that many threads append to while other threads read the finished bytes.
//!
//! A thread takes space by [`SharedAppender::grant`] (one atomic step), writes it through its [`Grant`]
//! while other threads write theirs, and finishes: by [`Grant::publish`], with the proof that it is
//! durable, or by [`Grant::reveal`]. Grants are finished in any order, and a finished one may be read at
//! once (`finished.rs`). A grant that is dropped instead is a gap: its bytes are never read, and the
//! frontier ([`Published::len`]) stays before it, until the space is reclaimed.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Fenced, Flushed, LINE, Published, entry};

/// The owner of a range's unwritten rest, which threads share. Offsets are relative to the range's start.
pub struct SharedAppender {
    published: Arc<Published>,
    tail: AtomicU64,
}

impl SharedAppender {
    pub(crate) fn new(published: Arc<Published>) -> Self {
        let tail = AtomicU64::new(published.frontier.load_own());
        Self { published, tail }
    }

    /// The readers' side of the range.
    #[must_use]
    #[inline]
    pub fn published(&self) -> &Arc<Published> {
        &self.published
    }

    /// Returns where the next grant begins.
    #[must_use]
    pub fn tail(&self) -> u64 {
        self.tail.load(Ordering::Relaxed)
    }

    /// Bytes that still fit.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.published.region.len() - self.tail()
    }

    /// Takes the next `len` bytes, or `None` if they do not fit.
    ///
    /// # Panics
    /// If `len` is not some whole lines.
    #[inline]
    pub fn grant(&self, len: u64) -> Option<Grant<'_>> {
        assert!(len > 0 && len.is_multiple_of(LINE), "a grant of {len} bytes is not whole lines");
        let end_max = self.published.region.len();
        let mut at = self.tail();
        loop {
            let end = at.checked_add(len).filter(|&end| end <= end_max)?;
            // The exchange only assigns the bytes; their earlier contents are known to all threads that
            // share the appender, so relaxed order suffices.
            let exchanged =
                self.tail.compare_exchange_weak(at, end, Ordering::Relaxed, Ordering::Relaxed);
            match exchanged {
                Ok(_) => break,
                Err(now) => at = now,
            }
        }
        let published = &self.published;
        let on_this_thread = PhantomData;
        Some(Grant {
            published,
            at,
            len,
            writes: 0,
            written_back: 0..0,
            streamed: false,
            on_this_thread,
        })
    }
}

/// The one writer of a part of a [`SharedAppender`]'s range. Offsets are relative to the grant's start.
///
/// It stays on its thread: other threads may see streamed bytes only behind a fence of the thread that
/// streamed them.
#[must_use = "what is not finished is never read"]
pub struct Grant<'a> {
    published: &'a Published,
    at: u64,
    len: u64,
    writes: u64,
    /// Bytes whose write-back has begun, and that were not written since.
    written_back: Range<u64>,
    /// Bytes were streamed: only a fence puts them in order.
    streamed: bool,
    on_this_thread: PhantomData<*const ()>,
}

impl Grant<'_> {
    /// Returns where the grant begins, in the appender's range.
    #[must_use]
    pub fn at(&self) -> u64 {
        self.at
    }

    /// The length in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is no byte; a grant always has some.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Stores `bytes` at `at` through the cache; [`Grant::flush`] starts their write-back. One store.
    ///
    /// # Panics
    /// If they do not fit.
    #[inline]
    #[track_caller]
    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        let range = self.inside(at, bytes.len() as u64);
        self.writes += 1;
        if range.start < self.written_back.end && self.written_back.start < range.end {
            self.written_back = 0..0;
        }
        // SAFETY: the bytes belong to this grant, borrowed mutably, and are not finished, so that no
        // reader sees them.
        unsafe { self.published.region.store(self.at + at, bytes) };
    }

    /// Stores `bytes` at `at` past the cache. One store; as a write-back, its lines. The returned
    /// [`Flushed`] covers all bytes in a row that were streamed or flushed up to now, these among them: of
    /// several calls, fence the last one's.
    ///
    /// # Panics
    /// If they do not fit.
    #[inline]
    #[track_caller]
    pub fn write_stream(&mut self, at: u64, bytes: &[u8]) -> Flushed {
        let range = self.inside(at, bytes.len() as u64);
        let region = &self.published.region;
        region.pool().counters().store();
        self.writes += 1;
        self.streamed = true;
        // SAFETY: as in `write`.
        unsafe { region.stream(self.at + at, bytes) };
        self.count_written_back(range)
    }

    /// Stores the header that `header` returns, `payload` behind it, and zeros up to the end of the last
    /// line at `at`, past the cache. The header has at most 16 bytes; `header` is called when the other
    /// lines are on their way. Counts and returns as [`Grant::write_stream`]. If `header` panics, the
    /// contents of the lines are unknown.
    ///
    /// # Panics
    /// If the lines do not fit, or `at` is not a multiple of a line.
    #[inline]
    #[track_caller]
    pub fn stream_entry<const N: usize>(
        &mut self,
        at: u64,
        payload: &[u8],
        header: impl FnOnce() -> [u8; N],
    ) -> Flushed {
        let range = self.inside(at, entry::len(N, payload));
        let region = &self.published.region;
        region.pool().counters().store();
        self.writes += 1;
        self.streamed = true;
        let written_back = std::mem::replace(&mut self.written_back, 0..0);
        // SAFETY: as in `write`.
        unsafe { region.stream_entry(self.at + at, payload, header) };
        self.written_back = written_back;
        self.count_written_back(range)
    }

    /// Starts the write-back of `range`. Returns as [`Grant::write_stream`].
    ///
    /// # Panics
    /// If it reaches beyond the end.
    #[inline]
    #[track_caller]
    pub fn flush(&mut self, range: Range<u64>) -> Flushed {
        let len = range.end.checked_sub(range.start).expect("a range ends after it starts");
        let range = self.inside(range.start, len);
        let absolute = self.at + range.start..self.at + range.end;
        let _ = self.published.region.flush(absolute, self.writes);
        self.join_written_back(range)
    }

    /// Lets readers see all bytes. Takes the proof that they are durable.
    ///
    /// # Panics
    /// If `proof` does not cover all bytes, or is older than the last write.
    #[inline]
    #[track_caller]
    pub fn publish(mut self, proof: &Fenced) {
        let region = &self.published.region;
        let whole = region.is_proven(proof, self.at, self.len);
        assert!(whole && proof.proves.writes == self.writes, "the proof is about other bytes");
        region.note_publication(proof);
        // Only their grant flushes bytes that no reader sees yet, so its own thread has fenced them.
        self.streamed = false;
        self.finish();
    }

    /// Lets readers in this process see all bytes, durable or not. No stored pointer may lead to these
    /// bytes before they are fenced ([`Published::flush`]): after a crash, it may lead to arbitrary bytes.
    ///
    /// # Panics
    /// If some of them were streamed; those have to be fenced and published.
    #[inline]
    pub fn reveal(self) {
        assert!(!self.streamed, "what was streamed is published by the proof of its fence");
        self.finish();
    }

    #[inline]
    fn finish(self) {
        let range = self.at..self.at + self.len;
        let finished = self.published.finished.as_ref();
        finished.expect("a shared range has it").finish(&range, &self.published.frontier);
    }

    #[inline]
    fn inside(&self, at: u64, len: u64) -> Range<u64> {
        let end = at.checked_add(len).filter(|&end| end <= self.len);
        at..end.unwrap_or_else(|| panic!("{at}..+{len} is outside a grant of {} bytes", self.len))
    }

    /// Counts the streamed bytes.
    #[inline]
    #[track_caller]
    fn count_written_back(&mut self, range: Range<u64>) -> Flushed {
        let region = &self.published.region;
        let len = range.end - range.start;
        let _ = region.pool().flushed(region.range(self.at + range.start, len, self.writes));
        self.join_written_back(range)
    }

    /// Joins a range to the one written back before if they touch; otherwise replaces it.
    #[inline]
    fn join_written_back(&mut self, range: Range<u64>) -> Flushed {
        let before = &self.written_back;
        let touch = range.start <= before.end && before.start <= range.end;
        self.written_back = match touch && !before.is_empty() {
            true => before.start.min(range.start)..before.end.max(range.end),
            false => range,
        };
        let Range { start, end } = self.written_back;
        Flushed::of(self.published.region.range(self.at + start, end - start, self.writes))
    }
}

impl Drop for Grant<'_> {
    /// Orders the streamed stores before all that this thread does next, so that the range may be
    /// reclaimed.
    fn drop(&mut self) {
        if self.streamed {
            self.published.region.pool().drain();
        }
    }
}

//! Space with one owner, which writes it.

use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;

use crate::region::Region;
use crate::streaming::Streaming;
use crate::{
    Appender, Fenced, Flushed, Frames, LINE, Pool, Published, Result, Scratch, SharedAppender,
    Words, entry, stream,
};

/// A range of a pool that only its owner sees. Offsets are relative to its start.
pub struct Fresh {
    region: Region,
    writes: u64,
}

impl Fresh {
    pub(crate) fn new(region: Region) -> Self {
        Self { region, writes: 0 }
    }

    /// The pool.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        self.region.pool()
    }

    /// The offset in the pool.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.region.offset()
    }

    /// The length in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.region.len()
    }

    /// Whether the range has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All bytes. Counts as one load. Under a [`crate::Profile`] the call waits for none of them, because
    /// it cannot tell which ones the caller will look at; use [`Fresh::read`] for reads that are to be
    /// measured.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.pool().counters().load();
        let address = self.region.address(0, self.len());
        // SAFETY: the region lies inside the mapping, which lives as long as its pool, and belongs
        // to `self` alone; writing it takes `&mut self`.
        unsafe { std::slice::from_raw_parts(address, self.len() as usize) }
    }

    /// Stores `bytes` at `at`. One store.
    ///
    /// # Panics
    /// If they do not fit.
    #[track_caller]
    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        self.writes += 1;
        // SAFETY: the region belongs to `self` alone, which is borrowed mutably.
        unsafe { self.region.store(at, bytes) };
    }

    /// Stores `bytes` at `at` past the cache. One store; as a write-back, its lines.
    ///
    /// # Panics
    /// If they do not fit.
    #[track_caller]
    pub fn write_stream(&mut self, at: u64, bytes: &[u8]) -> Flushed {
        self.writes += 1;
        self.pool().counters().store();
        // SAFETY: as in `write`.
        unsafe { self.region.stream(at, bytes) };
        self.streamed(at, bytes.len() as u64)
    }

    /// The bytes `at..at + len`. Counts as one load.
    ///
    /// # Panics
    /// If they are not all inside.
    #[inline]
    #[must_use]
    pub fn read(&self, at: u64, len: u64) -> &[u8] {
        let address = self.region.read(at, len);
        // SAFETY: as in `bytes`.
        unsafe { std::slice::from_raw_parts(address, len as usize) }
    }

    /// Has the processor fetch the line of the byte at `at`, and does not wait. Counts as nothing.
    ///
    /// # Panics
    /// If it is not inside.
    #[inline]
    pub fn prefetch(&self, at: u64) {
        self.region.prefetch(at);
    }

    /// Has the kernel read all bytes if they are those of an ordinary file, and does not wait: for ranges of many
    /// pages that are about to be read in order, which the kernel does not guess ([`crate::Domain::PageCache`]).
    pub fn read_ahead(&self) {
        self.region.read_ahead(0, self.len());
    }

    /// Stores words, which do not tear; in a line, they persist in this order where lines keep it
    /// ([`crate::Domain::orders_lines`]). One store.
    ///
    /// # Panics
    /// If they do not fit, or `at` in the pool is not a multiple of 8.
    #[inline]
    #[track_caller]
    pub fn write_words(&mut self, at: u64, words: &[u64]) {
        self.writes += 1;
        // SAFETY: as in `write`.
        unsafe { self.region.store_words(at, words) };
    }

    /// Makes the stores past the cache that `store` asks for, and waits until all of them are durable. One
    /// fence. If `store` panics, its stores are ordered by a fence, but not known to be durable.
    ///
    /// # Errors
    /// As [`Pool::fence`].
    #[inline]
    #[track_caller]
    pub fn persist_stream<R>(&mut self, store: impl FnOnce(&mut Streaming<'_>) -> R) -> Result<R> {
        let mut streaming = Streaming::new(self);
        let stored = store(&mut streaming);
        streaming.wait()?;
        Ok(stored)
    }

    /// Stores the header that `header` returns, `payload` behind it, and zeros up to the end of the last
    /// line at `at`, past the cache, and waits until all of them are durable. The header has at most 16
    /// bytes; `header` is called when the other lines are on their way. One store; as a write-back, its
    /// lines; one fence. If `header` panics, the lines are ordered by a fence, but not known to be durable.
    ///
    /// Faster than [`Fresh::persist_stream`] of lines that the caller composed: only the stores themselves
    /// wait for the fence before.
    ///
    /// # Errors
    /// As [`Pool::fence`].
    ///
    /// # Panics
    /// If the lines do not fit, or `at` in the pool is not a multiple of a line.
    #[inline]
    #[track_caller]
    pub fn persist_entry<const N: usize>(
        &mut self,
        at: u64,
        payload: &[u8],
        header: impl FnOnce() -> [u8; N],
    ) -> Result<()> {
        self.writes += 1;
        // SAFETY: as in `write`.
        unsafe { self.region.stream_entry(at, payload, header) };
        let (pool, offset, len) = (self.pool(), self.offset() + at, entry::len(N, payload));
        pool.note_write_back(offset, len);
        pool.counters().persisted(offset, len);
        let flushed = Flushed::of(self.region.range(at, len, self.writes));
        pool.wait_uncounted(&[flushed], Location::caller())
    }

    /// Stores bytes past the cache, without waiting for them. It counts as nothing.
    #[inline]
    #[track_caller]
    pub(crate) fn store_past_cache(&mut self, at: u64, bytes: &[u8]) {
        self.writes += 1;
        // SAFETY: as in `write`.
        unsafe { self.region.stream(at, bytes) };
        self.pool().note_write_back(self.offset() + at, bytes.len() as u64);
    }

    /// Stores all bytes past the cache, without ordering them: a fence of this thread has to follow. One store; as a
    /// write-back, its lines.
    #[track_caller]
    pub(crate) fn stream_undrained(&mut self, bytes: &[u8]) -> Flushed {
        self.writes += 1;
        self.pool().counters().store();
        // SAFETY: as in `write`.
        unsafe { self.region.stream(0, bytes) };
        self.pool().flushed(self.region.range(0, bytes.len() as u64, self.writes))
    }

    /// Asserts that `proof` proves all bytes durable, and tells a model that they are published.
    #[track_caller]
    pub(crate) fn assert_proven(&self, proof: &Fenced) {
        let whole = self.region.is_proven(proof, 0, self.len());
        assert!(whole && proof.proves.writes == self.writes, "the proof is about other bytes");
        self.region.note_publication(proof);
    }

    /// The range.
    pub(crate) fn into_region(self) -> Region {
        self.region
    }

    /// The token of a flush that covers all bytes between two offsets.
    pub(crate) fn hull(&self, range: Range<u64>) -> Flushed {
        Flushed::of(self.region.range(range.start, range.end - range.start, self.writes))
    }

    /// Stores zeros over `range`, past the cache. One store; as a write-back, its lines.
    ///
    /// # Panics
    /// If `range` reaches beyond the end.
    #[track_caller]
    pub fn zero(&mut self, range: Range<u64>) -> Flushed {
        const ZEROS: [u8; 4096] = [0; 4096];
        self.writes += 1;
        let len = range.end.checked_sub(range.start).expect("a range ends after it starts");
        self.region.address(range.start, len);
        self.pool().counters().store();
        if let Some(medium) = self.pool().medium() {
            medium.zero(self.offset() + range.start, len, Location::caller());
            return self.pool().flushed(self.region.range(range.start, len, self.writes));
        }
        self.pool().note_streamed(self.offset() + range.start, len);
        for at in range.clone().step_by(ZEROS.len()) {
            let part = (range.end - at).min(ZEROS.len() as u64);
            let address = self.region.address(at, part);
            // SAFETY: as in `write`.
            unsafe { stream::copy(self.pool(), address, &ZEROS[..part as usize]) };
        }
        self.streamed(range.start, len)
    }

    /// Orders the streamed stores before all that this thread does next, so that the range may be handed to
    /// another thread.
    #[track_caller]
    fn streamed(&self, at: u64, len: u64) -> Flushed {
        let flushed = self.pool().flushed(self.region.range(at, len, self.writes));
        self.pool().drain();
        flushed
    }

    /// Starts the write-back of `range`.
    ///
    /// # Panics
    /// If it reaches beyond the end.
    #[track_caller]
    pub fn flush(&self, range: Range<u64>) -> Flushed {
        self.region.flush(range, self.writes)
    }

    /// Lets the stores to a range, which lies in one line, persist before the stores to that line which follow. Lines
    /// keep their order where [`crate::Domain::orders_lines`]; elsewhere this is a fence.
    ///
    /// # Errors
    /// As [`Pool::fence`].
    ///
    /// # Panics
    /// If it reaches beyond the end.
    #[inline]
    #[track_caller]
    pub fn order(&self, range: Range<u64>) -> Result<()> {
        if !self.pool().domain().orders_lines() {
            self.pool().fence([self.flush(range)])?;
        }
        Ok(())
    }

    /// Ends writing, so that readers may read. Takes the proof that all bytes are durable.
    ///
    /// # Panics
    /// If `proof` does not cover all bytes, or is older than the last write.
    #[must_use]
    #[track_caller]
    pub fn publish(self, proof: &Fenced) -> Arc<Published> {
        self.assert_proven(proof);
        let end = self.len();
        Published::new(self.region, end)
    }

    /// Appends behind the first `readable` bytes, which become immutable and readable.
    ///
    /// # Panics
    /// If the range is shorter.
    #[must_use]
    pub fn into_appender(mut self, readable: u64) -> Appender {
        assert!(readable <= self.len(), "{readable} of {} bytes", self.len());
        // Proofs about the range's earlier contents do not count for the bytes to be appended.
        self.region.renew();
        Appender::new(Published::new(self.region, readable))
    }

    /// Lets many threads append behind the first `readable` bytes, which become immutable and readable.
    /// Allocates a bit a line in DRAM.
    ///
    /// # Panics
    /// If the range is shorter, or its start or the end of the readable bytes is not a multiple of a line.
    #[must_use]
    pub fn into_shared_appender(mut self, readable: u64) -> SharedAppender {
        assert!(readable <= self.len(), "{readable} of {} bytes", self.len());
        // As above.
        self.region.renew();
        let lines = [self.offset(), readable].iter().all(|at| at.is_multiple_of(LINE));
        assert!(lines, "threads append whole lines");
        SharedAppender::new(Published::shared(self.region, readable))
    }

    /// Gives the range up for volatile memory.
    #[must_use]
    pub fn into_scratch(self) -> Scratch {
        Scratch::new(self.region)
    }

    /// Hands the range to many threads, as frames of `frame_len` bytes that are updated in place. Allocates a word a frame
    /// in DRAM.
    ///
    /// # Panics
    /// If the start or `frame_len` is not a multiple of a line, or the range is not some whole frames.
    #[must_use]
    pub fn into_frames(self, frame_len: u64) -> Frames {
        Frames::new(self.region, frame_len)
    }

    /// Hands the range to many threads, as 8-byte atomics.
    ///
    /// # Panics
    /// If it is not aligned to 8 bytes.
    #[must_use]
    pub fn into_words(self) -> Words {
        Words::new(self.region)
    }
}

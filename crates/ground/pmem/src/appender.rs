//! Space that one owner appends to while other threads read the published bytes.

use std::ops::{Deref, Range};
use std::sync::Arc;

use crate::finished::Finished;
use crate::frontier::Frontier;
use crate::parcels::Pin;
use crate::region::Region;
use crate::{Fenced, Flushed, Fresh};

/// The owner of a range's unwritten rest. Offsets are relative to the range's start.
///
/// Bytes are appended, then revealed or published; from then on they are immutable.
pub struct Appender {
    published: Arc<Published>,
    tail: u64,
    /// Some bytes behind the published ones were streamed: only a fence puts them in order.
    streamed: bool,
}

impl Appender {
    pub(crate) fn new(published: Arc<Published>) -> Self {
        let tail = published.frontier.load_own();
        Self { published, tail, streamed: false }
    }

    /// The readers' side of the range.
    #[must_use]
    pub fn published(&self) -> &Arc<Published> {
        &self.published
    }

    /// Returns where the next byte goes.
    #[must_use]
    pub fn tail(&self) -> u64 {
        self.tail
    }

    /// Bytes that still fit.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.published.region.len() - self.tail
    }

    /// Appends `bytes` through the cache; [`Appender::flush`] starts their write-back. One store.
    ///
    /// # Panics
    /// If they do not fit.
    #[track_caller]
    pub fn write(&mut self, bytes: &[u8]) -> Range<u64> {
        // SAFETY: the bytes are at or behind the frontier, which no reader sees, and belong to
        // this appender, borrowed mutably.
        unsafe { self.published.region.store(self.tail, bytes) };
        let start = self.tail;
        self.tail += bytes.len() as u64;
        start..self.tail
    }

    /// Appends `bytes` past the cache. One store; as a write-back, its lines.
    ///
    /// # Panics
    /// If they do not fit.
    #[track_caller]
    pub fn write_stream(&mut self, bytes: &[u8]) -> Flushed {
        let region = &self.published.region;
        let len = bytes.len() as u64;
        // SAFETY: as in `write`.
        unsafe { region.stream(self.tail, bytes) };
        let flushed = region.pool().flushed(region.range(self.tail, len, 0));
        self.tail += len;
        self.streamed = true;
        flushed
    }

    /// Starts the write-back of `range`.
    ///
    /// # Panics
    /// If it reaches beyond the appended bytes.
    #[track_caller]
    pub fn flush(&self, range: Range<u64>) -> Flushed {
        assert!(range.end <= self.tail, "bytes to be appended cannot be flushed yet");
        self.published.region.flush(range, 0)
    }

    /// Lets readers see all bytes appended so far. Takes the proof that they are durable.
    ///
    /// # Panics
    /// If `proof` does not cover all bytes between the published ones and the tail.
    #[track_caller]
    pub fn publish(&mut self, proof: &Fenced) {
        let region = &self.published.region;
        let end = self.published.frontier.load_own();
        assert!(region.is_proven(proof, end, self.tail - end), "the proof is about other bytes");
        region.note_publication(proof);
        // The fence was made by the thread that streamed: a `Flushed` stays on its thread.
        self.streamed = false;
        self.reveal();
    }

    /// Lets readers in this process see all bytes appended so far, durable or not. No stored pointer may
    /// lead to these bytes before they are fenced: after a crash, it may lead to arbitrary bytes.
    ///
    /// # Panics
    /// If some of them were streamed; those have to be fenced and published.
    pub fn reveal(&mut self) {
        assert!(!self.streamed, "what was streamed is published by the proof of its fence");
        self.published.frontier.advance(self.tail);
    }

    /// Skips `len` bytes, which keep their contents.
    ///
    /// # Panics
    /// If they do not fit.
    pub fn skip(&mut self, len: u64) {
        assert!(len <= self.remaining(), "{len} of {} bytes", self.remaining());
        self.tail += len;
    }
}

/// A range whose first bytes are immutable, and read in place. If many threads append to it
/// ([`crate::SharedAppender`]), finished bytes behind the first ones are immutable, too.
///
/// The space is given back when the last handle and the last [`Pinned`] are dropped.
pub struct Published {
    pub(crate) region: Region,
    pub(crate) frontier: Frontier,
    /// The lines finished behind the frontier, where many threads append.
    pub(crate) finished: Option<Finished>,
}

impl Published {
    pub(crate) fn new(region: Region, end: u64) -> Arc<Self> {
        Arc::new(Self { region, frontier: Frontier::new(end), finished: None })
    }

    /// Creates the range for many threads to append to.
    pub(crate) fn shared(region: Region, end: u64) -> Arc<Self> {
        let finished = Some(Finished::new(region.len()));
        Arc::new(Self { region, frontier: Frontier::new(end), finished })
    }

    /// The offset in the pool.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.region.offset()
    }

    /// How many bytes may be read now, from the start and without a gap.
    #[must_use]
    #[inline]
    pub fn len(&self) -> u64 {
        self.frontier.load()
    }

    /// Whether no byte may be read yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes that may be read now. Counts as one load. Under a [`crate::Profile`] the call waits for
    /// none of them, because it cannot tell which ones the caller will look at; use [`Published::pin`] to
    /// wait for them.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.region.pool().counters().load();
        let end = self.len();
        let address = self.region.address(0, end);
        // SAFETY: bytes below the frontier are inside the region and immutable while it is owned,
        // and were written before the frontier came to be where it was loaded.
        unsafe { std::slice::from_raw_parts(address, end as usize) }
    }

    /// The bytes of `range`, or `None` if not all of it may be read. Counts as one load.
    #[must_use]
    #[inline]
    pub fn read(&self, range: Range<u64>) -> Option<&[u8]> {
        if !self.is_readable(&range) {
            return None;
        }
        let len = range.end - range.start;
        let start = self.region.read(range.start, len);
        // SAFETY: as in `bytes`; and bytes of lines that are finished are immutable too.
        Some(unsafe { std::slice::from_raw_parts(start, len as usize) })
    }

    /// The bytes from `at` on, as many as `len` returns for the first `head` of them. `None` if not all of
    /// them may be read, or there are fewer. Counts as one load.
    #[must_use]
    #[inline]
    pub fn read_sized(&self, at: u64, head: u64, len: impl FnOnce(&[u8]) -> u64) -> Option<&[u8]> {
        let end = at.checked_add(head)?;
        if !self.is_readable(&(at..end)) {
            return None;
        }
        let start = self.region.address(at, head);
        // SAFETY: as in `read`.
        let len = len(unsafe { std::slice::from_raw_parts(start, head as usize) });
        if len < head { None } else { self.read(at..at.checked_add(len)?) }
    }

    /// Whether all of `range` may be read: it is below the frontier, or its lines are finished.
    #[inline]
    fn is_readable(&self, range: &Range<u64>) -> bool {
        let end = self.len();
        range.start <= range.end
            && (range.end <= end || self.is_finished(range.start.max(end)..range.end))
    }

    // A function of its own, so that the usual check is one comparison.
    #[inline(never)]
    fn is_finished(&self, range: Range<u64>) -> bool {
        let finished = self.finished.as_ref();
        !range.is_empty()
            && range.end <= self.region.len()
            && finished.is_some_and(|finished| finished.covers(range))
    }

    /// Has the processor fetch the line at `at`, which will be read soon, if there is one.
    #[inline]
    pub fn prefetch(&self, at: u64) {
        if at < self.region.len() {
            self.region.prefetch(at);
        }
    }

    /// Has the kernel read the bytes that may be read now, from `from` on ([`Fresh::read_ahead`]).
    pub fn read_ahead(&self, from: u64) {
        let end = self.len();
        if from < end {
            self.region.read_ahead(from, end - from);
        }
    }

    /// Pins `range` for reading, or `None` if not all of it may be read. Counts as one load.
    #[must_use]
    pub fn pin(self: &Arc<Self>, range: Range<u64>) -> Option<Pinned> {
        if !self.is_readable(&range) {
            return None;
        }
        let len = range.end - range.start;
        let start = self.region.read(range.start, len);
        let holder = Holder::Published { _published: Arc::clone(self) };
        Some(Pinned { start, len: len as usize, holder })
    }

    /// Starts the write-back of `range`, for bytes that were revealed and not yet fenced.
    ///
    /// # Panics
    /// If it reaches beyond the readable bytes.
    #[track_caller]
    pub fn flush(&self, range: Range<u64>) -> Flushed {
        assert!(self.is_readable(&range), "only what is revealed is flushed here");
        self.region.flush(range, 0)
    }

    /// The space, to be written anew, if this is the last handle and no bytes are pinned.
    ///
    /// # Errors
    /// The handle, if there are others.
    pub fn reclaim(self: Arc<Self>) -> Result<Fresh, Arc<Self>> {
        Arc::try_unwrap(self).map(|mut published| {
            published.region.renew();
            Fresh::new(published.region)
        })
    }
}

/// Bytes read in place. They do not change as long as this lives.
#[derive(Clone)]
pub struct Pinned {
    start: *const u8,
    len: usize,
    holder: Holder,
}

/// The owner of pinned bytes, which does not change them as long as it is held.
#[derive(Clone)]
enum Holder {
    Published { _published: Arc<Published> },
    Parcel { _pin: Pin },
}

// SAFETY: the bytes are immutable while `holder` is held, and both holders are themselves shared between
// threads.
unsafe impl Send for Pinned {}
// SAFETY: as above.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// The part in `range`.
    ///
    /// # Panics
    /// If `range` reaches beyond the end.
    #[must_use]
    pub fn slice(self, range: Range<usize>) -> Self {
        let start = self[range.clone()].as_ptr();
        Self { start, len: range.len(), holder: self.holder }
    }

    /// Bytes of a parcel that is pinned: `len` from `start` on are initialised, and do not change before `pin` is
    /// dropped.
    pub(crate) fn of_parcel(start: *const u8, len: usize, pin: Pin) -> Self {
        Self { start, len, holder: Holder::Parcel { _pin: pin } }
    }
}

impl Deref for Pinned {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `start..start + len` was inside the immutable parts of the holder when this was made, and
        // these only grow while it is held.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}

//! The words of a frame, as readers with and without the latch see them.

use std::panic::Location;
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

use halite_sim::{How, locks};

use crate::region::Region;

/// Bytes of a word.
const WORD: u64 = 8;

/// The bytes of a frame, read by aligned words of 8 bytes, each of which is of one moment. Offsets are in bytes, relative to
/// the frame's start.
///
/// Under the latch all of them are of one version. Without it they may be of several, until
/// [`Frames::is_current`](super::Frames::is_current) tells that they are not: an offset or a length that was read from
/// the frame may lead anywhere, and what is outside the frame is `None`.
#[derive(Clone, Copy)]
pub struct FrameWords<'a> {
    region: &'a Region,
    start: u64,
    len: u64,
}

impl<'a> FrameWords<'a> {
    /// The `len` bytes from `start` on of a region of frames.
    pub(super) fn new(region: &'a Region, start: u64, len: u64) -> Self {
        Self { region, start, len }
    }

    /// The length in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is no byte; a frame always has some.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The word at `at`, little-endian; `None` if `at` is no word of the frame. Counts as one load.
    #[inline]
    #[must_use]
    pub fn load(&self, at: u64) -> Option<u64> {
        self.load_many::<1>(at).map(|[word]| word)
    }

    /// The words from `at` on; `None` if they are not all words of the frame. Counts as one load.
    #[inline]
    #[must_use]
    pub fn load_many<const N: usize>(&self, at: u64) -> Option<[u64; N]> {
        let words: &[AtomicU64; N] = self.atomics(at, N as u64)?.as_array()?;
        self.note_read(at, N as u64 * WORD);
        Some(std::array::from_fn(|number| u64::from_le(words[number].load(Ordering::Relaxed))))
    }

    /// Copies the bytes from `at` on, as many as `to` has; `None` if they are not all inside the frame, and `to` is as it
    /// was. Counts as one load.
    #[inline]
    #[must_use]
    pub fn copy(&self, at: u64, to: &mut [u8]) -> Option<()> {
        let (words, skipped) = self.around(at, to.len())?;
        self.note_read(at, to.len() as u64);
        let (first, rest) =
            to.split_at_mut(to.len().min((WORD as usize - skipped) % WORD as usize));
        let mut words = words.iter().map(|word| word.load(Ordering::Relaxed).to_ne_bytes());
        if !first.is_empty()
            && let Some(word) = words.next()
        {
            first.copy_from_slice(&word[skipped..][..first.len()]);
        }
        for (part, word) in rest.chunks_mut(WORD as usize).zip(words) {
            part.copy_from_slice(&word[..part.len()]);
        }
        Some(())
    }

    /// Has the processor fetch the line of the byte at `at`, if it is inside the frame, and does not wait. Counts as
    /// nothing.
    #[inline]
    pub fn prefetch(&self, at: u64) {
        if at < self.len {
            self.region.prefetch(self.start + at);
        }
    }

    /// Stores bytes, each word of them at once, in any order. One store. The caller holds the latch for writing.
    ///
    /// # Panics
    /// If they do not fit.
    #[inline]
    #[track_caller]
    pub(super) fn write(&self, at: u64, bytes: &[u8]) {
        let inside = self.around(at, bytes.len());
        let (words, skipped) = inside.unwrap_or_else(|| self.refuse(at, bytes.len()));
        let store = || {
            let (mut skipped, mut rest) = (skipped, bytes);
            for place in words {
                let (part, behind) = rest.split_at(rest.len().min(WORD as usize - skipped));
                // Only the holder of the latch changes the other bytes of the word.
                let mut word = place.load(Ordering::Relaxed).to_ne_bytes();
                word[skipped..][..part.len()].copy_from_slice(part);
                place.store(u64::from_ne_bytes(word), Ordering::Relaxed);
                (skipped, rest) = (0, behind);
            }
        };
        self.store_by(at, bytes, How::Copied, store);
    }

    /// Stores words in their order. One store. The caller holds the latch for writing.
    ///
    /// # Panics
    /// If they do not fit, or `at` is no multiple of 8.
    #[inline]
    #[track_caller]
    pub(super) fn write_words(&self, at: u64, words: &[u64]) {
        let places = self.atomics(at, words.len() as u64);
        let places = places.unwrap_or_else(|| self.refuse(at, size_of_val(words)));
        let store = || {
            for (place, word) in places.iter().zip(words) {
                compiler_fence(Ordering::Release);
                place.store(word.to_le(), Ordering::Relaxed);
            }
        };
        if self.region.pool().medium().is_some() {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            return self.store_by(at, &bytes, How::InOrder, store);
        }
        self.count_store(at, size_of_val(words) as u64, store);
    }

    /// Runs a store of `bytes`, and tells a model of it.
    #[inline]
    #[track_caller]
    fn store_by(&self, at: u64, bytes: &[u8], how: How, store: impl FnOnce()) {
        if let Some(medium) = self.region.pool().medium() {
            self.region.pool().counters().store();
            locks::point();
            let at = self.region.offset() + self.start + at;
            return medium.store_by(at, bytes, how, Location::caller(), store);
        }
        self.count_store(at, bytes.len() as u64, store);
    }

    /// Runs a store on memory.
    #[inline]
    fn count_store(&self, at: u64, len: u64, store: impl FnOnce()) {
        self.region.pool().counters().store();
        // Stores to one line persist in the order of the program, which the processor keeps, and so must the compiler.
        compiler_fence(Ordering::Release);
        store();
        self.region.pool().note_stored(self.region.offset() + self.start + at, len);
    }

    #[inline]
    fn note_read(&self, at: u64, len: u64) {
        let pool = self.region.pool();
        pool.counters().load();
        locks::point();
        pool.note_read(self.region.offset() + self.start + at, len);
    }

    /// The words that have the `len` bytes from `at` on, and how many bytes the first one has before them.
    #[inline]
    fn around(&self, at: u64, len: usize) -> Option<(&'a [AtomicU64], usize)> {
        let end = at.checked_add(len as u64).filter(|&end| end <= self.len)?;
        let first = at / WORD * WORD;
        let count = if len == 0 { 0 } else { (end - first).div_ceil(WORD) };
        Some((self.atomics(first, count)?, (at - first) as usize))
    }

    /// The `count` words from `at` on, if they are words of the frame.
    #[inline]
    fn atomics(&self, at: u64, count: u64) -> Option<&'a [AtomicU64]> {
        let len = count.checked_mul(WORD)?;
        let is_inside = at.is_multiple_of(WORD) && at.checked_add(len)? <= self.len;
        let address = is_inside.then(|| self.region.address(self.start + at, len))?;
        // SAFETY: the words are aligned, as frames begin with a line of the pool, and inside a region that belongs to the
        // frames as long as `'a`. Its bytes change through atomics alone.
        Some(unsafe { slice::from_raw_parts(address.cast::<AtomicU64>(), count as usize) })
    }

    /// All bytes where they lie. Counts as one load.
    ///
    /// # Safety
    /// The caller's latch keeps writers out for `'a`.
    pub(super) unsafe fn bytes(&self) -> &'a [u8] {
        self.region.pool().counters().load();
        let address = self.region.address(self.start, self.len);
        // SAFETY: the bytes are inside the region, and do not change: the caller's promise. Others read them only.
        unsafe { slice::from_raw_parts(address, self.len as usize) }
    }

    #[cold]
    #[track_caller]
    fn refuse(&self, at: u64, len: usize) -> ! {
        panic!("{at}..+{len} are no bytes, or no words, of a frame of {} bytes", self.len)
    }
}

impl std::fmt::Debug for FrameWords<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FrameWords")
            .field("start", &self.start)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

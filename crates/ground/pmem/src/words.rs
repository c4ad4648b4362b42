//! Words that many threads change.

use std::array;
use std::ops::Range;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::region::Region;
use crate::{Fenced, Flushed, Pool};
use halite_sim::{locks, planted};

/// A range of aligned 8-byte words. A word never tears, in memory or at a crash. Offsets are in
/// bytes, relative to the range's start, and multiples of 8. Words are little-endian.
pub struct Words {
    region: Region,
}

impl Words {
    pub(crate) fn new(region: Region) -> Self {
        assert!(region.offset().is_multiple_of(8), "words are aligned to 8 bytes");
        Self { region }
    }

    /// The pool.
    #[inline]
    #[must_use]
    pub fn pool(&self) -> &Pool {
        self.region.pool()
    }

    /// The length in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.region.len()
    }

    /// Whether there is no word.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The word at `at`. Acquires all stores that its writer made before it.
    ///
    /// # Panics
    /// If `at` is not a word of the range.
    #[inline]
    #[must_use]
    pub fn load(&self, at: u64) -> u64 {
        self.pool().counters().load();
        locks::point();
        let word = self.word(at);
        self.pool().note_read(self.region.offset() + at, 8);
        u64::from_le(word.load(Ordering::Acquire))
    }

    /// The words from `at` on, in order, each with the guarantee of [`Words::load`]; they are not of one
    /// moment. Counts as one load.
    ///
    /// # Panics
    /// If they are not all words of the range.
    #[inline]
    #[must_use]
    pub fn load_many<const N: usize>(&self, at: u64) -> [u64; N] {
        self.pool().counters().load();
        assert!(at.is_multiple_of(8), "words are aligned to 8 bytes");
        let len = size_of::<[u64; N]>() as u64;
        let first = self.region.address(at, len).cast::<AtomicU64>();
        self.pool().note_read(self.region.offset() + at, len);
        // SAFETY: as in `word`, for each of them.
        let words = unsafe { std::slice::from_raw_parts(first, N) };
        array::from_fn(|number| {
            locks::point();
            u64::from_le(words[number].load(Ordering::Acquire))
        })
    }

    /// Stores a word that does not point to other bytes.
    ///
    /// # Panics
    /// If `at` is not a word of the range.
    #[inline]
    #[track_caller]
    pub fn store(&self, at: u64, value: u64) {
        self.pool().counters().store();
        let word = self.word(at);
        let store = || word.store(value.to_le(), Ordering::Release);
        if let Some(medium) = self.pool().medium() {
            locks::point();
            let (at, site) = (self.region.offset() + at, Location::caller());
            planted!(
                "pmem.word-stored-in-halves",
                (value.to_le_bytes().chunks(4).zip([at, at + 4]))
                    .for_each(|(half, at)| medium.store(at, half, halite_sim::How::Copied, site)),
                {
                    let _ = medium.change_word(at, site, || Ok::<_, ()>((store(), value)));
                }
            );
            return;
        }
        self.pool().note_stored(self.region.offset() + at, 8);
        store();
    }

    /// Stores a word that points to bytes; takes a proof that those are durable. Only the caller knows
    /// which bytes the word points to, so it answers for the proof being about them.
    ///
    /// # Panics
    /// If `at` is not a word of the range, or the proof is of another pool.
    #[inline]
    #[track_caller]
    pub fn publish(&self, at: u64, value: u64, proof: &Fenced) {
        assert_eq!(proof.proves.pool, self.pool().id(), "the proof is of another pool");
        self.region.note_publication(proof);
        self.store(at, value);
    }

    /// Stores `new` if the word is `current`.
    ///
    /// # Errors
    /// The word, if it is another.
    ///
    /// # Panics
    /// If `at` is not a word of the range.
    #[track_caller]
    pub fn compare_exchange(&self, at: u64, current: u64, new: u64) -> Result<u64, u64> {
        self.pool().counters().store();
        let word = self.word(at);
        let exchange = || {
            word.compare_exchange(current.to_le(), new.to_le(), Ordering::AcqRel, Ordering::Acquire)
                .map(u64::from_le)
                .map_err(u64::from_le)
        };
        if let Some(medium) = self.pool().medium() {
            locks::point();
            let at = self.region.offset() + at;
            let exchanged = || exchange().map(|old| (old, new));
            // Without power, no code can observe the outcome.
            return medium.change_word(at, Location::caller(), exchanged).unwrap_or(Ok(current));
        }
        let exchanged = exchange();
        // Unlike a store, it waits for the line.
        self.pool().note_read(self.region.offset() + at, 8);
        exchanged
    }

    /// Starts the write-back of `range`.
    ///
    /// # Panics
    /// If it reaches beyond the end.
    #[inline]
    #[track_caller]
    pub fn flush(&self, range: Range<u64>) -> Flushed {
        self.region.flush(range, 0)
    }

    /// Has the processor fetch the line of the word at `at`, and does not wait. Counts as nothing.
    ///
    /// # Panics
    /// If it is not inside.
    #[inline]
    pub fn prefetch(&self, at: u64) {
        self.region.prefetch(at);
    }

    #[inline]
    fn word(&self, at: u64) -> &AtomicU64 {
        assert!(at.is_multiple_of(8), "words are aligned to 8 bytes");
        let address = self.region.address(at, 8).cast::<AtomicU64>();
        // SAFETY: the address is aligned, inside a region that only this `Words` owns, and reached
        // through atomics alone.
        unsafe { &*address }
    }
}

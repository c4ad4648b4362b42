//! The latch of a frame, and the version that tells optimistic readers whether it was held meanwhile.
//!
//! One word has both (as the page states of vmcache have): the lowest byte says who holds the latch, the 56 bits above it
//! count the times that it was held exclusively.
//!
//! An optimistic reader is a reader of a sequence lock: it loads the word, reads, and compares the word's version. Its
//! loads of the frame are relaxed, and ordered by two pairs:
//! - the writer's release of the latch, and the reader's first load of the word (acquire): a reader that begins with a
//!   version sees all stores that led to it;
//! - the writer's release fence behind taking the latch, and the reader's acquire fence before the comparison: a reader
//!   that saw a store of a later version sees that the latch was taken for it, too.
//!
//! Loom checks both, and every ordering here (`loom_tests`).

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// The bits of a word that say who holds the latch.
const HOLDERS: u64 = 0xff;

/// The holder is a writer.
const EXCLUSIVE: u64 = HOLDERS;

/// As many readers may hold the latch at once.
const SHARED_MAX: u64 = EXCLUSIVE - 1;

/// Adds one to the version.
const VERSION: u64 = HOLDERS + 1;

/// A latch and its version.
pub(super) struct Latch(AtomicU64);

impl Latch {
    /// A latch that nothing holds, of version 0.
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Takes the latch for a writer, unless it is held.
    #[inline]
    pub(super) fn try_exclusive(&self) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        word & HOLDERS == 0 && self.exclude(word)
    }

    /// Takes the latch for a writer, unless it is held or the version is another one.
    #[inline]
    pub(super) fn try_exclusive_at(&self, version: u64) -> bool {
        self.exclude(version * VERSION)
    }

    /// Takes the latch for a writer if its word is `free`.
    #[inline]
    fn exclude(&self, free: u64) -> bool {
        let taken = free | EXCLUSIVE;
        let exchanged = self.0.compare_exchange(free, taken, Ordering::Acquire, Ordering::Relaxed);
        if exchanged.is_ok() {
            // A reader that sees one of the stores to come sees the latch taken.
            fence(Ordering::Release);
        }
        exchanged.is_ok()
    }

    /// Ends a writer's turn: the frame has another version.
    #[inline]
    pub(super) fn release_exclusive(&self) {
        // No other thread changes the word of a latch that a writer holds.
        let word = self.0.load(Ordering::Relaxed);
        debug_assert_eq!(word & HOLDERS, EXCLUSIVE, "a writer holds the latch");
        self.0.store((word & !HOLDERS).wrapping_add(VERSION), Ordering::Release);
    }

    /// Takes the latch for one more reader, unless a writer holds it, or as many readers as there may be.
    #[inline]
    pub(super) fn try_shared(&self) -> bool {
        let mut word = self.0.load(Ordering::Relaxed);
        while word & HOLDERS < SHARED_MAX {
            let exchanged =
                self.0.compare_exchange_weak(word, word + 1, Ordering::Acquire, Ordering::Relaxed);
            match exchanged {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Ends a reader's turn.
    #[inline]
    pub(super) fn release_shared(&self) {
        // The next writer's stores come after this reader's loads.
        let before = self.0.fetch_sub(1, Ordering::Release);
        debug_assert!((1..=SHARED_MAX).contains(&(before & HOLDERS)), "a reader holds the latch");
    }

    /// The version, unless a writer holds the latch. The stores that led to it happened before.
    #[inline]
    pub(super) fn version(&self) -> Option<u64> {
        let word = self.0.load(Ordering::Acquire);
        (word & HOLDERS != EXCLUSIVE).then_some(word / VERSION)
    }

    /// Whether no writer has held the latch since it had this version, so that the words that were loaded since are those
    /// of the version.
    #[inline]
    pub(super) fn is_current(&self, version: u64) -> bool {
        // The loads of the frame come before that of the word.
        fence(Ordering::Acquire);
        let word = self.0.load(Ordering::Relaxed);
        word & HOLDERS != EXCLUSIVE && word / VERSION == version
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_latch_is_for_one_writer_or_many_readers_and_counts_the_writers() {
        let latch = Latch::new();
        assert_eq!(latch.version(), Some(0));
        for _ in 0..SHARED_MAX {
            assert!(latch.try_shared());
        }
        assert!(!latch.try_shared() && !latch.try_exclusive() && !latch.try_exclusive_at(0));
        // Readers do not disturb optimistic ones.
        assert!(latch.is_current(0));
        (0..SHARED_MAX).for_each(|_| latch.release_shared());
        assert!(latch.try_exclusive());
        assert_eq!(latch.version(), None);
        assert!(!latch.is_current(0) && !latch.try_shared() && !latch.try_exclusive());
        latch.release_exclusive();
        assert_eq!(latch.version(), Some(1));
        assert!(!latch.is_current(0) && latch.is_current(1));
        assert!(!latch.try_exclusive_at(0) && latch.try_exclusive_at(1));
        latch.release_exclusive();
        assert!(latch.is_current(2));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::cell::UnsafeCell;
    use loom::model;
    use loom::sync::Arc;
    use loom::thread::spawn;

    use super::*;

    /// A frame of two words.
    struct Frame {
        latch: Latch,
        /// As optimistic readers reach them.
        words: [AtomicU64; 2],
        /// As holders of the latch do. Loom fails a test that writes it beside a read of it.
        bytes: UnsafeCell<u64>,
    }

    impl Frame {
        fn new() -> Arc<Self> {
            let words = [0, 0].map(AtomicU64::new);
            Arc::new(Self { latch: Latch::new(), words, bytes: UnsafeCell::new(0) })
        }

        /// Adds one to both words; the caller holds the latch.
        fn change(&self) {
            let word = self.words[0].load(Ordering::Relaxed) + 1;
            for place in &self.words {
                place.store(word, Ordering::Relaxed);
            }
            // SAFETY: the holder of the latch is alone, which loom checks.
            self.bytes.with_mut(|bytes| unsafe { *bytes = word });
            self.latch.release_exclusive();
        }

        /// Changes the words if the latch is free; returns whether it was.
        fn try_to_change(&self) -> bool {
            let is_taken = self.latch.try_exclusive();
            if is_taken {
                self.change();
            }
            is_taken
        }

        /// A version and the words that an optimistic reader has validated by it.
        fn read(&self) -> Option<(u64, [u64; 2])> {
            let version = self.latch.version()?;
            // Backwards, against the order of the writer.
            let second = self.words[1].load(Ordering::Relaxed);
            let first = self.words[0].load(Ordering::Relaxed);
            self.latch.is_current(version).then_some((version, [first, second]))
        }
    }

    #[test]
    fn an_optimistic_reader_believes_the_words_of_one_version() {
        model(|| {
            let frame = Frame::new();
            let writer = spawn({
                let frame = Arc::clone(&frame);
                move || assert!(frame.try_to_change() && frame.try_to_change())
            });
            if let Some((version, words)) = frame.read() {
                assert_eq!(words, [version; 2]);
            }
            writer.join().unwrap();
            assert_eq!(frame.read(), Some((2, [2; 2])));
        });
    }

    #[test]
    fn of_two_writers_each_sees_what_the_other_wrote_before() {
        model(|| {
            let frame = Frame::new();
            let other = spawn({
                let frame = Arc::clone(&frame);
                move || u64::from(frame.try_to_change())
            });
            let changes = u64::from(frame.try_to_change()) + other.join().unwrap();
            assert!(changes > 0);
            assert_eq!(frame.read(), Some((changes, [changes; 2])));
        });
    }

    #[test]
    fn readers_that_hold_the_latch_keep_writers_out() {
        model(|| {
            let frame = Frame::new();
            let readers = [(); 2].map(|()| {
                let frame = Arc::clone(&frame);
                spawn(move || {
                    if frame.latch.try_shared() {
                        // SAFETY: no writer holds the latch, which loom checks.
                        let bytes = frame.bytes.with(|bytes| unsafe { *bytes });
                        assert_eq!(frame.words[1].load(Ordering::Relaxed), bytes);
                        frame.latch.release_shared();
                    }
                })
            });
            frame.try_to_change();
            for reader in readers {
                reader.join().unwrap();
            }
            // The last one out has left the latch free.
            assert!(frame.try_to_change());
        });
    }

    #[test]
    fn a_latch_that_is_taken_at_a_version_finds_the_words_that_were_read() {
        model(|| {
            let frame = Frame::new();
            let other = spawn({
                let frame = Arc::clone(&frame);
                move || frame.try_to_change()
            });
            if let Some(version) = frame.latch.version() {
                let word = frame.words[0].load(Ordering::Relaxed);
                if frame.latch.try_exclusive_at(version) {
                    assert_eq!((frame.words[1].load(Ordering::Relaxed), word), (word, version));
                    frame.change();
                }
            }
            let _is_changed: bool = other.join().unwrap();
        });
    }
}

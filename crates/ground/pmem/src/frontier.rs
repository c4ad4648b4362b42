//! How far a range may be read.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

/// The end of the bytes that may be read. It only grows, and bytes below it never change. The bytes from it
/// on belong to the appender that moves it, or to the threads that share that appender
/// ([`crate::SharedAppender`]).
pub(crate) struct Frontier(AtomicU64);

impl Frontier {
    pub(crate) fn new(end: u64) -> Self {
        Self(AtomicU64::new(end))
    }

    /// The end. The writes below it happened before.
    #[inline]
    pub(crate) fn load(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// The end, for the appender that moves it: no other thread wrote the bytes below it.
    pub(crate) fn load_own(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Moves the end from `from` to `end`; on failure, returns the current end. A thread that loads the new
    /// end also acquires the releases of all earlier moves, because every move is a read-modify-write.
    pub(crate) fn advance_from(&self, from: u64, end: u64) -> Result<(), u64> {
        let exchanged = self.0.compare_exchange(from, end, Ordering::Release, Ordering::Relaxed);
        exchanged.map(|_| ())
    }

    /// Moves the end. Called by the writer of the bytes below it.
    pub(crate) fn advance(&self, end: u64) {
        self.0.store(end, Ordering::Release);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::cell::UnsafeCell;
    use loom::model;
    use loom::sync::Arc;
    use loom::thread::spawn;

    use super::*;

    /// Bytes behind a frontier. Loom fails a test that writes one of them beside a read of it.
    struct Range {
        frontier: Frontier,
        bytes: [UnsafeCell<u8>; 3],
    }

    impl Range {
        fn new() -> Arc<Self> {
            let bytes = [0; 3].map(UnsafeCell::new);
            Arc::new(Self { frontier: Frontier::new(0), bytes })
        }

        /// Writes, as an appender does, `bytes` from the frontier on, then moves it behind them.
        fn append(&self, bytes: &[u8]) {
            let start = self.frontier.load_own();
            let places = &self.bytes[start as usize..][..bytes.len()];
            for (place, &byte) in places.iter().zip(bytes) {
                // SAFETY: bytes from the frontier on are the appender's, which loom checks.
                place.with_mut(|place| unsafe { *place = byte });
            }
            self.frontier.advance(start + bytes.len() as u64);
        }

        /// Reads as readers do: the bytes below the frontier.
        fn read(&self) -> Vec<u8> {
            let places = &self.bytes[..self.frontier.load() as usize];
            // SAFETY: bytes below the frontier do not change, which loom checks.
            places.iter().map(|place| place.with(|place| unsafe { *place })).collect()
        }
    }

    #[test]
    fn what_is_below_the_frontier_was_written_before() {
        model(|| {
            let range = Range::new();
            let readers = [0; 2].map(|_| {
                let range = Arc::clone(&range);
                spawn(move || {
                    let read = range.read();
                    assert!(b"abc".starts_with(&read) && read.len() != 2, "{read:?}");
                })
            });
            range.append(b"a");
            range.append(b"bc");
            for reader in readers {
                reader.join().unwrap();
            }
        });
    }

    #[test]
    fn an_appender_goes_on_where_it_was_on_another_thread() {
        model(|| {
            let range = Range::new();
            let appended = Arc::clone(&range);
            let first = spawn(move || appended.append(b"a"));
            let readable = Arc::clone(&range);
            let reader = spawn(move || {
                let read = readable.read();
                assert!(b"ab".starts_with(&read), "{read:?}");
            });
            first.join().unwrap();
            range.append(b"b");
            assert_eq!(range.read(), b"ab");
            reader.join().unwrap();
        });
    }
}

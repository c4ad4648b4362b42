//! Which records are there while threads insert.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Numbers for new records, and how many of the first ones are certainly there.
pub(crate) struct Inserted {
    next: AtomicU64,
    /// The number that each thread is inserting, or a smaller one; [`NONE`] if it is not inserting.
    busy: Box<[Busy]>,
}

#[repr(align(128))]
struct Busy(AtomicU64);

const NONE: u64 = u64::MAX;

impl Inserted {
    /// Creates the state after `records` are loaded.
    pub(crate) fn new(records: u64, threads: usize) -> Self {
        let busy = (0..threads).map(|_| Busy(AtomicU64::new(NONE))).collect();
        Self { next: AtomicU64::new(records), busy }
    }

    /// The number of a new record, which `thread` is going to insert.
    pub(crate) fn begin(&self, thread: usize) -> u64 {
        // The thread is marked before the number is taken: a thread that sees it taken sees this thread busy.
        self.busy[thread].0.store(self.next.load(SeqCst), SeqCst);
        let number = self.next.fetch_add(1, SeqCst);
        self.busy[thread].0.store(number, SeqCst);
        number
    }

    /// The thread's record is there.
    pub(crate) fn end(&self, thread: usize) {
        self.busy[thread].0.store(NONE, SeqCst);
    }

    /// All records with smaller numbers are there.
    pub(crate) fn known(&self) -> u64 {
        let next = self.next.load(SeqCst);
        self.busy.iter().fold(next, |known, busy| known.min(busy.0.load(SeqCst)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_known_when_it_and_all_before_it_are_there() {
        let inserted = Inserted::new(10, 2);
        assert_eq!(inserted.known(), 10);
        assert_eq!((inserted.begin(0), inserted.begin(1)), (10, 11));
        inserted.end(1);
        assert_eq!(inserted.known(), 10);
        inserted.end(0);
        assert_eq!(inserted.known(), 12);
    }
}

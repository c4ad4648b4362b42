//! Space with one owner, who writes it.

use std::ops::Range;
use std::sync::Arc;

use crate::region::Region;
use crate::{Appender, Fenced, Flushed, Pool, Published, Words, stream};

/// A range of a pool that only its owner sees. Offsets are relative to its start.
pub struct Fresh {
    region: Region,
}

impl Fresh {
    pub(crate) fn new(region: Region) -> Self {
        Self { region }
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

    /// All bytes. Counts as one load.
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
    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        self.pool().counters().store();
        let address = self.region.address(at, bytes.len() as u64);
        // SAFETY: `address` is good for `bytes.len()` bytes of a region that belongs to `self`
        // alone, so `bytes` cannot overlap it while it is borrowed mutably.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address, bytes.len()) };
    }

    /// Stores `bytes` at `at` past the cache. One store; as a write-back, its lines.
    ///
    /// # Panics
    /// If they do not fit.
    pub fn write_stream(&mut self, at: u64, bytes: &[u8]) -> Flushed {
        let address = self.region.address(at, bytes.len() as u64);
        // SAFETY: as in `write`.
        unsafe { stream::copy(self.pool(), address, self.offset() + at, bytes) }
    }

    /// Stores zeros over `range`, past the cache.
    ///
    /// # Panics
    /// If `range` reaches beyond the end.
    pub fn zero(&mut self, range: Range<u64>) -> Flushed {
        const ZEROS: [u8; 4096] = [0; 4096];
        let mut at = range.start;
        while at < range.end {
            let len = (range.end - at).min(ZEROS.len() as u64);
            // The token of the whole range, made below, stands for this one.
            let _part = self.write_stream(at, &ZEROS[..len as usize]);
            at += len;
        }
        self.pool().flushed(self.offset() + range.start, range.end.saturating_sub(range.start))
    }

    /// Starts the write-back of `range`.
    ///
    /// # Panics
    /// If it reaches beyond the end.
    pub fn flush(&self, range: Range<u64>) -> Flushed {
        self.region.flush(range)
    }

    /// Gives up writing, so that others may read. Takes the proof that all bytes are durable.
    ///
    /// # Panics
    /// If `proof` is about another range.
    #[must_use]
    pub fn publish(self, proof: &Fenced) -> Arc<Published> {
        let whole = proof.pool == self.pool().id() && proof.covers(self.offset(), self.len());
        assert!(whole, "the proof is about other bytes");
        let end = self.len();
        Published::new(self.region, end)
    }

    /// Appends behind the first `readable` bytes, which become immutable and readable.
    ///
    /// # Panics
    /// If the range is shorter.
    #[must_use]
    pub fn into_appender(self, readable: u64) -> Appender {
        assert!(readable <= self.len(), "{readable} of {} bytes", self.len());
        Appender::new(Published::new(self.region, readable))
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

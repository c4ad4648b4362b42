//! Traffic counters.

use std::ops::Sub;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The operations of a [`crate::Disk`] since it was opened. In a folder, they include the bytes that
/// [`crate::Disk::append`] writes again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Bytes handed to the kernel.
    pub bytes_written: u64,
    /// Calls that handed it bytes.
    pub writes: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Calls that read bytes.
    pub reads: u64,
    /// Syncs of files and of the folder.
    pub syncs: u64,
    /// Files of a folder opened to be read, again or for the first time.
    pub opens: u64,
}

impl Sub for Traffic {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            bytes_written: self.bytes_written - earlier.bytes_written,
            writes: self.writes - earlier.writes,
            bytes_read: self.bytes_read - earlier.bytes_read,
            reads: self.reads - earlier.reads,
            syncs: self.syncs - earlier.syncs,
            opens: self.opens - earlier.opens,
        }
    }
}

/// Counters that all threads share: next to the kernel's call their cost is negligible.
#[derive(Default)]
pub(crate) struct Counters {
    bytes_written: AtomicU64,
    writes: AtomicU64,
    bytes_read: AtomicU64,
    reads: AtomicU64,
    syncs: AtomicU64,
    opens: AtomicU64,
}

impl Counters {
    pub(crate) fn wrote(&self, bytes: usize) {
        self.bytes_written.fetch_add(bytes as u64, Relaxed);
        self.writes.fetch_add(1, Relaxed);
    }

    pub(crate) fn read(&self, bytes: usize) {
        self.bytes_read.fetch_add(bytes as u64, Relaxed);
        self.reads.fetch_add(1, Relaxed);
    }

    pub(crate) fn synced(&self) {
        self.syncs.fetch_add(1, Relaxed);
    }

    pub(crate) fn opened(&self) {
        self.opens.fetch_add(1, Relaxed);
    }

    pub(crate) fn total(&self) -> Traffic {
        Traffic {
            bytes_written: self.bytes_written.load(Relaxed),
            writes: self.writes.load(Relaxed),
            bytes_read: self.bytes_read.load(Relaxed),
            reads: self.reads.load(Relaxed),
            syncs: self.syncs.load(Relaxed),
            opens: self.opens.load(Relaxed),
        }
    }
}

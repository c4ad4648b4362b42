//! Counters of each storage class since the store was opened: reads, and bytes that migration moved there and away.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::CLASSES;

/// The traffic of all classes.
#[derive(Default)]
pub(crate) struct Traffic([OfClass; CLASSES]);

/// The counters of a class, in cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct OfClass {
    reads: AtomicU64,
    bytes_read: AtomicU64,
    moved_in: AtomicU64,
    moved_out: AtomicU64,
}

/// The traffic of a class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ClassTraffic {
    /// Reads of parts, nodes and values, in place or not.
    pub(crate) reads: u64,
    pub(crate) bytes_read: u64,
    /// Bytes that migration moved there.
    pub(crate) moved_in: u64,
    /// Bytes that migration moved away.
    pub(crate) moved_out: u64,
}

impl Traffic {
    /// Counts a read.
    #[inline]
    pub(crate) fn read(&self, class: u8, bytes: usize) {
        let of = &self.0[usize::from(class)];
        of.reads.fetch_add(1, Relaxed);
        of.bytes_read.fetch_add(bytes as u64, Relaxed);
    }

    /// Counts a move.
    pub(crate) fn moved(&self, from: u8, to: u8, bytes: u64) {
        self.0[usize::from(from)].moved_out.fetch_add(bytes, Relaxed);
        self.0[usize::from(to)].moved_in.fetch_add(bytes, Relaxed);
    }

    /// The counts of a class.
    pub(crate) fn of(&self, class: usize) -> ClassTraffic {
        let of = &self.0[class];
        ClassTraffic {
            reads: of.reads.load(Relaxed),
            bytes_read: of.bytes_read.load(Relaxed),
            moved_in: of.moved_in.load(Relaxed),
            moved_out: of.moved_out.load(Relaxed),
        }
    }
}

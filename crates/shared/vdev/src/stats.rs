//! Counts of what a leaf did.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use crate::Result;

/// Requests of one direction since the leaf was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Requests {
    /// Requests that succeeded.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Requests that failed.
    pub failed: u64,
    /// The time that all of them took together, in nanoseconds.
    pub latency_ns: u64,
    /// The time of the slowest, in nanoseconds.
    pub latency_ns_max: u64,
}

/// The activity of a leaf since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeafStats {
    /// Reads. Pins are not among them.
    pub reads: Requests,
    /// Writes of extents, and repairs.
    pub writes: Requests,
    /// Syncs; they have no bytes.
    pub syncs: Requests,
    /// Reads whose bytes did not pass their check.
    pub checksum_errors: u64,
    /// Extents of which bytes were repaired.
    pub repaired: u64,
}

#[derive(Default)]
pub(crate) struct Counter {
    requests: AtomicU64,
    bytes: AtomicU64,
    failed: AtomicU64,
    latency_ns: AtomicU64,
    latency_ns_max: AtomicU64,
}

impl Counter {
    /// Does a request of so many bytes, and counts it.
    pub(crate) fn count<T>(&self, bytes: usize, request: impl FnOnce() -> Result<T>) -> Result<T> {
        let begin = Instant::now();
        let done = request();
        let took_ns = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.latency_ns.fetch_add(took_ns, Relaxed);
        self.latency_ns_max.fetch_max(took_ns, Relaxed);
        match &done {
            Ok(_) => {
                self.requests.fetch_add(1, Relaxed);
                self.bytes.fetch_add(bytes as u64, Relaxed);
            }
            Err(_) => {
                self.failed.fetch_add(1, Relaxed);
            }
        }
        done
    }

    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Relaxed)
    }

    pub(crate) fn get(&self) -> Requests {
        Requests {
            requests: self.requests(),
            bytes: self.bytes.load(Relaxed),
            failed: self.failed.load(Relaxed),
            latency_ns: self.latency_ns.load(Relaxed),
            latency_ns_max: self.latency_ns_max.load(Relaxed),
        }
    }
}

//! Removals of key ranges that are still in memory.

use std::sync::atomic::{AtomicUsize, Ordering};

use halite_pmem::locks::RwLock;

use crate::sst::RangeDelete;

/// The range removals of one memtable or global index; keys have their key space before them. They are few: what
/// covers few keys is written as removals of these.
#[derive(Default)]
pub(crate) struct RangeDeletes {
    len: AtomicUsize,
    all: RwLock<Vec<RangeDelete>>,
}

impl RangeDeletes {
    pub(crate) fn add(&self, delete: RangeDelete) {
        let mut all = self.all.write();
        if !all.contains(&delete) {
            all.push(delete);
            self.len.store(all.len(), Ordering::Release);
        }
    }

    /// The newest sequence up to `at` at which a removal covers `key`; 0 if none does.
    #[inline]
    pub(crate) fn covering(&self, key: &[u8], at: u64) -> u64 {
        if self.is_empty() { 0 } else { covering(&self.all.read(), key, at) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len.load(Ordering::Acquire) == 0
    }

    pub(crate) fn all(&self) -> Vec<RangeDelete> {
        if self.is_empty() { Vec::new() } else { self.all.read().clone() }
    }
}

/// The newest sequence up to `at` at which one of `all` covers `key`; 0 if none does.
pub(crate) fn covering(all: &[RangeDelete], key: &[u8], at: u64) -> u64 {
    let covers = |delete: &&RangeDelete| {
        delete.sequence <= at && *delete.start <= *key && *key < *delete.end
    };
    all.iter().filter(covers).map(|delete| delete.sequence).max().unwrap_or(0)
}

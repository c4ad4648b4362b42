//! The live scans of a store, which let go of their memtables when a thread makes room.

use std::collections::BTreeMap;
use std::sync::Weak;
use std::sync::atomic::{AtomicU64, Ordering};

use halite_sim::locks::Mutex;

use crate::cost;

/// The part of a scan that can be taken from it.
pub(crate) trait Lease: Send + Sync {
    /// Has the scan let go of its memtables if it began before `time`: now, or before its next key if it is on its way
    /// to one. Returns whether it did now.
    fn let_go(&self, time: u64) -> bool;
}

/// The live scans of a store.
#[derive(Default)]
pub(crate) struct LongScans {
    leases: Mutex<BTreeMap<u64, Weak<dyn Lease>>>,
    last: AtomicU64,
    /// How often memtables or tables were given back.
    clock: AtomicU64,
}

impl LongScans {
    pub(crate) fn register(&self, lease: Weak<dyn Lease>) -> u64 {
        let number = self.last.fetch_add(1, Ordering::Relaxed);
        self.leases.lock().insert(number, lease);
        number
    }

    pub(crate) fn unregister(&self, number: u64) {
        self.leases.lock().remove(&number);
    }

    pub(crate) fn time(&self) -> u64 {
        self.clock.load(Ordering::Acquire)
    }

    /// Notes that memtables, or tables, were given back: scans that began before may keep them. To be called when new
    /// scans do not find them any more.
    pub(crate) fn tick(&self) {
        self.clock.fetch_add(1, Ordering::AcqRel);
    }

    /// Has all scans that began before memtables or tables were last given back let go of theirs, now or before their
    /// next key. Returns whether one did now.
    pub(crate) fn let_go(&self) -> bool {
        let leases: Vec<_> = self.leases.lock().values().filter_map(Weak::upgrade).collect();
        let (time, mut has_any) = (self.time(), false);
        for lease in leases {
            cost::step();
            has_any |= lease.let_go(time);
        }
        has_any
    }
}

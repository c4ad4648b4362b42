//! The pools of a store: the one that memtables lie in, and the one that says what the store is.
//!
//! # Invariants
//!
//! - Without a log both are one pool, which persists. With a log, memtables lie in DRAM beside the pool that persists.
//! - A memtable's number is given once, and is above those of all memtables that recovery found or the levels have.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use halite_alloc::{Device, ObjectPool, Segments};
use halite_contract::Result;
use halite_pmem::Pool;

use crate::zones::{Identity, Zones};

/// The pools of an open store.
pub(crate) struct Memory {
    segments: Arc<Segments>,
    home: Arc<Segments>,
    objects: Arc<ObjectPool>,
    device: Device,
    /// The next memtable's id.
    next_id: AtomicU64,
}

impl Memory {
    /// The zones of memtables are of `device`, their objects of `objects`, both in `segments`; `next_id` is above all
    /// memtables' ids.
    pub(crate) fn new(
        (segments, home): (Arc<Segments>, Arc<Segments>),
        objects: Arc<ObjectPool>,
        device: Device,
        next_id: u64,
    ) -> Self {
        Self { segments, home, objects, device, next_id: AtomicU64::new(next_id) }
    }

    /// The segments that memtables lie in.
    pub(crate) fn segments(&self) -> &Arc<Segments> {
        &self.segments
    }

    /// The pool that memtables lie in.
    pub(crate) fn pool(&self) -> &Pool {
        self.segments.pool()
    }

    /// The segments that say what the store is, and persist.
    pub(crate) fn home(&self) -> &Arc<Segments> {
        &self.home
    }

    /// Bytes of DRAM that memtables take, where a log makes them durable.
    pub(crate) fn volatile_bytes(&self) -> u64 {
        if Arc::ptr_eq(&self.segments, &self.home) { 0 } else { self.pool().len() }
    }

    /// Fails if the kernel has failed to sync a pool.
    pub(crate) fn check_synced(&self) -> Result<()> {
        self.pool().check_synced()?;
        Ok(self.home.pool().check_synced()?)
    }

    /// Zones for a tree's next memtable, durable, behind the memtable with the id `before`.
    pub(crate) fn create_zones(&self, tree: usize, before: Option<u64>) -> Result<Zones> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let identity = Identity { id, tree };
        Zones::create(&self.objects, &self.device, self.segments.salt(), &identity, before)
    }
}

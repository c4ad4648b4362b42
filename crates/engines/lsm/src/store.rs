//! An open store: the trees, the ring that writes to them, and the state that they share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use halite_alloc::{Device, ObjectPool, Segments};
use halite_contract::{Health, Recovery, Result};
use halite_pmem::{Pool, Words};
use halite_sim::locks::Mutex;
use halite_sim::planted;

use crate::batching::Batching;
use crate::crowd::Crowd;
use crate::levels::Levels;
use crate::limits::Limits;
use crate::long_scans::LongScans;
use crate::memtable::Memtable;
use crate::pace::Pace;
use crate::refusals::Refusals;
use crate::ring::Ring;
use crate::rows::Rows;
use crate::signals::Signals;
use crate::snapshots::Snapshots;
use crate::tree::Tree;
use crate::unsynced::{Entry, Unsynced};
use crate::wal::Wal;
use crate::zones::{Identity, Zones};

/// An open store.
pub(crate) struct Store {
    /// The pool that memtables lie in.
    pub(crate) segments: Arc<Segments>,
    /// The pool that says what the store is: the same, or, where there is a log, one that persists.
    pub(crate) home: Arc<Segments>,
    pub(crate) objects: Arc<ObjectPool>,
    pub(crate) device: Device,
    pub(crate) trees: Vec<Tree>,
    pub(crate) ring: Ring<Entry>,
    /// The threads that may be in the ring, where a commit waits for nothing slower than memory.
    pub(crate) crowd: Option<Crowd>,
    pub(crate) batching: Option<Batching>,
    pub(crate) unsynced: Mutex<Unsynced>,
    /// The sequence up to which everything is committed.
    pub(crate) visible: Arc<AtomicU64>,
    /// In turns: the next sequence.
    pub(crate) next_sequence: AtomicU64,
    /// The next memtable's id.
    pub(crate) next_id: AtomicU64,
    pub(crate) snapshots: Arc<Snapshots>,
    /// `commit_id`, in the pool.
    pub(crate) commit_id: Words,
    pub(crate) limits: Limits,
    /// Whether the store may be written to; the levels share it.
    pub(crate) health: Arc<Health>,
    pub(crate) user_bytes: AtomicU64,
    pub(crate) levels: Levels,
    /// The records that were read from the levels, where there is persistent memory for them.
    pub(crate) rows: Option<Rows>,
    /// The log, where memtables are volatile.
    pub(crate) wal: Option<Wal>,
    /// Whether the batches that are committed are in the log already.
    pub(crate) is_replaying: AtomicBool,
    /// Whether the store has threads for work that is not urgent.
    pub(crate) on_threads: bool,
    pub(crate) signals: Signals,
    /// Held while memtables are merged, or the global index that they are merged into is frozen.
    pub(crate) merging: Mutex<()>,
    /// Held by the thread that drops removed versions. Where the store has no threads, any writer may be.
    pub(crate) emptying: Mutex<()>,
    /// Held by the one that brings memory to the levels.
    pub(crate) flushing: Mutex<()>,
    pub(crate) pace: Pace,
    /// The batches that were refused for lack of room.
    pub(crate) refusals: Refusals,
    /// Memtables that were given back, and may still be read.
    pub(crate) spared: Mutex<Vec<Weak<Zones>>>,
    /// Scans, which let go of memtables that are given back.
    pub(crate) scans: LongScans,
    pub(crate) recovery: Recovery,
}

impl Store {
    pub(crate) fn pool(&self) -> &Pool {
        self.segments.pool()
    }

    /// Lets no batch be written from now on.
    pub(crate) fn poison(&self, why: &str) {
        self.health.poison(why.to_owned());
    }

    /// Refuses what is to be begun if the store may not be written to any more: also after the kernel failed to sync a
    /// pool, whichever work that was for. A batch that is stored from then on could be found by the next opening though
    /// it was refused.
    pub(crate) fn check_healthy(&self) -> Result<()> {
        self.health.check()?;
        planted!("lsm.roll-failure-forgiven", Ok(()), self.check_synced())
    }

    /// Refuses if the kernel failed to sync a pool.
    fn check_synced(&self) -> Result<()> {
        self.pool().check_synced()?;
        Ok(self.home.pool().check_synced()?)
    }

    /// The sequence up to which everything is visible.
    pub(crate) fn visible(&self) -> u64 {
        self.visible.load(Ordering::Acquire)
    }

    /// A new memtable for a tree, behind the active one, durable.
    pub(crate) fn new_memtable(&self, tree: usize) -> Result<Arc<Memtable>> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let identity = Identity { id, tree };
        let before = Some(self.trees[tree].view().active.zones.id);
        let salt = self.segments.salt();
        let zones = Zones::create(&self.objects, &self.device, salt, &identity, before)?;
        let first_log = self.wal.as_ref().map_or(0, Wal::number);
        Ok(Arc::new(Memtable::new(Arc::new(zones), first_log)))
    }

    /// Lets a new memtable take the active one's place, in the turn of `bid`.
    pub(crate) fn roll(&self, tree: usize, bid: u64) -> Result<Arc<Memtable>> {
        if let Some(wal) = &self.wal {
            self.sync_log(wal)?;
            self.roll_log(wal)?;
        }
        let next = self.new_memtable(tree)?;
        self.trees[tree].change(|view| {
            let full = std::mem::replace(&mut view.active, Arc::clone(&next));
            full.freeze(bid);
            view.immutables.insert(0, full);
        });
        self.set_pace();
        self.signals.wake();
        Ok(next)
    }

    /// Freezes every active memtable that is not empty.
    pub(crate) fn roll_all(&self) -> Result<()> {
        self.check_healthy()?;
        let turn = self.ring.enter(|_, entry| self.do_commit(entry));
        let bid = turn.bid();
        for tree in 0..self.trees.len() {
            if self.trees[tree].view().active.zones.used_bytes() > 0 {
                self.roll(tree, bid).inspect_err(|error| self.poison_by(error))?;
            }
        }
        turn.pass();
        Ok(())
    }
}

//! An open store: the trees, the ring that writes to them, and the state that they share.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};

use halite_contract::{Health, Recovery, Result};
use halite_pmem::Pool;
use halite_sim::locks::Mutex;
use halite_sim::planted;
use halite_wal::Wal;

use crate::batching::Batching;
use crate::concurrency_restriction::ConcurrencyRestriction;
use crate::group_commit::GroupCommit;
use crate::levels::Levels;
use crate::limits::Limits;
use crate::long_scans::LongScans;
use crate::memory::Memory;
use crate::memtable::Memtable;
use crate::pace::Pace;
use crate::refusals::Refusals;
use crate::ring::Ring;
use crate::rows::Rows;
use crate::signals::Signals;
use crate::snapshots::Snapshots;
use crate::tree::Tree;
use crate::turns::Turns;
use crate::unsynced::Entry;
use crate::zones::Zones;

/// An open store.
pub(crate) struct Store {
    pub(crate) memory: Memory,
    pub(crate) trees: Vec<Tree>,
    pub(crate) ring: Ring<Entry>,
    /// The threads that may be in the ring, where a commit waits for nothing slower than memory.
    pub(crate) restriction: Option<ConcurrencyRestriction>,
    pub(crate) batching: Option<Batching>,
    pub(crate) commits: GroupCommit,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) limits: Limits,
    /// Whether the store may be written to; the levels share it.
    pub(crate) health: Arc<Health>,
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
    pub(crate) turns: Turns,
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
        self.memory.pool()
    }

    /// Lets no batch be written from now on.
    pub(crate) fn poison(&self, why: &str) {
        self.health.poison(why.to_owned());
    }

    /// Refuses new work once the store may not be written to: also after the kernel failed to sync the pool for any
    /// other thread. The next opening could find a batch that is stored from then on, though
    /// it was refused.
    pub(crate) fn check_healthy(&self) -> Result<()> {
        self.health.check()?;
        planted!("lsm.roll-failure-forgiven", Ok(()), self.memory.check_synced())
    }

    /// The sequence up to which everything is visible.
    pub(crate) fn visible(&self) -> u64 {
        self.commits.visible()
    }

    /// A new memtable for a tree, behind the active one, durable.
    pub(crate) fn new_memtable(&self, tree: usize) -> Result<Arc<Memtable>> {
        let before = self.trees[tree].view().active.zones.id;
        let zones = self.memory.create_zones(tree, Some(before))?;
        let first_log = self.wal.as_ref().map_or(0, Wal::number);
        Ok(Arc::new(Memtable::new(Arc::new(zones), first_log)))
    }

    /// Lets a new memtable take the active one's place, in the turn of `bid`.
    pub(crate) fn roll(&self, tree: usize, bid: u64) -> Result<Arc<Memtable>> {
        if let Some(wal) = &self.wal {
            // The levels are to have no part of a batch that the log may lose.
            self.sync_log(wal)?;
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

//! The lock table: which transaction may touch which key, and who waits.
//!
//! A lock is a key's, there or not, and exists while it is held or waited for. Many transactions hold it shared
//! or one exclusive. Requests are granted in the order in which they came, so nobody starves; who holds a lock
//! shared and wants it exclusive goes before those that hold nothing of it, because they wait for it anyway. A
//! request that cannot be granted looks for a circle (`deadlock`), and then waits, up to a time.
//!
//! The table is sharded by keys. A thread holds one shard's mutex at a time, and the graph's within it. It
//! never waits for a lock with either, nor with anything of the engine.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use halite_engine::{Error, KeySpaceId, Result};
use halite_pmem::locks::{Gate, Mutex};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::deadlock::WaitsFor;

/// Parts of the table that have a mutex of their own.
const SHARDS: usize = 64;

/// A transaction of this database; a later one has a higher number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct TransactionId(pub(super) u64);

/// How a lock is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mode {
    /// With others who hold it so: nobody writes.
    Shared,
    /// Alone.
    Exclusive,
}

impl Mode {
    fn allows(self, other: Self) -> bool {
        self == Self::Shared && other == Self::Shared
    }
}

/// What a lock is for.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Name {
    space: KeySpaceId,
    key: Box<[u8]>,
}

#[derive(Default)]
struct Lock {
    holders: Vec<(TransactionId, Mode)>,
    queue: VecDeque<Request>,
}

/// A request that waits.
struct Request {
    of: TransactionId,
    mode: Mode,
    granted: Arc<Gate>,
}

type Shard = HashMap<Arc<Name>, Lock>;

/// The locks of a database, which all its clones have in common.
pub(crate) struct LockTable {
    shards: Vec<Mutex<Shard>>,
    waits: WaitsFor,
    next: AtomicU64,
}

impl Default for LockTable {
    fn default() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            waits: WaitsFor::default(),
            next: AtomicU64::new(0),
        }
    }
}

impl Lock {
    fn held_by(&self, of: TransactionId) -> Option<Mode> {
        self.holders.iter().find(|(holder, _)| *holder == of).map(|(_, mode)| *mode)
    }

    /// The others that hold it in the way of a request.
    fn in_the_way(&self, of: TransactionId, mode: Mode) -> impl Iterator<Item = TransactionId> {
        let holders = self.holders.iter();
        holders
            .filter(move |(holder, held)| *holder != of && !held.allows(mode))
            .map(|(holder, _)| *holder)
    }

    fn grant(&mut self, of: TransactionId, mode: Mode) {
        match self.holders.iter_mut().find(|(holder, _)| *holder == of) {
            Some((_, held)) => *held = mode.max(*held),
            None => self.holders.push((of, mode)),
        }
    }

    /// Whom a request at a place in the queue waits for.
    fn waits_for(&self, place: usize, of: TransactionId, mode: Mode) -> Vec<TransactionId> {
        let ahead = self.queue.iter().take(place).filter(|ahead| !ahead.mode.allows(mode));
        self.in_the_way(of, mode).chain(ahead.map(|ahead| ahead.of)).collect()
    }

    /// Grants what can be, from the front of the queue on.
    fn grant_waiting(&mut self, waits: &WaitsFor) {
        while let Some(first) = self.queue.front()
            && self.in_the_way(first.of, first.mode).next().is_none()
            && let Some(request) = self.queue.pop_front()
        {
            self.grant(request.of, request.mode);
            waits.end(request.of);
            request.granted.open();
        }
    }
}

impl LockTable {
    /// The locks of a transaction that begins.
    pub(super) fn begin(self: &Arc<Self>) -> Locks {
        let of = TransactionId(self.next.fetch_add(1, Ordering::Relaxed));
        Locks { table: Arc::clone(self), of, held: Vec::new() }
    }

    fn shard(&self, name: &Name) -> &Mutex<Shard> {
        let hash = xxh3_64_with_seed(&name.key, name.space.0.into());
        &self.shards[(hash % SHARDS as u64) as usize]
    }

    /// Waits for a lock, up to `wait`. Returns whether the transaction held nothing of it before.
    fn acquire(
        &self,
        of: TransactionId,
        name: &Arc<Name>,
        mode: Mode,
        wait: Duration,
    ) -> Result<bool> {
        let shard = self.shard(name);
        let began = Instant::now();
        let (granted, is_new) = {
            let mut locks = shard.lock();
            let lock = locks.entry(Arc::clone(name)).or_default();
            let held = lock.held_by(of);
            if held.is_some_and(|held| held >= mode) {
                return Ok(false);
            }
            // Nobody is overtaken but by those that hold a part of it.
            let is_holder = |ahead: &&Request| lock.held_by(ahead.of).is_some();
            let place = match held {
                Some(_) => lock.queue.iter().take_while(is_holder).count(),
                None => lock.queue.len(),
            };
            if place == 0 && lock.in_the_way(of, mode).next().is_none() {
                lock.grant(of, mode);
                return Ok(held.is_none());
            }
            if !self.waits.begin(of, lock.waits_for(place, of, mode)) {
                return Err(Error::Deadlock { space: name.space, at: name.key.to_vec() });
            }
            let granted = Arc::new(Gate::default());
            lock.queue.insert(place, Request { of, mode, granted: Arc::clone(&granted) });
            (granted, held.is_none())
        };
        if granted.wait(began.checked_add(wait)) {
            return Ok(is_new);
        }
        let mut locks = shard.lock();
        let Some(lock) = locks.get_mut(name) else { return Ok(is_new) };
        let Some(place) = lock.queue.iter().position(|request| request.of == of) else {
            // It was granted at the last moment.
            return Ok(is_new);
        };
        lock.queue.remove(place);
        // Those behind it do not wait for it any more.
        let behind = lock.queue.iter().enumerate().skip(place);
        let behind = behind.map(|(at, next)| (next.of, lock.waits_for(at, next.of, next.mode)));
        self.waits.give_up(of, behind.collect());
        lock.grant_waiting(&self.waits);
        Err(Error::LockTimeout { space: name.space, at: name.key.to_vec(), waited: wait })
    }

    fn release(&self, of: TransactionId, name: &Name) {
        let mut locks = self.shard(name).lock();
        if let Some(lock) = locks.get_mut(name) {
            lock.holders.retain(|(holder, _)| *holder != of);
            lock.grant_waiting(&self.waits);
            if lock.holders.is_empty() {
                locks.remove(name);
            }
        }
    }
}

/// The locks that a transaction holds. They are released together, when it ends.
pub(super) struct Locks {
    table: Arc<LockTable>,
    of: TransactionId,
    held: Vec<Arc<Name>>,
}

impl Locks {
    /// The transaction's number.
    pub(super) fn of(&self) -> TransactionId {
        self.of
    }

    /// Waits for a lock, up to `wait`. Returns whether the transaction held nothing of it before.
    ///
    /// # Errors
    /// [`Error::Deadlock`], [`Error::LockTimeout`]; the lock is held as before then.
    pub(super) fn acquire(
        &mut self,
        space: KeySpaceId,
        key: &[u8],
        mode: Mode,
        wait: Duration,
    ) -> Result<bool> {
        let name = Arc::new(Name { space, key: key.into() });
        let is_new = self.table.acquire(self.of, &name, mode, wait)?;
        if is_new {
            self.held.push(name);
        }
        Ok(is_new)
    }
}

impl Drop for Locks {
    fn drop(&mut self) {
        for name in &self.held {
            self.table.release(self.of, name);
        }
    }
}

#[cfg(test)]
mod tests;

//! The lock table: which transaction holds which key, and which requests wait.
//!
//! A lock belongs to a key, which need not exist, and the lock exists while it is held or waited for. Many transactions
//! hold it shared, or one holds it exclusive. Requests are granted in the order in which they came, so none starves.
//! The exception is an upgrade from shared to exclusive: it goes before the requests of transactions that hold no part
//! of the lock, because they wait for its owner anyway. A request that cannot be granted looks for a cycle
//! (`deadlock`), and then waits, up to a time.
//!
//! A transaction that is open for longer than its age limit **expires**: a transaction that waits for one of its locks
//! takes the lock. An expired transaction can only end, because each of its calls checks its age. One that has begun to
//! commit keeps its locks: whether a transaction commits or expires is decided once (`Fate`). Correctness does not
//! depend on that decision, because a commit validates all that it relies on.
//!
//! The table is sharded by keys. A thread holds one shard's mutex at a time, and the graph's within it. It waits for a
//! lock with neither mutex held, and outside of any call of the engine.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use halite_contract::KeySpaceId;
use halite_sim::locks::{Gate, Mutex};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::deadlock::WaitsFor;
use super::write_set::ENTRY_BYTES;
use crate::{Error, Result};

/// Parts of the table that have a mutex of their own.
const SHARDS: usize = 64;

/// The next transaction's number. All databases have them in common, so that savepoints of different ones differ.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A transaction of this process; a later one has a higher number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct TransactionId(pub(super) u64);

/// A transaction as those know it that wait for its locks.
struct Owner {
    id: TransactionId,
    /// The last moment at which its locks are its own, unless it commits.
    expires: Option<Instant>,
    fate: OnceLock<Fate>,
}

/// Whether a transaction commits or expires, decided by the first thread that needs to know.
#[derive(PartialEq, Eq)]
enum Fate {
    Commits,
    Expires,
}

impl Owner {
    fn has_expired(&self, now: Instant) -> bool {
        self.expires.is_some_and(|at| at < now)
            && *self.fate.get_or_init(|| Fate::Expires) == Fate::Expires
    }

    /// When it may expire, if that is still to come.
    fn may_expire(&self, now: Instant) -> Option<Instant> {
        self.expires.filter(|at| *at >= now && self.fate.get().is_none())
    }
}

/// How a lock is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mode {
    /// Shared with other readers: no transaction writes the key.
    Shared,
    /// Alone.
    Exclusive,
}

impl Mode {
    fn allows(self, other: Self) -> bool {
        self == Self::Shared && other == Self::Shared
    }
}

/// The key that a lock protects.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Name {
    space: KeySpaceId,
    key: Box<[u8]>,
}

#[derive(Default)]
struct Lock {
    holders: Vec<(Arc<Owner>, Mode)>,
    queue: VecDeque<Request>,
}

/// A request that waits.
struct Request {
    of: Arc<Owner>,
    mode: Mode,
    granted: Arc<Gate>,
}

type Shard = HashMap<Arc<Name>, Lock>;

/// The locks of a database, which all its clones have in common.
pub(crate) struct LockTable {
    shards: Vec<Mutex<Shard>>,
    waits: WaitsFor,
}

impl Default for LockTable {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), waits: WaitsFor::default() }
    }
}

impl Lock {
    fn held_by(&self, of: TransactionId) -> Option<Mode> {
        self.holders.iter().find(|(holder, _)| holder.id == of).map(|(_, mode)| *mode)
    }

    /// The other holders that conflict with a request.
    fn in_the_way(&self, of: TransactionId, mode: Mode) -> impl Iterator<Item = &Owner> {
        let holders = self.holders.iter();
        holders
            .filter(move |(holder, held)| holder.id != of && !held.allows(mode))
            .map(|(holder, _)| &**holder)
    }

    fn grant(&mut self, of: &Arc<Owner>, mode: Mode) {
        match self.holders.iter_mut().find(|(holder, _)| holder.id == of.id) {
            Some((_, held)) => *held = mode.max(*held),
            None => self.holders.push((Arc::clone(of), mode)),
        }
    }

    /// The owners that a request at a place in the queue waits for.
    fn before(&self, place: usize, of: TransactionId, mode: Mode) -> impl Iterator<Item = &Owner> {
        let ahead = self.queue.iter().take(place).filter(move |ahead| !ahead.mode.allows(mode));
        self.in_the_way(of, mode).chain(ahead.map(|ahead| &*ahead.of))
    }

    /// The transactions that a request at a place in the queue waits for.
    fn waits_for(&self, place: usize, of: TransactionId, mode: Mode) -> Vec<TransactionId> {
        self.before(place, of, mode).map(|owner| owner.id).collect()
    }

    /// Takes the lock from those that expired.
    fn evict_expired(&mut self, now: Instant, waits: &WaitsFor) {
        self.holders.retain(|(holder, _)| !holder.has_expired(now));
        self.grant_waiting(waits);
    }

    /// Grants requests from the front of the queue as long as no holder conflicts.
    fn grant_waiting(&mut self, waits: &WaitsFor) {
        while let Some(first) = self.queue.front()
            && self.in_the_way(first.of.id, first.mode).next().is_none()
            && let Some(request) = self.queue.pop_front()
        {
            self.grant(&request.of, request.mode);
            waits.end(request.of.id);
            request.granted.open();
        }
    }
}

impl LockTable {
    /// The locks of a transaction that begins, which others may take behind a moment.
    pub(super) fn begin(self: &Arc<Self>, expires: Option<Instant>) -> Locks {
        let id = TransactionId(NEXT.fetch_add(1, Ordering::Relaxed));
        let owner = Arc::new(Owner { id, expires, fate: OnceLock::new() });
        Locks { table: Arc::clone(self), owner, held: Vec::new(), bytes: 0 }
    }

    fn shard(&self, name: &Name) -> &Mutex<Shard> {
        let hash = xxh3_64_with_seed(&name.key, name.space.0.into());
        &self.shards[(hash % SHARDS as u64) as usize]
    }

    /// Waits for a lock, up to `wait`. Returns whether the transaction did not hold it before, in either mode.
    fn acquire(
        &self,
        owner: &Arc<Owner>,
        name: &Arc<Name>,
        mode: Mode,
        wait: Duration,
    ) -> Result<bool> {
        let of = owner.id;
        let shard = self.shard(name);
        let now = Instant::now();
        let until = now.checked_add(wait);
        let (granted, is_new, mut expires) = {
            let mut locks = shard.lock();
            let lock = locks.entry(Arc::clone(name)).or_default();
            lock.evict_expired(now, &self.waits);
            let held = lock.held_by(of);
            if held.is_some_and(|held| held >= mode) {
                return Ok(false);
            }
            // Only an upgrade overtakes: the request of a transaction that holds the lock shared already.
            let is_holder = |ahead: &&Request| lock.held_by(ahead.of.id).is_some();
            let place = match held {
                Some(_) => lock.queue.iter().take_while(is_holder).count(),
                None => lock.queue.len(),
            };
            if place == 0 && lock.in_the_way(of, mode).next().is_none() {
                lock.grant(owner, mode);
                return Ok(held.is_none());
            }
            if !self.waits.begin(of, lock.waits_for(place, of, mode)) {
                return Err(Error::Deadlock { space: name.space, at: name.key.to_vec() });
            }
            let granted = Arc::new(Gate::default());
            let expires =
                lock.before(place, of, mode).filter_map(|owner| owner.may_expire(now)).min();
            let request = Request { of: Arc::clone(owner), mode, granted: Arc::clone(&granted) };
            lock.queue.insert(place, request);
            (granted, held.is_none(), expires)
        };
        loop {
            // A transaction ahead may expire before this request's time is up.
            if granted.wait(until.into_iter().chain(expires).min()) {
                return Ok(is_new);
            }
            let now = Instant::now();
            let mut locks = shard.lock();
            let Some(lock) = locks.get_mut(name) else { return Ok(is_new) };
            lock.evict_expired(now, &self.waits);
            let Some(place) = lock.queue.iter().position(|request| request.of.id == of) else {
                // The lock was granted at the last moment.
                return Ok(is_new);
            };
            if until.is_none_or(|until| now < until) {
                let before = lock.before(place, of, mode);
                expires = before.filter_map(|owner| owner.may_expire(now)).min();
                continue;
            }
            lock.queue.remove(place);
            // The requests behind it do not wait for it any more.
            let behind = lock.queue.iter().enumerate().skip(place).map(|(at, next)| {
                let of = next.of.id;
                (of, lock.waits_for(at, of, next.mode))
            });
            self.waits.give_up(of, behind.collect());
            lock.grant_waiting(&self.waits);
            let at = name.key.to_vec();
            return Err(Error::LockTimeout { space: name.space, at, waited: wait });
        }
    }

    fn release(&self, of: TransactionId, name: &Name) {
        let mut locks = self.shard(name).lock();
        if let Some(lock) = locks.get_mut(name) {
            lock.holders.retain(|(holder, _)| holder.id != of);
            lock.grant_waiting(&self.waits);
            if lock.holders.is_empty() {
                locks.remove(name);
            }
        }
    }
}

/// The locks that a transaction holds. They are released together, when it ends or is too old.
pub(super) struct Locks {
    table: Arc<LockTable>,
    owner: Arc<Owner>,
    held: Vec<Arc<Name>>,
    /// Bytes of memory.
    bytes: usize,
}

impl Locks {
    /// The transaction's number.
    pub(super) fn of(&self) -> TransactionId {
        self.owner.id
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes that a lock takes.
    pub(super) fn cost(key: &[u8]) -> usize {
        ENTRY_BYTES + key.len()
    }

    /// Keeps others from taking the locks from now on, unless the transaction is too old already. To be called
    /// before its age is looked at for the last time.
    pub(super) fn begin_commit(&self) {
        self.owner.fate.get_or_init(|| Fate::Commits);
    }

    /// Waits for a lock, up to `wait`. Returns whether the transaction did not hold it before, in either mode.
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
        let is_new = self.table.acquire(&self.owner, &name, mode, wait)?;
        if is_new {
            self.bytes += Self::cost(key);
            self.held.push(name);
        }
        Ok(is_new)
    }

    /// Releases all of them.
    pub(super) fn release(&mut self) {
        for name in self.held.drain(..) {
            self.table.release(self.owner.id, &name);
        }
        self.bytes = 0;
    }
}

impl Drop for Locks {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests;

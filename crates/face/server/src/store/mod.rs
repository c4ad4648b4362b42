//! The numbered databases that clients see, on the key spaces of one Halite database.
//!
//! Database `N` is the key space `db<N>`, whose values have a tag in front ([`crate::stored`] has the form). The
//! deadline of a key that expires lies under the same key in `db<N>:expires`, and an index in DRAM (`deadlines`) finds
//! the keys that are due. SWAPDB exchanges the key spaces of two numbers, which the record `databases` remembers.
//!
//! Every change goes through [`Store::put_stored`], [`Store::remove`], [`Store::set_deadline`], [`Store::flush`] and
//! [`Store::swap`]. Each of them is atomic: a value and its deadline are written in one batch. Between [`Store::begin`]
//! and [`Store::commit`] changes gather in an [`Overlay`] that reads look through, and become one batch in the end. All
//! writes defer durability to [`Store::sync`], which the event loop calls once for all requests of a turn, before it
//! answers them.
//!
//! [`values`] reads and writes keys, [`expiry`] their deadlines, [`elements`] what larger collections consist of;
//! [`transactions`] has what several changes share, [`durability`] the end of a turn.
//!
//! Each thread of the server has a `Store`, which has the [`Part`]s of the partitions that the thread may access now: a
//! call goes to the part of its key, which must be here. `shard` ensures that.

mod by_collection;
mod census;
mod clocks;
mod copying;
mod database;
mod deadline_records;
mod deadlines;
mod durability;
mod elements;
mod encodings;
mod eviction;
mod expiry;
mod field_deadlines;
mod figures;
mod lengths;
mod libraries;
mod opened;
mod order;
mod overlay;
mod part;
mod readers;
mod recent_map;
mod rehoming;
mod resident;
mod tracking;
mod transactions;
mod undo;
mod values;
mod waiters;
mod waiting;
mod walk;
mod watches;
mod watching;
mod whole_databases;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fastrand::Rng;

pub use census::{Census, census};
pub(crate) use clocks::Usage;
use database::Database;
pub(crate) use elements::{Elements, Order, Scan};
pub(crate) use encodings::Encoding;
pub(crate) use eviction::Order as EvictionOrder;
pub(crate) use expiry::NewDeadline;
pub(crate) use field_deadlines::FieldTimes;
pub(crate) use opened::Opened;
use overlay::Overlay;
pub(crate) use part::Part;
pub(crate) use recent_map::RecentMap;
pub(crate) use resident::Resident;
pub(crate) use transactions::Savepoint;
pub(crate) use waiters::{Awaited, Key, Waiter};
pub(crate) use watches::Watch;

use crate::Error;
use crate::data_bytes::DataBytes;
use crate::ending::Ending;
use crate::inline_limits::InlineLimits;
use crate::notifications::EventClass;
use crate::partition_set::PartitionSet;
use crate::pubsub::Outbox;
use crate::random::generator;

/// The result of an operation on the store.
type Result<T> = halite::Result<T>;

/// The databases, as one thread has them.
pub(crate) struct Store {
    db: halite::Database,
    /// The databases, once they are open: before there is any part.
    opened: Arc<OnceLock<Opened>>,
    /// The key spaces of the databases, since the first part came here.
    databases: Vec<Database>,
    /// By partition: those that are here.
    parts: Vec<Option<Part>>,
    /// The parts here whose requests are refused.
    broken: PartitionSet,
    batch: halite::Batch,
    /// The buffer in which a value gets its tag.
    tagging: Vec<u8>,
    random: Rng,
    /// How large collections may be that are one record.
    pub(crate) inline_limits: InlineLimits,
    overlay: Option<Overlay>,
    /// The messages of this turn, to clients of this thread and of others.
    pub(crate) outbox: Outbox,
    /// The end of the server: loops over many keys break off then.
    pub(crate) ending: Arc<Ending>,
    /// The most bytes that the changes of a transaction may take until they are committed.
    pub(crate) transaction_len_max: usize,
    /// Changes are paused: expired keys are hidden from all clients, and are not removed.
    pub(crate) is_paused: bool,
    /// The time that all of a command sees, or of a transaction, in milliseconds since 1970.
    pub(crate) now_ms: u64,
    /// Keys that this thread changed since the start; of those that are removed together, no more than
    /// [`FLUSHED_COUNT_MAX`] where the engine has to count them.
    pub(crate) changes: u64,
    /// Keys for which clients wait were changed.
    pub(crate) has_ready: bool,
    /// Keys that expired here since the start.
    pub(crate) expired: u64,
    /// Fields of hashes that expired here since the start.
    pub(crate) expired_fields: u64,
    /// Keys that were evicted here since the start.
    pub(crate) evicted: u64,
    /// Collections whose elements are removed behind the command that dropped them, since the start.
    pub(crate) dropped: u64,
    /// The use of keys that is noted, and whether keys are evicted by it.
    usage: Usage,
    evicts_by_usage: bool,
    /// Whether changes are such that clients who watch or track the keys are not told.
    is_unwatched: bool,
    /// Whether the command that is executed counts as a use of its keys.
    pub(crate) uses_keys: bool,
    candidates: eviction::Candidates,
    recent_map: RecentMap,
    /// The bytes of all records, if there is a limit of them that the engine does not know.
    data_bytes: Option<Arc<DataBytes>>,
}

/// The place of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Spot {
    /// The number of the partition.
    partition: usize,
    /// The index of the database's key spaces.
    place: usize,
}

impl Store {
    /// Opens `count` databases, with all of their parts. Waits until everything is recovered.
    pub(crate) fn open(db: halite::Database, count: usize) -> std::result::Result<Self, Error> {
        let opened = Opened::open(&db, count)?;
        let mut parts = Vec::new();
        for number in 0..db.partitions() {
            let mut part = opened.part(&db, number);
            opened.read(&mut part, &Ending::default())?;
            parts.push(part);
        }
        let mut store = Self::unopened(db, Arc::new(OnceLock::from(opened)));
        store.bring(parts);
        Ok(store)
    }

    /// A store whose databases are yet to be opened. No part is there.
    pub(crate) fn unopened(db: halite::Database, opened: Arc<OnceLock<Opened>>) -> Self {
        Self {
            batch: db.batch(),
            tagging: Vec::new(),
            random: generator(),
            inline_limits: InlineLimits::default(),
            parts: (0..db.partitions()).map(|_| None).collect(),
            db,
            opened,
            databases: Vec::new(),
            broken: PartitionSet::EMPTY,
            overlay: None,
            outbox: Outbox::new(Arc::default()),
            ending: Arc::default(),
            transaction_len_max: usize::MAX,
            is_paused: false,
            now_ms: 0,
            changes: 0,
            has_ready: false,
            expired: 0,
            expired_fields: 0,
            evicted: 0,
            dropped: 0,
            usage: Usage::Recent,
            evicts_by_usage: false,
            is_unwatched: false,
            uses_keys: true,
            candidates: eviction::Candidates::default(),
            recent_map: RecentMap::default(),
            data_bytes: None,
        }
    }

    /// A store on the same databases, for another thread. No part is there.
    pub(crate) fn sibling(&self) -> Self {
        Self::unopened(self.db.clone(), Arc::clone(&self.opened))
    }

    /// The number of partitions.
    #[inline]
    pub(crate) fn partitions(&self) -> usize {
        self.parts.len()
    }

    /// The partition that has `key`, in any database.
    #[inline]
    pub(crate) fn partition_of(&self, key: &[u8]) -> usize {
        if self.parts.len() == 1 { 0 } else { self.db.partition_of(key) }
    }

    /// The partitions whose parts are here.
    pub(crate) fn here(&self) -> PartitionSet {
        let mut here = PartitionSet::EMPTY;
        self.parts.iter().flatten().for_each(|part| here.insert(part.number));
        here
    }

    /// Tells the clients that subscribed to keyspace notifications of an event at `key` of database `db`, if events of
    /// this class are configured (CONFIG `notify-keyspace-events`).
    ///
    /// A command calls this behind each of its changes that has succeeded, with Redis' name of the event, in lower case
    /// (`set`, `lpush`, `hset`), and with the class of the value's type; [`EventClass::Generic`] is that of commands on
    /// keys of any type. If one command makes several changes, as SET with EX or a list that becomes empty (`del`), it
    /// calls this for each, in Redis' order. `Call::notify` is a short form for the client's database.
    ///
    /// Nothing else is needed: the event leaves once the change is durable, and never if the transaction is rolled back
    /// in which it was made. The store itself tells of keys that expire (`expired`) or are new (`new`), and
    /// `Call::read_any` of keys that are missed (`keymiss`). While no class is configured, this is one comparison.
    #[inline]
    pub(crate) fn notify(&mut self, class: EventClass, event: &'static str, db: usize, key: &[u8]) {
        self.outbox.notify(class, event, db, key);
    }

    /// Gives parts away.
    pub(crate) fn take(&mut self, wanted: PartitionSet) -> Vec<Part> {
        self.broken = self.broken.without(wanted);
        wanted.iter().filter_map(|number| self.parts[number].take()).collect()
    }

    /// Takes parts in.
    pub(crate) fn bring(&mut self, parts: Vec<Part>) {
        if self.databases.is_empty() && !parts.is_empty() {
            self.databases = self.opened().databases.clone();
        }
        for part in parts {
            let number = part.number;
            if part.broken().is_some() {
                self.broken.insert(number);
            }
            self.has_ready |= part.waiters.has_changed();
            debug_assert!(self.parts[number].is_none(), "there is one part of a partition");
            self.parts[number] = Some(part);
        }
    }

    /// Moves a partition to the front of the recovery.
    pub(crate) fn want(&self, partition: usize) {
        // If the partition cannot be recovered, its part reports that.
        let _ = self.db.wait_partition(partition, Duration::ZERO);
    }

    /// Whether requests for some part here are refused.
    #[inline]
    pub(crate) fn has_broken(&self) -> bool {
        !self.broken.is_empty()
    }

    /// The reason for refusing requests for some of these partitions.
    pub(crate) fn broken(&self, partitions: PartitionSet) -> Option<&str> {
        let mut broken = self.broken.and(partitions).iter();
        broken.find_map(|number| self.parts[number].as_ref()?.broken())
    }

    /// Whether larger sorted sets that are made have their order stored.
    #[inline]
    pub(crate) fn stores_order(&self) -> bool {
        self.opened().stores_order
    }

    fn opened(&self) -> &Opened {
        self.opened.get().expect("there is a part once the databases are open")
    }

    /// A part that is here.
    #[inline]
    pub(crate) fn part_mut(&mut self, partition: usize) -> &mut Part {
        self.parts[partition].as_mut().expect("a command runs where the parts of its keys are")
    }

    /// The Halite database.
    pub(crate) fn database(&self) -> &halite::Database {
        &self.db
    }

    /// Counts two changes as one: those of a command that moves something.
    pub(crate) fn count_as_one_change(&mut self) {
        self.changes -= 1;
    }

    /// The name of the engine below.
    pub(crate) fn engine_name(&self) -> &'static str {
        self.db.engine_name()
    }

    /// The Halite database's folder.
    pub(crate) fn path(&self) -> &std::path::Path {
        self.db.path()
    }

    #[inline]
    fn part(&self, partition: usize) -> &Part {
        self.parts[partition].as_ref().expect("a command runs where the parts of its keys are")
    }

    /// Returns the place of a key of a database.
    #[inline]
    fn spot(&self, db: usize, key: &[u8]) -> Spot {
        let partition = self.partition_of(key);
        let changed = self.overlay.as_ref().and_then(|overlay| overlay.order.as_ref());
        let order = changed.unwrap_or_else(|| &self.part(partition).order);
        Spot { partition, place: order[db] }
    }

    #[inline]
    fn spot_at(&self, place: usize, key: &[u8]) -> Spot {
        Spot { partition: self.partition_of(key), place }
    }
}

#[cfg(test)]
pub(crate) mod tests;

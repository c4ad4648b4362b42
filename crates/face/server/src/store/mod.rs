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
//! Each thread of the server has a `Store`, which has the [`Part`]s of the partitions that the thread may access now: a
//! call goes to the part of its key, which must be here. `shard` ensures that.

mod by_collection;
mod census;
mod clocks;
mod copying;
mod database;
mod deadline_records;
mod deadlines;
mod elements;
mod encodings;
mod eviction;
mod field_deadlines;
mod opened;
mod order;
mod overlay;
mod part;
mod readers;
mod recent_map;
mod rehoming;
mod resident;
mod tracking;
mod undo;
mod waiters;
mod waiting;
mod walk;
mod watches;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fastrand::Rng;
use halite::{Bytes, Durability, EngineError, KEY_LEN_MAX, VALUE_LEN_MAX};
use halite_sim::planted;

pub use census::{Census, census};
pub(crate) use clocks::Usage;
use database::Database;
use deadline_records::Records;
use deadlines::Due;
pub(crate) use elements::{Elements, Order, Scan};
pub(crate) use encodings::Encoding;
pub(crate) use eviction::Order as EvictionOrder;
pub(crate) use field_deadlines::FieldTimes;
pub(crate) use opened::Opened;
use overlay::{Overlay, Value};
pub(crate) use part::Part;
pub(crate) use recent_map::RecentMap;
pub(crate) use resident::Resident;
pub(crate) use waiters::{Awaited, Key, Waiter};
pub(crate) use watches::Watch;

use crate::Error;
use crate::data_bytes::{DataBytes, Growth};
use crate::ending::Ending;
use crate::inline_limits::InlineLimits;
use crate::notifications::EventClass;
use crate::partition_set::PartitionSet;
use crate::pubsub::{self, Outbox};
use crate::random::generator;
use crate::stored::{STRING_TAG, Stored, Type, collection_id};

/// The result of an operation on the store.
type Result<T> = halite::Result<T>;

/// The effect of a write on the deadline of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NewDeadline {
    /// The deadline stays.
    Keep,
    /// The key does not expire.
    Clear,
    /// The key expires at this time, in milliseconds since 1970.
    At(u64),
}

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
    /// Whether the command that is executed counts as a use of its keys.
    pub(crate) uses_keys: bool,
    candidates: eviction::Candidates,
    recent_map: RecentMap,
    /// The bytes of all records, if there is a limit of them that the engine does not know.
    data_bytes: Option<Arc<DataBytes>>,
}

/// Keys that are counted before all are removed, where the engine has to count them: others wait for it.
const FLUSHED_COUNT_MAX: u64 = 10_000;

/// The most bytes of a batch whose memory is kept for the next one.
const BATCH_KEPT: usize = 1 << 20;

/// The most memory that is kept to tag the next value, in bytes.
const TAGGING_KEPT: usize = 1 << 20;

/// Keys that are prefetched together.
const PREFETCHED_MAX: usize = 16;

/// A moment of a transaction.
#[derive(Debug)]
pub(crate) struct Savepoint(undo::Mark, pubsub::Mark);

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

    /// Prefetches the records of these keys, of those whose parts are here.
    pub(crate) fn prefetch(&self, db: usize, keys: &[&[u8]]) {
        let Some(part) = self.parts.iter().flatten().next() else { return };
        let values = &self.databases[part.order[db]].values;
        if self.parts.len() == 1 {
            return values.prefetch(0, keys);
        }
        for keys in keys.chunks(PREFETCHED_MAX) {
            let mut homes = [0; PREFETCHED_MAX];
            homes.iter_mut().zip(keys).for_each(|(home, key)| *home = self.partition_of(key));
            for part in self.parts.iter().flatten() {
                let (mut own, mut count) = ([&[][..]; PREFETCHED_MAX], 0);
                for (key, _) in keys.iter().zip(homes).filter(|(_, home)| *home == part.number) {
                    own[count] = key;
                    count += 1;
                }
                if count > 0 {
                    values.prefetch(part.number, &own[..count]);
                }
            }
        }
    }

    /// The value of `key`, unless it has expired.
    #[inline]
    pub(crate) fn get(&mut self, db: usize, key: &[u8]) -> Result<Option<Stored>> {
        let spot = self.spot(db, key);
        if self.is_due(spot, key)? {
            self.expire(db, spot, key);
            return Ok(None);
        }
        let value = self.value(spot, key)?;
        if self.uses_keys && value.is_some() {
            let (usage, now_ms, random) = (self.usage, self.now_ms, &mut self.random);
            let part = self.parts[spot.partition].as_mut().expect("its part is here");
            part.clocks.touch((spot.place, key), usage, now_ms, random);
        }
        Ok(value.map(Stored::from))
    }

    /// Whether `key` has a value.
    pub(crate) fn contains(&mut self, db: usize, key: &[u8]) -> Result<bool> {
        Ok(self.get(db, key)?.is_some())
    }

    /// Returns when `key`, which has a value, expires: milliseconds since 1970.
    pub(crate) fn deadline(&self, db: usize, key: &[u8]) -> Result<Option<u64>> {
        self.deadline_at(self.spot(db, key), key)
    }

    /// Sets the value of `key` to a string, and its deadline.
    #[inline]
    pub(crate) fn put(
        &mut self,
        db: usize,
        key: &[u8],
        string: &[u8],
        deadline: NewDeadline,
    ) -> Result<()> {
        self.put_written(db, key, deadline, |value| value.extend_from_slice(string))
    }

    /// [`Store::put`] of a string that `write` appends: it is written behind its tag, and not copied there.
    #[inline]
    pub(crate) fn put_written(
        &mut self,
        db: usize,
        key: &[u8],
        deadline: NewDeadline,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<()> {
        let mut stored = std::mem::take(&mut self.tagging);
        stored.clear();
        stored.push(STRING_TAG);
        write(&mut stored);
        let put = self.put_stored(db, key, &stored, deadline);
        if stored.capacity() <= TAGGING_KEPT {
            self.tagging = stored;
        }
        put
    }

    /// Sets the value of `key`, in its stored form, and its deadline.
    #[inline]
    pub(crate) fn put_stored(
        &mut self,
        db: usize,
        key: &[u8],
        stored: &[u8],
        deadline: NewDeadline,
    ) -> Result<()> {
        let spot = self.spot(db, key);
        let elements = self.elements_at(spot, key)?;
        let elements = elements.filter(|elements| collection_id(stored) != Some(elements.id));
        let had_deadlines = stored.first() != Some(&Type::Hash.tag())
            && self.field_deadline_at(spot, key)?.is_some();
        if elements.is_some() || had_deadlines {
            return self.together(|store| {
                if let Some(elements) = elements {
                    planted!("server.replaced-elements-stay", (), store.drop_elements(&elements)?);
                }
                if had_deadlines {
                    store.set_field_deadline_at(spot, key, None)?;
                }
                store.put_record(db, spot, key, stored, deadline)
            });
        }
        self.put_record(db, spot, key, stored, deadline)
    }

    /// [`Store::put_stored`] of a collection that has lost elements and got none: as a removal does, it may take room that
    /// other writes may not. The deadline stays.
    pub(crate) fn put_shrunk(&mut self, db: usize, key: &[u8], stored: &[u8]) -> Result<()> {
        let place = self.spot(db, key).place;
        let has_grown = self.overlay.as_ref().is_some_and(|overlay| overlay.has_grown(place, key));
        self.put_stored(db, key, stored, NewDeadline::Keep)?;
        if let Some(overlay) = self.overlay.as_mut().filter(|_| !has_grown) {
            overlay.note_shrunk(place, key);
        }
        Ok(())
    }

    /// Does changes as a transaction, or as a part of the one that has begun.
    fn together(&mut self, change: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        if self.overlay.is_some() {
            return change(self);
        }
        self.begin();
        match change(self) {
            Ok(()) => self.commit(),
            Err(error) => {
                self.rollback();
                Err(error)
            }
        }
    }

    /// The elements of the collection at a key, expired or not, if it is one that has them in records of their own.
    fn elements_at(&self, spot: Spot, key: &[u8]) -> Result<Option<Elements>> {
        if !self.part(spot.partition).has_elements[spot.place] {
            return Ok(None);
        }
        let value = self.value(spot, key)?;
        let id = value.and_then(|value| collection_id(&value));
        let Spot { partition, place } = spot;
        let elements = id.map(|id| Elements { partition, place, id });
        // Of a damaged record nothing else goes.
        Ok(elements.filter(|elements| elements.are_home(self.partitions())))
    }

    /// Notes that elements of the collection at a key were changed, and its record was not.
    pub(crate) fn note_changed(&mut self, db: usize, key: &[u8]) {
        let partition = self.partition_of(key);
        self.changed(db, partition, key);
    }

    /// Sets a value, and its deadline.
    #[inline]
    fn put_record(
        &mut self,
        db: usize,
        spot: Spot,
        key: &[u8],
        stored: &[u8],
        deadline: NewDeadline,
    ) -> Result<()> {
        let old = self.deadline_at(spot, key)?;
        let is_due = old.is_some_and(|at| at <= self.now_ms);
        let tells_new = self.outbox.events.include(EventClass::New);
        let is_new = tells_new && (is_due || !self.is_stored(spot, key)?);
        let new = match deadline {
            // A deadline that is due belongs to an expired value, even if that could not be removed.
            NewDeadline::Keep => old.filter(|&at| at > self.now_ms),
            NewDeadline::Clear => None,
            NewDeadline::At(at) => Some(at),
        };
        if let Some(overlay) = &mut self.overlay {
            check_lengths(key, stored)?;
            overlay.put(spot.place, key, stored, new)?;
        } else if old == new && self.data_bytes.is_none() {
            let values = &self.databases[spot.place].values;
            values.put_with(key, stored, Durability::Deferred)?;
        } else {
            let database = &self.databases[spot.place];
            self.batch.put(&database.values, key, stored);
            if old != new {
                database.batch_deadline(&mut self.batch, key, new);
            }
            self.commit_batch(false)?;
            if old != new {
                self.note_deadline(spot, key, old, new);
            }
        }
        self.part_mut(spot.partition).encodings[spot.place].forget(key);
        let (usage, now_ms) = (self.usage, self.now_ms);
        self.part_mut(spot.partition).clocks.put((spot.place, key), usage, now_ms);
        if is_due {
            self.notify(EventClass::Expired, "expired", db, key);
        }
        if is_new {
            self.notify(EventClass::New, "new", db, key);
        }
        self.changed(db, spot.partition, key);
        Ok(())
    }

    /// The encoding of a value, if that does not follow from its bytes.
    pub(crate) fn encoding(&self, db: usize, key: &[u8]) -> Option<Encoding> {
        let spot = self.spot(db, key);
        self.part(spot.partition).encodings[spot.place].get(key)
    }

    /// Notes that the encoding of a value that was put does not follow from its bytes.
    pub(crate) fn note_encoding(&mut self, db: usize, key: &[u8], encoding: Encoding) {
        let spot = self.spot(db, key);
        self.part_mut(spot.partition).encodings[spot.place].note(key, encoding);
    }

    /// Removes `key`; returns whether it had a value.
    pub(crate) fn remove(&mut self, db: usize, key: &[u8]) -> Result<bool> {
        let exists = self.contains(db, key)?;
        if exists {
            self.erase(db, self.spot(db, key), key)?;
        }
        Ok(exists)
    }

    /// Sets when `key`, which has a value, expires.
    pub(crate) fn set_deadline(&mut self, db: usize, key: &[u8], new: Option<u64>) -> Result<()> {
        let spot = self.spot(db, key);
        if let Some(overlay) = &mut self.overlay {
            overlay.set_deadline(spot.place, key, new)?;
        } else {
            let old = self.stored_deadline(spot, key)?;
            self.databases[spot.place].batch_deadline(&mut self.batch, key, new);
            self.commit_batch(true)?;
            self.note_deadline(spot, key, old, new);
        }
        self.changed(db, spot.partition, key);
        Ok(())
    }

    /// Removes everything from some databases. All parts are here.
    pub(crate) fn flush(&mut self, dbs: std::ops::Range<usize>) -> Result<()> {
        for db in dbs.clone() {
            let place = self.place(db);
            self.touch_watched(db, |store, key| store.is_stored(store.spot_at(place, key), key))?;
            let all = PartitionSet::first(self.partitions());
            let mut looks = 0..FLUSHED_COUNT_MAX;
            let go_on = || looks.next().is_some();
            self.changes +=
                self.len_by(db, |values| walk::count(values, all, go_on).map(|(len, _)| len))?;
        }
        self.invalidate_all();
        for part in self.parts.iter_mut().flatten() {
            for db in dbs.clone() {
                self.has_ready |= part.waiters.touch_all(db);
            }
        }
        let places: Vec<_> = dbs.map(|db| self.place(db)).collect();
        for part in self.parts.iter_mut().flatten() {
            places.iter().for_each(|&place| part.encodings[place].clear());
        }
        if let Some(overlay) = &mut self.overlay {
            places.iter().for_each(|&place| overlay.clear(place));
            return Ok(());
        }
        let all = PartitionSet::first(self.partitions());
        let mut full = Vec::new();
        for place in places {
            let Database { values, expires, elements } = &self.databases[place];
            // The search ends at the first removed key that is still stored, without looking for others behind it.
            let is_empty =
                |space| Ok::<_, halite::Error>(walk::count(space, all, || false)? == (0, true));
            if !is_empty(values)? || !is_empty(expires)? || !is_empty(elements)? {
                full.push(place);
            }
        }
        if full.is_empty() {
            return Ok(());
        }
        full.iter().for_each(|&place| self.databases[place].batch_clear(&mut self.batch));
        self.commit_batch(false)?;
        for part in self.parts.iter_mut().flatten() {
            part.unsynced = true;
            full.iter().for_each(|&place| part.clear(place));
        }
        Ok(())
    }

    /// Exchanges two databases. All parts are here.
    pub(crate) fn swap(&mut self, a: usize, b: usize) -> Result<()> {
        let (place_a, place_b) = (self.place(a), self.place(b));
        // A key that has expired is gone already, whichever database it would come to.
        for (db, other) in [(a, b), (b, a)] {
            let parts = self.parts.iter().flatten();
            let watched: Vec<_> = parts.flat_map(|part| part.watches.keys(db)).collect();
            for key in watched {
                self.contains(db, &key)?;
                self.contains(other, &key)?;
            }
        }
        for db in [a, b] {
            self.touch_watched(db, |store, key| {
                let (a, b) = (store.spot_at(place_a, key), store.spot_at(place_b, key));
                Ok(store.is_stored(a, key)? || store.is_stored(b, key)?)
            })?;
        }
        for part in self.parts.iter_mut().flatten() {
            self.has_ready |= part.waiters.touch_all(a) | part.waiters.touch_all(b);
        }
        self.invalidate_all();
        let mut order = self.order_now().to_vec();
        order.swap(a, b);
        if let Some(overlay) = &mut self.overlay {
            overlay.reorder(order);
        } else {
            let record = order::encode(&order);
            self.opened().settings.put_with(order::KEY, record, Durability::Deferred)?;
            self.set_order(&order);
        }
        self.changes += 1;
        Ok(())
    }

    /// Begins a transaction: the changes until [`Store::commit`] are applied atomically.
    pub(crate) fn begin(&mut self) {
        debug_assert!(self.overlay.is_none(), "transactions do not nest");
        self.overlay = Some(Overlay::new(self.transaction_len_max));
        self.outbox.begin();
    }

    /// Whether a transaction has begun.
    pub(crate) fn in_transaction(&self) -> bool {
        self.overlay.is_some()
    }

    /// The transaction as it is now, to which [`Store::return_to`] returns; [`Store::release`] forgets it. There is one at
    /// a time.
    pub(crate) fn savepoint(&mut self) -> Option<Savepoint> {
        let mark = self.outbox.mark();
        Some(Savepoint(self.overlay.as_mut()?.save(), mark))
    }

    /// Lets the changes since a savepoint stay.
    pub(crate) fn release(&mut self, _: Savepoint) {
        if let Some(overlay) = &mut self.overlay {
            overlay.release();
        }
    }

    /// Discards the changes since a savepoint of the transaction.
    pub(crate) fn return_to(&mut self, savepoint: Savepoint) {
        if let Some(mut overlay) = self.overlay.take() {
            self.forget_residents(&overlay.touched);
            overlay.return_to(&savepoint.0);
            self.overlay = Some(overlay);
            self.outbox.return_to(savepoint.1);
        }
    }

    /// The texts of the libraries of functions.
    pub(crate) fn libraries(&self) -> Result<Vec<Vec<u8>>> {
        self.opened().libraries()
    }

    /// Removes libraries, and then adds some by name and text, together. They are durable afterwards.
    pub(crate) fn change_libraries(
        &mut self,
        removed: &[&str],
        added: &[(&str, &[u8])],
    ) -> Result<()> {
        let mut batch = self.db.batch();
        let settings = &self.opened().settings;
        for name in removed {
            batch.delete(settings, Opened::library_key(name));
        }
        for (name, text) in added {
            check_lengths(&Opened::library_key(name), text)?;
            batch.put(settings, Opened::library_key(name), text);
        }
        batch.commit_with(Durability::Immediate)
    }

    /// Discards the changes since [`Store::begin`].
    pub(crate) fn rollback(&mut self) {
        if let Some(overlay) = self.overlay.take() {
            self.forget_residents(&overlay.touched);
            self.outbox.rollback();
        }
    }

    /// Applies the changes since [`Store::begin`]; if that fails, none of them is applied. They are
    /// durable behind the next sync, if not at once.
    pub(crate) fn commit(&mut self) -> Result<()> {
        let Some(mut overlay) = self.overlay.take() else { return Ok(()) };
        let touched = std::mem::take(&mut overlay.touched);
        let committed = self.commit_overlay(overlay);
        match committed {
            Ok(true) => self.outbox.commit(),
            Ok(false) => self.outbox.commit_without_events(),
            Err(_) => {
                self.outbox.rollback();
                self.forget_residents(&touched);
            }
        }
        committed.map(drop)
    }

    /// Applies the changes; false: they were the removal of expired keys alone, which stay.
    fn commit_overlay(&mut self, mut overlay: Overlay) -> Result<bool> {
        let old_deadlines = self.old_deadlines(&overlay)?;
        let mut olds = old_deadlines.iter().copied();
        for (&place, changes) in &mut overlay.databases {
            let database = &self.databases[place];
            if changes.cleared {
                database.batch_clear(&mut self.batch);
            }
            for (key, change) in &mut changes.keys {
                match &mut change.value {
                    Value::Kept => {}
                    // The value is moved, so that it is in memory once: here or in the batch.
                    Value::Put(value) => {
                        self.batch.put(&database.values, key, std::mem::take(value));
                    }
                    Value::Removed => self.batch.delete(&database.values, key),
                }
                if olds.next().flatten() != change.deadline {
                    database.batch_deadline(&mut self.batch, key, change.deadline);
                }
            }
        }
        let changed_fields = match self.batch_field_deadlines(&overlay) {
            Ok(changed) => changed,
            Err(error) => {
                self.batch = self.db.batch();
                return Err(error);
            }
        };
        planted!("server.record-before-its-elements", self.commit_batch(true)?);
        let mut puts = false;
        for (&place, changes) in &mut overlay.elements {
            let elements = &self.databases[place].elements;
            for (key, value) in changes {
                match value {
                    Some(value) => {
                        // A note that elements go takes room, and makes more.
                        puts |= !elements::is_drop_note(key);
                        self.batch.put(elements, key, std::mem::take(value));
                    }
                    None => self.batch.delete(elements, key),
                }
            }
        }
        if let Some(order) = &overlay.order {
            let settings = &self.opened.get().expect("the databases are open").settings;
            self.batch.put(settings, order::KEY, order::encode(order));
        }
        if self.batch.is_empty() {
            return Ok(true);
        }
        let mut changes = overlay.databases.values().flat_map(|changes| changes.keys.values());
        puts |= changes.any(|change| matches!(change.value, Value::Put(_)) && !change.has_shrunk);
        match self.commit_batch(!puts && overlay.order.is_none()) {
            // Expired keys stay, and stay due, if they cannot be removed.
            Err(_) if !overlay.is_asked_for => return Ok(false),
            Err(error) => {
                // An engine may sync changes to several partitions with them: if that failed, the next sync tells.
                if !error.lacks_space() {
                    self.parts.iter_mut().flatten().for_each(|part| part.unsynced = true);
                }
                return Err(error);
            }
            Ok(()) => {}
        }
        let mut olds = old_deadlines.into_iter();
        let mut crowded = Vec::new();
        for (place, changes) in overlay.databases {
            if changes.cleared {
                for part in self.parts.iter_mut().flatten() {
                    part.unsynced = true;
                    part.clear(place);
                }
            }
            for (key, change) in changes.keys {
                let spot = self.spot_at(place, &key);
                self.part_mut(spot.partition).unsynced = true;
                let (old, new) = (olds.next().flatten(), change.deadline);
                if old != new {
                    let deadlines = &mut self.part_mut(spot.partition).deadlines[place];
                    deadlines.change(&key, old, new);
                    if deadlines.is_crowded() && !crowded.contains(&spot) {
                        crowded.push(spot);
                    }
                }
            }
        }
        // A slice is divided by its records, which are as the whole transaction has left them.
        crowded.into_iter().for_each(|spot| self.settle_deadlines(spot));
        self.note_field_deadlines(&changed_fields);
        for (place, changes) in overlay.elements {
            for key in changes.into_keys() {
                let partition = self.partition_of(&key);
                let part = self.part_mut(partition);
                part.unsynced = true;
                part.has_elements[place] = true;
            }
        }
        for of in overlay.dropped {
            self.part_mut(of.partition).dropped.push(of);
        }
        if let Some(order) = overlay.order {
            self.set_order(&order);
        }
        Ok(true)
    }

    /// Writes the batch, and gives its memory back if that is much. Bookkeeping (removals and deadlines) may take room
    /// that values may not.
    fn commit_batch(&mut self, is_bookkeeping: bool) -> Result<()> {
        let is_large = self.batch.byte_len() > BATCH_KEPT;
        let committed = commit(&mut self.batch, self.data_bytes.as_deref(), is_bookkeeping);
        if is_large || committed.is_err() {
            self.batch = self.db.batch();
        }
        committed
    }

    /// Removes up to `count_max` expired keys of the parts here; returns how many. Expired keys that cannot be removed
    /// now are hidden from all clients, and are tried again.
    pub(crate) fn expire_due(&mut self, count_max: usize) -> usize {
        if self.is_paused {
            return 0;
        }
        let (mut count, mut late) = (0, Vec::new());
        let is_watched = self.outbox.look_for_watchers();
        self.outbox.actor = 0;
        for part in self.parts.iter_mut().flatten() {
            for (place, database) in self.databases.iter().enumerate() {
                let left = count_max.saturating_sub(count + late.len());
                let records = Records::of_keys(database, part.number);
                // Records that cannot be read are reported by the commands on their keys.
                let found = part.deadlines[place].due(self.now_ms, left, &records);
                let due = found.unwrap_or_default();
                if due.is_empty() {
                    continue;
                }
                // More than the records of the keys may have to go.
                let has_elements =
                    planted!("server.expired-elements-stay", false, part.has_elements[place]);
                if has_elements || !part.field_deadlines[place].is_empty() {
                    late.extend(due.into_iter().map(|due| (place, due)));
                    continue;
                }
                for Due { key, .. } in &due {
                    self.batch.delete(&database.values, key);
                    self.batch.delete(&database.expires, key);
                }
                if commit(&mut self.batch, self.data_bytes.as_deref(), true).is_err() {
                    self.batch = self.db.batch();
                    due.iter().for_each(|due| part.deadlines[place].lower(&due.at, due.deadline));
                    continue;
                }
                part.unsynced = true;
                for Due { at, deadline, .. } in &due {
                    part.deadlines[place].change(at, Some(*deadline), None);
                }
                if let Some(db) = part.order.iter().position(|&at| at == place) {
                    for Due { key, .. } in &due {
                        part.watches.touch(db, key);
                        self.has_ready |= part.waiters.touch(db, key);
                        if is_watched {
                            tracking::invalidate(part, &mut self.outbox, key);
                        }
                        self.outbox.notify(EventClass::Expired, "expired", db, key);
                    }
                    self.changes += due.len() as u64;
                }
                count += due.len();
            }
        }
        for (place, Due { key, deadline, .. }) in late {
            let spot = self.spot_at(place, &key);
            let db = self.part(spot.partition).order.iter().position(|&at| at == place);
            let erased = self.together(|store| {
                if let Some(elements) = store.elements_at(spot, &key)? {
                    store.drop_elements(&elements)?;
                }
                store.erase_at(spot, &key)
            });
            if erased.is_ok() {
                count += 1;
                if let Some(db) = db {
                    self.changed(db, spot.partition, &key);
                    self.outbox.notify(EventClass::Expired, "expired", db, &key);
                }
            } else {
                self.part_mut(spot.partition).deadlines[place].lower(&key, deadline);
            }
        }
        self.expired += count as u64;
        count
    }

    /// Collects a little garbage of the parts here; returns whether there was any. An error of a part is reported by
    /// its next write.
    pub(crate) fn collect_ahead(&self) -> bool {
        let mut parts = self.parts.iter().flatten();
        parts.any(|part| self.db.collect_ahead(part.number).unwrap_or(false))
    }

    /// Makes all changes to the parts here durable, if there are any.
    pub(crate) fn sync(&mut self) -> Result<()> {
        for part in self.parts.iter_mut().flatten().filter(|part| part.unsynced) {
            planted!(
                "server.first-partition-synced-alone",
                if part.number == 0 {
                    self.db.sync_partition(part.number)?;
                },
                self.db.sync_partition(part.number)?
            );
            part.unsynced = false;
        }
        Ok(())
    }

    /// Waits for nothing any more: the changes so far may be durable or not.
    pub(crate) fn abandon_syncs(&mut self) {
        self.parts.iter_mut().flatten().for_each(|part| part.unsynced = false);
    }

    /// Gives all changes to the operating system: the end of the process does not take them.
    pub(crate) fn hand_over(&self) -> Result<()> {
        self.db.hand_over()
    }

    /// Makes all changes to all partitions durable.
    pub(crate) fn sync_all(&mut self) -> Result<()> {
        self.db.sync()?;
        self.parts.iter_mut().flatten().for_each(|part| part.unsynced = false);
        Ok(())
    }

    /// Whether the parts here have changes since the last [`Store::sync`].
    #[inline]
    pub(crate) fn is_unsynced(&self) -> bool {
        self.parts.iter().flatten().any(|part| part.unsynced)
    }

    /// Takes a snapshot of all keys, and returns it with its database.
    pub(crate) fn snapshot(&self) -> Result<(halite::Database, halite::Snapshot)> {
        Ok((self.db.clone(), self.db.take_snapshot()?))
    }

    /// The Halite database.
    pub(crate) fn database(&self) -> &halite::Database {
        &self.db
    }

    /// The statistics of the Halite database.
    pub(crate) fn stats(&self) -> halite::Stats {
        self.db.stats()
    }

    /// Has the bytes of all records counted where the engine does not know them, or no longer: there is a limit of them,
    /// or none.
    pub(crate) fn count_bytes(&mut self, data_bytes: &Arc<DataBytes>, is_limited: bool) {
        let counts = is_limited && self.stats().is_tiered;
        if self.data_bytes.is_some() && !counts {
            data_bytes.forget();
        }
        self.data_bytes = counts.then(|| Arc::clone(data_bytes));
    }

    /// The bytes of all records, if they are known.
    pub(crate) fn live_bytes(&self) -> Option<u64> {
        let Some(data_bytes) = &self.data_bytes else { return Some(self.stats().live_bytes) };
        if self.databases.is_empty() {
            return None;
        }
        let spaces = || self.databases.iter().flat_map(Database::spaces).collect();
        data_bytes.get(&self.db, spaces, &self.ending)
    }

    /// [`Store::stats`] of one partition.
    pub(crate) fn partition_stats(&self, partition: usize) -> halite::Stats {
        self.db.partition_stats(partition)
    }

    /// Bytes of the pool that a key of this length and its value take.
    pub(crate) fn space_of(&self, key_len: usize, value: &Stored) -> u64 {
        self.db.space_of(key_len, value.bytes().len())
    }

    /// The number of keys for which clients wait in the parts of `partitions`, which are here.
    pub(crate) fn waited_keys(&self, partitions: PartitionSet) -> usize {
        partitions.iter().map(|number| self.part(number).waiters.len()).sum()
    }

    /// The number of those keys of which clients get to know that they are gone.
    pub(crate) fn waited_keys_or_none(&self, partitions: PartitionSet) -> usize {
        partitions.iter().map(|number| self.part(number).waiters.len_or_none()).sum()
    }

    /// Counts two changes as one: those of a command that moves something.
    pub(crate) fn count_as_one_change(&mut self) {
        self.changes -= 1;
    }

    /// Bytes of memory that are kept for the next write.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.tagging.capacity()
    }

    /// Bytes of memory that is known of the keys in the parts of `partitions`, which are here, about: their deadlines, the
    /// orders of larger collections, the use of keys.
    pub(crate) fn state_bytes(&self, partitions: PartitionSet) -> usize {
        partitions.iter().map(|number| self.part(number).bytes()).sum()
    }

    /// The name of the engine below.
    pub(crate) fn engine_name(&self) -> &'static str {
        self.db.engine_name()
    }

    /// The Halite database's folder.
    pub(crate) fn path(&self) -> &std::path::Path {
        self.db.path()
    }

    /// The number of keys that expire in the parts of `partitions`, which are here, and the sum of
    /// their deadlines.
    pub(crate) fn expiring(&self, db: usize, partitions: PartitionSet) -> (usize, u128) {
        partitions.iter().fold((0, 0), |(len, sum), number| {
            let part = self.part(number);
            let deadlines = &part.deadlines[part.order[db]];
            (len + deadlines.len(), sum + deadlines.sum())
        })
    }

    /// Watches `key`: any change to it from now on shows in [`Store::has_changed`].
    pub(crate) fn watch(&mut self, db: usize, key: &[u8]) -> Result<Watch> {
        // A key that has expired by now is gone already, and its removal no change.
        self.contains(db, key)?;
        let partition = self.partition_of(key);
        Ok(self.part_mut(partition).watches.add(db, key))
    }

    /// Ends a watch. If its part is elsewhere, the watch comes back.
    pub(crate) fn unwatch(&mut self, watch: Watch) -> Option<Watch> {
        let partition = self.partition_of(&watch.key);
        match &mut self.parts[partition] {
            Some(part) => {
                part.watches.remove(&watch);
                None
            }
            None => Some(watch),
        }
    }

    /// Whether the key of `watch` was changed, or has expired, since the watch began.
    pub(crate) fn has_changed(&mut self, watch: &Watch) -> Result<bool> {
        self.contains(watch.db, &watch.key)?;
        if self.is_paused && self.is_due(self.spot(watch.db, &watch.key), &watch.key)? {
            return Ok(true);
        }
        Ok(self.part(self.partition_of(&watch.key)).watches.has_changed(watch))
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

    #[inline]
    fn place(&self, db: usize) -> usize {
        self.order_now()[db]
    }

    fn order_now(&self) -> &[usize] {
        let changed = self.overlay.as_ref().and_then(|overlay| overlay.order.as_ref());
        changed.unwrap_or_else(|| {
            let any = self.parts.iter().flatten().next();
            &any.expect("a command runs where some part is").order
        })
    }

    /// Sets the order in all parts.
    fn set_order(&mut self, order: &[usize]) {
        for part in self.parts.iter_mut().flatten() {
            part.order.copy_from_slice(order);
            // The record of the order is in one of the partitions.
            part.unsynced = true;
        }
    }

    /// The stored value of a key, expired or not.
    #[inline]
    fn value(&self, spot: Spot, key: &[u8]) -> Result<Option<Bytes>> {
        let changes = self.overlay.as_ref().and_then(|overlay| overlay.databases.get(&spot.place));
        if let Some(changes) = changes {
            match changes.keys.get(key).map(|change| &change.value) {
                Some(Value::Put(value)) => return Ok(Some(Bytes::from(&value[..]))),
                Some(Value::Removed) => return Ok(None),
                None if changes.cleared => return Ok(None),
                None | Some(Value::Kept) => {}
            }
        }
        self.databases[spot.place].values.get(key)
    }

    /// Whether a key has a value and has not expired.
    fn has_value(&self, spot: Spot, key: &[u8]) -> Result<bool> {
        Ok(!self.is_due(spot, key)? && self.value(spot, key)?.is_some())
    }

    /// Whether a key has a value, expired or not: a watch that began with an absent key has to see that.
    fn is_stored(&self, spot: Spot, key: &[u8]) -> Result<bool> {
        Ok(self.value(spot, key)?.is_some())
    }

    #[inline]
    fn deadline_at(&self, spot: Spot, key: &[u8]) -> Result<Option<u64>> {
        match self.changed_deadline(spot, key) {
            Some(deadline) => Ok(deadline),
            None => self.stored_deadline(spot, key),
        }
    }

    /// The deadline that the transaction has given a key, if it has changed it.
    #[inline]
    fn changed_deadline(&self, spot: Spot, key: &[u8]) -> Option<Option<u64>> {
        let changes = self.overlay.as_ref()?.databases.get(&spot.place)?;
        match changes.keys.get(key) {
            Some(change) => Some(change.deadline),
            None => changes.cleared.then_some(None),
        }
    }

    /// The deadline of a key, outside of the transaction.
    #[inline]
    fn stored_deadline(&self, Spot { partition, place }: Spot, key: &[u8]) -> Result<Option<u64>> {
        match self.part(partition).deadlines[place].is_empty() {
            true => Ok(None),
            false => Records::of_keys(&self.databases[place], partition).get(key),
        }
    }

    /// For each key that a transaction has changed, in order, the deadline that it had before.
    fn old_deadlines(&self, overlay: &Overlay) -> Result<Vec<Option<u64>>> {
        let mut olds = Vec::new();
        for (&place, changes) in &overlay.databases {
            for key in changes.keys.keys() {
                olds.push(match changes.cleared {
                    true => None,
                    false => self.stored_deadline(self.spot_at(place, key), key)?,
                });
            }
        }
        Ok(olds)
    }

    /// Notes that the stored deadline of a key was changed.
    fn note_deadline(&mut self, spot: Spot, key: &[u8], old: Option<u64>, new: Option<u64>) {
        if old == new {
            return;
        }
        self.part_mut(spot.partition).deadlines[spot.place].change(key, old, new);
        self.settle_deadlines(spot);
    }

    fn settle_deadlines(&mut self, Spot { partition, place }: Spot) {
        let part = self.parts[partition].as_mut().expect("its part is here");
        part.deadlines[place].settle(&Records::of_keys(&self.databases[place], partition));
    }

    #[inline]
    fn is_due(&self, spot: Spot, key: &[u8]) -> Result<bool> {
        let deadline = match self.changed_deadline(spot, key) {
            Some(deadline) => deadline,
            None => {
                let deadlines = &self.part(spot.partition).deadlines[spot.place];
                if !deadlines.may_be_due(key, self.now_ms) {
                    return Ok(false);
                }
                self.stored_deadline(spot, key)?
            }
        };
        Ok(deadline.is_some_and(|deadline| deadline <= self.now_ms))
    }

    /// Removes a key that is due. If it cannot be removed, it stays, and stays due: the next write tells why.
    fn expire(&mut self, db: usize, spot: Spot, key: &[u8]) {
        if self.is_paused {
            return;
        }
        if self.overlay.is_some() {
            if let Ok(Some(elements)) = self.elements_at(spot, key)
                && self.drop_elements(&elements).is_err()
            {
                return;
            }
            if self.set_field_deadline_at(spot, key, None).is_err() {
                return;
            }
            if let Some(overlay) = &mut self.overlay {
                overlay.expire(spot.place, key);
            }
            self.changed(db, spot.partition, key);
            self.note_expired(db, key);
            return;
        }
        match self.erase(db, spot, key) {
            Ok(()) => self.note_expired(db, key),
            Err(_) => self.part_mut(spot.partition).watches.touch(db, key),
        }
    }

    fn note_expired(&mut self, db: usize, key: &[u8]) {
        self.expired += 1;
        self.notify(EventClass::Expired, "expired", db, key);
    }

    /// Removes a key and its deadline.
    fn erase(&mut self, db: usize, spot: Spot, key: &[u8]) -> Result<()> {
        match self.elements_at(spot, key)? {
            Some(elements) => self.together(|store| {
                store.drop_elements(&elements)?;
                store.erase_at(spot, key)
            })?,
            None if self.field_deadline_at(spot, key)?.is_some() => {
                self.together(|store| store.erase_at(spot, key))?;
            }
            None => self.erase_at(spot, key)?,
        }
        let part = self.part_mut(spot.partition);
        part.encodings[spot.place].forget(key);
        part.clocks.forget(spot.place, key);
        self.changed(db, spot.partition, key);
        Ok(())
    }

    /// Removes the record of a key, and its deadline.
    fn erase_at(&mut self, spot: Spot, key: &[u8]) -> Result<()> {
        let place = spot.place;
        if let Some(overlay) = &mut self.overlay {
            overlay.remove(place, key)?;
            self.set_field_deadline_at(spot, key, None)?;
        } else {
            let old = self.stored_deadline(spot, key)?;
            let database = &self.databases[place];
            if old.is_some() || self.data_bytes.is_some() {
                self.batch.delete(&database.values, key);
                if old.is_some() {
                    self.batch.delete(&database.expires, key);
                }
                self.commit_batch(true)?;
                self.note_deadline(spot, key, old, None);
            } else {
                database.values.delete_with(key, Durability::Deferred)?;
            }
        }
        Ok(())
    }

    /// Notes that a key was changed. A transaction that fails in the end has made no change, and may still abort others
    /// that watch its keys: a client that retries loses no write.
    #[inline]
    fn changed(&mut self, db: usize, partition: usize, key: &[u8]) {
        self.changes += 1;
        let is_stored = self.overlay.is_none();
        let part = self.part_mut(partition);
        part.unsynced |= is_stored;
        part.watches.touch(db, key);
        let is_waited = part.waiters.touch(db, key);
        self.has_ready |= is_waited;
        if self.outbox.is_watched() {
            self.invalidate(partition, key);
        }
    }

    /// Notes a change to the watched keys of a database for which `is_affected`.
    fn touch_watched(
        &mut self,
        db: usize,
        is_affected: impl Fn(&Self, &[u8]) -> Result<bool>,
    ) -> Result<()> {
        for number in self.here().iter() {
            for key in self.part(number).watches.keys(db) {
                if is_affected(self, &key)? {
                    self.part_mut(number).watches.touch(db, &key);
                }
            }
        }
        Ok(())
    }
}

/// Commits a batch, and notes what it makes the records grow if that is asked for.
fn commit(
    batch: &mut halite::Batch,
    data_bytes: Option<&DataBytes>,
    is_bookkeeping: bool,
) -> Result<()> {
    let growth = data_bytes.map(|_| Growth::of(batch));
    match is_bookkeeping {
        true => batch.commit_bookkeeping_and_clear(Durability::Deferred)?,
        false => batch.commit_and_clear(Durability::Deferred)?,
    }
    if let (Some(data_bytes), Some(growth)) = (data_bytes, growth) {
        data_bytes.add(&growth);
    }
    Ok(())
}

/// Refuses lengths in a transaction that the engine would refuse at its end.
fn check_lengths(key: &[u8], stored: &[u8]) -> Result<()> {
    if key.len() > KEY_LEN_MAX {
        Err(EngineError::KeyTooLong { len: key.len() }.into())
    } else if stored.len() > VALUE_LEN_MAX {
        Err(EngineError::ValueTooLong { len: stored.len() }.into())
    } else {
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests;

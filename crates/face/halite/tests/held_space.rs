//! Space that snapshots hold: the versions that they can see, and none that was written and replaced after they began.
//! So a small pool with few records takes any number of overwrites under them, and a full store reports which reader
//! holds its space.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use halite::{
    Database, Durability, EngineError, Error, KeySpace, Reader, Snapshot, TransactionOptions,
};

const POOL_BYTES: u64 = 16 << 20;

/// Snapshots that are taken while always one or two are open: each sees the pool overwritten.
const SNAPSHOTS: u64 = 8;

/// How often a pool is overwritten.
const OVERWRITES: u64 = 4;

/// The kinds of changes of a key space in the course of the writes.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Keys are overwritten.
    Put,
    /// Keys are put and deleted in turns.
    PutAndDelete,
    /// Keys that never were there before are put, and the oldest deleted.
    Queue,
}

/// A key space, and the model of its contents.
struct Store {
    db: Database,
    space: KeySpace,
    model: BTreeMap<u64, Arc<[u8]>>,
    random: u64,
}

impl Store {
    fn open(engine: &str) -> Self {
        let builder = Database::builder().engine(engine).max_size(POOL_BYTES);
        let db = builder.in_memory().unwrap();
        let space = db.key_space("space").unwrap();
        Self { db, space, model: BTreeMap::new(), random: 1 }
    }

    /// A store of which so many hundredths of the pool are alive, in values of `len` bytes; and how many keys it has.
    fn filled(percent: u64, len: usize) -> (Self, u64) {
        let mut store = Self::open("indexlog");
        let keys = POOL_BYTES * percent / 100 / (len as u64 + 64);
        (0..keys).for_each(|key| store.put(key, len, key));
        (store, keys)
    }

    /// A number below `end`.
    fn random(&mut self, end: u64) -> u64 {
        self.random = self.random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (self.random >> 33) % end
    }

    fn put(&mut self, key: u64, len: usize, number: u64) {
        let value = value(len, number);
        self.space.put(key.to_be_bytes(), &value).unwrap_or_else(|error| {
            panic!("write {number}: {error}; {:?}", self.db.stats());
        });
        self.model.insert(key, value);
    }

    fn delete(&mut self, key: u64, number: u64) {
        self.space.delete(key.to_be_bytes()).unwrap_or_else(|error| {
            panic!("write {number}: {error}; {:?}", self.db.stats());
        });
        self.model.remove(&key);
    }

    /// A write of `kind` in a space of so many keys.
    fn write(&mut self, kind: Kind, keys: u64, len: usize, number: u64) {
        // The step is prime to the number of keys, so all keys come, in no order.
        let key = number * 7_919 % keys;
        match kind {
            Kind::Put => self.put(key, len, number),
            Kind::PutAndDelete if self.model.contains_key(&key) => self.delete(key, number),
            Kind::PutAndDelete => self.put(key, len, number),
            Kind::Queue => {
                self.put(number, len, number);
                if let Some(oldest) = number.checked_sub(keys) {
                    self.delete(oldest, number);
                }
            }
        }
    }

    fn snapshot(&self) -> (Snapshot, BTreeMap<u64, Arc<[u8]>>) {
        (self.db.take_snapshot().unwrap(), self.model.clone())
    }
}

fn value(len: usize, number: u64) -> Arc<[u8]> {
    number.to_le_bytes().into_iter().cycle().take(len).collect()
}

/// Checks that a snapshot has the records from when it was taken.
fn check(snapshot: &Snapshot, model: &BTreeMap<u64, Arc<[u8]>>) {
    let space = snapshot.find_key_space("space").unwrap();
    let mut pairs = space.iter().unwrap();
    for (key, value) in model {
        let (found, is) = pairs.next().unwrap().unwrap();
        assert_eq!(found[..], key.to_be_bytes());
        assert!(is[..] == value[..], "the value of {key}");
    }
    assert!(pairs.next().is_none());
}

/// Overwrites a pool so many times while snapshots come and go.
fn overwrite_under_snapshots(engine: &str, kind: Kind, len: usize, times: u64) {
    println!("{engine}, {kind:?}: values of {len} bytes");
    let mut store = Store::open(engine);
    let (keys, writes) = ((200_000 / len as u64).max(4), times * POOL_BYTES / (len as u64 + 64));
    (0..keys).for_each(|key| store.write(kind, keys, len, key));
    let mut older = store.snapshot();
    for number in keys..writes {
        store.write(kind, keys, len, number);
        if number % (writes / SNAPSHOTS) == 0 {
            let newer = store.snapshot();
            check(&older.0, &older.1);
            older = newer;
        }
    }
    check(&older.0, &older.1);
}

/// The writes to a store of 200 KiB in a small pool: records, and values in slots and in blocks of their own.
fn overwrite_all(engine: &str) {
    overwrite_under_snapshots(engine, Kind::Put, 300, 20);
    overwrite_under_snapshots(engine, Kind::PutAndDelete, 300, 8);
    overwrite_under_snapshots(engine, Kind::Queue, 1_000, 8);
    overwrite_under_snapshots(engine, Kind::Put, 5_000, 20);
    overwrite_under_snapshots(engine, Kind::PutAndDelete, 100_000, 20);
}

#[test]
fn a_pool_of_indexlog_is_overwritten_any_number_of_times_under_snapshots() {
    overwrite_all("indexlog");
}

#[test]
fn a_pool_of_lsm_is_overwritten_any_number_of_times_under_snapshots() {
    overwrite_all("lsm");
}

/// Under a snapshot, a full pool is emptied and filled again: the error and the statistics report the space that the
/// snapshot holds.
#[test]
fn a_full_store_says_what_holds_its_space() {
    let mut store = Store::open("indexlog");
    (0..10).for_each(|key| store.put(key, 1_000_000, key));
    let stats = store.db.stats();
    assert_eq!((stats.held_bytes, stats.oldest_reader), (0, None));

    let snapshot = store.db.take_snapshot().unwrap();
    let put = |key: u64| store.space.put(key.to_be_bytes(), vec![9; 1_000_000]);
    let error = (0..10).find_map(|key| put(key).err()).unwrap();
    let Some(EngineError::Full { held, holder: Some(holder), .. }) = error.engine() else {
        panic!("{error}")
    };
    assert!(*held >= 1_000_000 && holder.reader == Reader::Snapshot, "{error}");
    assert!(error.to_string().contains("a snapshot that began"), "{error}");
    let stats = store.db.stats();
    assert!(stats.held_bytes >= *held && stats.oldest_reader.is_some(), "{stats:?}");

    let transaction = store.db.begin(TransactionOptions::default()).unwrap();
    drop(snapshot);
    let oldest = store.db.stats().oldest_reader.unwrap();
    assert_eq!(oldest.reader, Reader::Transaction);
    drop(transaction);
    (0..10).for_each(|key| put(key).unwrap());
    let stats = store.db.stats();
    assert_eq!((stats.held_bytes, stats.oldest_reader), (0, None));
}

/// Values of `len` bytes under random keys are overwritten by transactions alone, each of so many of them, of which so
/// many are open at once: so a snapshot is always under way that is as young as can be.
fn overwrite_by_transactions(percent: u64, len: usize, writes: u64, open: usize) {
    println!("{percent} of 100 alive, {open} transactions of {writes} values of {len} bytes");
    let (mut store, keys) = Store::filled(percent, len);
    let mut pending = VecDeque::new();
    for number in 0..OVERWRITES * POOL_BYTES / (len as u64 + 64) / writes {
        let mut transaction = store.db.begin(TransactionOptions::default()).unwrap();
        let mut written = BTreeMap::new();
        for _ in 0..writes {
            let (key, value) = (store.random(keys), value(len, number));
            transaction.put(&store.space, key.to_be_bytes(), &value).unwrap();
            written.insert(key, value);
        }
        pending.push_back((transaction, written));
        if pending.len() < open {
            continue;
        }
        let Some((transaction, written)) = pending.pop_front() else { continue };
        match transaction.commit(Durability::Deferred) {
            Ok(()) => store.model.extend(written),
            Err(Error::Engine(EngineError::Conflict { .. })) if open > 1 => {}
            Err(error) => panic!("transaction {number}: {error}; {:?}", store.db.stats()),
        }
    }
    drop(pending);
    let now = store.snapshot();
    check(&now.0, &now.1);
}

#[test]
fn transactions_alone_overwrite_a_pool_any_number_of_times() {
    overwrite_by_transactions(30, 300, 1, 1);
    overwrite_by_transactions(50, 1_000, 4, 1);
    overwrite_by_transactions(40, 5_000, 3, 1);
    // Each needs more room than is left free.
    overwrite_by_transactions(50, 1_000, 1_500, 1);
}

#[test]
fn transactions_that_overlap_overwrite_a_pool_any_number_of_times() {
    overwrite_by_transactions(30, 300, 1, 4);
    overwrite_by_transactions(50, 1_000, 4, 4);
    overwrite_by_transactions(40, 5_000, 3, 4);
}

/// Snapshots overlap, so that one is always open, and each ends after few writes.
#[test]
fn a_pool_is_overwritten_any_number_of_times_under_short_snapshots() {
    let short = [(30, 300, 3, 100), (50, 1_000, 3, 30), (50, 1_000, 30, 3)];
    // Each lasts for a tenth of the pool's capacity in writes.
    let longer = [(30, 1_000, 2, 500), (30, 5_000, 2, 100)];
    for (percent, len, open, writes) in short.into_iter().chain(longer) {
        println!("{percent} of 100 alive, {open} snapshots, each {writes} writes after the other");
        let (mut store, keys) = Store::filled(percent, len);
        let mut snapshots = VecDeque::new();
        for number in 0..OVERWRITES * POOL_BYTES / (len as u64 + 64) {
            if number % writes == 0 {
                // The contents of only a few are noted, since that takes longer than the snapshot lasts.
                let model = (store.random(100) == 0).then(|| store.model.clone());
                snapshots.push_back((store.db.take_snapshot().unwrap(), model));
            }
            if snapshots.len() > open {
                let ended = snapshots.pop_front();
                let noted = ended.and_then(|(snapshot, model)| Some((snapshot, model?)));
                noted.iter().for_each(|(snapshot, model)| check(snapshot, model));
            }
            let key = store.random(keys);
            store.put(key, len, number);
        }
    }
}

/// The versions that a lasting snapshot shows stay, and are not moved again and again. When it ends, all of its space
/// is freed.
#[test]
fn a_snapshot_that_lasts_is_named_and_costs_no_more_than_it_shows() {
    let (mut store, keys) = Store::filled(40, 1_000);
    let begun = store.db.stats();
    let snapshot = store.snapshot();
    let full = (0..).find_map(|number| {
        let key = store.random(keys);
        let value = value(1_000, number);
        let refused = store.space.put(key.to_be_bytes(), &value).err();
        if refused.is_none() {
            store.model.insert(key, value);
        }
        refused
    });
    let Some(Error::Engine(EngineError::Full { held, holder: Some(holder), .. })) = &full else {
        panic!("{full:?}")
    };
    assert!(*held > 1 << 20 && holder.reader == Reader::Snapshot, "{full:?}");
    let stats = store.db.stats();
    assert!(stats.held_bytes > 1 << 20, "{stats:?}");
    let moved = stats.collected_bytes_moved - begun.collected_bytes_moved;
    println!("{begun:?} {stats:?}");
    assert!(moved <= 4 * begun.live_bytes, "{moved} bytes of {} were moved", begun.live_bytes);

    for _ in 0..1_000 {
        let key = store.random(keys);
        assert!(store.space.put(key.to_be_bytes(), [0; 3_000]).is_err());
    }
    let moved = store.db.stats().collected_bytes_moved - stats.collected_bytes_moved;
    assert!(moved <= 256 << 10, "{moved} bytes were moved for what was refused");

    check(&snapshot.0, &snapshot.1);
    drop(snapshot);
    for number in 0..OVERWRITES * POOL_BYTES / 1_064 {
        let key = store.random(keys);
        store.put(key, 1_000, number);
    }
    let now = store.snapshot();
    check(&now.0, &now.1);
}

/// A twentieth of the keys in a lasting snapshot is overwritten again and again: that goes on for ever, and the bytes
/// moved are at most a few times those written, while any other snapshots come and go.
#[test]
fn few_keys_are_overwritten_any_number_of_times_under_a_snapshot_that_lasts() {
    for others in [0, 3] {
        println!("{others} other snapshots");
        let (mut store, keys) = Store::filled(40, 1_000);
        let lasting = store.snapshot();
        let begun = store.db.stats();
        let mut snapshots = VecDeque::new();
        for number in 0..OVERWRITES * POOL_BYTES / 1_064 {
            if others > 0 && number % 50 == 0 {
                snapshots.push_back(store.db.take_snapshot().unwrap());
                snapshots.drain(..snapshots.len().saturating_sub(others));
            }
            let key = store.random(keys / 20);
            store.put(key, 1_000, number);
        }
        let stats = store.db.stats();
        let moved = stats.collected_bytes_moved - begun.collected_bytes_moved;
        let written = stats.user_bytes_written - begun.user_bytes_written;
        assert!(moved < 4 * written, "{moved} bytes were moved for {written}");
        check(&lasting.0, &lasting.1);
    }
}

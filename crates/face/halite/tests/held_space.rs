//! Space that snapshots hold: what they can see, and nothing that was written and replaced after they began. So a small
//! pool with little in it takes any number of overwrites under them, and a store that is full says what holds its space.

use std::collections::BTreeMap;
use std::sync::Arc;

use halite::{Database, Error, KeySpace, Reader, Snapshot, TransactionOptions};

const POOL_BYTES: u64 = 16 << 20;

/// Snapshots that are taken while always one or two are open: each sees the pool overwritten.
const SNAPSHOTS: u64 = 8;

/// What changes a key space in the course of the writes.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Keys are overwritten.
    Put,
    /// Keys are put and deleted in turns.
    PutAndDelete,
    /// Keys that never were there before are put, and the oldest deleted.
    Queue,
}

/// A key space, and what has to be in it.
struct Store {
    db: Database,
    space: KeySpace,
    model: BTreeMap<u64, Arc<[u8]>>,
}

impl Store {
    fn open(engine: &str) -> Self {
        let builder = Database::builder().engine(engine).max_size(POOL_BYTES);
        let db = builder.in_memory().unwrap();
        let space = db.key_space("space").unwrap();
        Self { db, space, model: BTreeMap::new() }
    }

    fn put(&mut self, key: u64, len: usize, number: u64) {
        let fill = number.to_le_bytes();
        let value: Arc<[u8]> = fill.into_iter().cycle().take(len).collect();
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
        // Of a step that is prime to the number of keys, in no order.
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

/// Checks that a snapshot has what was there when it was taken.
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

/// What a store of 200 KiB in a small pool goes through: records, and values in slots and in blocks of their own.
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

/// Of a snapshot of a full pool that is emptied and filled again, the error and the statistics say what it holds.
#[test]
fn a_full_store_says_what_holds_its_space() {
    let mut store = Store::open("indexlog");
    (0..10).for_each(|key| store.put(key, 1_000_000, key));
    let stats = store.db.stats();
    assert_eq!((stats.held_bytes, stats.oldest_reader), (0, None));

    let snapshot = store.db.take_snapshot().unwrap();
    let put = |key: u64| store.space.put(key.to_be_bytes(), vec![9; 1_000_000]);
    let error = (0..10).find_map(|key| put(key).err()).unwrap();
    let Error::Full { held, holder: Some(holder), .. } = &error else { panic!("{error}") };
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

//! Data that is in the levels and in memory, as it was flushed or read: every answer is that of the model, while
//! memtables are merged, flushed and given back under it, and after the store was opened again.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use halite_contract::{
    Direction, Durability, Engine, EngineOptions, KeyRange, KeySpaceId, Model, Op, Snapshot,
};
use halite_disk::{Disk, DiskModel};
use halite_lsm::{Durable, Lsm, LsmOptions};
use halite_pmem::{Domain, Medium, PoolOptions};
use proptest::prelude::*;

/// Room for the cache of flushed data, but not for long: a memtable has a zone of 2 MiB.
const CAPACITY: u64 = 24 << 20;

const ZONE: u64 = 2 << 20;

/// More than are removed singly where a range is.
const KEYS: u64 = 400;

#[derive(Debug, Clone)]
enum Step {
    Put(u64),
    PutAll,
    Get(u64),
    Delete(u64),
    DeleteRange(u64, u64),
    Collect,
    Snapshot,
    Forget,
    Check,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..KEYS).prop_map(Step::Put),
        1 => Just(Step::PutAll),
        8 => (0..KEYS).prop_map(Step::Get),
        2 => (0..KEYS).prop_map(Step::Delete),
        1 => (0..KEYS / 8, KEYS / 2..KEYS).prop_map(|(start, end)| Step::DeleteRange(start, end)),
        12 => Just(Step::Collect),
        1 => Just(Step::Snapshot),
        1 => Just(Step::Forget),
        1 => Just(Step::Check),
        1 => Just(Step::Reopen),
    ]
}

/// Where rows lie that were read from the levels.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Rows {
    /// In free zones of the pool, where blocks that are read go on to at once.
    FreeZones,
    /// In DRAM: memtables have a log.
    WithLog,
    /// In DRAM: the pool lies in a page cache.
    InPageCache,
}

impl Rows {
    const ALL: [Self; 3] = [Self::FreeZones, Self::WithLog, Self::InPageCache];

    fn lsm_options(self) -> LsmOptions {
        // A little more than rows need in DRAM.
        let (durable, cache_bytes) = match self {
            Self::FreeZones => (Durable::Pool, 0),
            Self::WithLog => (Durable::Log, 18 * ZONE),
            Self::InPageCache => (Durable::Pool, 18 * ZONE),
        };
        LsmOptions {
            durable,
            cache_bytes,
            global_index_bytes: Some(3 * ZONE),
            ..LsmOptions::default()
        }
    }
}

fn options(rows: Rows) -> EngineOptions {
    let domain = if rows == Rows::InPageCache { Domain::PageCache } else { Domain::Memory };
    let medium = Medium::new(domain, CAPACITY).unwrap();
    let mut pool_options = PoolOptions::default();
    pool_options.size_max = CAPACITY;
    pool_options.medium = Some(medium.clone());
    let lsm = LsmOptions { memtable_bytes: Some(4 << 10), ..rows.lsm_options() };
    EngineOptions {
        pool_options,
        disk: Some(Disk::model(&DiskModel::of(medium.machine()))),
        own: lsm.into(),
        ..EngineOptions::new("pool")
    }
}

fn open(options: &EngineOptions) -> Arc<dyn Engine> {
    Arc::new(Lsm::open(options).unwrap())
}

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// An item of a store, and the same of its model.
type Both<T> = (T, T);

struct Pair {
    engines: Both<Arc<dyn Engine>>,
    spaces: Both<KeySpaceId>,
    snapshots: Vec<Both<Arc<dyn Snapshot>>>,
}

impl Pair {
    fn write<'a>(&self, op: impl Fn(KeySpaceId) -> Op<'a>) {
        self.engines.0.write(&[op(self.spaces.0)], Durability::Immediate).unwrap();
        self.engines.1.write(&[op(self.spaces.1)], Durability::Immediate).unwrap();
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let (store, model) = &self.engines;
        for number in 0..KEYS {
            let key = key(number);
            let found = store.get(self.spaces.0, &key).unwrap();
            prop_assert_eq!(found, model.get(self.spaces.1, &key).unwrap(), "{}", number);
            for (at, model_at) in &self.snapshots {
                let found = at.get(self.spaces.0, &key).unwrap();
                prop_assert_eq!(found, model_at.get(self.spaces.1, &key).unwrap(), "{}", number);
            }
        }
        let scan = |engine: &Arc<dyn Engine>, space| -> Vec<_> {
            let scan = engine.scan(space, KeyRange::all(), Direction::Forward).unwrap();
            scan.map(Result::unwrap).collect()
        };
        prop_assert_eq!(scan(store, self.spaces.0), scan(model, self.spaces.1));
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_was_flushed_answers_like_the_levels(
        steps in proptest::collection::vec(step(), 1..600),
        rows in prop::sample::select(&Rows::ALL[..]),
    ) {
        let options = options(rows);
        let engines: Both<Arc<dyn Engine>> = (open(&options), Arc::new(Model::new()));
        let spaces = (engines.0.key_space("all").unwrap(), engines.1.key_space("all").unwrap());
        let mut pair = Pair { engines, spaces, snapshots: Vec::new() };
        for (nth, step) in steps.into_iter().enumerate() {
            match step {
                Step::Put(number) => {
                    let (key, value) = (key(number), [nth as u8; 600]);
                    pair.write(|space| Op::Put { space, key: &key, value: &value });
                }
                Step::PutAll => {
                    for number in 0..KEYS {
                        let (key, value) = (key(number), [nth as u8; 40]);
                        pair.write(|space| Op::Put { space, key: &key, value: &value });
                    }
                }
                Step::Get(number) => {
                    let (store, model) = &pair.engines;
                    store.prefetch(0, pair.spaces.0, &[&key(number), &key(number / 2)]);
                    let found = store.get(pair.spaces.0, &key(number)).unwrap();
                    prop_assert_eq!(found, model.get(pair.spaces.1, &key(number)).unwrap());
                }
                Step::Delete(number) => {
                    let key = key(number);
                    pair.write(|space| Op::Delete { space, key: &key });
                }
                Step::DeleteRange(start, end) => {
                    let (start, end) = (key(start), key(end));
                    pair.write(|space| Op::DeleteRange { space, start: &start, end: Some(&end) });
                }
                Step::Collect => {
                    pair.engines.0.collect_ahead(0).unwrap();
                }
                Step::Snapshot if pair.snapshots.len() < 3 => {
                    let both = (pair.engines.0.snapshot().unwrap(), pair.engines.1.snapshot().unwrap());
                    pair.snapshots.push(both);
                }
                Step::Forget if !pair.snapshots.is_empty() => drop(pair.snapshots.remove(0)),
                Step::Check => pair.check()?,
                Step::Reopen => {
                    pair.snapshots.clear();
                    let Pair { engines: (store, model), .. } = pair;
                    drop(store);
                    let store = open(&options);
                    let spaces = (store.key_space("all").unwrap(), pair.spaces.1);
                    pair = Pair { engines: (store, model), spaces, snapshots: Vec::new() };
                    pair.check()?;
                }
                Step::Snapshot | Step::Forget => {}
            }
        }
        pair.check()?;
    }
}

/// Bytes of a value: some thousand of them are more than the pool has.
const LONG: usize = 2000;

#[test]
fn no_thread_reads_what_was_overwritten_before_it_asked() {
    // A pool in memory has no page cache.
    [Rows::FreeZones, Rows::WithLog].into_iter().for_each(read_what_is_overwritten);
}

fn read_what_is_overwritten(rows: Rows) {
    let mut pool_options = PoolOptions::default();
    pool_options.in_memory = true;
    (pool_options.size_initial, pool_options.size_max) = (CAPACITY, CAPACITY);
    let lsm = LsmOptions { memtable_bytes: Some(1 << 20), ..rows.lsm_options() };
    let store =
        Lsm::open(&EngineOptions { pool_options, own: lsm.into(), ..EngineOptions::new("pool") });
    let store = store.unwrap();
    let space = store.key_space("all").unwrap();
    const THREADS: u64 = 4;
    const KEYS: u64 = 8000;
    // The value of each key that was acknowledged last.
    let counts: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let write = |number: u64| {
        let count = counts[number as usize].load(Relaxed) + 1;
        let mut value = count.to_le_bytes().to_vec();
        value.resize(LONG, number as u8);
        let key = key(number);
        let op = Op::Put { space, key: &key, value: &value };
        store.write(&[op], Durability::Immediate).unwrap();
        counts[number as usize].store(count, Release);
    };
    (0..KEYS).for_each(write);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (store, counts, write) = (&store, &counts, &write);
            scope.spawn(move || {
                let mut random = thread + 1;
                for _ in 0..30_000 {
                    random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                    let number = (random >> 33) % KEYS;
                    if (random >> 20).is_multiple_of(8) {
                        // A key has one writer.
                        write(number / THREADS * THREADS + thread);
                        continue;
                    }
                    let least = counts[number as usize].load(Acquire);
                    let value = store.get(space, &key(number)).unwrap().expect("it was put");
                    let count = u64::from_le_bytes(value[..8].try_into().unwrap());
                    assert!((least..=counts[number as usize].load(Acquire) + 1).contains(&count));
                    assert!(value.len() == LONG && value[8..].iter().all(|b| *b == number as u8));
                }
            });
        }
    });
    assert!(store.stats().figure("level_bytes").unwrap() > 0);
    let has_cached_rows = store.stats().figure("cached_row_bytes").unwrap() > 0;
    assert!(has_cached_rows || rows == Rows::FreeZones);
}

//! Changes in the midst of a call of a transaction, at the moment that a test chooses.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use halite::{
    Bytes, Database, Durability, ENGINES, Engine, EngineError, Error, Isolation, KeyRange,
    KeySpaceId, Locking, Progress, Stats, TransactionOptions, VerifyReport,
};
use halite_contract::{
    Capabilities, Direction, EngineOptions, Expectation, Op, Result, Scan, Snapshot, Snapshots,
    Transactional,
};
use halite_indexlog::IndexLog;
use halite_lsm::Lsm;
use halite_pmem::PoolOptions;

type Deed = Mutex<Option<Box<dyn FnOnce() + Send>>>;

/// An engine that makes a change during one call, once.
struct Meantime {
    engine: Box<dyn Engine>,
    behind_snapshot: Deed,
    before_write: Deed,
}

impl Meantime {
    /// An engine in memory, and the database on it.
    fn new(name: &str) -> (Arc<Self>, Database) {
        let mut pool_options = PoolOptions::default();
        pool_options.size_max = 256 << 20;
        pool_options.in_memory = true;
        let options = EngineOptions { pool_options, ..EngineOptions::new("pool") };
        let engine: Box<dyn Engine> = match name {
            IndexLog::NAME => Box::new(IndexLog::open(&options).expect("an engine")),
            _ => Box::new(Lsm::open(&options).expect("an engine")),
        };
        let meantime = Arc::new(Self {
            engine,
            behind_snapshot: Deed::default(),
            before_write: Deed::default(),
        });
        (Arc::clone(&meantime), Database::with_engine(meantime, "meantime"))
    }
}

fn on_next(deed: &Deed, act: impl FnOnce() + Send + 'static) {
    *deed.lock().unwrap() = Some(Box::new(act));
}

fn act(deed: &Deed) {
    let act = deed.lock().unwrap().take();
    if let Some(act) = act {
        act();
    }
}

impl Engine for Meantime {
    fn name(&self) -> &'static str {
        self.engine.name()
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities { snapshots: Some(self), transactional: Some(self), ..Capabilities::default() }
    }

    fn key_space(&self, name: &str) -> Result<KeySpaceId> {
        self.engine.key_space(name)
    }

    fn key_spaces(&self) -> Result<Vec<(String, KeySpaceId)>> {
        self.engine.key_spaces()
    }

    fn drop_key_space(&self, space: KeySpaceId) -> Result<()> {
        self.engine.drop_key_space(space)
    }

    fn get(&self, space: KeySpaceId, key: &[u8]) -> Result<Option<Bytes>> {
        self.engine.get(space, key)
    }

    fn len(&self, space: KeySpaceId) -> Result<u64> {
        self.engine.len(space)
    }

    fn sample(&self, space: KeySpaceId, random: u64) -> Result<Option<Bytes>> {
        self.engine.sample(space, random)
    }

    fn write(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        self.engine.write(ops, durability)
    }

    fn scan(&self, space: KeySpaceId, range: KeyRange, direction: Direction) -> Result<Scan> {
        self.engine.scan(space, range, direction)
    }

    fn sync(&self) -> Result<()> {
        self.engine.sync()
    }

    fn stats(&self) -> Stats {
        self.engine.stats()
    }

    fn verify(&self, progress: Progress<'_>) -> Result<VerifyReport> {
        self.engine.verify(progress)
    }
}

impl Snapshots for Meantime {
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        let snapshot = self.engine.snapshot();
        act(&self.behind_snapshot);
        snapshot
    }
}

impl Transactional for Meantime {
    fn write_if(
        &self,
        ops: &[Op<'_>],
        durability: Durability,
        expected: &[Expectation<'_>],
    ) -> Result<()> {
        if !ops.is_empty() {
            act(&self.before_write);
        }
        self.engine.write_if(ops, durability, expected)
    }
}

/// A range in which a key comes, and goes when a newer snapshot has been taken, looks to a validation as it did.
#[test]
fn a_transaction_does_not_move_on_to_what_came_and_went() {
    for engine in ENGINES {
        for isolation in [Isolation::Snapshot, Isolation::Serializable] {
            let (meantime, db) = Meantime::new(engine);
            let space = db.key_space("letters").unwrap();
            let way = TransactionOptions::default();
            let tx = db.begin(way.isolation(isolation).locking(Locking::Pessimistic)).unwrap();
            let seen = || tx.range(&space, "a".."c").unwrap().count();
            assert_eq!(seen(), 0);
            for key in ["b", "x", "z"] {
                space.put(key, "1").unwrap();
            }
            let others = space.clone();
            on_next(&meantime.behind_snapshot, move || others.delete("b").unwrap());
            let moved = tx.get_for_update(&space, "z");
            assert!(
                matches!(moved, Err(Error::Engine(EngineError::Conflict { .. }))),
                "{engine}: {moved:?}"
            );
            // In whichever state it reads this, the range is empty in that state.
            tx.get(&space, "x").unwrap();
            assert_eq!(seen(), 0);
        }
    }
}

/// A commit may take longer than the transaction may be open.
#[test]
fn a_commit_that_began_in_time_is_not_robbed_of_its_locks() {
    const AGE: Duration = Duration::from_millis(500);
    let (meantime, db) = Meantime::new(IndexLog::NAME);
    let space = db.key_space("letters").unwrap();
    let way = TransactionOptions::default().locking(Locking::Pessimistic);
    let mut other = db.begin(way.clone().lock_timeout(Duration::from_millis(20))).unwrap();
    let mut tx = db.begin(way.max_age(AGE)).unwrap();
    tx.put(&space, "k", "1").unwrap();
    let waits = space.clone();
    on_next(&meantime.before_write, move || {
        std::thread::sleep(2 * AGE);
        let waited = other.put(&waits, "k", "2");
        assert!(matches!(waited, Err(Error::LockTimeout { .. })), "{waited:?}");
    });
    tx.commit(Durability::Immediate).unwrap();
    assert_eq!(space.get("k").unwrap().as_deref(), Some(&b"1"[..]));
}

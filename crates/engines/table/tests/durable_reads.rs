//! Reads return no write that a crash may take back: a write with immediate durability is durable before a read returns it,
//! in each order of two threads' steps that a deterministic scheduler draws.

use std::sync::Arc;

use halite_contract::{
    Direction, Durability, Engine, EngineOptions, KeyRange, KeySpaceId, Op, Partitioning,
};
use halite_disk::Disk;
use halite_pmem::{Domain, Medium, PoolOptions};
use halite_sim::locks;
use halite_table::{Kind, TableEngine};
use shuttle::scheduler::RandomScheduler;
use shuttle::{Config, FailurePersistence, Runner, thread};

const KEY: &[u8] = b"key";

/// A store in memory.
fn store(kind: Kind, partitions: usize) -> (Arc<TableEngine>, KeySpaceId) {
    let mut pool_options = PoolOptions::default();
    pool_options.size_max = 64 << 20;
    pool_options.medium = Some(Medium::new(Domain::Memory, 64 << 20).expect("room for a medium"));
    let disk = Some(Disk::in_memory());
    let partitioning = Some(Partitioning::Hash(partitions));
    let options = EngineOptions { pool_options, disk, partitioning, ..EngineOptions::new("pool") };
    let engine = TableEngine::open(kind, &options).expect("a store");
    let space = engine.key_space("s").expect("a key space");
    (Arc::new(engine), space)
}

/// Asks for the key in one of the ways that there are.
fn ask(engine: &TableEngine, space: KeySpaceId, way: usize) -> bool {
    let is_there = match way {
        0 => engine.get(space, KEY).map(|found| found.is_some()),
        1 => engine.len(space).map(|len| len == 1),
        2 => engine.sample(space, 0).map(|found| found.is_some()),
        3 => engine
            .scan(space, KeyRange::all(), Direction::Forward)
            .map(|mut all| all.next().is_some()),
        _ => {
            let snapshot = engine.capabilities().snapshots.expect("snapshots").snapshot();
            snapshot.and_then(|snapshot| snapshot.get(space, KEY)).map(|found| found.is_some())
        }
    };
    is_there.expect("an answer")
}

#[test]
fn an_answer_has_no_write_that_is_not_durable_yet() {
    for &kind in Kind::ALL {
        for way in 0..5 {
            let mut config = Config::new();
            config.stack_size = 512 << 10;
            config.failure_persistence = FailurePersistence::None;
            config.silence_warnings = true;
            let execute = move || {
                let (engine, space) = store(kind, 1 + way % 2);
                assert!(!ask(&engine, space, way));
                let writer = engine.clone();
                let put = Op::Put { space, key: KEY, value: b"value" };
                let writer =
                    thread::spawn(move || writer.write(&[put], Durability::Immediate).unwrap());
                if ask(&engine, space, way) {
                    let unsynced = engine.stats().unsynced_writes;
                    assert_eq!(unsynced, 0, "{kind:?}, way {way}: the answer has a write");
                }
                writer.join().unwrap();
                assert!(ask(&engine, space, way), "{kind:?}, way {way}");
            };
            locks::scheduled(thread::yield_now, || {
                Runner::new(RandomScheduler::new_from_seed(1, 40), config).run(execute)
            });
        }
    }
}

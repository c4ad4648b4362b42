//! Commits: which writes they make durable, and with which other commits they are combined.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use halite_contract::{
    Durability, Engine, EngineOptions, Error, Expectation, Op, Partitioning, Snapshots,
    Transactional,
};
use halite_disk::Disk;
use halite_lsm::experiments::Experiments;
use halite_lsm::{Lsm, LsmOptions};
use halite_pmem::PoolOptions;

const CAPACITY: u64 = 16 << 20;

fn open(trees: usize, lsm: LsmOptions) -> Lsm {
    let mut pool_options = PoolOptions::default();
    pool_options.size_max = CAPACITY;
    pool_options.in_memory = true;
    let partitioning = Some(Partitioning::Hash(trees));
    Lsm::open(&EngineOptions {
        pool_options,
        partitioning,
        disk: Some(Disk::in_memory()),
        own: lsm.into(),
        ..EngineOptions::new("pool")
    })
    .unwrap()
}

#[test]
fn to_validate_without_writing_syncs_nothing() {
    for trees in [1, 3] {
        let engine = open(trees, LsmOptions::default());
        let space = engine.key_space("space").unwrap();
        engine.write(&[Op::Put { space, key: b"k", value: b"1" }], Durability::Deferred).unwrap();
        let snapshot = engine.snapshot().unwrap();
        let expected = [Expectation { snapshot: &*snapshot, keys: &[(space, b"k")], ranges: &[] }];
        engine.write_if(&[], Durability::Deferred, &expected).unwrap();
        assert_eq!(engine.stats().unsynced_writes, 1, "{trees} trees");
        engine.write_if(&[], Durability::Immediate, &expected).unwrap();
        assert_eq!(engine.stats().unsynced_writes, 0, "{trees} trees");
    }
}

/// Threads commit two by two, however long they wait for each other, until one has been put together with a batch
/// that the pool has no room for. That one alone is refused.
#[test]
fn a_batch_is_not_refused_for_one_that_it_was_put_together_with() {
    // The pool takes values of any size, so that one of them can be too large for it.
    let batching = LsmOptions {
        batches_max: 2,
        experiments: Experiments { batch_linger: Duration::MAX, ..Experiments::default() },
        large_value_bytes: Some(u64::MAX),
        ..LsmOptions::default()
    };
    let engine = Arc::new(open(1, batching));
    let space = engine.key_space("space").unwrap();
    let (sender, outcomes) = mpsc::channel();
    // A leader to which no other thread comes waits for ever.
    let commit = |key: u8, bytes: usize| {
        let (engine, sender) = (Arc::clone(&engine), sender.clone());
        thread::spawn(move || {
            let put = Op::Put { space, key: &[key], value: &vec![key; bytes] };
            let _ = sender.send((key, engine.write(&[put], Durability::Immediate)));
        });
    };
    commit(0, 2 * CAPACITY as usize);
    let (mut is_refused, mut small) = (false, 1);
    while !is_refused {
        assert!(small < 200, "so many threads meet in a few places");
        commit(small, 100);
        small += 1;
        loop {
            match outcomes.recv_timeout(Duration::from_millis(500)) {
                Ok((0, outcome)) => {
                    assert!(matches!(outcome, Err(Error::Full { .. })), "{outcome:?}");
                    is_refused = true;
                }
                Ok((key, outcome)) => {
                    outcome.unwrap_or_else(|error| panic!("{key}: {error}"));
                    assert!(engine.get(space, &[key]).unwrap().is_some());
                }
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => unreachable!("a sender is here"),
            }
        }
    }
}

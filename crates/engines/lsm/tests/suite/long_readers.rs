//! Slow readers keep no writer from writing, and each reads the state at its start.

use std::collections::BTreeMap;

use halite_contract::{
    Direction, Durability, Engine, EngineOptions, KeyRange, KeySpaceId, Op, Partitioning, Result,
    Scan, Snapshots,
};
use halite_lsm::{Durable, Lsm, LsmOptions};
use halite_pmem::PoolOptions;

const POOL: u64 = 24 << 20;

const KEYS: u64 = 10_000;

const VALUE: usize = 400;

/// How often all keys are written again: three times the pool.
const ROUNDS: u64 = 16;

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

fn key(number: u64) -> [u8; 8] {
    (number % KEYS).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn value(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(VALUE / 8)
}

fn write(engine: &Lsm, space: KeySpaceId, numbers: std::ops::Range<u64>) {
    for first in numbers.clone().step_by(100) {
        let pairs: Vec<_> =
            (first..numbers.end.min(first + 100)).map(|n| (key(n), value(n))).collect();
        let put = |(key, value)| Op::Put { space, key, value };
        let ops: Vec<_> = pairs.iter().map(|(key, value)| put((&key[..], &value[..]))).collect();
        engine.write(&ops, Durability::Deferred).unwrap();
    }
}

fn some(scan: &mut Scan, len: usize) -> Pairs {
    let pairs = scan.take(len).map(Result::unwrap);
    pairs.map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
}

/// All pairs as they are after a round.
fn pairs(round: u64) -> Pairs {
    let model: BTreeMap<_, _> =
        (0..KEYS).map(|n| (key(n).to_vec(), value(round * KEYS + n))).collect();
    model.into_iter().collect()
}

#[test]
fn scans_that_are_held_keep_no_writer_from_room() {
    for durable in [Durable::Pool, Durable::Log] {
        let folder = tempfile::tempdir().unwrap();
        let mut pool_options = PoolOptions::default();
        pool_options.size_max = POOL;
        let lsm = LsmOptions { durable, memtable_bytes: Some(2 << 20), ..LsmOptions::default() };
        let partitioning = Some(Partitioning::Hash(2));
        let pool = folder.path().join("pool");
        let options = EngineOptions {
            pool_options,
            own: lsm.into(),
            partitioning,
            ..EngineOptions::new(pool)
        };
        let engine = Lsm::open(&options).unwrap();
        let space = engine.key_space("space").unwrap();
        let mut held = Vec::new();
        // Each would keep the memtables of its time, all together three times the pool.
        for round in 0..ROUNDS {
            write(&engine, space, round * KEYS..(round + 1) * KEYS);
            let snapshot = engine.snapshot().unwrap();
            for direction in [Direction::Forward, Direction::Reverse] {
                let mut expected = pairs(round);
                if direction == Direction::Reverse {
                    expected.reverse();
                }
                let mut scan = match round % 2 {
                    0 => engine.scan(space, KeyRange::all(), direction).unwrap(),
                    _ => snapshot.scan(space, KeyRange::all(), direction).unwrap(),
                };
                assert!(some(&mut scan, 7) == expected[..7], "{durable:?}, round {round}");
                held.push((scan, expected));
            }
        }
        for (number, (scan, expected)) in held.iter_mut().enumerate() {
            assert!(some(scan, usize::MAX) == expected[7..], "{durable:?}, scan {number}");
            assert!(scan.next().is_none());
        }
    }
}

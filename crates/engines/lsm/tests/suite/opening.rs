//! A store that is opened has the records that were written: many, in several zones and memtables, whose keys have
//! more in common than recovery keeps of them, among values that take pieces.

use std::collections::BTreeMap;

use halite_contract::{
    Direction, Durability, Engine, EngineOptions, KeyRange, Op, Result, SpaceManagement,
};
use halite_disk::{Disk, DiskModel};
use halite_lsm::{Lsm, LsmOptions};
use halite_pmem::{Domain, Medium, PoolOptions};

const CAPACITY: u64 = 64 << 20;

/// Records: more than are sorted at once.
const RECORDS: u64 = 60_000;

const BATCH: u64 = 1000;

/// Begins a batch, and takes three pieces.
const LONG: usize = 150_000;

fn open(medium: &Medium) -> Lsm {
    let mut pool_options = PoolOptions::default();
    pool_options.size_max = CAPACITY;
    pool_options.medium = Some(medium.clone());
    let lsm = LsmOptions {
        memtable_bytes: Some(8 << 20),
        global_index_bytes: Some(CAPACITY),
        ..LsmOptions::default()
    };
    let options = EngineOptions {
        pool_options,
        disk: Some(Disk::model(&DiskModel::of(medium.machine()))),
        own: lsm.into(),
        ..EngineOptions::new("pool")
    };
    Lsm::open(&options).unwrap()
}

/// Keys that differ behind their first 40 bytes, anywhere; each third one was there before.
fn key(number: u64) -> Vec<u8> {
    let known = if number.is_multiple_of(3) { number / 3 } else { number };
    let place = known.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    [&[b'k'; 40][..], &place].concat()
}

#[test]
fn keys_with_much_in_common_are_there_after_opening() {
    let medium = Medium::new(Domain::Memory, CAPACITY).unwrap();
    let engine = open(&medium);
    let space = engine.key_space("records").unwrap();
    let mut model = BTreeMap::new();
    for first in (0..RECORDS).step_by(BATCH as usize) {
        let long = (format!("long {first}").into_bytes(), vec![first as u8; LONG]);
        let short = |number: u64| (key(number), number.to_le_bytes().to_vec());
        let pairs: Vec<_> =
            std::iter::once(long).chain((first..first + BATCH).map(short)).collect();
        let put = |(key, value)| Op::Put { space, key, value };
        let ops: Vec<_> = pairs.iter().map(|(key, value)| put((&key[..], &value[..]))).collect();
        engine.write(&ops, Durability::Immediate).unwrap();
        model.extend(pairs);
        // Full memtables are merged, now and then.
        if first.is_multiple_of(10 * BATCH) {
            engine.collect_ahead(0).unwrap();
        }
    }
    drop(engine);
    let engine = open(&medium);
    assert!(engine.stats().recovery.records_read >= RECORDS);
    let space = engine.key_space("records").unwrap();
    for (key, value) in &model {
        assert_eq!(engine.get(space, key).unwrap().unwrap(), value[..]);
    }
    let scan = engine.scan(space, KeyRange::all(), Direction::Forward).unwrap();
    let all = scan.map(Result::unwrap).map(|(key, value)| (key.to_vec(), value.to_vec()));
    assert!(all.eq(model));
}

//! Random keys: any that there is, none that is not, and found without looking at all.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use halite_contract::{
    Durability, Engine, EngineOptions, KeySpaceId, Op, Partitioned, Partitioning, SpaceManagement,
};
use halite_disk::{Disk, DiskModel};
use halite_lsm::{Lsm, LsmOptions};
use halite_pmem::{Domain, Medium, PoolOptions};
use proptest::prelude::*;

const CAPACITY: u64 = 24 << 20;

fn put(engine: &Lsm, space: KeySpaceId, key: &[u8], value: &[u8]) {
    engine.write(&[Op::Put { space, key, value }], Durability::Immediate).unwrap();
}

/// A store whose memtables go to the levels soon, if it is told to.
fn small(trees: usize) -> Lsm {
    let medium = Medium::new(Domain::Memory, CAPACITY).unwrap();
    let mut pool_options = PoolOptions::default();
    pool_options.size_max = CAPACITY;
    pool_options.medium = Some(medium.clone());
    let lsm = LsmOptions {
        memtable_bytes: Some(4 << 10),
        global_index_bytes: Some(1),
        ..LsmOptions::default()
    };
    let partitioning = Some(Partitioning::Hash(trees));
    let options = EngineOptions {
        pool_options,
        disk: Some(Disk::model(&DiskModel::of(medium.machine()))),
        own: lsm.into(),
        partitioning,
        ..EngineOptions::new("pool")
    };
    Lsm::open(&options).unwrap()
}

/// Fills memtables, and lets them go to the levels.
fn hand_down(engine: &Lsm) {
    let space = engine.key_space("filler").unwrap();
    for number in 0..60_u64 {
        put(engine, space, &number.to_be_bytes(), &[b'v'; 600]);
    }
    for tree in 0..engine.partitions() {
        while engine.collect_ahead(tree).unwrap() {}
    }
    assert!(engine.stats().figure("level_bytes").unwrap() > 0);
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0), Just(b'0'), Just(b'1'), Just(255), any::<u8>()];
    proptest::collection::vec(byte, 0..4)
}

fn keys() -> impl Strategy<Value = BTreeSet<Vec<u8>>> {
    proptest::collection::btree_set(key(), 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(50))]

    #[test]
    fn every_key_may_be_the_sample_and_nothing_else(
        old in keys(), new in keys(), removed in keys(), trees in 1..4_usize, seed in any::<u64>(),
    ) {
        let engine = small(trees);
        let spaces = ["before", "sampled", "behind"].map(|name| engine.key_space(name).unwrap());
        let [_, space, _] = spaces;
        for other in [spaces[0], spaces[2]] {
            put(&engine, other, b"", b"other");
            put(&engine, other, &[255; 5], b"other");
        }
        old.iter().chain(&removed).for_each(|key| put(&engine, space, key, b"old"));
        hand_down(&engine);
        for key in &removed {
            engine.write(&[Op::Delete { space, key }], Durability::Immediate).unwrap();
        }
        new.iter().for_each(|key| put(&engine, space, key, b"new"));
        let expected: BTreeSet<_> = old.difference(&removed).chain(&new).cloned().collect();
        let mut random = Rng::with_seed(seed);
        let mut found = BTreeSet::new();
        for _ in 0..100_000 {
            let Some(sample) = engine.sample(space, random.u64(..)).unwrap() else { break };
            prop_assert!(expected.contains(&sample[..]), "{:?} of {:?}", sample, expected);
            found.insert(sample.to_vec());
            if found.len() == expected.len() {
                break;
            }
        }
        prop_assert_eq!(found, expected);
    }
}

/// How often each of some keys is the sample, of so many samples a key.
fn counts(keys: &[String], each: usize) -> BTreeMap<Vec<u8>, usize> {
    let engine = small(1);
    let space = engine.key_space("sampled").unwrap();
    keys.iter().for_each(|key| put(&engine, space, key.as_bytes(), b"v"));
    let mut counts: BTreeMap<_, _> = keys.iter().map(|key| (key.clone().into_bytes(), 0)).collect();
    let mut random = Rng::with_seed(1);
    for _ in 0..each * keys.len() {
        let sample = engine.sample(space, random.u64(..)).unwrap().unwrap();
        *counts.get_mut(&sample[..]).unwrap() += 1;
    }
    counts
}

#[test]
fn numbers_are_sampled_uniformly() {
    let keys: Vec<_> = (0..1000).map(|number| format!("key:{number:03}:name")).collect();
    let counts = counts(&keys, 100);
    // The deviation is 10.
    assert!(counts.values().all(|count| (50..150).contains(count)), "{counts:?}");
}

#[test]
fn bytes_are_sampled_uniformly_however_far_apart() {
    let keys: Vec<_> = (0..512).map(|number| format!("{number:03x}")).collect();
    let counts = counts(&keys, 100);
    assert!(counts.values().all(|count| (50..150).contains(count)), "{counts:?}");
}

#[test]
fn the_end_of_a_key_counts_as_a_byte() {
    let keys = ["a", "ab", "azz", "x:1", "x:2"].map(str::to_owned);
    let counts = counts(&keys, 1200);
    let expected = [1000, 1000, 1000, 1500, 1500];
    let is_near = |(count, expected): (&usize, usize)| count.abs_diff(expected) < 150;
    assert!(counts.values().zip(expected).all(is_near), "{counts:?}");
}

#[test]
fn a_sample_does_not_read_the_levels_through() {
    let disk = Disk::in_memory();
    let mut pool_options = PoolOptions::default();
    pool_options.in_memory = true;
    pool_options.size_max = CAPACITY;
    let lsm = LsmOptions { memtable_bytes: Some(1 << 20), cache_bytes: 0, ..LsmOptions::default() };
    let engine = Lsm::open(&EngineOptions {
        pool_options,
        disk: Some(disk.clone()),
        own: lsm.into(),
        ..EngineOptions::new("pool")
    });
    let engine = engine.unwrap();
    let space = engine.key_space("all").unwrap();
    let mut random = Rng::with_seed(2);
    for number in 0..30_000_u64 {
        // Not to be compressed.
        let value: Vec<_> = (0..100).flat_map(|_| random.u64(..).to_le_bytes()).collect();
        put(&engine, space, format!("key:{number:08}").as_bytes(), &value);
    }
    let levels = engine.stats().figure("level_bytes").unwrap();
    assert!(levels > 4 << 20, "{levels}");
    let before = disk.traffic();
    for _ in 0..5 {
        assert!(engine.sample(space, random.u64(..)).unwrap().is_some());
    }
    let read = (disk.traffic() - before).bytes_read;
    assert!(read < levels / 4, "{read} of {levels} bytes");
}

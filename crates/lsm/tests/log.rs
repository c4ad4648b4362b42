//! What the log gives back, and takes.

use std::sync::Arc;

use halite_disk::{Disk, DiskModel};
use halite_engine::{Durability, Durable, Engine, EngineOptions, LsmOptions, Op, Partitioning};
use halite_lsm::Lsm;
use halite_pmem::{Domain, Medium, PoolOptions};

/// A store with two trees and a log on a modelled medium, where it has no threads.
fn open(medium: &Medium) -> Arc<dyn Engine> {
    let mut pool_options = PoolOptions::default();
    pool_options.size_max = 32 << 20;
    pool_options.medium = Some(medium.clone());
    let lsm = LsmOptions {
        durable: Durable::Log,
        disk: Some(Disk::model(&DiskModel::of(medium))),
        memtable_bytes: Some(4 << 10),
        ..LsmOptions::default()
    };
    let partitioning = Some(Partitioning::Hash(2));
    let options = EngineOptions { pool_options, lsm, partitioning, ..EngineOptions::new("pool") };
    Arc::new(Lsm::open(&options).unwrap())
}

#[test]
fn what_the_levels_of_one_tree_have_is_not_replayed_for_the_other() {
    let medium = Medium::new(Domain::Memory, 32 << 20).unwrap();
    let engine = open(&medium);
    let space = engine.key_space("space").unwrap();
    let key_of = |tree: usize| {
        let keys = (0..100).map(|number| format!("key {number}"));
        keys.into_iter().find(|key| engine.partition_of(key.as_bytes()) == tree).unwrap()
    };
    let (here, there) = (key_of(0), key_of(1));
    let put = |key: &'static str, value| Op::Put { space, key: key.as_bytes(), value };
    let (here, there): (&'static str, &'static str) = (here.leak(), there.leak());
    let write = |ops: &[Op<'_>]| engine.write(ops, Durability::Immediate).unwrap();
    write(&[put(here, b"old"), put(there, b"old")]);
    write(&[put(here, b"new")]);
    // The memtable with both is full, and goes to the levels; that of the other tree does not.
    let filler = vec![7; 8 << 10];
    for number in 100..200 {
        let key = format!("key {number}");
        if engine.partition_of(key.as_bytes()) == 0 {
            write(&[Op::Put { space, key: key.as_bytes(), value: &filler }]);
            break;
        }
    }
    assert!(engine.collect_ahead(0).unwrap());
    drop(engine);
    let engine = open(&medium);
    assert!(engine.stats().recovery.records_replayed > 0);
    assert_eq!(engine.get(space, here.as_bytes()).unwrap().as_deref(), Some(&b"new"[..]));
    assert_eq!(engine.get(space, there.as_bytes()).unwrap().as_deref(), Some(&b"old"[..]));
}

#[test]
fn the_bytes_that_are_told_are_those_of_the_files() {
    let medium = Medium::new(Domain::Memory, 32 << 20).unwrap();
    let of_files = || {
        let files = Disk::model(&DiskModel::of(&medium)).list().unwrap();
        files.iter().filter(|(name, _)| name.starts_with("LOG-")).map(|(_, len)| len).sum::<u64>()
    };
    let (mut most, mut removed) = (0, 0);
    for _ in 0..3 {
        let engine = open(&medium);
        let told = || engine.stats().levels.unwrap().log_bytes.unwrap();
        assert_eq!(told(), of_files());
        let space = engine.key_space("space").unwrap();
        for number in 0..60_u64 {
            let (key, value) = (number.to_be_bytes(), [7; 500]);
            let op = Op::Put { space, key: &key, value: &value };
            engine.write(&[op], Durability::Immediate).unwrap();
            assert_eq!(told(), of_files());
            most = most.max(told());
            let before = told();
            while number % 10 == 9 && (0..2).any(|tree| engine.collect_ahead(tree).unwrap()) {}
            assert_eq!(told(), of_files());
            removed += before - told();
        }
    }
    assert!(most > 5_000 && removed > most, "{most} {removed}");
}

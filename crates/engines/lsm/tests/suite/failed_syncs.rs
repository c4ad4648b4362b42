//! Where the kernel failed to sync, for whichever work, no batch is stored any more: the next opening could find one
//! that was refused.

use std::sync::Arc;

use halite_contract::{Durability, Engine, EngineOptions, KeySpaceId, Op};
use halite_disk::{Disk, DiskModel};
use halite_lsm::experiments::CommitPoints;
use halite_lsm::{Durable, Lsm, LsmOptions};
use halite_pmem::{Domain, Medium, PoolOptions};

const CAPACITY: u64 = 32 << 20;

/// A store whose memtables are full soon, on a modelled medium: its background work is done when it is asked to.
fn open(medium: &Medium, durable: Durable) -> Arc<dyn Engine> {
    let mut pool_options = PoolOptions::default();
    pool_options.size_max = CAPACITY;
    pool_options.medium = Some(medium.clone());
    let disk = Some(Disk::model(&DiskModel::of(medium.machine())));
    let own = LsmOptions::for_lab(durable, CommitPoints::Trailing).into();
    let options = EngineOptions { pool_options, disk, own, ..EngineOptions::new("pool") };
    Arc::new(Lsm::open(&options).unwrap())
}

fn put(
    engine: &dyn Engine,
    space: KeySpaceId,
    key: &[u8],
    durability: Durability,
) -> halite_contract::Result<()> {
    engine.write(&[Op::Put { space, key, value: &[7; 100] }], durability)
}

/// Does all background work, with a sync that fails behind so many others. Returns whether one failed.
fn work_with_failure(medium: &Medium, engine: &dyn Engine, syncs: u32) -> bool {
    medium.machine().fail_sync_after(Some(syncs));
    while engine.collect_ahead(0).unwrap_or(false) {}
    let has_failed = medium.machine().has_failed_to_sync();
    medium.machine().fail_sync_after(None);
    has_failed
}

#[test]
fn a_write_behind_failed_background_work_is_refused_and_not_stored() {
    let mut failed = 0;
    for durable in [Durable::Pool, Durable::Log] {
        for (syncs, durability) in (0..24)
            .flat_map(|syncs| [(syncs, Durability::Immediate), (syncs, Durability::Deferred)])
        {
            let medium = Medium::new(Domain::PageCache, CAPACITY).unwrap();
            let engine = open(&medium, durable);
            let space = engine.key_space("space").unwrap();
            for number in 0..40_u8 {
                put(&*engine, space, &[number], Durability::Immediate).unwrap();
            }
            if !work_with_failure(&medium, &*engine, syncs) {
                continue;
            }
            failed += 1;
            let refused = put(&*engine, space, b"late", durability);
            medium.machine().cut_power();
            drop(engine);
            medium.restore_power();

            let engine = open(&medium, durable);
            let space = engine.key_space("space").unwrap();
            let found = engine.get(space, b"late").unwrap();
            let place = format!("{durable:?}, {durability:?}, behind {syncs} syncs: {refused:?}");
            assert!(refused.is_ok() || found.is_none(), "{place}");
            assert!(
                refused.is_err() || found.is_some() || durability == Durability::Deferred,
                "{place}"
            );
            for number in 0..40_u8 {
                assert!(engine.get(space, &[number]).unwrap().is_some(), "{place}: {number}");
            }
        }
    }
    assert!(failed > 10, "a sync failed {failed} times");
}

#[test]
fn a_write_whose_sync_failed_is_not_read() {
    for durable in [Durable::Pool, Durable::Log] {
        let medium = Medium::new(Domain::PageCache, CAPACITY).unwrap();
        let engine = open(&medium, durable);
        let space = engine.key_space("space").unwrap();
        put(&*engine, space, b"key", Durability::Immediate).unwrap();
        medium.machine().fail_sync_after(Some(0));
        let ops = [
            Op::Put { space, key: b"key", value: b"later" },
            Op::Put { space, key: b"new", value: b"later" },
        ];
        assert!(engine.write(&ops, Durability::Immediate).is_err(), "{durable:?}");
        medium.machine().fail_sync_after(None);
        let found = |key: &[u8]| engine.get(space, key).unwrap().map(|value| value.to_vec());
        assert_eq!((found(b"key"), found(b"new")), (Some(vec![7; 100]), None), "{durable:?}");
        assert!(engine.write(&ops, Durability::Deferred).is_err(), "{durable:?}");
        assert_eq!((found(b"key"), found(b"new")), (Some(vec![7; 100]), None), "{durable:?}");
    }
}

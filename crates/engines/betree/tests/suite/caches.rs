//! Caches of any size: a store uses no more than its option says, and answers the same.

use std::collections::BTreeMap;

use halite_betree::{Betree, BetreeOptions};
use halite_codec::Compression;
use halite_contract::{Direction, Durability, Engine, EngineOptions, KeyRange, Op, Snapshots};
use halite_disk::Disk;
use proptest::prelude::*;

fn options(cache_bytes: u64, is_compressed: bool, is_in_pool: bool) -> BetreeOptions {
    BetreeOptions {
        topology: (!is_in_pool).then(|| "file:data".parse().unwrap()),
        memtable_bytes: Some(8 << 10),
        buffer_bytes: Some(8 << 10),
        leaf_bytes: Some(4 << 10),
        part_bytes: Some(512),
        fanout: Some(4),
        runs_max: Some(3),
        compression: if is_compressed { Compression::Lz4 } else { Compression::None },
        cache_bytes,
        ..BetreeOptions::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_store_keeps_within_its_cache_and_no_eviction_changes_an_answer(
        cache_bytes in prop_oneof![Just(0_u64), 1 << 10..16_u64 << 10, 16 << 10..512_u64 << 10],
        (is_compressed, is_in_pool) in any::<(bool, bool)>(),
        seed in any::<u64>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut engine_options = EngineOptions::new(folder.path().join("pool"));
        engine_options.pool_options.size_max = 64 << 20;
        engine_options.pool_options.in_memory = is_in_pool;
        engine_options.disk = Some(Disk::in_memory());
        engine_options.own = options(cache_bytes, is_compressed, is_in_pool).into();
        let betree = Betree::open(&engine_options).unwrap();
        let space = betree.key_space("space").unwrap();
        let mut random = fastrand::Rng::with_seed(seed);
        let mut model = BTreeMap::<Vec<u8>, Vec<u8>>::new();
        let key = |n: u32| format!("key{:05}", n.wrapping_mul(7919) % 4000).into_bytes();
        let is_within = || {
            let used = betree.stats().cache_bytes;
            prop_assert!(used <= cache_bytes, "{used} of {cache_bytes} bytes");
            Ok(())
        };
        for round in 0..4 {
            for _ in 0..400 {
                let key = key(random.u32(..));
                if random.u8(..) < 30 {
                    betree.write(&[Op::Delete { space, key: &key }], Durability::Deferred).unwrap();
                    model.remove(&key);
                    continue;
                }
                let value = vec![random.u8(..); random.usize(0..200)];
                let put = Op::Put { space, key: &key, value: &value };
                betree.write(&[put], Durability::Deferred).unwrap();
                model.insert(key, value);
            }
            if round % 2 == 1 {
                // The memtables go to the trees, and the nodes to the devices.
                let report = betree.verify(&mut |_, _| std::ops::ControlFlow::Continue(())).unwrap();
                prop_assert!(report.damage.is_empty());
            }
            let (snapshot, then) = (betree.snapshot().unwrap(), model.clone());
            for _ in 0..50 {
                let (old, new) = (key(random.u32(..)), key(random.u32(..)));
                betree.write(&[Op::Put { space, key: &new, value: b"new" }], Durability::Deferred).unwrap();
                model.insert(new.clone(), b"new".to_vec());
                let found = snapshot.get(space, &old).unwrap();
                prop_assert_eq!(found.as_deref(), then.get(&old).map(Vec::as_slice));
                let found = betree.get(space, &old).unwrap();
                prop_assert_eq!(found.as_deref(), model.get(&old).map(Vec::as_slice));
                is_within()?;
            }
            for direction in [Direction::Forward, Direction::Reverse] {
                let scan = snapshot.scan(space, KeyRange::all(), direction).unwrap();
                let mut found: Vec<_> = scan.map(|pair| pair.unwrap()).collect();
                if direction == Direction::Reverse {
                    found.reverse();
                }
                let found = found.iter().map(|(key, value)| (&key[..], &value[..]));
                prop_assert!(found.eq(then.iter().map(|(key, value)| (&key[..], &value[..]))));
                is_within()?;
            }
        }
    }
}

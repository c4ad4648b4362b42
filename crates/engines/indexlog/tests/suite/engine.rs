//! The promises of this engine beyond the contract of all.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::power::Power;
use halite_alloc::Segments;
use halite_contract::conformance::temporary_folder;
use halite_contract::{
    Direction, Durability, Engine, EngineOptions, Error, Expectation, KeyRange, KeySpaceId,
    OnDemand, Op, OwnOptions, Partitioned, Partitioning, Snapshots, Transactional,
};
use halite_indexlog::{IndexKind, IndexLog, IndexLogOptions};
use halite_pmem::{Medium, PoolOptions};
use proptest::prelude::*;

fn ranges(bounds: &[&str]) -> Option<Partitioning> {
    Some(Partitioning::Ranges(bounds.iter().map(|bound| bound.as_bytes().to_vec()).collect()))
}

fn options(folder: &Path) -> EngineOptions {
    EngineOptions::new(folder.join("pool"))
}

fn with_index(index: IndexKind) -> OwnOptions {
    IndexLogOptions { index, ..IndexLogOptions::default() }.into()
}

fn put(store: &IndexLog, space: KeySpaceId, key: &str) {
    let op = Op::Put { space, key: key.as_bytes(), value: key.as_bytes() };
    store.write(&[op], Durability::Immediate).unwrap();
}

#[test]
fn partitions_by_range_follow_each_other_in_the_order_of_keys() {
    let folder = temporary_folder();
    let options = EngineOptions { partitioning: ranges(&["c", "m"]), ..options(folder.path()) };
    let store = IndexLog::open(&options).unwrap();
    let space = store.key_space("space").unwrap();
    ["x", "a", "m", "c", "b", "l", "lz"].into_iter().for_each(|key| put(&store, space, key));
    for direction in [Direction::Forward, Direction::Reverse] {
        let keys = |scan: halite_contract::Scan| {
            scan.map(|pair| pair.unwrap().0.to_vec()).collect::<Vec<_>>()
        };
        let whole = keys(store.scan(space, KeyRange::all(), direction).unwrap());
        let of_partition =
            |number| keys(store.scan_partition(number, space, KeyRange::all(), direction).unwrap());
        let mut parts: Vec<_> = (0..3).map(of_partition).collect();
        if direction == Direction::Reverse {
            parts.reverse();
        }
        assert_eq!(parts.concat(), whole);
        assert_eq!(whole.len(), 7);
    }
}

/// A record that collection has moved is in no block of the log; there may only be the record of an older batch.
#[test]
fn a_batch_on_several_partitions_is_whole_though_its_record_was_moved() {
    let folder = temporary_folder();
    let options = EngineOptions { partitioning: ranges(&["m"]), ..options(folder.path()) };
    let long = vec![b'p'; 60_000];
    let pairs: [(&[u8], &[u8]); 2] = [(b"a", b""), (&long, b"")];
    // Each is in a block of its own, which has little in it the second time.
    for pairs in [pairs, [(b"a", b"1"), (b"p", b"1")]] {
        let store = IndexLog::open(&options).unwrap();
        let space = store.key_space("space").unwrap();
        let ops = pairs.map(|(key, value)| Op::Put { space, key, value });
        store.write(&ops, Durability::Immediate).unwrap();
    }
    let store = IndexLog::open(&options).unwrap();
    let space = store.key_space("space").unwrap();
    let large = vec![1; 2 << 20];
    let op = Op::Put { space, key: b"q", value: &large };
    store.write(&[op], Durability::Immediate).unwrap();
    assert_eq!(store.stats().collected_blocks, 1, "it makes room for the value");
    // The process is killed.
    let image = folder.path().join("image");
    std::fs::copy(&options.pool, &image).unwrap();
    drop(store);
    std::fs::rename(&image, &options.pool).unwrap();
    let store = IndexLog::open(&options).unwrap();
    assert_eq!(*store.get(space, b"p").unwrap().unwrap(), *b"1");
}

#[test]
fn an_empty_range_of_a_dropped_key_space_is_refused() {
    let folder = temporary_folder();
    let options = EngineOptions { partitioning: ranges(&["c", "m"]), ..options(folder.path()) };
    let store = IndexLog::open(&options).unwrap();
    let space = store.key_space("space").unwrap();
    // The range is in no partition: it ends before it starts.
    let op = Op::DeleteRange { space, start: b"x", end: Some(b"a") };
    store.write(&[op], Durability::Immediate).unwrap();
    store.drop_key_space(space).unwrap();
    let refused = store.write(&[op], Durability::Immediate);
    assert!(matches!(refused, Err(Error::NoSuchKeySpace)), "{refused:?}");
}

#[test]
fn every_opening_may_choose_another_index() {
    let folder = temporary_folder();
    let kinds = [
        IndexKind::Hash,
        IndexKind::Ordered { key_bytes: 0 },
        IndexKind::Ordered { key_bytes: 4 },
        IndexKind::Hash,
        IndexKind::default(),
    ];
    let mut index_bytes = Vec::new();
    for (round, index) in kinds.into_iter().enumerate() {
        let store =
            IndexLog::open(&EngineOptions { own: with_index(index), ..options(folder.path()) })
                .unwrap();
        let space = store.key_space("space").unwrap();
        for number in 0..2_000 {
            put(&store, space, &format!("{round} {number:05}"));
        }
        let op = Op::DeleteRange { space, start: b"0 00010", end: Some(b"0 00020") };
        store.write(&[op], Durability::Immediate).unwrap();
        assert_eq!(store.len(space).unwrap(), 2_000 * (round as u64 + 1) - 10);
        let pairs = store.scan(space, KeyRange::prefix(b"0 000"), Direction::Forward).unwrap();
        let keys: Vec<_> = pairs.map(|pair| pair.unwrap().0.to_vec()).collect();
        assert_eq!(keys.len(), 90);
        assert!(keys.is_sorted());
        index_bytes.push(store.stats().index_bytes / store.len(space).unwrap());
    }
    let unknown = EngineOptions {
        own: with_index(IndexKind::Ordered { key_bytes: 16 }),
        ..options(folder.path())
    };
    let refused = IndexLog::open(&unknown).map(drop).expect_err("no such index");
    let refused = halite_indexlog::Error::of(&refused);
    assert!(matches!(refused, Some(halite_indexlog::Error::KeyBytes { .. })));
    assert!(index_bytes[3] < index_bytes[4], "{index_bytes:?}");
}

/// Keys with much in common, zero bytes, and every length around the part of a key that recovery keeps.
fn key() -> impl Strategy<Value = Vec<u8>> {
    let long = |byte: u8, len: usize| vec![byte; len];
    let prefix = prop_oneof![
        Just(Vec::new()),
        Just(b"user:".to_vec()),
        Just(long(b'p', 15)),
        Just(long(b'p', 30)),
        Just(long(0, 16)),
        Just(long(b'p', 1500)),
    ];
    let small = prop::collection::vec(prop::sample::select(vec![0, 1, b'p', 255]), 0..4);
    let number = (0..40_u8).prop_map(|number| vec![b'0' + number / 10, b'0' + number % 10]);
    let tail = prop_oneof![Just(0), Just(3), Just(20)].prop_map(move |len| long(b't', len));
    (prefix, prop_oneof![small, number], tail).prop_map(|(a, b, c)| [a, b, c].concat())
}

proptest! {
    #[test]
    fn whatever_keys_have_in_common_a_store_comes_back_in_their_order(
        keys in prop::collection::vec(key(), 0..400),
        bytes in prop::sample::select(vec![Some(0), Some(2), Some(8), None]),
        prefix in prop::sample::select(vec![&b""[..], b"user:", b"a long prefix of all the keys "]),
    ) {
        let folder = temporary_folder();
        let index = bytes.map_or(IndexKind::Hash, |key_bytes| IndexKind::Ordered { key_bytes });
        let options = EngineOptions { own: with_index(index), ..options(folder.path()) };
        let mut model = BTreeMap::new();
        let store = IndexLog::open(&options).unwrap();
        let space = store.key_space("space").unwrap();
        for (number, key) in keys.iter().enumerate() {
            let (key, value) = ([prefix, key].concat(), number.to_string().into_bytes());
            let op = Op::Put { space, key: &key, value: &value };
            store.write(&[op], Durability::Deferred).unwrap();
            model.insert(key, value);
        }
        drop(store);
        let store = IndexLog::open(&options).unwrap();
        let pairs = store.scan(space, KeyRange::all(), Direction::Forward).unwrap();
        let pairs: Vec<_> = pairs.map(|pair| pair.unwrap()).collect();
        let found = pairs.iter().map(|(key, value)| (&key[..], &value[..]));
        prop_assert!(found.eq(model.iter().map(|(key, value)| (&key[..], &value[..]))));
        for (key, value) in &model {
            prop_assert_eq!(&store.get(space, key).unwrap().unwrap()[..], &value[..]);
        }
    }
}

/// A store with four partitions, and keys in each; and how it is opened on demand.
fn filled(folder: &Path) -> (EngineOptions, KeySpaceId) {
    let partitioning = Some(Partitioning::Hash(4));
    let options = EngineOptions { partitioning, on_demand: true, ..options(folder) };
    let store = IndexLog::open(&options).unwrap();
    let space = store.key_space("space").unwrap();
    for number in 0..4_000 {
        let key = name(number);
        let op = Op::Put { space, key: key.as_bytes(), value: &[7; 500] };
        store.write(&[op], Durability::Deferred).unwrap();
    }
    (options, space)
}

fn name(number: u32) -> String {
    format!("key {number:05}")
}

#[test]
fn a_partition_is_there_when_it_is_accessed() {
    let folder = temporary_folder();
    let (options, space) = filled(folder.path());
    for number in (0..4_000).step_by(97) {
        let store = IndexLog::open(&options).unwrap();
        assert_eq!(store.get(space, name(number).as_bytes()).unwrap().unwrap()[..], [7; 500]);
        if number % 2 == 0 {
            // Closed while the others are on their way.
            continue;
        }
        put(&store, space, &name(number + 10_000));
        assert!(store.get(space, name(number + 10_000).as_bytes()).unwrap().is_some());
    }
    let store = IndexLog::open(&options).unwrap();
    for number in [3, 1, 0, 2] {
        assert!(store.wait_partition(number, Duration::from_secs(60)).unwrap());
    }
    store.wait_ready().unwrap();
    let lens = (0..4).map(|number| store.len_of_partition(number, space).unwrap());
    assert_eq!(lens.sum::<u64>(), store.len(space).unwrap());
    let stats = store.stats();
    assert_eq!(stats.recovery.partitions_ready, 4);
    assert_eq!(
        stats.records,
        4_000 + (0..4_000).step_by(97).filter(|at| at % 2 == 1).count() as u64
    );
}

#[test]
fn a_damaged_partition_leaves_the_others_alone() {
    let folder = temporary_folder();
    let (options, space) = filled(folder.path());
    let lost = name(1_234);
    let mut pool = std::fs::read(&options.pool).unwrap();
    let at = pool.windows(lost.len()).position(|bytes| bytes == lost.as_bytes()).unwrap();
    pool[at + lost.len() + 100] ^= 1;
    std::fs::write(&options.pool, &pool).unwrap();
    let store = IndexLog::open(&options).unwrap();
    let damaged = store.partition_of(lost.as_bytes());
    for round in 0..2 {
        for number in 0..4_000 {
            let key = name(number);
            let found = store.get(space, key.as_bytes());
            if store.partition_of(key.as_bytes()) == damaged {
                let damage = found.unwrap_err().damage().unwrap();
                assert!(damage.what.contains("key 01234"), "{round}: {damage:?}");
                assert!(damage.what.contains(&format!("partition {damaged}")), "{damage:?}");
            } else {
                assert!(found.unwrap().is_some());
            }
        }
    }
    for number in 0..4 {
        let waited = store.wait_partition(number, Duration::from_secs(60));
        assert_eq!(waited.is_err(), number == damaged);
    }
    assert!(store.wait_ready().unwrap_err().damage().is_some());
    assert!(store.len(space).unwrap_err().damage().is_some());
    assert_eq!(store.stats().recovery.partitions_ready, 3);
    drop(store);
    let refused = IndexLog::open(&EngineOptions { on_demand: false, ..options });
    assert!(refused.is_err_and(|error| error.damage().is_some()));
}

#[test]
fn a_walk_in_no_order_visits_what_stays() {
    let folder = temporary_folder();
    let partitioning = Some(Partitioning::Hash(3));
    let hash =
        EngineOptions { partitioning, own: with_index(IndexKind::Hash), ..options(folder.path()) };
    let store = IndexLog::open(&hash).unwrap();
    let space = store.key_space("space").unwrap();
    (0..3_000).for_each(|number| put(&store, space, &name(number)));
    let (mut visited, mut steps, mut changed) = (BTreeMap::new(), 0, 3_000);
    for partition in 0..3 {
        let mut position = 0;
        loop {
            let before = visited.len();
            let mut visit = |key: &[u8]| {
                assert_eq!(store.partition_of(key), partition);
                *visited.entry(String::from_utf8(key.to_vec()).unwrap()).or_insert(0) += 1;
            };
            position =
                store.visit_partition(partition, space, position, 10, &mut visit).unwrap().unwrap();
            steps += 1;
            assert!(position == 0 || visited.len() >= before);
            if position == 0 {
                break;
            }
            // The table grows and shrinks meanwhile.
            for number in changed..changed + 50 {
                put(&store, space, &name(number));
                let key = name(number - 50);
                if number - 50 >= 3_000 && steps % 3 > 0 {
                    let op = Op::Delete { space, key: key.as_bytes() };
                    store.write(&[op], Durability::Deferred).unwrap();
                }
            }
            changed += 50;
        }
    }
    assert!((0..3_000).all(|number| visited.contains_key(&name(number))));
    assert!(steps > 200, "{steps}");
    drop(store);
    let ordered = IndexLog::open(&options(folder.path())).unwrap();
    assert_eq!(ordered.visit_partition(0, space, 0, 10, &mut |_| {}).unwrap(), None);
}

/// A crash leaves any prefix of each partition's deferred writes. A write that relies on one of another partition is
/// not left without that one.
#[test]
fn after_a_crash_a_write_is_not_there_without_what_it_relied_on() {
    const LEN: u64 = 64 << 20;
    let open = |medium: &Medium| {
        let mut pool_options = PoolOptions::default();
        pool_options.size_max = LEN;
        pool_options.medium = Some(medium.clone());
        let partitioning = ranges(&["m"]);
        let options = EngineOptions { pool_options, partitioning, ..EngineOptions::new("pool") };
        IndexLog::open(&options).unwrap()
    };
    for relies in [false, true] {
        let mut power = Power::new(LEN, |_| false);
        let store = open(&power.medium);
        let space = store.key_space("space").unwrap();
        let put = |key| Op::Put { space, key, value: b"1" };
        store.write(&[put(b"a")], Durability::Deferred).unwrap();
        let snapshot = store.snapshot().unwrap();
        let keys: &[(KeySpaceId, &[u8])] = if relies { &[(space, b"a")] } else { &[] };
        let expected = Expectation { snapshot: &*snapshot, keys, ranges: &[] };
        store.write_if(&[put(b"z")], Durability::Deferred, &[expected]).unwrap();
        store.sync_partition(1).unwrap();
        let left = power.cut();
        drop((snapshot, store));
        let store = open(&left);
        let space = store.key_space("space").unwrap();
        assert!(store.get(space, b"z").unwrap().is_some(), "its partition was synced");
        assert_eq!(store.get(space, b"a").unwrap().is_some(), relies);
    }
}

/// The version before has the same form, but for where pieces of values may begin.
#[test]
fn a_store_of_the_version_before_is_opened_and_becomes_one_of_this_version() {
    let folder = temporary_folder();
    let options = options(folder.path());
    let value = |number: u8| vec![number; 5000 + usize::from(number)];
    let write = |store: &IndexLog, number: u8| {
        let space = store.key_space("values").unwrap();
        let op = Op::Put { space, key: &[number], value: &value(number) };
        store.write(&[op], Durability::Immediate).unwrap();
    };
    let store = IndexLog::open(&options).unwrap();
    write(&store, 1);
    drop(store);
    let segments = || Segments::open(&options.pool, &options.pool_options).unwrap();
    let current = segments().root("engine:indexlog");
    segments().set_root("engine:indexlog", 5).unwrap();
    let store = IndexLog::open(&options).unwrap();
    (2..9).for_each(|number| write(&store, number));
    let space = store.key_space("values").unwrap();
    (1..9).for_each(|number| {
        assert_eq!(store.get(space, &[number]).unwrap().unwrap(), &value(number)[..])
    });
    drop(store);
    assert_eq!((segments().root("engine:indexlog"), current), (Some(6), Some(6)));
    segments().set_root("engine:indexlog", 7).unwrap();
    let newer = IndexLog::open(&options).map(drop).unwrap_err().to_string();
    assert!(newer.contains('7') && newer.contains('6'), "{newer}");
}

//! The trees are ordered maps, whose batches are atomic and whose snapshots stay.

use std::ops::{Bound, RangeBounds};

use halite_table::index::cow_file::VALUE_LEN_MAX;
use halite_table::index::{Error, KEY_LEN_MAX};
use proptest::prelude::*;

use super::*;

const TREES: u32 = 3;

#[derive(Debug, Clone)]
enum Op {
    Put(u32, Vec<u8>, Vec<u8>),
    Insert(u32, Vec<u8>, Vec<u8>),
    Remove(u32, Vec<u8>, usize),
    Clear(u32),
    Scan(u32, Vec<u8>, Vec<u8>, bool),
    Commit,
    Abort,
    Reopen,
    Snapshot,
    Forget,
}

fn keys() -> impl Strategy<Value = Vec<u8>> {
    let stem = prop_oneof![6 => Just(1), 2 => Just(20), 1 => Just(200), 1 => Just(KEY_LEN_MAX - 4)];
    let byte = prop_oneof![Just(0_u8), Just(1), Just(255), any::<u8>()];
    (stem, proptest::collection::vec(byte, 0..4))
        .prop_map(|(stem, end)| [&vec![b'k'; stem][..], &end].concat())
}

fn values() -> impl Strategy<Value = Vec<u8>> {
    let len = prop_oneof![12 => 0..60_usize, 2 => 60..300_usize, 2 => 300..3000_usize, 1 => 50_000..50_001_usize];
    (len, any::<u8>()).prop_map(|(len, byte)| vec![byte; len])
}

fn ops() -> impl Strategy<Value = Op> {
    let tree = 0..TREES;
    prop_oneof![
        30 => (tree.clone(), keys(), values()).prop_map(|(tree, key, value)| Op::Put(tree, key, value)),
        10 => (tree.clone(), keys(), values()).prop_map(|(tree, key, value)| Op::Insert(tree, key, value)),
        10 => (tree.clone(), keys(), 1..8_usize).prop_map(|(tree, key, count)| Op::Remove(tree, key, count)),
        1 => tree.clone().prop_map(Op::Clear),
        4 => (tree, keys(), keys(), any::<bool>())
            .prop_map(|(tree, from, to, reverse)| Op::Scan(tree, from, to, reverse)),
        6 => Just(Op::Commit),
        2 => Just(Op::Abort),
        2 => Just(Op::Reopen),
        2 => Just(Op::Snapshot),
        2 => Just(Op::Forget),
    ]
}

fn check(file: &CowFile, model: &Model) {
    for tree in 0..TREES {
        assert_eq!(entries_of(file, tree), entries_of_model(model, tree));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn batches_are_whole_or_absent_and_snapshots_stay(
        shift in 8_u32..15,
        ops in proptest::collection::vec(ops(), 1..300),
    ) {
        let disk = Disk::in_memory();
        let mut file = create(&disk, 1 << shift);
        let (mut model, mut committed) = (Model::new(), Model::new());
        let mut snapshots: Vec<(Snapshot, Model)> = Vec::new();
        for op in ops {
            match op {
                Op::Put(tree, key, value) => {
                    let was_there = file.put(tree, &key, &value).expect("a put");
                    let before = model.insert((tree, key), value);
                    prop_assert_eq!(was_there, before.is_some());
                }
                Op::Insert(tree, key, value) => {
                    let is_new = file.insert(tree, &key, &value).expect("an insertion");
                    prop_assert_eq!(is_new, !model.contains_key(&(tree, key.clone())));
                    model.entry((tree, key)).or_insert(value);
                }
                Op::Remove(tree, key, count) => {
                    let was_there = file.remove(tree, &key).expect("a removal");
                    prop_assert_eq!(was_there, model.remove(&(tree, key.clone())).is_some());
                    let near = model.range((tree, key)..(tree + 1, Vec::new())).take(count);
                    for (tree, key) in near.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
                        let found = file.get(tree, &key).expect("a lookup");
                        prop_assert_eq!(found.as_ref(), model.get(&(tree, key.clone())));
                        prop_assert!(file.remove(tree, &key).expect("a removal"));
                        model.remove(&(tree, key));
                    }
                }
                Op::Clear(tree) => {
                    file.clear(tree).expect("a tree without entries");
                    model.retain(|(of, _), _| *of != tree);
                }
                Op::Scan(tree, from, to, reverse) => {
                    let range = (Bound::Excluded(&from[..]), Bound::Included(&to[..]));
                    let mut expected = entries_of_model(&model, tree);
                    expected.retain(|(key, _)| RangeBounds::<[u8]>::contains(&range, &key[..]));
                    let direction = if reverse { Direction::Reverse } else { Direction::Forward };
                    if reverse {
                        expected.reverse();
                    }
                    let mut scan = file.scan(tree, range, direction).expect("a scan");
                    for (key, value) in expected {
                        let found = scan.next().expect("an entry");
                        let found = found.map(|(key, value)| (key.to_vec(), value.into_owned()));
                        prop_assert_eq!(found, Some((key, value)));
                    }
                    prop_assert!(scan.next().expect("the end").is_none());
                }
                Op::Commit => {
                    file.commit().expect("a commit");
                    committed = model.clone();
                    let found = file.verify().expect("a whole file");
                    prop_assert_eq!(found.entries, model.len() as u64);
                }
                Op::Abort => {
                    file.abort();
                    model = committed.clone();
                    file.verify().expect("a whole file");
                }
                Op::Reopen => {
                    snapshots.clear();
                    drop(file);
                    file = open(&disk);
                    model = committed.clone();
                    file.verify().expect("a whole file");
                    check(&file, &model);
                }
                Op::Snapshot => snapshots.push((file.snapshot(), committed.clone())),
                Op::Forget => drop((!snapshots.is_empty()).then(|| snapshots.remove(0))),
            }
        }
        check(&file, &model);
        for (snapshot, model) in &snapshots {
            for tree in 0..TREES {
                prop_assert_eq!(entries_of_snapshot(snapshot, tree), entries_of_model(model, tree));
            }
            for ((tree, key), value) in model.iter().take(20) {
                let found = snapshot.get(*tree, key).expect("a lookup");
                prop_assert_eq!(found.as_ref(), Some(value));
            }
        }
        for tree in 0..TREES {
            file.clear(tree).expect("a tree without entries");
        }
        file.commit().expect("a commit");
        prop_assert_eq!(file.verify().expect("a whole file").pages, 0);
    }
}

#[test]
fn keys_and_values_have_limits_and_a_refused_one_changes_nothing() {
    let disk = Disk::in_memory();
    let mut file = create(&disk, 256);
    let (long, key) = (vec![1; VALUE_LEN_MAX], vec![7; KEY_LEN_MAX]);
    file.put(1, &key, &long).expect("the longest ones");
    file.put(1, b"", b"").expect("the shortest ones");
    let too_long = [&key[..], &[7]].concat();
    assert!(matches!(file.put(1, &too_long, b""), Err(Error::KeyTooLong { len: 3073 })));
    let value = vec![1; VALUE_LEN_MAX + 1];
    assert!(matches!(file.put(1, b"", &value), Err(Error::ValueTooLong { .. })));
    file.commit().expect("a commit");
    drop(file);
    let file = open(&disk);
    assert_eq!(entries_of(&file, 1), [(Vec::new(), Vec::new()), (key, long)]);
    file.verify().expect("a whole file");
    for len in [0, 100, 128, 300, 32 << 10] {
        let made = CowFile::create(&disk, "other", STORE, options(len));
        assert!(matches!(made, Err(Error::PageLen { .. })), "{len}");
    }
}

#[test]
fn a_snapshot_is_read_on_another_thread_while_batches_commit() {
    let disk = Disk::in_memory();
    let mut file = create(&disk, 512);
    let key = |number: u32| number.to_be_bytes();
    for number in 0..2000 {
        file.put(0, &key(number), &0_u64.to_le_bytes()).expect("a put");
    }
    file.commit().expect("a commit");
    std::thread::scope(|scope| {
        for round in 1..20_u64 {
            let snapshot = file.snapshot();
            scope.spawn(move || {
                for _ in 0..3 {
                    let entries = entries_of_snapshot(&snapshot, 0);
                    assert_eq!(entries.len(), 2000);
                    let expected = (round - 1).to_le_bytes();
                    assert!(entries.iter().all(|(_, value)| *value == expected));
                }
            });
            for number in 0..2000 {
                file.put(0, &key(number), &round.to_le_bytes()).expect("a put");
            }
            file.commit().expect("a commit");
        }
    });
    file.verify().expect("a whole file");
}

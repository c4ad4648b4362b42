//! What the tree promises, against the standard library's.

use std::collections::BTreeMap;

use halite_index::{BPlusTree, Cursor};
use proptest::prelude::*;

type Model = BTreeMap<Vec<u8>, u64>;

/// Keys with long common prefixes, zero bytes and every length around a head's.
fn key() -> impl Strategy<Value = Vec<u8>> {
    let small = prop::collection::vec(prop::sample::select(vec![0, 1, b'a', 255]), 0..4);
    let prefix =
        prop::sample::select(vec![&b""[..], b"user:", b"user:0000000", b"\0\0\0\0\0\0\0\0"]);
    let spread = any::<u16>().prop_map(|n| n.to_be_bytes().to_vec());
    (prefix, prop_oneof![small, spread]).prop_map(|(prefix, rest)| [prefix, &rest].concat())
}

fn entries(cursor: Cursor) -> Vec<(Vec<u8>, u64)> {
    let (mut cursor, mut entries) = (cursor, Vec::new());
    while let Some(value) = cursor.next() {
        let mut key = Vec::new();
        cursor.copy_key(&mut key);
        entries.push((key, value));
    }
    entries
}

fn check(tree: &BPlusTree, model: &Model) {
    assert_eq!(tree.len(), model.len() as u64);
    let all: Vec<_> = model.iter().map(|(key, value)| (key.clone(), *value)).collect();
    assert_eq!(entries(tree.range(b"", None)), all);
    assert!(entries(tree.range_rev(b"", None)).into_iter().rev().eq(all));
}

fn check_range(tree: &BPlusTree, model: &Model, start: &[u8], end: Option<&[u8]>) {
    let inside = |key: &[u8]| key >= start && end.is_none_or(|end| key < end);
    let expected: Vec<_> = model
        .iter()
        .filter(|(key, _)| inside(key))
        .map(|(key, value)| (key.clone(), *value))
        .collect();
    assert_eq!(entries(tree.range(start, end)), expected);
    assert!(entries(tree.range_rev(start, end)).into_iter().rev().eq(expected));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_history_leaves_what_an_ordered_map_would_hold(
        ops in prop::collection::vec((key(), any::<u64>(), 0..10_u8), 1..1500),
        ranges in prop::collection::vec((key(), prop::option::of(key())), 8),
    ) {
        let (mut tree, mut model) = (BPlusTree::new(), Model::new());
        let mut snapshots = Vec::new();
        for (at, (key, value, kind)) in ops.into_iter().enumerate() {
            if kind < 7 {
                prop_assert_eq!(tree.insert(&key, value), model.insert(key.clone(), value));
            } else {
                prop_assert_eq!(tree.remove(&key), model.remove(&key));
            }
            prop_assert_eq!(tree.get(&key), model.get(&key).copied());
            if let Some(value) = model.get(&key) {
                prop_assert_eq!(tree.get_candidate(&key), Some(*value));
            }
            if at % 200 == 0 {
                snapshots.push((tree.clone(), model.clone()));
            }
        }
        check(&tree, &model);
        for (start, end) in &ranges {
            check_range(&tree, &model, start, end.as_deref());
        }
        for (tree, model) in &snapshots {
            check(tree, model);
        }
        check(&BPlusTree::from_sorted(model.clone()), &model);
        let built = BPlusTree::from_sorted(model.clone());
        for (start, end) in &ranges {
            check_range(&built, &model, start, end.as_deref());
        }
        for key in model.keys().cloned().collect::<Vec<_>>() {
            prop_assert_eq!(tree.remove(&key), model.remove(&key));
        }
        check(&tree, &model);
    }
}

#[test]
fn many_keys_in_any_order_of_arrival() {
    let count = 50_000_u64;
    let scattered = (0..count).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let orders: [Vec<u64>; 3] =
        [(0..count).collect(), (0..count).rev().collect(), scattered.collect()];
    for numbers in orders {
        let (mut tree, mut model) = (BPlusTree::new(), Model::new());
        for number in numbers {
            let key = number.to_be_bytes().to_vec();
            tree.insert(&key, number);
            model.insert(key, number);
        }
        check(&tree, &model);
        check(&BPlusTree::from_sorted(model.clone()), &model);
        let keys: Vec<_> = model.keys().filter(|key| key[7] % 8 != 0).cloned().collect();
        for key in keys {
            assert_eq!(tree.remove(&key), model.remove(&key));
        }
        check(&tree, &model);
        assert!(tree.heap_len() < model.len() * 120, "sparse nodes are joined");
    }
}

#[test]
fn huge_keys_keep_nodes_small() {
    let (mut tree, mut model) = (BPlusTree::new(), Model::new());
    for number in 0..200_u64 {
        let mut key = vec![b'k'; 64 << 10];
        key[60_000..60_008]
            .copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        tree.insert(&key, number);
        model.insert(key, number);
    }
    check(&tree, &model);
    check(&BPlusTree::from_sorted(model.clone()), &model);
}

#[test]
fn huge_keys_among_small_ones_lose_nothing() {
    let (mut tree, mut model) = (BPlusTree::new(), Model::new());
    for number in 0..3000_u64 {
        let scattered = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        let len = if number % 7 == 0 { 40_000 } else { number as usize % 40 };
        let key =
            [&b"same prefix"[..], &scattered[..2], &vec![b'x'; len], &scattered[2..]].concat();
        assert_eq!(tree.insert(&key, number), model.insert(key, number));
    }
    check(&tree, &model);
    check(&BPlusTree::from_sorted(model.clone()), &model);
    for key in model.keys().step_by(2).cloned().collect::<Vec<_>>() {
        assert_eq!(tree.remove(&key), model.remove(&key));
    }
    check(&tree, &model);
}

#[test]
fn a_sample_is_found_whatever_was_removed() {
    let mut tree = BPlusTree::from_sorted((0..5000_u64).map(|n| (n.to_be_bytes(), n)));
    for number in (0..5000).filter(|number| number % 1000 > 70) {
        tree.remove(&u64::to_be_bytes(number));
        let random = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        assert!(tree.sample(random).is_some());
    }
}

#[test]
fn samples_reach_every_key() {
    assert_eq!(BPlusTree::new().sample(5), None);
    let tree = BPlusTree::from_sorted((0..500_u64).map(|n| (n.to_be_bytes(), n)));
    let mut seen = [false; 500];
    for random in 0..50_000_u64 {
        let random = random.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        seen[tree.sample(random).unwrap() as usize] = true;
    }
    assert!(seen.iter().all(|&seen| seen));
}

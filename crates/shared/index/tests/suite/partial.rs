//! The guarantees of the partial-key tree, against the standard library's ordered map.

use std::collections::BTreeMap;

use crate::common::{Liar, Table, Unreadable};
use halite_index::{PartialKeyCursor, PartialKeyTree, PartialLen};
use proptest::prelude::*;

type Model = BTreeMap<Vec<u8>, u64>;

/// Keys with long common prefixes, prefixes of each other, zero bytes and every length around a
/// head's.
fn key() -> impl Strategy<Value = Vec<u8>> {
    let small = prop::collection::vec(prop::sample::select(vec![0, 1, b'a', 255]), 0..4);
    let prefix = prop::sample::select(vec![
        &b""[..],
        b"user:",
        b"user:0000000",
        b"\0\0\0\0\0\0\0\0",
        &[b'p'; 300],
    ]);
    let spread = any::<u16>().prop_map(|n| n.to_be_bytes().to_vec());
    let digits = (0..100_000_u32).prop_map(|n| format!("{n:05}").into_bytes());
    (prefix, prop_oneof![small, spread, digits]).prop_map(|(prefix, rest)| [prefix, &rest].concat())
}

fn partial() -> impl Strategy<Value = PartialLen> {
    prop::sample::select(PartialLen::ALL.to_vec())
}

fn scattered(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn entries(model: &Model) -> Vec<u64> {
    model.values().copied().collect()
}

fn check(tree: &PartialKeyTree, model: &Model, table: &Table) {
    assert_eq!(tree.len(), model.len() as u64);
    let all = entries(model);
    assert!(tree.iter().eq(all.iter().copied()));
    assert!(tree.range(b"", None, table).unwrap().eq(all.iter().copied()));
    assert!(tree.range_rev(b"", None, table).unwrap().eq(all.iter().rev().copied()));
}

fn peeked(mut cursor: PartialKeyCursor) -> Vec<u64> {
    let mut entries = Vec::new();
    while let Some(next) = cursor.peek() {
        assert_eq!(cursor.next(), Some(next));
        entries.push(next);
    }
    assert_eq!((cursor.next(), cursor.peek()), (None, None));
    entries
}

fn check_range(
    tree: &PartialKeyTree,
    model: &Model,
    table: &Table,
    start: &[u8],
    end: Option<&[u8]>,
) {
    let inside = |key: &[u8]| key >= start && end.is_none_or(|end| key < end);
    let expected: Vec<_> =
        model.iter().filter(|(key, _)| inside(key)).map(|(_, entry)| *entry).collect();
    assert_eq!(peeked(tree.range(start, end, table).unwrap()), expected);
    let mut reversed = peeked(tree.range_rev(start, end, table).unwrap());
    reversed.reverse();
    assert_eq!(reversed, expected);
}

fn check_remove_range(
    tree: &mut PartialKeyTree,
    model: &mut Model,
    table: &Table,
    start: &[u8],
    end: Option<&[u8]>,
) {
    let inside = |key: &[u8]| key >= start && end.is_none_or(|end| key < end);
    let expected: Vec<_> = model.extract_if(.., |key, _| inside(key)).collect();
    let removed = tree.remove_range(start, end, table).unwrap();
    assert!(removed.into_iter().eq(expected.iter().map(|(_, entry)| *entry)));
    check(tree, model, table);
    for (key, entry) in expected.iter().step_by(3) {
        assert_eq!(tree.get(key, table), Ok(None));
        assert_eq!(tree.insert(key, *entry, table), Ok(None));
        model.insert(key.clone(), *entry);
    }
    check(tree, model, table);
}

fn build(partial: PartialLen, model: &Model) -> PartialKeyTree {
    PartialKeyTree::from_sorted(partial, model.iter().map(|(key, entry)| (key, *entry)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_history_leaves_what_an_ordered_map_would_hold(
        partial in partial(),
        ops in prop::collection::vec((key(), 0..10_u8), 1..2500),
        ranges in prop::collection::vec((key(), prop::option::of(key())), 8),
    ) {
        let table = Table::default();
        let (mut tree, mut model) = (PartialKeyTree::new(partial), Model::new());
        let mut snapshots = Vec::new();
        for (at, (key, kind)) in ops.into_iter().enumerate() {
            let entry = table.entry(&key, at as u64);
            if kind < 6 {
                let old = model.insert(key.clone(), entry);
                prop_assert_eq!(tree.insert(&key, entry, &table).unwrap(), old);
            } else if kind < 9 {
                prop_assert_eq!(tree.remove(&key, &table).unwrap(), model.remove(&key));
            } else if let Some(known) = model.get_mut(&key) {
                let is_there = tree.modify_present(&key, |bits| *bits = entry, &table).unwrap();
                prop_assert!(is_there);
                *known = entry;
            }
            prop_assert_eq!(tree.get(&key, &table).unwrap(), model.get(&key).copied());
            if let Some(entry) = model.get(&key) {
                prop_assert_eq!(tree.get_candidate(&key, &table).unwrap(), Some(*entry));
            }
            if at % 200 == 0 {
                snapshots.push((tree.clone(), model.clone()));
            }
        }
        check(&tree, &model, &table);
        for (tree, model) in &snapshots {
            check(tree, model, &table);
        }
        let built = build(partial, &model);
        check(&built, &model, &table);
        for (start, end) in &ranges {
            check_range(&tree, &model, &table, start, end.as_deref());
            check_range(&built, &model, &table, start, end.as_deref());
            prop_assert_eq!(built.get(start, &table).unwrap(), model.get(start).copied());
        }
        for (start, end) in &ranges {
            let (mut tree, mut model) = (tree.clone(), model.clone());
            check_remove_range(&mut tree, &mut model, &table, start, end.as_deref());
        }
        for key in model.keys().cloned().collect::<Vec<_>>() {
            prop_assert_eq!(tree.remove(&key, &table).unwrap(), model.remove(&key));
        }
        check(&tree, &model, &table);
        for (tree, model) in &snapshots {
            check(tree, model, &table);
        }
    }

    #[test]
    fn an_unreadable_key_changes_nothing(
        partial in partial(),
        before in prop::collection::btree_set(key(), 1..1500),
        ops in prop::collection::vec((key(), 0..4_u8), 1..60),
    ) {
        let table = Table::default();
        let mut tree = PartialKeyTree::new(partial);
        let mut model = Model::new();
        for (at, key) in before.iter().enumerate() {
            let entry = table.entry(key, at as u64);
            tree.insert(key, entry, &table).unwrap();
            model.insert(key.clone(), entry);
        }
        for (key, kind) in ops {
            let entry = table.entry(&key, 77);
            // Every read of the operation fails in turn, until there are no more.
            for reads in 0.. {
                table.fails_after.set(Some(reads));
                let result = match kind {
                    0 => tree.insert(&key, entry, &table),
                    1 => tree.remove(&key, &table),
                    2 => tree.get(&key, &table),
                    _ => tree.range(&key, Some(&[255; 9]), &table).map(|mut range| range.next()),
                };
                table.fails_after.set(None);
                if result != Err(Unreadable) {
                    break;
                }
                check(&tree, &model, &table);
                prop_assert_eq!(tree.get(&key, &table).unwrap(), model.get(&key).copied());
            }
            match kind {
                0 => drop(model.insert(key, entry)),
                1 => drop(model.remove(&key)),
                _ => {}
            }
            check(&tree, &model, &table);
        }
    }
}

#[test]
fn many_keys_in_any_order_of_arrival() {
    let count = 50_000_u64;
    let orders: [Vec<u64>; 3] =
        [(0..count).collect(), (0..count).rev().collect(), (0..count).map(scattered).collect()];
    for partial in PartialLen::ALL {
        for numbers in &orders {
            let table = Table::default();
            let (mut tree, mut model) = (PartialKeyTree::new(partial), Model::new());
            for number in numbers {
                let key = format!("session/{number:020}").into_bytes();
                let entry = table.entry(&key, 0);
                assert_eq!(tree.insert(&key, entry, &table), Ok(None));
                model.insert(key, entry);
            }
            check(&tree, &model, &table);
            let per_key = tree.heap_len() as f64 / model.len() as f64;
            assert!(per_key < (8 + partial.bytes()) as f64 * 1.4, "{per_key} at {partial:?}");
            check(&build(partial, &model), &model, &table);
            let keys: Vec<_> = model.keys().filter(|key| key[27] % 8 != 0).cloned().collect();
            for key in keys {
                assert_eq!(tree.remove(&key, &table).unwrap(), model.remove(&key));
            }
            check(&tree, &model, &table);
            assert!(tree.heap_len() < model.len() * (9 + partial.bytes()) * 3, "leaves are joined");
        }
    }
}

#[test]
fn keys_of_64_kib_among_small_ones() {
    for partial in PartialLen::ALL {
        let table = Table::default();
        let (mut tree, mut model) = (PartialKeyTree::new(partial), Model::new());
        for number in 0..1500_u64 {
            let scattered = scattered(number).to_be_bytes();
            let len = if number % 3 == 0 { (64 << 10) - 19 } else { number as usize % 40 };
            let key = [&b"same prefix"[..], &vec![b'x'; len], &scattered[..]].concat();
            let entry = table.entry(&key, number);
            assert_eq!(tree.insert(&key, entry, &table), Ok(model.insert(key, entry)));
        }
        check(&tree, &model, &table);
        check(&build(partial, &model), &model, &table);
        for key in model.keys().step_by(2).cloned().collect::<Vec<_>>() {
            assert_eq!(tree.remove(&key, &table).unwrap(), model.remove(&key));
        }
        check(&tree, &model, &table);
    }
}

#[test]
fn partial_keys_decide_nearly_always() {
    let table = Table::default();
    let mut tree = PartialKeyTree::new(PartialLen::Four);
    let keys: Vec<_> =
        (0..100_000).map(|n| format!("user{:020}", scattered(n)).into_bytes()).collect();
    for key in &keys {
        tree.insert(key, table.entry(key, 0), &table).unwrap();
    }
    let reads_to_insert = table.reads.replace(0);
    assert!(reads_to_insert < 3 * 100_000, "{reads_to_insert} reads");
    for key in &keys {
        assert_eq!(tree.get_candidate(key, &table), Ok(Some(table.entry(key, 0))));
    }
    let reads_to_find = table.reads.replace(0);
    assert!(reads_to_find < 20_000, "{reads_to_find} reads");
    tree.iter().for_each(drop);
    assert_eq!(table.reads.get(), 0, "a walk reads no key");
}

#[test]
fn a_small_tree_leaves_out_the_prefix_of_its_keys() {
    let table = Table::default();
    let mut tree = PartialKeyTree::new(PartialLen::Four);
    for number in 0..40_u64 {
        let key = format!("http://example.com/a/long/path/{number:04}").into_bytes();
        tree.insert(&key, table.entry(&key, 0), &table).unwrap();
    }
    table.reads.set(0);
    for number in 0..40_u64 {
        let key = format!("http://example.com/a/long/path/{number:04}").into_bytes();
        assert_eq!(tree.get_candidate(&key, &table), Ok(Some(table.entry(&key, 0))));
    }
    for other in [&b"ftp"[..], b"http://example.com/a/long/paths", b"http://x"] {
        assert_eq!(tree.get(other, &table), Ok(None));
    }
    assert_eq!(table.reads.get(), 0);
}

#[test]
fn samples_reach_every_key() {
    let table = Table::default();
    assert_eq!(PartialKeyTree::new(PartialLen::Four).sample(5), None);
    let keys: Vec<_> = (0..500_u64).map(u64::to_be_bytes).collect();
    let entries = keys.iter().map(|key| (key, table.entry(key, 0)));
    let mut tree = PartialKeyTree::from_sorted(PartialLen::Four, entries);
    let mut seen = [false; 500];
    for random in 0..50_000_u64 {
        seen[tree.sample(scattered(random)).unwrap() as usize] = true;
    }
    assert!(seen.iter().all(|&seen| seen));
    for (number, key) in keys.iter().enumerate().skip(1) {
        tree.remove(key, &table).unwrap();
        assert!(tree.sample(scattered(number as u64)).is_some());
    }
}

#[test]
fn wrong_keys_do_no_more_than_lose_entries() {
    for partial in PartialLen::ALL {
        let table = Liar::default();
        let mut tree = PartialKeyTree::new(partial);
        for number in 0..20_000_u64 {
            let key =
                [&b"key"[..], &scattered(number).to_be_bytes()[..number as usize % 9]].concat();
            tree.insert(&key, number, &table).unwrap();
            if number % 3 == 0 {
                tree.remove(&key, &table).unwrap();
            }
            if number % 100 == 0 {
                let walked = tree.range(&key, None, &table).unwrap().count() as u64;
                assert!(walked <= tree.len());
            }
        }
        assert_eq!(tree.iter().count() as u64, tree.len());
    }
}

#[test]
fn ranges_of_any_length_are_removed_without_reading_them() {
    let table = Table::default();
    let key = |number: u64| format!("user{:020}", scattered(number)).into_bytes();
    let mut model: Model =
        (0..100_000).map(|number| (key(number), table.entry(&key(number), 0))).collect();
    let mut tree = build(PartialLen::Four, &model);
    let full = tree.heap_len();
    for (start, end) in [("user05", "user0500000001"), ("user03", "user04"), ("user02", "user14")] {
        let snapshot = (tree.clone(), model.clone());
        table.reads.set(0);
        let mut once = tree.clone();
        let removed = once.remove_range(start.as_bytes(), Some(end.as_bytes()), &table).unwrap();
        assert!(table.reads.get() < 40, "{} reads", table.reads.get());
        assert_eq!(once.len() + removed.len() as u64, tree.len());
        check_remove_range(&mut tree, &mut model, &table, start.as_bytes(), Some(end.as_bytes()));
        check(&snapshot.0, &snapshot.1, &table);
        drop((snapshot, once));
        let built = build(PartialLen::Four, &model).heap_len();
        assert!(tree.heap_len() < built * 5 / 4, "{} against {built} B built", tree.heap_len());
    }
    tree.remove_range(b"user0001", None, &table).unwrap();
    assert!(tree.heap_len() < full / 200, "{} of {full} bytes are left", tree.heap_len());
    let rest: Vec<_> = tree.iter().collect();
    assert!(!rest.is_empty());
    assert_eq!(tree.remove_range(b"", None, &table), Ok(rest));
    assert!(tree.is_empty());
}

#[test]
fn entries_are_found_and_changed_by_what_they_are_without_a_key() {
    for partial in PartialLen::ALL {
        let (table, mut tree) = (Table::default(), PartialKeyTree::new(partial));
        let key = |number: u64| format!("user{:07}", scattered(number) % 10_000_000).into_bytes();
        let keys: Vec<_> = (0..5000).map(key).collect();
        for key in &keys {
            tree.insert(key, table.entry(key, 1), &table).unwrap();
        }
        let snapshot = tree.clone();
        table.fails_after.set(Some(0));
        let wanted: Vec<&[u8]> = keys.iter().map(Vec::as_slice).chain([&b"none"[..]]).collect();
        let entries: Vec<_> = keys.iter().map(|key| table.entry(key, 1)).collect();
        let found = tree.find_entries(&wanted, |at, entry| entries.get(at) == Some(&entry));
        let expected: Vec<_> = entries.iter().copied().map(Some).chain([None]).collect();
        assert_eq!(found, expected);
        assert!(tree.find_entries(&wanted, |_, _| false).iter().all(Option::is_none));
        for (key, &old) in keys.iter().zip(&entries) {
            let new = table.entry(key, 2);
            assert!(!tree.modify_entry(key, |entry| entry == new, |entry| *entry = 0));
            assert!(tree.modify_entry(key, |entry| entry == old, |entry| *entry = new));
        }
        table.fails_after.set(None);
        for key in &keys {
            assert_eq!(tree.get(key, &table).unwrap(), Some(table.entry(key, 2)));
            assert_eq!(snapshot.get(key, &table).unwrap(), Some(table.entry(key, 1)));
        }
    }
}

//! The guarantees of the hash index, against the standard library's map.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{Liar, Table, Unreadable};
use halite_index::HashIndex;
use proptest::prelude::*;

type Model = BTreeMap<Vec<u8>, u64>;

fn key() -> impl Strategy<Value = Vec<u8>> {
    let prefix = prop::sample::select(vec![&b""[..], b"\0", b"user:0000000", &[b'p'; 300]]);
    let small = prop::collection::vec(prop::sample::select(vec![0, 1, 255]), 0..3);
    let spread = any::<u16>().prop_map(|n| n.to_be_bytes().to_vec());
    (prefix, prop_oneof![1 => small, 9 => spread])
        .prop_map(|(prefix, rest)| [prefix, &rest].concat())
}

fn scattered(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn walked(index: &HashIndex) -> Vec<u64> {
    let (mut found, mut position) = (Vec::new(), 0);
    loop {
        position = index.scan(position, |entry| found.push(entry));
        if position == 0 {
            return found;
        }
    }
}

fn check(index: &HashIndex, model: &Model) {
    assert_eq!(index.len(), model.len() as u64);
    let mut expected: Vec<_> = model.values().copied().collect();
    expected.sort_unstable();
    let mut all: Vec<_> = index.iter().collect();
    all.sort_unstable();
    assert_eq!(all, expected);
    let mut walked = walked(index);
    walked.sort_unstable();
    assert_eq!(walked, expected, "a walk over a still index visits each entry once");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_history_leaves_what_a_map_would_hold(
        seed in any::<[u64; 2]>(),
        ops in prop::collection::vec((key(), 0..10_u8), 1..4000),
    ) {
        let table = Table::default();
        let (mut index, mut model) = (HashIndex::new(seed), Model::new());
        let mut snapshots = Vec::new();
        for (at, (key, kind)) in ops.into_iter().enumerate() {
            let entry = table.entry(&key, at as u64);
            if kind < 7 {
                let old = model.insert(key.clone(), entry);
                prop_assert_eq!(index.insert(&key, entry, &table).unwrap(), old);
            } else if kind < 9 {
                prop_assert_eq!(index.remove(&key, &table).unwrap(), model.remove(&key));
            } else if let Some(known) = model.get_mut(&key) {
                let is_there = index.modify_present(&key, |bits| *bits = entry, &table).unwrap();
                prop_assert!(is_there);
                *known = entry;
            }
            prop_assert_eq!(index.get(&key, &table).unwrap(), model.get(&key).copied());
            if let Some(entry) = model.get(&key) {
                prop_assert_eq!(index.get_candidate(&key, &table).unwrap(), Some(*entry));
            }
            if at % 500 == 0 {
                snapshots.push((index.clone(), model.clone()));
            }
        }
        check(&index, &model);
        for key in model.keys().cloned().collect::<Vec<_>>() {
            prop_assert_eq!(index.remove(&key, &table).unwrap(), model.remove(&key));
        }
        check(&index, &model);
        for (index, model) in &snapshots {
            check(index, model);
        }
    }

    #[test]
    fn an_unreadable_key_changes_nothing(
        before in prop::collection::btree_set(key(), 1..1500),
        ops in prop::collection::vec((key(), 0..3_u8), 1..60),
    ) {
        let table = Table::default();
        let (mut index, mut model) = (HashIndex::new([1, 2]), Model::new());
        for key in &before {
            let entry = table.entry(key, 0);
            index.insert(key, entry, &table).unwrap();
            model.insert(key.clone(), entry);
        }
        for (key, kind) in ops {
            let entry = table.entry(&key, 77);
            for reads in 0.. {
                table.fails_after.set(Some(reads));
                let result = match kind {
                    0 => index.insert(&key, entry, &table),
                    1 => index.remove(&key, &table),
                    _ => index.get(&key, &table),
                };
                table.fails_after.set(None);
                if result != Err(Unreadable) {
                    break;
                }
                prop_assert_eq!(index.len(), model.len() as u64);
                prop_assert_eq!(index.get(&key, &table).unwrap(), model.get(&key).copied());
            }
            match kind {
                0 => drop(model.insert(key, entry)),
                1 => drop(model.remove(&key)),
                _ => {}
            }
        }
        check(&index, &model);
    }

    #[test]
    fn a_walk_visits_what_stays_however_the_index_changes(
        seed in any::<[u64; 2]>(),
        stay in 1..3000_u64,
        steps in prop::collection::vec((any::<bool>(), 0..600_u64), 1..40),
    ) {
        let table = Table::default();
        let mut index = HashIndex::new(seed);
        let key = |number: u64| scattered(number).to_be_bytes();
        for number in 0..stay {
            index.insert(&key(number), table.entry(&key(number), 0), &table).unwrap();
        }
        let (mut visited, mut position, mut more) = (BTreeSet::new(), 0, stay..stay);
        for (grows, count) in steps.into_iter().cycle() {
            for _ in 0..count.max(1) {
                if grows && more.end - more.start < 20_000 {
                    let key = key(more.end);
                    index.insert(&key, table.entry(&key, 0), &table).unwrap();
                    more.end += 1;
                } else if let Some(number) = more.next() {
                    index.remove(&key(number), &table).unwrap();
                }
            }
            for _ in 0..5 {
                position = index.scan(position, |entry| {
                    visited.insert(entry);
                });
                if position == 0 {
                    break;
                }
            }
            if position == 0 {
                break;
            }
        }
        for number in 0..stay {
            prop_assert!(visited.contains(&table.entry(&key(number), 0)), "{} was missed", number);
        }
    }
}

#[test]
fn an_index_grows_and_shrinks_with_its_keys() {
    let table = Table::default();
    let (mut index, mut model) = (HashIndex::new([3, 4]), Model::new());
    let key = |number: u64| format!("user{:020}", scattered(number)).into_bytes();
    for number in 0..200_000 {
        let entry = table.entry(&key(number), 0);
        index.insert(&key(number), entry, &table).unwrap();
        model.insert(key(number), entry);
    }
    let reads = table.reads.replace(0);
    assert!(reads < 3 * 200_000, "{reads} reads to insert");
    check(&index, &model);
    assert!(index.heap_len() < 14 * model.len());
    for number in 0..200_000 {
        assert_eq!(index.get(&key(number), &table), Ok(Some(model[&key(number)])));
        assert_eq!(index.get(&key(number + 200_000), &table), Ok(None));
    }
    let reads = table.reads.replace(0);
    assert!(reads < 200_000 * 5 / 4, "{reads} reads to find");
    for number in 500..200_000 {
        assert_eq!(index.remove(&key(number), &table).unwrap(), model.remove(&key(number)));
    }
    check(&index, &model);
    assert!(index.heap_len() < 40 * model.len() + 4096, "{} bytes", index.heap_len());
}

#[test]
fn growth_goes_on_while_keys_cannot_be_read() {
    let table = Table::default();
    let mut index = HashIndex::new([5, 6]);
    let key = |number: u64| scattered(number).to_be_bytes();
    for number in 0..300_000 {
        let entry = table.entry(&key(number), 0);
        // Another key with the same tag has to be read: that insert fails.
        table.fails_after.set(Some(0));
        let result = index.insert(&key(number), entry, &table);
        table.fails_after.set(None);
        if result == Err(Unreadable) {
            assert_eq!(index.insert(&key(number), entry, &table), Ok(None));
        }
    }
    assert_eq!(index.len(), 300_000);
    for number in 0..300_000 {
        assert_eq!(index.get(&key(number), &table), Ok(Some(table.entry(&key(number), 0))));
    }
}

#[test]
fn keys_of_64_kib() {
    let table = Table::default();
    let mut index = HashIndex::new([7, 8]);
    let key = |number: u64| [&vec![b'k'; (64 << 10) - 8][..], &number.to_be_bytes()].concat();
    for number in 0..600 {
        index.insert(&key(number), table.entry(&key(number), 0), &table).unwrap();
    }
    for number in 0..600 {
        assert_eq!(index.get(&key(number), &table), Ok(Some(table.entry(&key(number), 0))));
    }
}

#[test]
fn samples_reach_every_key() {
    let table = Table::default();
    let mut index = HashIndex::new([9, 10]);
    assert_eq!(index.sample(5), None);
    for number in 0..500_u64 {
        let key = number.to_be_bytes();
        index.insert(&key, table.entry(&key, 0), &table).unwrap();
    }
    let mut seen = [false; 500];
    for random in 0..100_000_u64 {
        seen[index.sample(scattered(random)).unwrap() as usize] = true;
    }
    assert!(seen.iter().all(|&seen| seen));
}

#[test]
fn wrong_keys_do_no_more_than_lose_entries() {
    let table = Liar::default();
    let mut index = HashIndex::new([1, 2]);
    for number in 0..50_000_u64 {
        let key = scattered(number).to_be_bytes();
        index.insert(&key, number, &table).unwrap();
        if number % 3 == 0 {
            index.remove(&key, &table).unwrap();
        }
    }
    assert_eq!(index.iter().count() as u64, index.len());
    walked(&index);
}

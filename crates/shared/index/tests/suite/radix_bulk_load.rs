//! Radix trees of keys that are all known beforehand, against the standard library's ordered map.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::OnceLock;
use std::thread;

use halite_index::{BulkLoad, Direction, RadixTree, Records};
use proptest::prelude::*;

use crate::records::{Heap, key};

/// Bulk loads runs of keys, each from a thread, in at most so many ranges; and compares the tree with the
/// model.
fn bulk_loaded(
    runs: &[Vec<Vec<u8>>],
    samples: &[Vec<u8>],
    ranges: usize,
    threads: usize,
) -> Result<(), TestCaseError> {
    let mut model: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
    let mut version = 0;
    let mut gathered = Vec::new();
    for keys in runs {
        let mut run = Vec::new();
        for key in keys {
            version += 1;
            let entry = Heap::add(key, version);
            run.push((key, entry));
            model.insert(key.clone(), entry);
        }
        gathered.push(run);
    }
    let samples = samples.iter().map(|sample| sample.clone().into()).collect();
    let load = BulkLoad::new(samples, ranges * 16384);
    thread::scope(|scope| {
        for run in gathered {
            scope.spawn(|| {
                let mut loader = load.loader();
                run.into_iter().for_each(|(key, entry)| loader.push(key, entry));
            });
        }
    });
    let tree = RadixTree::new();
    tree.bulk_load(&Heap, load, threads);
    prop_assert_eq!(tree.len(), model.len() as u64);
    for (key, entry) in &model {
        prop_assert_eq!(tree.newest(&Heap, key), Some(*entry), "{:?}", key);
        let longer = [&key[..], b"\0"].concat();
        prop_assert_eq!(tree.newest(&Heap, &longer), model.get(&longer).copied());
    }
    for direction in [Direction::Ascending, Direction::Descending] {
        let mut cursor = tree.cursor(Bound::Unbounded, Bound::Unbounded, direction, u64::MAX);
        let walked: Vec<u64> = std::iter::from_fn(|| cursor.next(&tree, &Heap)).collect();
        let mut expected: Vec<u64> = model.values().copied().collect();
        if direction == Direction::Descending {
            expected.reverse();
        }
        prop_assert_eq!(walked, expected);
    }
    // The tree goes on as if all keys had been inserted.
    for key in runs.iter().flatten().take(20) {
        let longer = [&key[..], b"more"].concat();
        version += 1;
        let entry = Heap::add(&longer, version);
        tree.insert(&Heap, &longer, entry);
        prop_assert_eq!(tree.newest(&Heap, &longer), Some(entry));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_bulk_loaded_tree_has_the_newest_of_each_key(
        runs in prop::collection::vec(prop::collection::vec(key(), 0..120), 0..6),
        others in prop::collection::vec(key(), 0..20),
        (sampled, ranges, threads) in (1_usize..20, 1_usize..50, 1_usize..3),
    ) {
        // Some samples are keys that are there, some are not.
        let keys = runs.iter().flatten().step_by(sampled);
        let samples: Vec<Vec<u8>> = keys.chain(&others).cloned().collect();
        bulk_loaded(&runs, &samples, ranges, threads)?;
    }
}

#[test]
fn many_keys_are_bulk_loaded_by_several_threads() {
    // Some prefixes have nearly all keys, and each key comes twice.
    let key = |n: u64| match n % 10 {
        0 => n.to_be_bytes().to_vec(),
        1 => [b"a prefix of more than sixteen bytes: ", &n.to_be_bytes()[5..]].concat(),
        2 => format!("{n}").into_bytes(),
        _ => [&[7, 7, 7][..], &(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_be_bytes()].concat(),
    };
    let run = |from: u64| (0..20_000).map(|n| key((from + n) % 40_000)).collect();
    let runs: Vec<Vec<Vec<u8>>> = (0..4).map(|run_number| run(run_number * 20_000)).collect();
    let samples: Vec<Vec<u8>> = runs.iter().flatten().step_by(100).cloned().collect();
    for (ranges, threads) in [(1, 1), (19, 1), (19, 2), (100, 7)] {
        bulk_loaded(&runs, &samples, ranges, threads).unwrap();
    }
}

/// Entries are divided in blocks of so many, on each thread.
const BLOCK: u64 = 16384;

#[test]
fn blocks_may_be_full_or_not() {
    let key = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec();
    for len in [BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK] {
        let keys: Vec<Vec<u8>> = (0..len).map(key).collect();
        let samples: Vec<Vec<u8>> = keys.iter().step_by(1000).cloned().collect();
        bulk_loaded(&[keys], &samples, 3, 1).unwrap();
    }
}

#[test]
#[should_panic(expected = "is empty")]
fn a_tree_that_has_keys_is_not_bulk_loaded() {
    let tree = RadixTree::new();
    tree.insert(&Heap, b"other", Heap::add(b"other", 1));
    let load = BulkLoad::new(Vec::new(), 1);
    load.loader().push(b"key", Heap::add(b"key", 1));
    tree.bulk_load(&Heap, load, 1);
}

/// Records that are numbers: their keys, which are long and have much in common, and versions.
struct Numbered;

fn long_key(number: u64) -> [u8; 48] {
    let mut key = [b'k'; 48];
    key[40..].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key
}

fn entry(number: u64) -> u64 {
    (number + 1) * 8
}

impl Records for Numbered {
    fn key(&self, entry: u64) -> &[u8] {
        static KEYS: OnceLock<Vec<[u8; 48]>> = OnceLock::new();
        &KEYS.get_or_init(|| (0..KEYS_OF_NUMBERED).map(long_key).collect())
            [(entry / 8 - 1) as usize]
    }

    fn version(&self, entry: u64) -> u64 {
        entry
    }
}

/// More than are allocated at once.
const KEYS_OF_NUMBERED: u64 = 700_000;

#[test]
fn more_keys_than_are_allocated_at_once_are_all_there() {
    let samples = (0..KEYS_OF_NUMBERED).step_by(1000).map(|number| long_key(number).into());
    let load = BulkLoad::new(samples.collect(), KEYS_OF_NUMBERED as usize);
    for first in (0..KEYS_OF_NUMBERED).step_by(7000) {
        let mut loader = load.loader();
        (first..first + 7000).for_each(|number| loader.push(&long_key(number), entry(number)));
    }
    let tree = RadixTree::new();
    tree.bulk_load(&Numbered, load, 2);
    assert_eq!(tree.len(), KEYS_OF_NUMBERED);
    let mut sorted: Vec<u64> = (0..KEYS_OF_NUMBERED).collect();
    sorted.sort_unstable_by_key(|&number| long_key(number));
    let mut cursor =
        tree.cursor(Bound::Unbounded, Bound::Unbounded, Direction::Ascending, u64::MAX);
    for number in sorted {
        assert_eq!(cursor.next(&tree, &Numbered), Some(entry(number)));
        assert_eq!(tree.newest(&Numbered, &long_key(number)), Some(entry(number)));
    }
    assert_eq!(cursor.next(&tree, &Numbered), None);
}

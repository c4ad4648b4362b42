//! The version lock, and readers beside writers of one tree, in every order of their steps.
//!
//! Nodes are freed when the tree is dropped: loom does not model the epochs.

use std::ops::Bound;
use std::sync::Arc;

use loom::model;
use loom::model::Builder;
use loom::thread::spawn;

use super::lock::VersionLock;
use super::{Direction, RadixTree, Records};
use crate::sync::{AtomicU64, Ordering};

#[test]
fn what_is_read_between_two_equal_versions_belongs_together() {
    model(|| {
        let shared = Arc::new((VersionLock::new(), AtomicU64::new(0), AtomicU64::new(0)));
        let writers = Arc::clone(&shared);
        let writer = spawn(move || {
            let (lock, one, other) = &*writers;
            let seen = lock.read().unwrap();
            let _locked = lock.lock(seen).unwrap();
            one.store(1, Ordering::Relaxed);
            other.store(1, Ordering::Relaxed);
        });
        let (lock, one, other) = &*shared;
        if let Ok(seen) = lock.read() {
            let pair = (one.load(Ordering::Relaxed), other.load(Ordering::Relaxed));
            if lock.validate(seen).is_ok() {
                assert_eq!(pair.0, pair.1);
            }
        }
        writer.join().unwrap();
    });
}

#[test]
fn who_locks_at_a_version_decides_by_what_was_read() {
    model(|| {
        let shared = Arc::new((VersionLock::new(), AtomicU64::new(0)));
        let add = |(lock, sum): &(VersionLock, AtomicU64)| {
            let Ok(seen) = lock.read() else { return 0 };
            let before = sum.load(Ordering::Relaxed);
            let Ok(_locked) = lock.lock(seen) else { return 0 };
            sum.store(before + 1, Ordering::Relaxed);
            1
        };
        let others = Arc::clone(&shared);
        let other = spawn(move || add(&others));
        let added = add(&shared) + other.join().unwrap();
        assert_eq!(shared.1.load(Ordering::Relaxed), added);
    });
}

/// Records that are their entries: `8 * (256 * version + number)`, where a number below 128 is that of a
/// key of one byte, and those behind it of keys of two small letters up to p.
struct Letters;

static KEYS: [[u8; 2]; 256] = {
    let mut keys = [[0; 2]; 256];
    let mut at = 0;
    while at < 256 {
        let number = at as u8;
        keys[at] =
            if at < 128 { [number, 0] } else { [b'a' + (number - 128) / 16, b'a' + number % 16] };
        at += 1;
    }
    keys
};

impl Records for Letters {
    fn key(&self, entry: u64) -> &[u8] {
        assert_ne!(entry, 0, "only entries are read");
        let number = (entry / 8 % 256) as usize;
        &KEYS[number][..if number < 128 { 1 } else { 2 }]
    }

    fn version(&self, entry: u64) -> u64 {
        assert_ne!(entry, 0, "only entries are read");
        entry / 8 / 256
    }
}

fn entry(key: &[u8], version: u64) -> u64 {
    let number = match key {
        [first, second] => 128 + 16 * (first - b'a') + (second - b'a'),
        _ => key[0],
    };
    8 * (256 * version + u64::from(number))
}

fn add(tree: &RadixTree, key: &[u8], version: u64) {
    tree.insert(&Letters, key, entry(key, version));
}

fn newest(tree: &RadixTree, key: &[u8]) -> Option<u64> {
    tree.newest(&Letters, key)
}

/// Preemptions in one order of steps. All orders of two inserts are too many.
const PREEMPTIONS_MAX: usize = 3;

/// A tree of some keys, and a writer that adds to it while a reader runs.
///
/// The writer is the thread that loom runs first. Of several accesses to an atomic, loom considers only the
/// last one when it looks for steps to reorder, so it would take a writer's own load for the only one, and
/// not try a write between a reader's loads.
fn beside(
    there: &'static [&'static [u8]],
    write: impl Fn(&RadixTree) + Send + Sync + 'static,
    read: impl Fn(&RadixTree) + Send + Sync + Copy + 'static,
    after: impl Fn(&RadixTree) + Send + Sync + 'static,
) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS_MAX);
    builder.check(move || {
        let tree = Arc::new(RadixTree::new());
        there.iter().for_each(|key| add(&tree, key, 1));
        let readers = Arc::clone(&tree);
        let reader = spawn(move || read(&readers));
        write(&tree);
        reader.join().unwrap();
        after(&tree);
        read(&tree);
    });
}

#[test]
fn a_key_is_found_while_a_node_is_put_above_it() {
    beside(
        &[b"b"],
        |tree| add(tree, b"a", 1),
        |tree| assert_eq!(newest(tree, b"b"), Some(entry(b"b", 1))),
        |tree| assert_eq!(newest(tree, b"a"), Some(entry(b"a", 1))),
    );
}

#[test]
fn a_key_is_found_while_another_moves_it_on() {
    beside(
        &[b"b", b"d"],
        |tree| add(tree, b"a", 1),
        |tree| {
            assert_eq!(newest(tree, b"d"), Some(entry(b"d", 1)));
            assert_eq!(newest(tree, b"c"), None);
        },
        |tree| assert_eq!(newest(tree, b"a"), Some(entry(b"a", 1))),
    );
}

#[test]
fn a_key_is_found_while_its_node_is_replaced() {
    beside(
        &[b"b", b"d", b"f", b"h"],
        |tree| add(tree, b"e", 1),
        |tree| assert_eq!(newest(tree, b"h"), Some(entry(b"h", 1))),
        |tree| assert_eq!(newest(tree, b"e"), Some(entry(b"e", 1))),
    );
}

#[test]
fn no_key_is_lost_when_two_are_added_at_once() {
    let there: &'static [&'static [u8]] = &[b"b", b"d", b"f", b"h"];
    for there in [&there[..0], &there[1..2], &there[..3], there] {
        beside(
            there,
            |tree| add(tree, b"e", 1),
            |tree| {
                add(tree, b"c", 1);
                assert_eq!(newest(tree, b"c"), Some(entry(b"c", 1)));
            },
            move |tree| {
                assert_eq!(newest(tree, b"e"), Some(entry(b"e", 1)));
                assert!(there.iter().all(|key| newest(tree, key) == Some(entry(key, 1))));
                assert_eq!(tree.len(), there.len() as u64 + 2);
            },
        );
    }
}

#[test]
fn a_version_is_found_while_others_are_added_and_dropped() {
    beside(
        &[b"b"],
        |tree| {
            add(tree, b"b", 3);
            tree.insert_purging(&Letters, b"b", entry(b"b", 2), |older, _| older == 1);
        },
        |tree| assert_eq!(tree.get(&Letters, b"b", 1), Some(entry(b"b", 1))),
        |tree| {
            assert_eq!(newest(tree, b"b"), Some(entry(b"b", 3)));
            assert_eq!(tree.get(&Letters, b"b", 2), Some(entry(b"b", 1)));
        },
    );
}

#[test]
fn no_version_is_lost_when_two_are_added_at_once() {
    beside(
        &[b"b"],
        |tree| add(tree, b"b", 3),
        |tree| add(tree, b"b", 2),
        |tree| {
            let found = [1, 2, 3].map(|at| tree.get(&Letters, b"b", at));
            assert_eq!(found, [1, 2, 3].map(|version| Some(entry(b"b", version))));
        },
    );
}

#[test]
fn no_version_is_lost_while_the_node_is_replaced() {
    beside(
        &[b"b", b"d", b"f", b"h"],
        |tree| add(tree, b"e", 1),
        |tree| add(tree, b"d", 2),
        |tree| assert_eq!(newest(tree, b"d"), Some(entry(b"d", 2))),
    );
}

/// The entries that a scan of the newest versions up to `at` yields.
fn scanned(tree: &RadixTree, at: u64) -> Vec<u64> {
    let mut cursor = tree.cursor(Bound::Unbounded, Bound::Unbounded, Direction::Ascending, at);
    std::iter::from_fn(|| cursor.next(tree, &Letters)).collect()
}

/// A scan beside an insert of `added` yields all that is there, in order.
fn scan_beside(there: &'static [&'static [u8]], added: &'static [u8]) {
    let read = move |tree: &RadixTree| {
        let mut found = scanned(tree, u64::MAX);
        assert!(found.is_sorted_by(|one, other| Letters.key(*one) < Letters.key(*other)));
        found.retain(|&found| found != entry(added, 1));
        assert!(found.into_iter().eq(there.iter().map(|key| entry(key, 1))));
    };
    beside(there, move |tree| add(tree, added, 1), read, |_| {});
}

#[test]
fn a_scan_has_every_key_that_is_there_while_another_comes() {
    scan_beside(&[b"b", b"d"], b"c");
    scan_beside(&[b"b", b"d", b"f", b"h"], b"c");
    scan_beside(&[b"bc", b"bd", b"dc", b"dd"], b"a");
}

#[test]
fn a_scan_has_the_right_version_while_others_are_added() {
    beside(
        &[b"b"],
        |tree| {
            add(tree, b"b", 4);
            add(tree, b"b", 2);
        },
        |tree| {
            let found = scanned(tree, 3);
            assert!(found == [entry(b"b", 1)] || found == [entry(b"b", 2)], "{found:?}");
        },
        |_| {},
    );
}

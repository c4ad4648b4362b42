//! The version lock, and readers beside writers of one tree, in every order of their steps.
//!
//! Nodes come back when the tree is dropped: loom does not see into the epochs.

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

/// Keys of one byte, and versions: entry `8 * (256 * version + byte)`.
struct Bytes;

static BYTES: [u8; 256] = {
    let mut bytes = [0; 256];
    let mut at = 0;
    while at < 256 {
        bytes[at] = at as u8;
        at += 1;
    }
    bytes
};

impl Records for Bytes {
    fn key(&self, entry: u64) -> &[u8] {
        let at = (entry / 8 % 256) as usize;
        &BYTES[at..=at]
    }

    fn version(&self, entry: u64) -> u64 {
        entry / 8 / 256
    }
}

fn entry(byte: u8, version: u64) -> u64 {
    8 * (256 * version + u64::from(byte))
}

fn add(tree: &RadixTree, byte: u8, version: u64) {
    tree.insert(&Bytes, &[byte], entry(byte, version));
}

fn newest(tree: &RadixTree, byte: u8) -> Option<u64> {
    tree.newest(&Bytes, &[byte])
}

/// Switches from a thread that could go on, in one order of steps. All orders of two inserts are too many.
const PREEMPTIONS_MAX: usize = 3;

/// A tree of some keys, and what a writer adds to it while a reader runs.
///
/// The writer is the thread that loom runs first. Of several accesses to an atomic it looks at the last
/// for what else may come before a step, so it would take a writer's own load for the only one, and
/// not try a write between a reader's loads.
fn beside(
    there: &'static [u8],
    write: impl Fn(&RadixTree) + Send + Sync + 'static,
    read: impl Fn(&RadixTree) + Send + Sync + Copy + 'static,
    after: impl Fn(&RadixTree) + Send + Sync + 'static,
) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS_MAX);
    builder.check(move || {
        let tree = Arc::new(RadixTree::new());
        there.iter().for_each(|&byte| add(&tree, byte, 1));
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
        b"b",
        |tree| add(tree, b'a', 1),
        |tree| assert_eq!(newest(tree, b'b'), Some(entry(b'b', 1))),
        |tree| assert_eq!(newest(tree, b'a'), Some(entry(b'a', 1))),
    );
}

#[test]
fn a_key_is_found_while_another_moves_it_on() {
    beside(
        b"bd",
        |tree| add(tree, b'a', 1),
        |tree| {
            assert_eq!(newest(tree, b'd'), Some(entry(b'd', 1)));
            assert_eq!(newest(tree, b'c'), None);
        },
        |tree| assert_eq!(newest(tree, b'a'), Some(entry(b'a', 1))),
    );
}

#[test]
fn a_key_is_found_while_its_node_is_replaced() {
    beside(
        b"bdfh",
        |tree| add(tree, b'e', 1),
        |tree| assert_eq!(newest(tree, b'h'), Some(entry(b'h', 1))),
        |tree| assert_eq!(newest(tree, b'e'), Some(entry(b'e', 1))),
    );
}

#[test]
fn no_key_is_lost_when_two_are_added_at_once() {
    for there in [&b""[..], b"d", b"bdf", b"bdfh"] {
        beside(
            there,
            |tree| add(tree, b'e', 1),
            |tree| {
                add(tree, b'c', 1);
                assert_eq!(newest(tree, b'c'), Some(entry(b'c', 1)));
            },
            move |tree| {
                assert_eq!(newest(tree, b'e'), Some(entry(b'e', 1)));
                assert!(there.iter().all(|&byte| newest(tree, byte) == Some(entry(byte, 1))));
                assert_eq!(tree.len(), there.len() as u64 + 2);
            },
        );
    }
}

#[test]
fn a_version_is_found_while_others_are_added_and_dropped() {
    beside(
        b"b",
        |tree| {
            add(tree, b'b', 3);
            tree.insert_purging(&Bytes, b"b", entry(b'b', 2), |older, _| older == 1);
        },
        |tree| assert_eq!(tree.get(&Bytes, b"b", 1), Some(entry(b'b', 1))),
        |tree| {
            assert_eq!(newest(tree, b'b'), Some(entry(b'b', 3)));
            assert_eq!(tree.get(&Bytes, b"b", 2), Some(entry(b'b', 1)));
        },
    );
}

#[test]
fn no_version_is_lost_when_two_are_added_at_once() {
    beside(
        b"b",
        |tree| add(tree, b'b', 3),
        |tree| add(tree, b'b', 2),
        |tree| {
            let found = [1, 2, 3].map(|at| tree.get(&Bytes, b"b", at));
            assert_eq!(found, [1, 2, 3].map(|version| Some(entry(b'b', version))));
        },
    );
}

#[test]
fn a_scan_has_every_key_that_is_there_while_another_comes() {
    for there in [&b"bd"[..], b"bdfh"] {
        let read = move |tree: &RadixTree| {
            let mut cursor =
                tree.cursor(Bound::Unbounded, Bound::Unbounded, Direction::Ascending, u64::MAX);
            let mut found: Vec<u8> = Vec::new();
            while let Some(entry) = cursor.next(tree, &Bytes) {
                found.extend(Bytes.key(entry));
            }
            assert!(found.is_sorted());
            found.retain(|&byte| byte != b'c');
            assert_eq!(found, there);
        };
        beside(there, |tree| add(tree, b'c', 1), read, |_| {});
    }
}

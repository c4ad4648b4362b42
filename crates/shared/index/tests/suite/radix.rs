//! The guarantees of the radix tree, against the standard library's ordered map.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use halite_index::{Direction, RadixCursor, RadixTree, Records};
use proptest::prelude::*;

use crate::records::{Heap, key};

type Model = BTreeMap<Vec<u8>, BTreeMap<u64, u64>>;

/// Whether a purge keeps a version: as snapshots at some versions do.
fn is_needed(older: u64, newer: u64) -> bool {
    (older..newer).any(|version| version % 7 == 0)
}

fn purge(versions: &mut BTreeMap<u64, u64>) -> usize {
    let order: Vec<u64> = versions.keys().copied().collect();
    let before = versions.len();
    for pair in order.windows(2).filter(|pair| !is_needed(pair[0], pair[1])) {
        versions.remove(&pair[0]);
    }
    before - versions.len()
}

#[derive(Clone, Debug)]
struct Insert {
    key: Vec<u8>,
    version: u64,
    is_purging: bool,
}

fn insert() -> impl Strategy<Value = Insert> {
    // Few versions, so that some come twice.
    (key(), 0..60_u64, any::<bool>()).prop_map(|(key, version, is_purging)| Insert {
        key,
        version,
        is_purging,
    })
}

fn apply(tree: &RadixTree, model: &mut Model, insert: &Insert) {
    let Insert { key, version, is_purging } = insert;
    let versions = model.entry(key.clone()).or_default();
    let is_new = !versions.contains_key(version);
    let entry = *versions.entry(*version).or_insert_with(|| Heap::add(key, *version));
    if *is_purging {
        let dropped = tree.insert_purging(&Heap, key, entry, is_needed);
        assert_eq!(dropped, if is_new { purge(versions) } else { 0 });
    } else {
        tree.insert(&Heap, key, entry);
    }
}

fn newest_up_to(versions: &BTreeMap<u64, u64>, at: u64) -> Option<u64> {
    versions.range(..=at).next_back().map(|(_, &entry)| entry)
}

fn walked(tree: &RadixTree, mut cursor: RadixCursor) -> Vec<u64> {
    let entries = std::iter::from_fn(|| cursor.next(tree, &Heap)).collect();
    assert_eq!(cursor.next(tree, &Heap), None);
    entries
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

/// The entries that a cursor should yield.
fn expected(
    model: &Model,
    (start, end): (&Bound<Vec<u8>>, &Bound<Vec<u8>>),
    direction: Direction,
    of_key: impl Fn(&BTreeMap<u64, u64>) -> Vec<u64>,
) -> Vec<u64> {
    let in_range = |key: &&Vec<u8>| {
        let above = match start {
            Bound::Unbounded => true,
            Bound::Included(start) => *key >= start,
            Bound::Excluded(start) => *key > start,
        };
        let below = match end {
            Bound::Unbounded => true,
            Bound::Included(end) => *key <= end,
            Bound::Excluded(end) => *key < end,
        };
        above && below
    };
    let mut keys: Vec<_> = model.keys().filter(in_range).collect();
    if direction == Direction::Descending {
        keys.reverse();
    }
    keys.into_iter().flat_map(|key| of_key(&model[key])).collect()
}

const DIRECTIONS: [Direction; 2] = [Direction::Ascending, Direction::Descending];

fn check_range(tree: &RadixTree, model: &Model, start: &Bound<Vec<u8>>, end: &Bound<Vec<u8>>) {
    for direction in DIRECTIONS {
        for at in [0, 20, 59, u64::MAX] {
            let cursor = tree.cursor(as_slice(start), as_slice(end), direction, at);
            let newest = |versions: &_| newest_up_to(versions, at).into_iter().collect();
            assert_eq!(walked(tree, cursor), expected(model, (start, end), direction, newest));
        }
        let cursor = tree.cursor_of_versions(as_slice(start), as_slice(end), direction);
        let all = |versions: &BTreeMap<_, _>| versions.values().rev().copied().collect();
        assert_eq!(walked(tree, cursor), expected(model, (start, end), direction, all));
    }
}

fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![
        1 => Just(Bound::Unbounded),
        3 => key().prop_map(Bound::Included),
        3 => key().prop_map(Bound::Excluded),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn a_tree_is_an_ordered_map_of_versions(
        inserts in prop::collection::vec(insert(), 0..400),
        sought in prop::collection::vec(key(), 20),
        bounds in prop::collection::vec((bound(), bound()), 6),
        parts in 1..12_usize,
    ) {
        let (tree, mut model) = (RadixTree::new(), Model::new());
        for insert in &inserts {
            apply(&tree, &mut model, insert);
        }
        prop_assert_eq!(tree.len(), model.len() as u64);
        prop_assert_eq!(tree.is_empty(), model.is_empty());
        for key in model.keys().chain(&sought) {
            let versions = model.get(key).cloned().unwrap_or_default();
            prop_assert_eq!(tree.newest(&Heap, key), versions.values().next_back().copied());
            for at in [0, 1, 7, 20, 33, 59, 60, u64::MAX] {
                prop_assert_eq!(tree.get(&Heap, key, at), newest_up_to(&versions, at));
            }
        }
        check_range(&tree, &model, &Bound::Unbounded, &Bound::Unbounded);
        for (start, end) in &bounds {
            check_range(&tree, &model, start, end);
        }
        // Bounds that are there.
        let keys: Vec<_> = model.keys().cloned().collect();
        if let [first, .., last] = &keys[..] {
            let middle = &keys[keys.len() / 2];
            for (start, end) in [(first, middle), (middle, last), (middle, middle), (last, first)] {
                for bound in [Bound::Included, Bound::Excluded] {
                    check_range(&tree, &model, &bound(start.clone()), &Bound::Excluded(end.clone()));
                    check_range(&tree, &model, &bound(start.clone()), &Bound::Included(end.clone()));
                }
            }
        }
        check_splits(&tree, &keys, parts);
    }

    #[test]
    fn a_cursor_goes_on_at_a_key(
        inserts in prop::collection::vec(insert(), 0..200),
        bounds in (bound(), bound()),
        seeks in prop::collection::vec((key(), 0..5_usize), 1..8),
    ) {
        let (tree, mut model) = (RadixTree::new(), Model::new());
        for insert in &inserts {
            apply(&tree, &mut model, insert);
        }
        for direction in DIRECTIONS {
            let newest = |versions: &_| newest_up_to(versions, u64::MAX).into_iter().collect();
            let all = expected(&model, (&bounds.0, &bounds.1), direction, newest);
            let mut cursor =
                tree.cursor(as_slice(&bounds.0), as_slice(&bounds.1), direction, u64::MAX);
            for (key, steps) in &seeks {
                cursor.seek(key);
                let rest = all.iter().copied().filter(|&entry| match direction {
                    Direction::Ascending => Heap.key(entry) >= &key[..],
                    Direction::Descending => Heap.key(entry) <= &key[..],
                });
                let rest: Vec<u64> = rest.take(*steps).collect();
                let found: Vec<u64> =
                    std::iter::from_fn(|| cursor.next(&tree, &Heap)).take(*steps).collect();
                prop_assert_eq!(found, rest);
            }
        }
    }
}

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(64)
}

fn check_splits(tree: &RadixTree, keys: &[Vec<u8>], parts: usize) {
    let splits = tree.split_keys(&Heap, parts);
    assert!(splits.len() < parts);
    assert!(splits.is_sorted() && splits.windows(2).all(|pair| pair[0] != pair[1]));
    let mut start = 0;
    let mut lens = Vec::new();
    for split in &splits {
        let end = keys.partition_point(|key| key < split);
        lens.push(end - start);
        start = end;
    }
    lens.push(keys.len() - start);
    let longest = keys.len().div_ceil(parts);
    assert!(lens.iter().all(|&len| len <= longest), "{lens:?} of {} in {parts}", keys.len());
    assert!(keys.is_empty() || lens.iter().all(|&len| len > 0), "{lens:?}");
}

#[test]
fn a_node_of_every_size_finds_every_byte_and_the_key_that_ends_there() {
    for count in 0..=256_usize {
        for with_terminal in [false, true] {
            let (tree, mut model) = (RadixTree::new(), Model::new());
            // The bytes come in no order.
            let bytes = (0..count).map(|at| (at * 101 % 256) as u8);
            let mut keys: Vec<Vec<u8>> = bytes.map(|byte| vec![b'k', byte, b'.']).collect();
            if with_terminal {
                keys.insert(keys.len() / 2, b"k".to_vec());
            }
            for key in keys {
                apply(&tree, &mut model, &Insert { key, version: 1, is_purging: false });
            }
            for byte in 0..=255 {
                let key = vec![b'k', byte, b'.'];
                let expected = model.get(&key).map(|versions| versions[&1]);
                assert_eq!(tree.newest(&Heap, &key), expected);
            }
            assert_eq!(tree.newest(&Heap, b"k").is_some(), with_terminal);
            check_range(&tree, &model, &Bound::Unbounded, &Bound::Unbounded);
            for byte in [0, 1, 63, 64, 130, 255] {
                let start = Bound::Included(vec![b'k', byte, b'.']);
                let end = Bound::Excluded(vec![b'k', byte.saturating_add(70), b'.']);
                check_range(&tree, &model, &start, &Bound::Unbounded);
                check_range(&tree, &model, &Bound::Included(b"k".to_vec()), &end);
                check_range(&tree, &model, &start, &end);
            }
        }
    }
}

#[test]
fn keys_may_be_prefixes_of_each_other_up_to_64_kib() {
    let (tree, mut model) = (RadixTree::new(), Model::new());
    let longest = vec![b'x'; 65_540];
    for len in (0..=longest.len()).rev().step_by(7).chain((0..longest.len()).step_by(11)) {
        let key = longest[..len].to_vec();
        apply(&tree, &mut model, &Insert { key, version: 3, is_purging: false });
    }
    assert_eq!(tree.len(), model.len() as u64);
    for (key, versions) in model.iter().step_by(97) {
        assert_eq!(tree.newest(&Heap, key), Some(versions[&3]));
    }
    let keys: Vec<_> = model.keys().cloned().collect();
    let near = |at: usize| Bound::Included(keys[at].clone());
    check_range(&tree, &model, &near(keys.len() - 100), &Bound::Unbounded);
    check_range(&tree, &model, &Bound::Unbounded, &near(100));
    check_splits(&tree, &keys, 3);
}

#[test]
fn a_key_may_have_very_many_versions_in_any_order() {
    for step in [1, 3_001, 9_999] {
        let (tree, mut model) = (RadixTree::new(), Model::new());
        for at in 0..10_000_u64 {
            let insert =
                Insert { key: b"hot".to_vec(), version: at * step % 10_000, is_purging: false };
            apply(&tree, &mut model, &insert);
        }
        let versions = &model[&b"hot"[..]];
        for at in (0..10_000).step_by(37) {
            assert_eq!(tree.get(&Heap, b"hot", at), newest_up_to(versions, at));
        }
        check_range(&tree, &model, &Bound::Unbounded, &Bound::Unbounded);
        let before = tree.memory_len();
        let entry = Heap::add(b"hot", 10_000);
        assert_eq!(tree.insert_purging(&Heap, b"hot", entry, |_, _| false), 10_000);
        assert_eq!(tree.get(&Heap, b"hot", 9_999), None);
        assert_eq!(tree.newest(&Heap, b"hot"), Some(entry));
        assert_eq!(tree.len(), 1);
        drop(tree);
        assert!(before >= 80_000);
    }
}

fn mix(number: u64) -> u64 {
    let mixed = (number ^ number >> 31).wrapping_mul(0x7fb5_d329_728e_a185);
    (mixed ^ mixed >> 27).wrapping_mul(0x81da_def4_bc2d_d44d) ^ mixed >> 33
}

/// Keys of different shapes: dense, sparse, and prefixes of each other.
fn numbered(number: u64) -> Vec<u8> {
    match number % 3 {
        0 => mix(number).to_be_bytes().to_vec(),
        1 => format!("user{:020}", mix(number)).into_bytes(),
        _ => vec![b'p'; (mix(number) % 200) as usize],
    }
}

#[test]
fn what_threads_insert_at_once_is_all_there() {
    let tree = RadixTree::new();
    let next = AtomicU64::new(0);
    let inserted = Mutex::new(Model::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut mine = Vec::new();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= 60_000 {
                        break;
                    }
                    let key = numbered(number % 20_000);
                    let entry = Heap::add(&key, number);
                    tree.insert(&Heap, &key, entry);
                    assert_eq!(tree.get(&Heap, &key, number), Some(entry), "one's own is found");
                    mine.push((key, number, entry));
                }
                let mut inserted = inserted.lock().unwrap();
                for (key, version, entry) in mine {
                    inserted.entry(key).or_default().insert(version, entry);
                }
            });
        }
    });
    let model = inserted.into_inner().unwrap();
    assert_eq!(tree.len(), model.len() as u64);
    check_range(&tree, &model, &Bound::Unbounded, &Bound::Unbounded);
}

#[test]
fn a_scan_beside_inserts_is_sorted_and_has_all_that_was_there() {
    let tree = RadixTree::new();
    let stable = |number: u64| number.is_multiple_of(4);
    let mut expected: Vec<(Vec<u8>, u64)> = Vec::new();
    for number in (0..40_000).filter(|&number| stable(number)) {
        let key = mix(number).to_be_bytes()[..3].to_vec();
        if tree.newest(&Heap, &key).is_none() {
            let entry = Heap::add(&key, 5);
            tree.insert(&Heap, &key, entry);
            expected.push((key, entry));
        }
    }
    expected.sort();
    let (is_over, scans) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for direction in DIRECTIONS {
            let (tree, expected, is_over, scans) = (&tree, &expected, &is_over, &scans);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) || scans.load(Ordering::Relaxed) < 4 {
                    let cursor = tree.cursor(Bound::Unbounded, Bound::Unbounded, direction, 5);
                    let mut found = walked(tree, cursor);
                    if direction == Direction::Descending {
                        found.reverse();
                    }
                    let keys: Vec<_> = found.iter().map(|&entry| Heap.key(entry)).collect();
                    assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "sorted, none twice");
                    let found: std::collections::BTreeSet<_> = found.into_iter().collect();
                    assert!(expected.iter().all(|(_, entry)| found.contains(entry)));
                    assert!(found.iter().all(|&entry| Heap.version(entry) <= 5));
                    scans.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let writers: Vec<_> = (0..2)
            .map(|thread| {
                let tree = &tree;
                scope.spawn(move || {
                    for number in (thread..60_000).step_by(2) {
                        let len = 2 + (number % 4) as usize;
                        let key = mix(number % 40_000).to_be_bytes()[..len].to_vec();
                        // The scans never want the newest version, and the versions that they want are
                        // never purged.
                        let entry = Heap::add(&key, 10 + number);
                        tree.insert_purging(&Heap, &key, entry, |older, _| older <= 5);
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn memory_comes_back_while_threads_purge() {
    let tree = RadixTree::new();
    let next = AtomicU64::new(1);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..40_000 {
                    let version = next.fetch_add(1, Ordering::Relaxed);
                    let key = (mix(version) % 50).to_be_bytes();
                    let entry = Heap::add(&key, version);
                    // Arrays come and go all the time.
                    let purge = version.is_multiple_of(8);
                    tree.insert_purging(&Heap, &key, entry, |_, _| !purge);
                    let newest = tree.newest(&Heap, &key).unwrap();
                    assert_eq!(Heap.key(newest), key);
                    assert!(Heap.version(newest) >= version);
                }
            });
        }
    });
    assert_eq!(tree.len(), 50);
    for key in 0..50_u64 {
        let key = key.to_be_bytes();
        let entry = Heap::add(&key, u64::MAX);
        tree.insert_purging(&Heap, &key, entry, |_, _| false);
    }
    // Every array is gone. Memory comes back late if a pinned thread may have seen it, even one of another
    // test, or if this thread has not handed it over yet.
    let is_back = || {
        (0..1_000).for_each(|_| assert!(tree.newest(&Heap, &[0]).is_none()));
        std::thread::yield_now();
        tree.memory_len() < 200_000
    };
    assert!((0..10_000).any(|_| is_back()), "{} bytes are in use", tree.memory_len());
}

#[test]
fn a_tree_may_be_dropped_with_garbage_left() {
    for _ in 0..50 {
        let tree = RadixTree::new();
        for number in 0..2_000_u64 {
            let key = numbered(number % 700);
            tree.insert(&Heap, &key, Heap::add(&key, number));
        }
        drop(tree);
    }
}

#[test]
#[should_panic(expected = "multiple of 8")]
fn an_entry_that_cannot_be_told_from_a_node_is_refused() {
    RadixTree::new().insert(&Heap, b"key", 12);
}

/// Records that note which of them are prefetched.
#[derive(Default)]
struct Asked(Mutex<std::collections::BTreeSet<u64>>);

impl Records for Asked {
    fn key(&self, entry: u64) -> &[u8] {
        Heap.key(entry)
    }

    fn version(&self, entry: u64) -> u64 {
        Heap.version(entry)
    }

    fn prefetch(&self, entry: u64) {
        self.0.lock().unwrap().insert(entry);
    }
}

#[test]
fn a_prefetch_asks_for_the_newest_records_of_keys_that_are_there() {
    let tree = RadixTree::new();
    let keys: Vec<Vec<u8>> = (0..1000_u32).map(|n| (n * n).to_be_bytes().to_vec()).collect();
    let mut newest = std::collections::BTreeSet::new();
    for (version, key) in (1..).zip(&keys) {
        tree.insert(&Heap, key, Heap::add(key, version));
        let entry = Heap::add(key, version + 1000);
        tree.insert(&Heap, key, entry);
        newest.insert(entry);
    }
    let sought: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let asked = Asked::default();
    tree.prefetch(&asked, &sought);
    assert_eq!(asked.0.into_inner().unwrap(), newest);
    let asked = Asked::default();
    tree.prefetch(&asked, &[b"", b"a key that is not there"]);
    RadixTree::new().prefetch(&asked, &sought);
    assert!(asked.0.into_inner().unwrap().is_empty());
}

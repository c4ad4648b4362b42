//! Radix trees whose nodes lie in volatile memory of a pool.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;

use halite_alloc::{SEGMENT, ScratchPool, Segments};
use halite_index::{Direction, RadixTree, Records};
use halite_pmem::PoolOptions;
use tempfile::TempDir;

/// Entries are keys, times 8: spread, so that nodes of all kinds come up.
struct Numbers(Vec<[u8; 8]>);

impl Numbers {
    fn new(count: u64) -> Self {
        let spread = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        Self((0..count).map(spread).collect())
    }

    fn entry(number: usize) -> u64 {
        8 * (number as u64 + 1)
    }
}

impl Records for Numbers {
    fn key(&self, entry: u64) -> &[u8] {
        &self.0[(entry / 8 - 1) as usize]
    }

    fn version(&self, entry: u64) -> u64 {
        entry
    }
}

fn pool(segments: u64) -> (TempDir, PathBuf, Arc<Segments>) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    let mut options = PoolOptions::default();
    options.size_max = segments * SEGMENT;
    let segments = Segments::create(&path, &options).unwrap();
    segments.install().unwrap();
    (folder, path, segments)
}

fn tree_in(segments: &Arc<Segments>) -> RadixTree {
    let memory = ScratchPool::new(&segments.device(1)).unwrap();
    RadixTree::with_memory(move |len| memory.get(len as u64).ok())
}

fn fill(tree: &RadixTree, records: &Numbers) {
    std::thread::scope(|scope| {
        for thread in 0..3 {
            scope.spawn(move || {
                for number in (thread..records.0.len()).step_by(3) {
                    tree.insert(records, &records.0[number], Numbers::entry(number));
                }
            });
        }
    });
}

fn check(tree: &RadixTree, records: &Numbers) {
    let model: BTreeMap<_, _> =
        records.0.iter().enumerate().map(|(at, key)| (*key, Numbers::entry(at))).collect();
    assert_eq!(tree.len(), model.len() as u64);
    for (key, &entry) in &model {
        assert_eq!(tree.newest(records, key), Some(entry));
    }
    let (all, newest) = ((Bound::Unbounded, Bound::Unbounded), u64::MAX);
    let mut cursor = tree.cursor(all.0, all.1, Direction::Ascending, newest);
    let walked: Vec<u64> = std::iter::from_fn(|| cursor.next(tree, records)).collect();
    assert!(walked.iter().eq(model.values()));
}

#[test]
fn a_tree_lies_in_the_pool_and_gives_its_memory_back() {
    let (_folder, path, segments) = pool(64);
    let available = segments.available();
    let tree = tree_in(&segments);
    let records = Numbers::new(200_000);
    fill(&tree, &records);
    check(&tree, &records);
    let used = (available - segments.available()) * SEGMENT;
    assert!(used >= tree.memory_len(), "{used} of {}", tree.memory_len());
    drop(tree);
    assert_eq!(segments.available(), available);
    // A process that ends without dropping its tree leaves no memory taken.
    let tree = tree_in(&segments);
    fill(&tree, &records);
    std::mem::forget(tree);
    let copy = path.with_file_name("copy");
    std::fs::copy(&path, &copy).unwrap();
    let mut options = PoolOptions::default();
    options.size_max = 64 * SEGMENT;
    assert_eq!(Segments::open(&copy, &options).unwrap().available(), available);
}

#[test]
fn a_pool_that_is_full_leaves_the_rest_to_dram() {
    let (_folder, _, segments) = pool(4);
    let tree = tree_in(&segments);
    let records = Numbers::new(300_000);
    fill(&tree, &records);
    assert_eq!(segments.available(), 0);
    assert!(tree.memory_len() > 4 * SEGMENT, "more than the pool has");
    check(&tree, &records);
    // The pool is whole: persistent segments have room again when the tree is gone.
    assert!(segments.device(0).get(0).is_err());
    drop(tree);
    segments.device(0).get(0).unwrap().commit().unwrap();
}

#[test]
fn memory_that_is_too_short_is_not_used() {
    let (_folder, _, segments) = pool(16);
    let memory = ScratchPool::new(&segments.device(1)).unwrap();
    let tree = RadixTree::with_memory(move |_| memory.get(64).ok());
    let records = Numbers::new(10_000);
    fill(&tree, &records);
    check(&tree, &records);
}

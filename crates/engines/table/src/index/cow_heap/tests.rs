//! Trees in a heap that are compared with maps, their costs, and damage.

mod costs;
mod damage;
mod map;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use halite_alloc::Segments;
use halite_alloc::heap::AnyPtr;
use halite_pmem::PoolOptions;

use super::*;
use crate::index::btree::scan::{Direction, Range};

/// Words by tree and key.
type Model = BTreeMap<(u32, Vec<u8>), u64>;

const ALL: Range<'static> = (Bound::Unbounded, Bound::Unbounded);

fn pool(size_max: u64) -> Arc<Segments> {
    let mut options = PoolOptions::default();
    (options.in_memory, options.size_max) = (true, size_max);
    Segments::create(Path::new("pool"), &options).unwrap()
}

fn open(segments: &Arc<Segments>, node_len: usize) -> CowHeap {
    CowHeap::open(&segments.device(1), node_len).unwrap()
}

fn all(mut scan: CowHeapScan<'_>) -> Vec<(Vec<u8>, u64)> {
    let mut found = Vec::new();
    while let Some(entry) = scan.next().unwrap() {
        found.push(entry);
    }
    found
}

fn of_tree(model: &Model, tree: u32) -> Vec<(Vec<u8>, u64)> {
    let of_tree = model.range((tree, Vec::new())..(tree + 1, Vec::new()));
    of_tree.map(|((_, key), &word)| (key.clone(), word)).collect()
}

/// Checks a synced store, and that all of its slots are reached. Returns how many those are.
fn verify(store: &CowHeap) -> usize {
    let (heap, mut reachable) = (store.shared().heap(), Vec::<AnyPtr>::new());
    store.check(&heap, &mut |pointer| reachable.push(pointer)).unwrap();
    let count = reachable.len();
    heap.check(reachable).unwrap();
    count
}

fn key_of(number: u64) -> Vec<u8> {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec()
}

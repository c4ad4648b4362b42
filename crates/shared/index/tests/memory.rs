//! The memory that a record costs, counted by the allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};

use halite_index::{FullKeys, HashIndex, PartialKeyTree, PartialLen};

struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: as promised to this allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as promised to this allocator.
        unsafe { System.dealloc(start, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Keys(Vec<[u8; 24]>);

impl FullKeys for Keys {
    type Error = Infallible;

    fn with_key<R>(&self, entry: u64, read: impl FnOnce(&[u8]) -> R) -> Result<R, Infallible> {
        Ok(read(&self.0[entry as usize]))
    }
}

const COUNT: usize = 1_000_000;

/// `user` and 20 digits of a hashed number, in random order.
fn keys() -> Keys {
    let key = |number: usize| {
        let mixed = (number as u64 ^ 0x5bd1_e995).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mut key = [0; 24];
        key.copy_from_slice(format!("user{:020}", mixed ^ mixed >> 32).as_bytes());
        key
    };
    Keys((0..COUNT).map(key).collect())
}

#[test]
fn a_record_costs_what_is_promised() {
    let keys = keys();
    let tree_of = |partial| {
        let mut tree = PartialKeyTree::new(partial);
        for (entry, key) in keys.0.iter().enumerate() {
            let Ok(_) = tree.insert(key, entry as u64, &keys);
        }
        tree
    };
    for (partial, bytes_max) in [(PartialLen::Four, 17), (PartialLen::Eight, 22)] {
        let before = ALLOCATED.load(Ordering::Relaxed);
        let tree = tree_of(partial);
        let counted = ALLOCATED.load(Ordering::Relaxed) - before;
        assert!(tree.heap_len() <= bytes_max * COUNT, "{} at {partial:?}", tree.heap_len());
        // Slabs are 2 MiB: one of leaves and one of inner nodes are partly used.
        assert!(counted <= tree.heap_len() + (5 << 20), "{counted} B were allocated");
        // One slab of each size is kept from the tree before.
        assert!(counted + (4 << 20) >= tree.heap_len(), "{counted} B were allocated");
    }
    let before = ALLOCATED.load(Ordering::Relaxed);
    let mut index = HashIndex::new([1, 2]);
    for (entry, key) in keys.0.iter().enumerate() {
        let Ok(_) = index.insert(key, entry as u64, &keys);
    }
    let counted = ALLOCATED.load(Ordering::Relaxed) - before;
    assert!(index.heap_len() <= 14 * COUNT, "{}", index.heap_len());
    assert!(counted.abs_diff(index.heap_len()) <= COUNT / 8, "{counted} B were allocated");
}

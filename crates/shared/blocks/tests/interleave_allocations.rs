//! The executor allocates its slots once; no operation allocates.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use halite_blocks::interleave::{Group, LEAF_LEN, Leaves, insert_all, interleave, look_up_all};
use halite_pmem::{Domain, LINE, Pool, PoolOptions};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: the system's allocator does everything; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(address, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(f: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    f();
    ALLOCATIONS.get() - before
}

/// Inserts and looks up so many keys, from `from` on.
fn work(leaves: &Leaves, group: &Group, from: u64, count: u64) {
    let run = |key| leaves.insert(group, key % leaves.leaves(), key, key);
    interleave(group, from..from + count, run, |outcome| outcome.unwrap());
    let run = |key| leaves.look_up(group, key % leaves.leaves(), key);
    interleave(group, from..from + count, run, |found| assert!(found.unwrap().is_some()));
}

#[test]
fn an_operation_allocates_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = PoolOptions::default();
    // A fence on an ordinary file would sync it.
    options.assume_domain = Some(Domain::Process);
    let pool = Pool::create(&folder.path().join("pool"), &options).unwrap();
    let len = LINE + 1000 * LEAF_LEN;
    let mut leaves = Leaves::format(pool.claim(0, len).unwrap()).unwrap();
    let group = Group::new(&pool, 16);
    work(&leaves, &group, 0, 1000);
    let (few, many) = (
        allocations(|| work(&leaves, &group, 1000, 100)),
        allocations(|| work(&leaves, &group, 2000, 10_000)),
    );
    assert_eq!(few, many);
    assert!(few <= 2 * (16 + 1), "one for a slot, and one for all of them: {few}");

    let pairs = |from: u64, count: u64| (from..from + count).map(|key| (key % 1000, key, key));
    let mut machine = |from, count| {
        allocations(|| {
            insert_all(&mut leaves, 16, pairs(from, count), |outcome| outcome.unwrap()).unwrap();
            let keys = pairs(from, count).map(|(leaf, key, _)| (leaf, key));
            look_up_all(&leaves, 16, keys, |found| assert!(found.unwrap().is_some()));
        })
    };
    assert_eq!(machine(20_000, 100), machine(30_000, 5000));
}

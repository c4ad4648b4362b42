//! Memory of one tree: nodes and arrays of versions.
//!
//! Slots are cut from slabs, which become large pages as the tree grows: a lookup that misses the cache
//! misses the translation too, unless nodes lie together. A freed slot serves for the next of its class:
//! there is a class for each kind of node, and arrays take the smallest class that fits. Threads have
//! different shards, so those that insert at once do not contend.
//!
//! The slabs belong to the tree. When the tree is dropped they all go, without a walk over its nodes. They
//! are DRAM, or volatile memory of a pool, if the tree was made with a [`Source`]; where that has none
//! left, DRAM takes its place.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use halite_pmem::Scratch;

use super::node::CLASS_LENS;
use crate::large_pages::{self, LARGE_PAGE};
use crate::slabs::{SHARDS, shard_of_thread};

/// Bytes of the first slab of a shard. The next ones double up to a large page.
const SLAB_LEN_MIN: usize = 64 << 10;
const SLAB_LEN_MAX: usize = LARGE_PAGE;

/// Slots begin at a line.
const ALIGN: usize = 64;

const _: () = assert!(CLASS_LENS[CLASS_LENS.len() - 1] <= SLAB_LEN_MIN);

/// Gives volatile memory of a pool for a slab of so many bytes, if there is any left.
pub(super) type Source = Box<dyn Fn(usize) -> Option<Scratch> + Send + Sync>;

/// The memory of a tree.
pub(super) struct Arena {
    shards: [Shard; SHARDS],
    source: Option<Source>,
    /// Arrays that are longer than every class.
    large: Mutex<HashMap<NonNull<u8>, Layout>>,
}

#[repr(align(128))]
struct Shard {
    /// Keys that threads of this shard added to the tree.
    keys: AtomicU64,
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    slabs: Vec<Slab>,
    /// The unused rest of the last slab.
    rest: Option<NonNull<u8>>,
    rest_len: usize,
    /// For each class the slot that was freed last, which begins with the address of the one freed before
    /// it.
    free: [Option<NonNull<u8>>; CLASS_LENS.len()],
    /// Bytes taken from this shard, less the bytes given back to it.
    used: i64,
    /// The tree is gone, and its slabs with it.
    is_closed: bool,
}

/// A slab that slots are cut from.
enum Slab {
    Dram(NonNull<u8>, Layout),
    /// The slab is given back when this is dropped.
    Pool(#[expect(dead_code, reason = "it is there to be dropped")] Scratch),
}

// SAFETY: the memory is owned, and not bound to a thread.
unsafe impl Send for Arena {}
// SAFETY: as above; shared fields are behind locks.
unsafe impl Sync for Arena {}
// SAFETY: as above.
unsafe impl Send for Memory {}

impl Arena {
    pub(super) fn new(source: Option<Source>) -> Self {
        let shard = |_| Shard { keys: AtomicU64::new(0), memory: Mutex::default() };
        Self { shards: std::array::from_fn(shard), source, large: Mutex::default() }
    }

    /// The length of the slot for a request of `len` bytes. Beyond the classes lengths are powers of two,
    /// so that an array that grows one by one is copied a constant number of times for each of its entries.
    pub(super) fn slot_len(len: usize) -> usize {
        let class = CLASS_LENS.into_iter().find(|&class| class >= len);
        class.unwrap_or_else(|| len.checked_next_power_of_two().unwrap_or(len))
    }

    /// An uninitialised slot of [`slot_len`](Self::slot_len) of `len`, aligned to a line, that belongs
    /// to the caller.
    pub(super) fn take(&self, len: usize) -> NonNull<u8> {
        let Some(class) = CLASS_LENS.iter().position(|&class| class >= len) else {
            return self.take_large(len);
        };
        let memory = &mut *lock(&self.shards[shard_of_thread()].memory);
        memory.used += CLASS_LENS[class] as i64;
        if let Some(slot) = memory.free[class] {
            // SAFETY: a free slot begins with the address of the one freed before it.
            memory.free[class] = unsafe { slot.cast().read() };
            return slot;
        }
        memory.cut(CLASS_LENS[class], self.source.as_ref())
    }

    fn take_large(&self, len: usize) -> NonNull<u8> {
        let Ok(layout) = Layout::from_size_align(Self::slot_len(len), ALIGN) else {
            panic!("an array of versions outgrew the address space")
        };
        let slot = allocate(layout);
        lock(&self.large).insert(slot, layout);
        slot
    }

    /// Takes a slot back.
    ///
    /// # Safety
    /// It came from `take` of this arena with the same `len`, and has no user any more.
    pub(super) unsafe fn give_back(&self, slot: NonNull<u8>, len: usize) {
        let Some(class) = CLASS_LENS.iter().position(|&class| class >= len) else {
            if let Some(layout) = lock(&self.large).remove(&slot) {
                // SAFETY: it was allocated with this layout, and is not used.
                unsafe { dealloc(slot.as_ptr(), layout) };
            }
            return;
        };
        let memory = &mut *lock(&self.shards[shard_of_thread()].memory);
        if !memory.is_closed {
            // SAFETY: the slot is the caller's to give, and large and aligned enough.
            unsafe { slot.cast().write(memory.free[class]) };
            memory.free[class] = Some(slot);
            memory.used -= CLASS_LENS[class] as i64;
        }
    }

    /// Frees all slabs. Slots that are given back later are ignored.
    ///
    /// # Safety
    /// No slot is in use.
    pub(super) unsafe fn close(&self) {
        // A slot may be given back to another shard than its own, so all shards are closed before a slab is
        // freed.
        let memories = self.shards.each_ref().map(|shard| {
            let closed = Memory { is_closed: true, ..Memory::default() };
            std::mem::replace(&mut *lock(&shard.memory), closed)
        });
        for memory in memories {
            for slab in memory.slabs {
                if let Slab::Dram(start, layout) = slab {
                    // SAFETY: it was allocated with this layout, and none of its slots is in use.
                    unsafe { dealloc(start.as_ptr(), layout) };
                }
            }
        }
        for (slot, layout) in lock(&self.large).drain() {
            // SAFETY: as above.
            unsafe { dealloc(slot.as_ptr(), layout) };
        }
    }

    /// Bytes of the slots in use.
    pub(super) fn used_len(&self) -> u64 {
        let in_slabs: i64 = self.shards.iter().map(|shard| lock(&shard.memory).used).sum();
        let large: usize = lock(&self.large).values().map(Layout::size).sum();
        in_slabs.unsigned_abs() + large as u64
    }

    pub(super) fn count_key(&self) {
        self.count_keys(1);
    }

    pub(super) fn count_keys(&self, keys: u64) {
        self.shards[shard_of_thread()].keys.fetch_add(keys, Ordering::Relaxed);
    }

    pub(super) fn keys(&self) -> u64 {
        self.shards.iter().map(|shard| shard.keys.load(Ordering::Relaxed)).sum()
    }
}

impl Memory {
    /// A slot that was never used.
    fn cut(&mut self, len: usize, source: Option<&Source>) -> NonNull<u8> {
        let start = match self.rest {
            Some(rest) if self.rest_len >= len => rest,
            _ => self.add_slab(source),
        };
        // SAFETY: the rest of the slab is at least as long.
        self.rest = Some(unsafe { start.add(len) });
        self.rest_len -= len;
        start
    }

    fn add_slab(&mut self, source: Option<&Source>) -> NonNull<u8> {
        let len = (SLAB_LEN_MIN << self.slabs.len().min(8)).min(SLAB_LEN_MAX);
        let fits = |given: &Scratch| {
            given.len() >= len && given.address().addr().get().is_multiple_of(ALIGN)
        };
        if let Some(given) = source.and_then(|source| source(len)).filter(fits) {
            let start = given.address();
            self.slabs.push(Slab::Pool(given));
            self.rest_len = len;
            return start;
        }
        let align = if len == SLAB_LEN_MAX { SLAB_LEN_MAX } else { ALIGN };
        let Ok(layout) = Layout::from_size_align(len, align) else {
            panic!("slab lengths are powers of two")
        };
        let slab = allocate(layout);
        large_pages::advise(slab.as_ptr(), len);
        self.slabs.push(Slab::Dram(slab, layout));
        self.rest_len = len;
        slab
    }
}

fn allocate(layout: Layout) -> NonNull<u8> {
    // SAFETY: no layout here is empty.
    let start = unsafe { alloc(layout) };
    NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn slots_do_not_overlap_and_are_used_again() {
        let arena = Arena::new(None);
        let lens = [1, 64, 65, 700, 2000, 2112, 5000, 40_000];
        let take = |round: usize| -> Vec<_> {
            (0..4000)
                .map(|at| lens[(at + round) % lens.len()])
                .map(|len| (arena.take(len), len))
                .collect()
        };
        let give_back = |slots: Vec<(NonNull<u8>, usize)>| {
            for (slot, len) in slots {
                // SAFETY: taken with this length, and not used.
                unsafe { arena.give_back(slot, len) };
            }
        };
        let mut slots = take(0);
        let used = arena.used_len();
        assert!(slots.iter().all(|(slot, _)| slot.addr().get().is_multiple_of(ALIGN)));
        slots.sort();
        assert!(
            slots.windows(2).all(|pair| {
                pair[1].0.addr().get() - pair[0].0.addr().get() >= Arena::slot_len(pair[0].1)
            }),
            "slots do not overlap"
        );
        give_back(slots);
        assert_eq!(arena.used_len(), 0);
        let slabs = |arena: &Arena| -> usize {
            arena.shards.iter().map(|shard| lock(&shard.memory).slabs.len()).sum()
        };
        let before = slabs(&arena);
        let slots = take(3);
        assert_eq!((slabs(&arena), arena.used_len()), (before, used));
        give_back(slots);
        // SAFETY: no slot is used.
        unsafe { arena.close() };
    }

    #[test]
    fn an_array_that_grows_one_by_one_is_replaced_by_the_logarithm_of_its_length() {
        let mut slot_lens: Vec<_> =
            (1..1 << 20).map(|entries| Arena::slot_len(entries * 8)).collect();
        slot_lens.dedup();
        assert!(slot_lens.len() < 40, "{} replacements", slot_lens.len());
        assert!(slot_lens.iter().all(|&len| Arena::slot_len(len) == len && len % ALIGN == 0));
    }

    #[test]
    fn a_slot_may_come_back_after_its_slab_is_gone() {
        let arena = Arena::new(None);
        let slots = [(arena.take(64), 64), (arena.take(5000), 5000)];
        // SAFETY: no slot is used.
        unsafe { arena.close() };
        for (slot, len) in slots {
            // SAFETY: taken with this length, and not used.
            unsafe { arena.give_back(slot, len) };
        }
        assert_eq!(arena.used_len(), 0);
    }
}

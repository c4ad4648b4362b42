//! Memory for nodes: slots of one length, in slabs of large pages.
//!
//! A lookup that misses the cache misses the translation too, unless nodes lie together in large pages.
//! Threads take slots from different shards, so those that work on different trees do not contend; a slot
//! goes back to the shard that it came from, by whichever thread it is freed.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::large_pages::{self, LARGE_PAGE};

/// Bytes of a slab, and its alignment.
const SLAB_LEN: usize = LARGE_PAGE;

const LAYOUT: Layout = match Layout::from_size_align(SLAB_LEN, SLAB_LEN) {
    Ok(layout) => layout,
    Err(_) => panic!("a power of two"),
};

/// Threads beyond this number share shards.
pub(crate) const SHARDS: usize = 16;

/// No free slot.
const NONE: u32 = u32::MAX;

/// The beginning of a slab. Slots are behind it; a free slot begins with the number of the next.
#[repr(C, align(64))]
struct Header {
    shard: usize,
    used: usize,
    /// The slot that came back last.
    free: u32,
    /// The first slot that was never used, and all behind it.
    untouched: u32,
}

/// Slots of one length.
pub(crate) struct Slabs {
    slot_len: usize,
    shards: [Mutex<Shard>; SHARDS],
}

/// The slabs that have free slots.
struct Shard {
    partly_free: Vec<NonNull<Header>>,
}

// SAFETY: slabs are not bound to a thread.
unsafe impl Send for Shard {}

impl Slabs {
    /// No slabs yet, for slots of `slot_len` bytes, a multiple of 64.
    pub(crate) const fn new(slot_len: usize) -> Self {
        assert!(slot_len > 0 && slot_len.is_multiple_of(64) && slot_len < SLAB_LEN / 8);
        Self { slot_len, shards: [const { Mutex::new(Shard { partly_free: Vec::new() }) }; SHARDS] }
    }

    const fn slots_per_slab(&self) -> usize {
        (SLAB_LEN - size_of::<Header>()) / self.slot_len
    }

    /// An uninitialised slot, aligned to 64 bytes, that belongs to the caller.
    pub(crate) fn take(&self) -> NonNull<u8> {
        let number = shard_of_thread();
        let mut shard = self.lock(number);
        let slab = match shard.partly_free.last() {
            Some(slab) => *slab,
            None => {
                let slab = new_slab(number);
                shard.partly_free.push(slab);
                slab
            }
        };
        // SAFETY: the slab is alive, its header is only reached under the lock of its shard, and the
        // reference does not cover the slots.
        let header = unsafe { &mut *slab.as_ptr() };
        header.used += 1;
        let slot = if header.free == NONE { header.untouched } else { header.free };
        // SAFETY: the slot is one of the slab's.
        let place = unsafe { self.slot(slab, slot) };
        if header.free == NONE {
            header.untouched += 1;
        } else {
            // SAFETY: a free slot begins with the number of the next.
            header.free = unsafe { place.cast().read() };
        }
        if header.used == self.slots_per_slab() {
            shard.partly_free.pop();
        }
        place
    }

    /// Takes a slot back.
    ///
    /// # Safety
    /// The slot came from `take` of the same slabs, and has no user any more.
    pub(crate) unsafe fn give_back(&self, slot: NonNull<u8>) {
        let slab = slot.as_ptr().map_addr(|address| address & !(SLAB_LEN - 1)).cast::<Header>();
        // SAFETY: slabs are aligned to their length, so this is the slot's.
        let slab = unsafe { NonNull::new_unchecked(slab) };
        // SAFETY: the slab is alive as long as a slot of it is in use. Its number never changes.
        let number = unsafe { (&raw const (*slab.as_ptr()).shard).read() };
        let mut shard = self.lock(number);
        // SAFETY: as in `take`.
        let header = unsafe { &mut *slab.as_ptr() };
        let offset = slot.addr().get() % SLAB_LEN - size_of::<Header>();
        // SAFETY: the slot is the caller's to give, and large and aligned enough.
        unsafe { slot.cast().write(header.free) };
        header.free = (offset / self.slot_len) as u32;
        header.used -= 1;
        if header.used + 1 == self.slots_per_slab() {
            shard.partly_free.push(slab);
        }
        // One empty slab is kept for later nodes.
        if header.used == 0 && shard.partly_free.len() > 1 {
            shard.partly_free.retain(|&other| other != slab);
            // SAFETY: it was allocated with this layout, and none of its slots is in use.
            unsafe { dealloc(slab.as_ptr().cast(), LAYOUT) };
        }
    }

    /// # Safety
    /// The number is below that of the slots in a slab.
    unsafe fn slot(&self, slab: NonNull<Header>, number: u32) -> NonNull<u8> {
        let offset = size_of::<Header>() + number as usize * self.slot_len;
        // SAFETY: the offset is inside the slab.
        unsafe { slab.cast::<u8>().add(offset) }
    }

    fn lock(&self, shard: usize) -> MutexGuard<'_, Shard> {
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The shard of the calling thread, below [`SHARDS`].
pub(crate) fn shard_of_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static SHARD: usize = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS);
    // A thread that ends may still let trees go.
    SHARD.try_with(|shard| *shard).unwrap_or(0)
}

fn new_slab(shard: usize) -> NonNull<Header> {
    // SAFETY: the layout has a length.
    let start = unsafe { alloc(LAYOUT) };
    let Some(slab) = NonNull::new(start.cast::<Header>()) else { handle_alloc_error(LAYOUT) };
    large_pages::advise(start, SLAB_LEN);
    // SAFETY: the slab is ours, and its header is at its beginning.
    unsafe { slab.write(Header { shard, used: 0, free: NONE, untouched: 0 }) };
    slab
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn slots_are_reused_in_any_order_of_return() {
        static SLABS: Slabs = Slabs::new(1024);
        let count = 3 * SLABS.slots_per_slab();
        let mut slots: Vec<_> = (0..count).map(|_| SLABS.take()).collect();
        for step in [2, 3, 5] {
            let mut kept = Vec::new();
            for (at, slot) in slots.into_iter().enumerate() {
                if at % step == 0 {
                    // SAFETY: taken above, and not used.
                    unsafe { SLABS.give_back(slot) };
                } else {
                    kept.push(slot);
                }
            }
            kept.extend((kept.len()..count).map(|_| SLABS.take()));
            slots = kept;
        }
        slots.sort();
        assert!(
            slots.windows(2).all(|pair| pair[1].addr().get() - pair[0].addr().get() >= 1024),
            "slots do not overlap"
        );
        assert!(slots.iter().all(|slot| slot.addr().get().is_multiple_of(64)));
        let slabs: std::collections::BTreeSet<_> =
            slots.iter().map(|slot| slot.addr().get() / SLAB_LEN).collect();
        assert_eq!(slabs.len(), 3, "what came back is used before a slab is added");
        for slot in slots {
            // SAFETY: taken above, and not used.
            unsafe { SLABS.give_back(slot) };
        }
    }

    #[test]
    fn a_slot_may_come_back_on_another_thread() {
        static SLABS: Slabs = Slabs::new(64);
        let slots: Vec<usize> = (0..1000).map(|_| SLABS.take().expose_provenance().get()).collect();
        std::thread::spawn(move || {
            for slot in slots {
                let slot = NonNull::with_exposed_provenance(slot.try_into().unwrap());
                // SAFETY: taken above, and not used.
                unsafe { SLABS.give_back(slot) };
            }
        })
        .join()
        .unwrap();
        let again: std::collections::BTreeSet<_> = (0..1000).map(|_| SLABS.take()).collect();
        assert_eq!(again.len(), 1000);
    }
}

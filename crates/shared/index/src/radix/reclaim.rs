//! Memory that readers may still look at (epoch-based reclamation, Fraser 2004).
//!
//! An operation on a tree pins the epoch. Memory taken out of a tree goes back to its arena once every
//! thread has unpinned that was pinned at that time.

use std::ptr::NonNull;
use std::sync::Arc;

use super::arena::Arena;

/// While this lives, no memory that its holder may have seen in a tree is reused.
pub(super) struct Pin {
    #[cfg(not(loom))]
    guard: crossbeam_epoch::Guard,
}

/// Loom does not model the epochs: there, no memory is freed before the tree is dropped.
#[cfg(loom)]
impl Pin {
    pub(super) fn new() -> Self {
        Self {}
    }

    /// # Safety
    /// As in the other one.
    pub(super) unsafe fn retire(&self, _: &Arc<Arena>, _: NonNull<u8>, _: usize) {}
}

#[cfg(not(loom))]
impl Pin {
    #[inline]
    pub(super) fn new() -> Self {
        Self { guard: crossbeam_epoch::pin() }
    }

    /// Gives a slot back to its arena when no pinned thread can reach it any more.
    ///
    /// # Safety
    /// It was taken there with this `len`, and no slot in the tree leads to it.
    pub(super) unsafe fn retire(&self, arena: &Arc<Arena>, slot: NonNull<u8>, len: usize) {
        let arena = Arc::clone(arena);
        // SAFETY: every thread that could have seen the slot was pinned, and has unpinned when this runs.
        // The arena lives as long as its reference; if the tree is gone, the arena ignores the slot.
        unsafe { self.guard.defer_unchecked(move || arena.give_back(slot, len)) };
    }
}

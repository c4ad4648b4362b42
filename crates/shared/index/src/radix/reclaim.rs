//! Memory that readers may still look at (epoch-based reclamation, Fraser 2004).
//!
//! Who works on a tree pins the epoch. What was taken out of a tree comes back to its arena when
//! everybody has unpinned who had pinned before.

use std::ptr::NonNull;
use std::sync::Arc;

use super::arena::Arena;

/// While this lives, nothing that its holder may have seen in a tree is used anew.
pub(super) struct Pin {
    #[cfg(not(loom))]
    guard: crossbeam_epoch::Guard,
}

/// Loom does not see into the epochs: there, nothing comes back before the tree is dropped.
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

    /// Gives a slot back to its arena when nobody looks at it any more.
    ///
    /// # Safety
    /// It was taken there with this `len`, and nothing in the tree leads to it.
    pub(super) unsafe fn retire(&self, arena: &Arc<Arena>, slot: NonNull<u8>, len: usize) {
        let arena = Arc::clone(arena);
        // SAFETY: who could have seen the slot is pinned, and has unpinned when this runs. The arena
        // lives as long as its reference; if the tree is gone it forgets the slot.
        unsafe { self.guard.defer_unchecked(move || arena.give_back(slot, len)) };
    }
}

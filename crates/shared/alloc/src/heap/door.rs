//! Changes without a publication: for methods with a log of their own, which undoes them after a crash. None
//! of them fences; each may become durable at any time, and does so by the next fence ([`Heap::fence`], or that of a
//! publication).
//!
//! A change at a place that the two newest publications are about costs two fences: opening must not undo it. So a method
//! that publishes seldom pays for that once a publication.

use halite_sim::planted;

use super::base::Heap;
use super::chunk_word::{ChunkWord, Purpose};
use super::class::STATE_LEN;
use super::layout::chunk_word_at;
use super::pointer::{NvPtr, Tagged};
use super::slab::state_at;
use super::slot::{Slot, SlotState};
use super::table::Found;
use crate::Result;

impl Heap {
    /// Persists a reserved slot, whose bytes are durable already ([`Heap::flush`]). One store.
    ///
    /// # Errors
    /// As [`Heap::read`], and if the slot is not reserved; [`crate::Error::OwnerDropped`]; the pool's errors.
    pub fn activate<T>(&mut self, pointer: NvPtr<T>) -> Result<()> {
        let found = self.table.find_in(&self.ground, pointer.any(), SlotState::Reserved)?;
        self.check_owner(found.owner)?;
        self.change(&found, found.slot.activated())
    }

    /// Frees a persisted slot. It may be reserved again after the caller's next fence, publication or reclamation; until
    /// then, its bytes stay, so that an undo log can bring it back ([`Heap::restore`]). One store.
    ///
    /// # Errors
    /// As [`Heap::read`], and if the slot is not persisted; the pool's errors.
    pub fn free<T>(&mut self, pointer: NvPtr<T>) -> Result<()> {
        let found = self.table.find_in(&self.ground, pointer.any(), SlotState::Persisted)?;
        // A word that a publication stored there must not be stored again when the slot lives its next life.
        self.make_way(found.place, found.len)?;
        self.change(&found, found.slot.released())?;
        planted!(
            "alloc.heap-slot-reused-before-freed",
            self.release(found.chunk, found.index),
            self.freed.push((found.chunk, found.index))
        );
        Ok(())
    }

    /// Stores a word, `at` bytes behind the start of a persisted slot: a multiple of 8. One store.
    ///
    /// # Errors
    /// As [`Heap::read`], and if the slot is not persisted; the pool's errors.
    ///
    /// # Panics
    /// If the slot is shorter, or `at` is not a multiple of 8.
    pub fn store_word<T: Tagged>(&mut self, pointer: NvPtr<T>, at: u64, value: u64) -> Result<()> {
        self.check_synced()?;
        let found = self.find_typed(pointer)?;
        let found = found.in_state(&self.ground, pointer.any(), SlotState::Persisted)?;
        assert!(at.is_multiple_of(8) && at < found.len, "the word at {at} of {}", found.len);
        self.make_way(found.place + at, 8)?;
        self.table.touch(&found);
        self.ground.store_word(found.place + at, value);
        Ok(())
    }

    /// Stores the state of a slot, and remembers it.
    pub(super) fn change(&mut self, found: &Found, slot: Slot) -> Result<()> {
        self.check_synced()?;
        match found.index {
            Some(index) => {
                let place = state_at(found.chunk, index);
                self.make_way(place, STATE_LEN)?;
                let state = slot.encode(&self.ground, place);
                self.ground.store_half(place, state);
            }
            None => {
                self.make_way(chunk_word_at(found.chunk), 8)?;
                let word = span_word(found, slot);
                self.store_chunk_word(found.chunk, word);
            }
        }
        *self.table.slot_mut(found.chunk, found.index) = slot;
        Ok(())
    }
}

/// The word of a span's first chunk when its slot is in a state.
pub(super) fn span_word(found: &Found, slot: Slot) -> ChunkWord {
    let (owner, chunks) = (found.owner, (found.len / super::layout::CHUNK) as u32);
    let purpose = match (slot.state, slot.tag) {
        (SlotState::Persisted, Some(tag)) => Purpose::Span { chunks, owner, tag },
        _ => Purpose::Free,
    };
    ChunkWord { purpose, generation: slot.generation }
}

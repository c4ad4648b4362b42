//! Undoes the free or the activation of a slot, for methods with an undo log. What is found undone is stored again: it may
//! not be durable, and the kernel may think that it is.

use super::base::Heap;
use super::chunk_word::{ChunkWord, Purpose};
use super::layout::{CHUNK, chunk_at, chunk_of, chunk_word_at, segment_of};
use super::owner::Owner;
use super::pointer::NvPtr;
use super::slot::{Slot, SlotState};
use super::table::{Chunk, Found, Span, wild};
use crate::Result;

impl Heap {
    /// Persists a slot again that [`Heap::free`] freed, if it is not persisted: its bytes are as they were if the
    /// caller has not fenced, published or reclaimed since, or not reserved a slot since that. `owner` and `len` are
    /// those that it was reserved with. After a crash this precedes all reservations; the word of a span's free chunk
    /// tells its generation only, so there the caller answers for the others. The caller fences before it publishes. One
    /// store, and no fence but as for all changes.
    ///
    /// # Errors
    /// [`crate::Error::Damaged`] if the slot is of another owner or length, or lives its next life; the pool's errors.
    pub fn restore<T>(&mut self, pointer: NvPtr<T>, owner: Owner, len: u64) -> Result<()> {
        let place = pointer.any().place();
        let is_span = !pointer.is_null()
            && self.ground.contains(place, 8)
            && place == chunk_at(chunk_of(place))
            && matches!(self.table.chunk(&self.ground, chunk_of(place))?, Chunk::Free { .. });
        if is_span {
            self.take_span(pointer, owner, len)?;
        }
        let found = self.table.find(&self.ground, pointer.any())?;
        if found.slot.state_for(pointer.any()) == SlotState::Persisted {
            // A process that restored it before may have been killed before its fence: the state is stored again.
            return self.change(&found, found.slot);
        }
        let Some(tag) = pointer.any().tag() else {
            return Err(wild(&self.ground, pointer.any(), "it has no tag"));
        };
        let slot = Slot::persisted(pointer.any().generation(), tag);
        let is_its = found.slot.state == SlotState::Free
            && found.slot.generation == slot.generation
            && slot.state_for(pointer.any()) == SlotState::Persisted
            && found.owner == owner
            && len <= found.len;
        if !is_its {
            let why = "the slot cannot be restored: it is another one by now";
            return Err(wild(&self.ground, pointer.any(), why));
        }
        self.change(&found, slot)?;
        let key = (found.chunk, found.index);
        if let Some(index) = found.index {
            self.table.slots_mut(found.chunk).occupy(index);
        }
        self.freed.retain(|&freed| freed != key);
        Ok(())
    }

    /// Frees a slot again that [`Heap::activate`] persisted, if it is persisted. After a crash this precedes all
    /// reservations. A pointer to a slot that was not activated, or lives its next life, changes nothing. One store, and
    /// no fence but as for all changes.
    ///
    /// # Errors
    /// [`crate::Error::Damaged`] if the pointer leads to no slot; the pool's errors.
    pub fn revoke<T>(&mut self, pointer: NvPtr<T>) -> Result<()> {
        let (pointer, place) = (pointer.any(), pointer.any().place());
        let is_chunk = self.ground.contains(place, 8) && place == chunk_at(chunk_of(place));
        if !pointer.is_null()
            && is_chunk
            && let Chunk::Free { generation } = *self.table.chunk(&self.ground, chunk_of(place))?
        {
            if generation == pointer.generation() {
                self.check_synced()?;
                self.make_way(chunk_word_at(chunk_of(place)), 8)?;
                let word = ChunkWord { purpose: Purpose::Free, generation };
                self.store_chunk_word(chunk_of(place), word);
            }
            return Ok(());
        }
        let found = self.table.find(&self.ground, pointer)?;
        if found.slot.state_for(pointer) == SlotState::Persisted {
            self.make_way(found.place, found.len)?;
            self.change(&found, found.slot.released())?;
            self.freed.push((found.chunk, found.index));
        } else if found.slot == Slot::free(pointer.generation()) {
            self.change(&found, found.slot)?;
        }
        Ok(())
    }

    /// Takes the free chunks of a span, whose slot stays free.
    fn take_span<T>(&mut self, pointer: NvPtr<T>, owner: Owner, len: u64) -> Result<()> {
        let id = chunk_of(pointer.any().place());
        let chunks = u32::try_from(len.div_ceil(CHUNK)).unwrap_or(u32::MAX);
        if !self.space.is_known(segment_of(id)) {
            self.look_at(segment_of(id))?;
        }
        let generation = match self.table.chunk(&self.ground, id)? {
            Chunk::Free { generation } => *generation,
            _ => return Ok(()),
        };
        if generation != pointer.any().generation() || !self.space.take_at(id, chunks) {
            let why = "the span cannot be restored: its chunks are in use";
            return Err(wild(&self.ground, pointer.any(), why));
        }
        let slot = Slot::free(generation);
        self.table.set(id, Chunk::Span(Span { chunks, owner, slot }));
        for tail in id + 1..id + chunks {
            self.table.set(tail, Chunk::Tail);
        }
        // If the slot is not restored, its chunks are free after the next fence.
        self.freed.push((id, None));
        let Found { len: got, .. } = self.table.find(&self.ground, pointer.any())?;
        debug_assert!(got >= len);
        Ok(())
    }
}

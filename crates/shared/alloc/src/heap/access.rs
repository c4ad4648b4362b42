//! Reads and writes of slots.

use halite_pmem::LINE;

use super::base::Heap;
use super::pointer::{AnyPtr, NvPtr, Tagged};
use super::slot::SlotState;
use super::table::{Found, wild};
use crate::Result;

impl Heap {
    /// The state of the slot that a pointer leads to: free also if it lives another life than the pointer's.
    ///
    /// # Errors
    /// [`crate::Error::Damaged`] if no slot begins there, or its state is damaged.
    pub fn state<T>(&self, pointer: NvPtr<T>) -> Result<SlotState> {
        let found = self.table.find(&self.ground, pointer.any())?;
        Ok(found.slot.state_for(pointer.any()))
    }

    /// Bytes of the slot that a pointer leads to: at least as many as were reserved.
    ///
    /// # Errors
    /// As [`Heap::read`].
    pub fn len_of<T>(&self, pointer: NvPtr<T>) -> Result<u64> {
        Ok(self.table.find_live(&self.ground, pointer.any())?.len)
    }

    /// All bytes of the slot that a pointer leads to, which is reserved or persisted. Bytes that were never written are
    /// undefined. One load.
    ///
    /// # Errors
    /// [`crate::Error::Damaged`] names the pointer if it is null, leads out of the heap or to no slot, or to one of
    /// another type or life, or one that is free; and the chunk or the slot whose word is damaged.
    pub fn read<T: Tagged>(&self, pointer: NvPtr<T>) -> Result<&[u8]> {
        let Found { place, len, .. } = self.find_typed(pointer)?;
        Ok(self.ground.read(place, len))
    }

    /// Has the processor fetch the lines of a slot's first bytes, which will be read, and does not wait: so they arrive
    /// together, also those of other slots. Whatever the pointer is, this is no access of it.
    #[inline]
    pub fn prefetch<T>(&self, pointer: NvPtr<T>, len: u64) {
        let place = pointer.any().place();
        for line in place / LINE..(place + len).div_ceil(LINE) {
            self.ground.prefetch(line * LINE);
        }
    }

    /// All bytes of a slot, which `prove` accepts: it is asked once, and again when the slot has changed through the heap. So
    /// damage is noticed at the first look since the heap was opened, and costs the others nothing; what rots on the medium
    /// behind that look is noticed by the next opening, or after [`Heap::forget_proofs`]. Long slots are proven each time. A
    /// slot has one kind of proof. One load.
    ///
    /// # Errors
    /// As [`Heap::read`]; those of `prove`.
    #[inline]
    pub fn read_proven<T: Tagged, E: From<crate::Error>>(
        &self,
        pointer: NvPtr<T>,
        prove: impl FnOnce(&[u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<&[u8], E> {
        let Found { place, len, index, chunk, .. } = self.find_typed(pointer)?;
        let bytes = self.ground.read(place, len);
        let slots = index.and_then(|_| self.table.slab(chunk)?.known_slots());
        match (slots, index) {
            (Some(slots), Some(index)) if slots.is_proven(index) => {}
            (slots, index) => {
                prove(bytes)?;
                if let (Some(slots), Some(index)) = (slots, index) {
                    slots.set_proven(index);
                }
            }
        }
        Ok(bytes)
    }

    /// Has each slot proven again: for a check of all that is stored.
    pub fn forget_proofs(&mut self) {
        self.table.forget_proofs();
    }

    /// Some bytes of a slot. One load.
    ///
    /// # Errors
    /// As [`Heap::read`], and if the slot is shorter.
    pub fn read_at<T: Tagged>(&self, pointer: NvPtr<T>, at: u64, len: u64) -> Result<&[u8]> {
        let found = self.find_typed(pointer)?;
        if at.checked_add(len).is_none_or(|end| end > found.len) {
            let why = format!("bytes {at}..+{len} of a slot of {}", found.len);
            return Err(wild(&self.ground, pointer.any(), &why));
        }
        Ok(self.ground.read(found.place + at, len))
    }

    /// A word of a slot. One load.
    ///
    /// # Errors
    /// As [`Heap::read_at`].
    pub fn word<T: Tagged>(&self, pointer: NvPtr<T>, at: u64) -> Result<u64> {
        let bytes = self.read_at(pointer, at, 8)?;
        Ok(u64::from_le_bytes(*bytes.first_chunk().expect("there are eight")))
    }

    /// Stores bytes in a slot. In a reserved one, the bytes before them that were not written are zero then, and the
    /// publication that activates it makes all of them durable. In a persisted one they may become durable at any time,
    /// each word by itself, and do so by the next fence.
    ///
    /// Costs two fences if the slot is persisted and the bytes are of the newest publication.
    ///
    /// # Errors
    /// As [`Heap::read`]; the pool's errors.
    ///
    /// # Panics
    /// If the slot is shorter.
    pub fn write<T: Tagged>(&mut self, pointer: NvPtr<T>, at: u64, bytes: &[u8]) -> Result<()> {
        let found = self.find_typed(pointer)?;
        let len = bytes.len() as u64;
        assert!(at <= found.len && len <= found.len - at, "bytes {at}..+{len} of {}", found.len);
        if found.slot.state == SlotState::Persisted {
            // After a sync that failed, the newest publication may have happened or not, and have freed the slot.
            self.check_synced()?;
            self.make_way(found.place + at, len)?;
            self.table.touch(&found);
            self.ground.write(found.place + at, bytes);
            self.ground.note(found.place + at, len);
            return Ok(());
        }
        let written = u64::from(found.slot.written);
        if at > written {
            self.ground.write(found.place + written, &vec![0; (at - written) as usize]);
        }
        self.ground.write(found.place + at, bytes);
        let slot = self.table.slot_mut(found.chunk, found.index);
        slot.written = slot.written.max((at + len) as u32);
        Ok(())
    }

    /// Has the next fence make all bytes durable that were written to a reserved slot: for methods with a log of their
    /// own, which activate it without a publication ([`Heap::activate`]).
    ///
    /// # Errors
    /// As [`Heap::read`], and if the slot is not reserved.
    pub fn flush<T>(&mut self, pointer: NvPtr<T>) -> Result<()> {
        let found = self.table.find_in(&self.ground, pointer.any(), SlotState::Reserved)?;
        self.ground.note(found.place, u64::from(found.slot.written));
        Ok(())
    }

    /// The slot that a pointer leads to, if it is of its type and of the same life.
    #[inline]
    pub(super) fn find_typed<T: Tagged>(&self, pointer: NvPtr<T>) -> Result<Found> {
        let any: AnyPtr = pointer.any();
        if !pointer.is_null() && any.tag() != Some(T::TAG) {
            let why = format!("it has not the tag {}", T::TAG.number());
            return Err(wild(&self.ground, any, &why));
        }
        // The line arrives while the state of its slot is looked up.
        self.ground.prefetch(any.place());
        self.table.find_live(&self.ground, any)
    }
}

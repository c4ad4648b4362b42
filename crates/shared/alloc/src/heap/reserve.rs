//! Reserves slots, and finds space for them.
//!
//! A search walks slabs of the owner and the class, the free chunks that are known, at most two segments that were not
//! looked at yet, slabs that are empty, and a new segment. Only if the pool is full, it looks at everything.

use halite_sim::planted;

use super::base::Heap;
use super::chunk_word::{ChunkWord, Purpose};
use super::class::{Class, SLAB_LEN_MAX};
use super::ground::Ground;
use super::layout::{CHUNK, CHUNKS, ChunkId, chunk_at, chunk_word_at, chunks_of, segment_of};
use super::owner::Owner;
use super::pointer::{AnyPtr, GENERATION_MAX, NvPtr, Tag, Tagged};
use super::slab::{SlabKind, Slots};
use super::slot::{Slot, SlotState};
use super::table::{Chunk, Slab, Span};
use crate::{Error, Result};

/// The longest slot, in bytes: all chunks of a segment but one.
pub const SLOT_LEN_MAX: u64 = (CHUNKS as u64 - 1) * CHUNK;

/// Segments that a search looks at before the heap grows.
const LOOKS: u32 = 2;

impl Heap {
    /// Reserves a slot of at least `len` bytes for an owner. A crash forgets it until it is activated. Its contents are
    /// undefined. The medium is not accessed if a known slab has a free slot; else it costs two fences for a new slab,
    /// none for a slot above 32,704 bytes, one for each segment that is looked at, and those of growth.
    ///
    /// # Errors
    /// [`Error::Full`], and then nothing has changed; [`Error::TooLong`], [`Error::OwnerDropped`]; [`Error::Damaged`] if
    /// chunks that are looked at are; the pool's errors.
    pub fn reserve<T: Tagged>(&mut self, owner: Owner, len: u64) -> Result<NvPtr<T>> {
        Ok(NvPtr::from_word(self.reserve_any(owner, T::TAG, len)?.word()))
    }

    /// Gives a reserved slot up.
    ///
    /// # Errors
    /// As [`Heap::read`], and if the slot is not reserved.
    pub fn cancel<T>(&mut self, pointer: NvPtr<T>) -> Result<()> {
        let found = self.table.find_in(&self.ground, pointer.any(), SlotState::Reserved)?;
        self.release(found.chunk, found.index);
        Ok(())
    }

    pub(super) fn reserve_any(&mut self, owner: Owner, tag: Tag, len: u64) -> Result<AnyPtr> {
        self.check_synced()?;
        self.check_owner(owner)?;
        if len > SLOT_LEN_MAX {
            return Err(Error::TooLong { len, max: SLOT_LEN_MAX });
        }
        match Class::of(len) {
            Some(class) => self.reserve_slot(SlabKind { owner, class }, tag),
            None => self.reserve_span(owner, tag, len.div_ceil(CHUNK) as u32),
        }
    }

    fn reserve_slot(&mut self, kind: SlabKind, tag: Tag) -> Result<AnyPtr> {
        let mut looks = 0;
        loop {
            if let Some(pointer) = self.reserve_in_slabs(kind, tag)? {
                return Ok(pointer);
            }
            match self.space.take(1) {
                Some(id) => self.make_slab(id, kind).inspect_err(|_| self.space.put(id))?,
                None => self.find_space(&mut looks)?,
            }
        }
    }

    /// Reserves a slot in a slab that is known.
    fn reserve_in_slabs(&mut self, kind: SlabKind, tag: Tag) -> Result<Option<AnyPtr>> {
        loop {
            let Some(&id) = self.space.slabs.get(&kind).and_then(|slabs| slabs.front()) else {
                return Ok(None);
            };
            let is_its = if let Some(slab) = self.table.slab(id)
                && slab.kind == kind
            {
                self.table.slots(&self.ground, id, slab)?;
                true
            } else {
                false
            };
            if is_its && let Some(index) = self.table.slots_mut(id).reserve(tag) {
                let slot = self.table.slots_mut(id).slot(index);
                let found = super::table::Found::of_slab(id, kind, index, slot);
                return Ok(Some(found.pointer()));
            }
            // It is another chunk by now, or the search has come to its end: then it is the turn of the next one.
            let slabs = self.space.slabs.get_mut(&kind).expect("it was found");
            slabs.pop_front();
            if is_its {
                let goes_on = self.table.slots_mut(id).free() > 0;
                if goes_on {
                    slabs.push_back(id);
                }
                self.table.slab_mut(id).expect("it is one").is_listed = goes_on;
            }
        }
    }

    fn reserve_span(&mut self, owner: Owner, tag: Tag, chunks: u32) -> Result<AnyPtr> {
        let mut looks = 0;
        let id = loop {
            match self.space.take(chunks) {
                Some(id) => break id,
                None => self.find_space(&mut looks)?,
            }
        };
        let made = self.make_span(id, chunks, owner, tag);
        made.inspect_err(|_| (id..id + chunks).for_each(|id| self.space.put(id)))
    }

    fn make_span(&mut self, id: ChunkId, chunks: u32, owner: Owner, tag: Tag) -> Result<AnyPtr> {
        let generation = self.free_generation(id)?;
        // Its bytes may be words of the slabs that were there.
        self.make_way(chunk_at(id), u64::from(chunks) * CHUNK)?;
        let slot = Slot::free(generation).reserved(tag);
        self.table.set(id, Chunk::Span(Span { chunks, owner, slot }));
        for tail in id + 1..id + chunks {
            self.table.set(tail, Chunk::Tail);
        }
        Ok(AnyPtr::new(chunk_at(id), tag, slot.pointer_generation()))
    }

    /// Makes a slab of a free chunk. Two fences: its states are durable before its word says that they are there.
    fn make_slab(&mut self, id: ChunkId, kind: SlabKind) -> Result<()> {
        let generation = (self.free_generation(id)? + 1) & GENERATION_MAX;
        self.make_way(chunk_at(id), CHUNK)?;
        self.make_way(chunk_word_at(id), 8)?;
        let SlabKind { owner, class } = kind;
        let (slots, states) = Slots::unused(&self.ground, id, class, generation);
        self.ground.write(chunk_at(id), &states);
        self.ground.note(chunk_at(id), states.len() as u64);
        planted!("alloc.heap-slab-before-its-states", Ok(()), self.ground.fence())?;
        let word = ChunkWord { purpose: Purpose::Slab { class, owner }, generation };
        self.store_chunk_word(id, word);
        self.ground.fence()?;
        self.table.set(id, Chunk::Slab(Slab::new(kind, generation, Some(slots))));
        self.list(id);
        Ok(())
    }

    fn free_generation(&self, id: ChunkId) -> Result<u16> {
        match self.table.chunk(&self.ground, id)? {
            Chunk::Free { generation } => Ok(*generation),
            _ => panic!("chunk {id} is not free"),
        }
    }

    /// Does one step towards more space.
    fn find_space(&mut self, looks: &mut u32) -> Result<()> {
        if *looks < LOOKS
            && let Some(segment) = self.space.next_unknown()
        {
            *looks += 1;
            return self.look_at(segment);
        }
        if self.free_an_empty_slab()? {
            return Ok(());
        }
        let full = match self.grow() {
            Err(full @ Error::Full { .. }) => full,
            grown => return grown,
        };
        if let Some(segment) = self.space.next_unknown() {
            return self.look_at(segment);
        }
        while let Some(id) = self.space.unread.pop() {
            if self.is_empty_slab(id)? {
                self.space.empty.insert(id);
                return Ok(());
            }
        }
        Err(full)
    }

    /// Looks at the words of a segment's chunks, and counts its space. One fence.
    pub(super) fn look_at(&mut self, segment: u32) -> Result<()> {
        let mut id = chunks_of(segment).start;
        let end = chunks_of(segment).end;
        // The process that stored a word may have died before its fence.
        self.ground.note(chunk_word_at(segment * CHUNKS), u64::from(CHUNKS) * 8);
        self.ground.fence_found()?;
        let (mut slabs, mut free) = (Vec::new(), Vec::new());
        while id < end {
            match self.table.chunk(&self.ground, id)? {
                Chunk::Free { .. } => free.push(id),
                Chunk::Slab(_) => slabs.push(id),
                Chunk::Span(span) => {
                    let next = id + span.chunks;
                    for tail in id + 1..next {
                        let ChunkWord { purpose, .. } = ChunkWord::read(&self.ground, tail)?;
                        if purpose != Purpose::Free {
                            let why = format!("it is used, and in the span of chunk {id}");
                            return Err(self.ground.damaged(Ground::chunk_name(tail), why));
                        }
                        self.table.set(tail, Chunk::Tail);
                    }
                    id = next;
                    continue;
                }
                Chunk::Tail | Chunk::Meta => {
                    let why = "it is marked as the heap's own";
                    return Err(self.ground.damaged(Ground::chunk_name(id), why));
                }
            }
            id += 1;
        }
        self.space.set_known(segment);
        free.into_iter().for_each(|id| self.space.put(id));
        for id in slabs {
            let slab = self.table.slab(id).expect("it was read");
            match slab.known_slots() {
                Some(slots) if slots.free() == slots.len() => {
                    self.space.empty.insert(id);
                }
                Some(_) => {}
                None => self.space.unread.push(id),
            }
            self.list(id);
        }
        Ok(())
    }

    /// Puts a slab in the list of those that may have free slots.
    fn list(&mut self, id: ChunkId) {
        let slab = self.table.slab_mut(id).expect("it is a slab");
        if !slab.is_listed {
            slab.is_listed = true;
            let kind = slab.kind;
            self.space.slabs.entry(kind).or_default().push_back(id);
        }
    }

    fn is_empty_slab(&self, id: ChunkId) -> Result<bool> {
        let Some(slab) = self.table.slab(id) else { return Ok(false) };
        let slots = self.table.slots(&self.ground, id, slab)?;
        Ok(slots.free() == slots.len())
    }

    /// Frees the chunk of a slab without any slot in use, if there is one. One fence; another one before it if anything
    /// was stored: a log that still names slots of the slab may be among that, and emptied.
    fn free_an_empty_slab(&mut self) -> Result<bool> {
        while let Some(id) = self.space.empty.pop_first() {
            if self.is_empty_slab(id)? {
                self.ground.fence()?;
                self.free_slabs(&[id])?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Frees the chunks of slabs, which no pointer leads to. One fence.
    pub(super) fn free_slabs(&mut self, ids: &[ChunkId]) -> Result<()> {
        for &id in ids {
            self.make_way(chunk_at(id), CHUNK)?;
            self.make_way(chunk_word_at(id), 8)?;
        }
        for &id in ids {
            let slab = self.table.slab(id).expect("it is one");
            let generation = slab.generation;
            self.store_chunk_word(id, ChunkWord { purpose: Purpose::Free, generation });
        }
        self.ground.fence()?;
        for &id in ids {
            let slab = self.table.slab(id).expect("it is one");
            if let Some(slabs) = self.space.slabs.get_mut(&slab.kind) {
                slabs.retain(|&other| other != id);
            }
            self.table.forget(id);
            self.put_chunk(id);
        }
        Ok(())
    }

    /// Lets a slot be reserved that is durably free, or was never persisted.
    pub(super) fn release(&mut self, chunk: ChunkId, index: Option<u32>) {
        if let Some(index) = index {
            let slots = self.table.slots_mut(chunk);
            slots.release(index);
            let is_empty = slots.free() == slots.len();
            if self.space.is_known(segment_of(chunk)) {
                self.list(chunk);
                if is_empty {
                    self.space.empty.insert(chunk);
                }
            }
            return;
        }
        let Ok(Chunk::Span(span)) = self.table.chunk(&self.ground, chunk) else {
            panic!("chunk {chunk} is no span");
        };
        for id in chunk..chunk + span.chunks {
            self.table.forget(id);
            self.put_chunk(id);
        }
    }

    fn put_chunk(&mut self, id: ChunkId) {
        if self.space.is_known(segment_of(id)) {
            self.space.put(id);
        }
    }

    pub(super) fn store_chunk_word(&mut self, id: ChunkId, word: ChunkWord) {
        let word = word.encode(&self.ground, id);
        self.ground.store_word(chunk_word_at(id), word);
    }
}

const _: () = assert!(SLAB_LEN_MAX < SLOT_LEN_MAX);

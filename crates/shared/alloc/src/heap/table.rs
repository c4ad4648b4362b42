//! The chunks of a heap in DRAM. A chunk's word is read, and checked, when the chunk is first used; so are the states of
//! a slab.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::chunk_word::{ChunkWord, Purpose};
use super::ground::Ground;
use super::layout::{CHUNK, CHUNKS, ChunkId, chunk_at, chunk_of, chunk_word_at, segment_of};
use super::owner::Owner;
use super::pointer::AnyPtr;
use super::slab::{SlabKind, Slots, slot_at};
use super::slot::{Slot, SlotState};
use crate::segment_header::{HEADER_LEN, Header};
use crate::{Result, SEGMENT};

/// The parts of a heap that were looked at since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LookedAt {
    /// Words of chunks.
    pub chunks: u64,
    /// States of slots.
    pub slots: u64,
}

/// A chunk.
pub(super) enum Chunk {
    Free {
        generation: u16,
    },
    Slab(Slab),
    /// The head of a span.
    Span(Span),
    /// Another chunk of a span.
    Tail,
    Meta,
}

/// A slab.
pub(super) struct Slab {
    pub(super) kind: SlabKind,
    pub(super) generation: u16,
    /// Whether it is in the list of slabs that may have free slots.
    pub(super) is_listed: bool,
    slots: OnceLock<Slots>,
}

/// A span: one slot.
pub(super) struct Span {
    pub(super) chunks: u32,
    pub(super) owner: Owner,
    pub(super) slot: Slot,
}

/// A slot, found by a pointer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) chunk: ChunkId,
    /// Of a slab's slot; `None` for a span.
    pub(super) index: Option<u32>,
    /// Where its bytes begin, and how many there are.
    pub(super) place: u64,
    pub(super) len: u64,
    pub(super) owner: Owner,
    pub(super) slot: Slot,
}

/// The chunks by segment.
#[derive(Default)]
pub(super) struct Table {
    segments: Vec<OnceLock<Box<[OnceLock<Chunk>; CHUNKS as usize]>>>,
    chunks_read: AtomicU64,
    slots_read: AtomicU64,
}

/// The header of a segment of a heap: as of a pool of objects, none of which has a header.
pub(super) fn header(device: u16, number: u32) -> Header {
    Header { device, number, object_len: CHUNK as u32, count: CHUNKS }
}

impl Slab {
    pub(super) fn new(kind: SlabKind, generation: u16, slots: Option<Slots>) -> Self {
        let slots = slots.map_or_else(OnceLock::new, OnceLock::from);
        Self { kind, generation, is_listed: false, slots }
    }

    /// The slots, if they were read.
    pub(super) fn known_slots(&self) -> Option<&Slots> {
        self.slots.get()
    }
}

impl Table {
    /// Adds a segment whose chunks were not looked at.
    pub(super) fn push_segment(&mut self) {
        self.segments.push(OnceLock::new());
    }

    pub(super) fn looked_at(&self) -> LookedAt {
        let (chunks, slots) = (self.chunks_read.load(Relaxed), self.slots_read.load(Relaxed));
        LookedAt { chunks, slots }
    }

    #[inline]
    fn cell(&self, id: ChunkId) -> &OnceLock<Chunk> {
        let segment = &self.segments[segment_of(id) as usize];
        let chunks = segment.get_or_init(|| Box::new([const { OnceLock::new() }; CHUNKS as usize]));
        &chunks[(id % CHUNKS) as usize]
    }

    /// The chunk with a number, which is in a segment that is there. A chunk in a span that nothing has led to yet may
    /// be taken for a free one.
    #[inline]
    pub(super) fn chunk(&self, ground: &Ground, id: ChunkId) -> Result<&Chunk> {
        match self.cell(id).get() {
            Some(chunk) => Ok(chunk),
            None => self.read_chunk(ground, id),
        }
    }

    #[cold]
    fn read_chunk(&self, ground: &Ground, id: ChunkId) -> Result<&Chunk> {
        let segment = segment_of(id);
        let head = ground.read(u64::from(segment) * SEGMENT, HEADER_LEN);
        header(ground.device().id(), segment).check(head, ground.pool(), ground.salt())?;
        self.chunks_read.fetch_add(1, Relaxed);
        let ChunkWord { purpose, generation } = ChunkWord::read(ground, id)?;
        let chunk = match purpose {
            Purpose::Free => Chunk::Free { generation },
            Purpose::Slab { class, owner } => {
                Chunk::Slab(Slab::new(SlabKind { owner, class }, generation, None))
            }
            Purpose::Span { chunks, owner, tag } => {
                if chunks == 0 || id % CHUNKS + chunks > CHUNKS {
                    let why = format!("it begins a span of {chunks} chunks");
                    return Err(ground.damaged(Ground::chunk_name(id), why));
                }
                let slot = Slot::persisted(generation, tag);
                Chunk::Span(Span { chunks, owner, slot })
            }
            Purpose::Meta => Chunk::Meta,
        };
        Ok(self.cell(id).get_or_init(|| chunk))
    }

    /// Replaces what is known of a chunk.
    pub(super) fn set(&mut self, id: ChunkId, chunk: Chunk) {
        self.forget(id);
        let is_new = self.cell(id).set(chunk).is_ok();
        assert!(is_new, "it was forgotten");
    }

    /// Forgets a chunk: it is read again when it is used.
    pub(super) fn forget(&mut self, id: ChunkId) {
        if let Some(chunks) = self.segments[segment_of(id) as usize].get_mut() {
            chunks[(id % CHUNKS) as usize].take();
        }
    }

    /// Forgets the chunk whose word is at a place, if one's is.
    pub(super) fn forget_word(&mut self, place: u64) {
        let first = (place / SEGMENT) as ChunkId * CHUNKS;
        if let Some(chunk) = (first..first + CHUNKS).find(|&id| chunk_word_at(id) == place) {
            self.forget(chunk);
        }
    }

    /// The slab that a chunk is known to be.
    pub(super) fn slab(&self, id: ChunkId) -> Option<&Slab> {
        match self.cell(id).get() {
            Some(Chunk::Slab(slab)) => Some(slab),
            _ => None,
        }
    }

    pub(super) fn slab_mut(&mut self, id: ChunkId) -> Option<&mut Slab> {
        let chunks = self.segments[segment_of(id) as usize].get_mut()?;
        match chunks[(id % CHUNKS) as usize].get_mut() {
            Some(Chunk::Slab(slab)) => Some(slab),
            _ => None,
        }
    }

    /// The slots of a slab.
    #[inline]
    pub(super) fn slots<'a>(
        &self,
        ground: &Ground,
        id: ChunkId,
        slab: &'a Slab,
    ) -> Result<&'a Slots> {
        match slab.slots.get() {
            Some(slots) => Ok(slots),
            None => self.read_slots(ground, id, slab),
        }
    }

    #[cold]
    fn read_slots<'a>(&self, ground: &Ground, id: ChunkId, slab: &'a Slab) -> Result<&'a Slots> {
        let slots = Slots::read(ground, id, slab.kind.class)?;
        self.slots_read.fetch_add(u64::from(slots.len()), Relaxed);
        Ok(slab.slots.get_or_init(|| slots))
    }

    /// Forgets which slots were proven.
    pub(super) fn forget_proofs(&mut self) {
        let chunks =
            self.segments.iter_mut().filter_map(OnceLock::get_mut).flat_map(|it| &mut **it);
        for chunk in chunks.filter_map(OnceLock::get_mut) {
            if let Chunk::Slab(slab) = chunk
                && let Some(slots) = slab.slots.get_mut()
            {
                slots.forget_proofs();
            }
        }
    }

    /// The slots of a slab that were read before.
    pub(super) fn slots_mut(&mut self, id: ChunkId) -> &mut Slots {
        let slab = self.slab_mut(id).expect("it is a slab");
        slab.slots.get_mut().expect("its slots were read")
    }

    /// The slot that begins at a place in the heap, if one does.
    #[inline]
    pub(super) fn slot_at(&self, ground: &Ground, place: u64) -> Result<Option<Found>> {
        let chunk = chunk_of(place);
        let found = match self.chunk(ground, chunk)? {
            Chunk::Slab(slab) => {
                let Some(index) = slab.kind.class.shape().slot_at(place - chunk_at(chunk)) else {
                    return Ok(None);
                };
                let slot = self.slots(ground, chunk, slab)?.slot(index);
                Found::of_slab(chunk, slab.kind, index, slot)
            }
            Chunk::Span(span) if place == chunk_at(chunk) => {
                let len = u64::from(span.chunks) * CHUNK;
                Found { chunk, index: None, place, len, owner: span.owner, slot: span.slot }
            }
            _ => return Ok(None),
        };
        Ok(Some(found))
    }

    /// The slot that a pointer leads to, of any state.
    #[inline]
    pub(super) fn find(&self, ground: &Ground, pointer: AnyPtr) -> Result<Found> {
        let place = pointer.place();
        let why = if pointer.is_null() {
            "it is null"
        } else if pointer.has_foreign_bits() || !ground.contains(place, 8) {
            "it leads out of the heap"
        } else if let Some(found) = self.slot_at(ground, place)? {
            return Ok(found);
        } else {
            "no slot begins there"
        };
        Err(wild(ground, pointer, why))
    }

    /// The slot that a pointer leads to, which is reserved or persisted.
    #[inline]
    pub(super) fn find_live(&self, ground: &Ground, pointer: AnyPtr) -> Result<Found> {
        let found = self.find(ground, pointer)?;
        match found.slot.state_for(pointer) {
            SlotState::Free => {
                let why = "the slot is free, or lives another life";
                Err(wild(ground, pointer, why))
            }
            SlotState::Reserved | SlotState::Persisted => Ok(found),
        }
    }

    /// The slot that a pointer leads to, which is in this state.
    #[inline]
    pub(super) fn find_in(
        &self,
        ground: &Ground,
        pointer: AnyPtr,
        state: SlotState,
    ) -> Result<Found> {
        self.find_live(ground, pointer)?.in_state(ground, pointer, state)
    }

    /// Notes that bytes of a slot change: they are not proven any more.
    pub(super) fn touch(&mut self, found: &Found) {
        self.slot_mut(found.chunk, found.index);
    }

    /// The slot in DRAM, to be changed.
    pub(super) fn slot_mut(&mut self, chunk: ChunkId, index: Option<u32>) -> &mut Slot {
        if let Some(index) = index {
            return self.slots_mut(chunk).slot_mut(index);
        }
        let chunks = self.segments[segment_of(chunk) as usize].get_mut().expect("it was read");
        match chunks[(chunk % CHUNKS) as usize].get_mut() {
            Some(Chunk::Span(span)) => &mut span.slot,
            _ => panic!("chunk {chunk} is no span"),
        }
    }
}

impl Found {
    /// The slot, if it is in this state.
    #[inline]
    pub(super) fn in_state(
        self,
        ground: &Ground,
        pointer: AnyPtr,
        state: SlotState,
    ) -> Result<Self> {
        if self.slot.state != state {
            let why = format!("the slot is not {state:?}, but {:?}", self.slot.state);
            return Err(wild(ground, pointer, &why));
        }
        Ok(self)
    }

    /// The pointer to the slot's present life.
    pub(super) fn pointer(&self) -> AnyPtr {
        let tag = self.slot.tag.expect("a slot that is in use has a tag");
        AnyPtr::new(self.place, tag, self.slot.pointer_generation())
    }

    /// The place of a slab's slot.
    #[inline]
    pub(super) fn of_slab(chunk: ChunkId, kind: SlabKind, index: u32, slot: Slot) -> Self {
        let SlabKind { owner, class } = kind;
        let (place, len) = (slot_at(chunk, class, index), u64::from(class.shape().len));
        Self { chunk, index: Some(index), place, len, owner, slot }
    }
}

/// The error of a pointer that leads nowhere.
#[cold]
pub(super) fn wild(ground: &Ground, pointer: AnyPtr, why: &str) -> crate::Error {
    ground.damaged(format!("pointer {:#x}", pointer.word()), why)
}

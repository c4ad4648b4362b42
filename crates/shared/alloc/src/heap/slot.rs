//! The state of a slot.
//!
//! ```text
//! bits 31..20        19..14   13..12   11..0
//!      generation    tag      state    check
//! ```
//!
//! The check is over the other bits, the place, the device and the pool's salt. Two states share a word of 8 bytes, so a
//! change of one is failure-atomic.
//!
//! The three states are free, reserved and persisted. A crash has to make a reserved slot free again; so its word says
//! that it is free, and that it is reserved is known in DRAM only. That costs no store to a line which a publication is
//! about to write back, and no work after a crash.

use super::ground::Ground;
use super::pointer::{AnyPtr, GENERATION_MAX, Tag};

/// The state of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotState {
    /// It belongs to no pointer.
    Free,
    /// It belongs to a pointer, and a crash makes it free.
    Reserved,
    /// It belongs to a pointer, also after a crash.
    Persisted,
}

/// Stored states; zero is none, so that zeroed states are found.
const FREE: u32 = 1;
const PERSISTED: u32 = 3;

const CHECK_BITS: u32 = 12;
const STATE_SHIFT: u32 = CHECK_BITS;
const TAG_SHIFT: u32 = STATE_SHIFT + 2;
const GENERATION_SHIFT: u32 = TAG_SHIFT + 6;

/// A slot as DRAM knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    /// Of its last life that was persisted; one that is reserved has the next.
    pub(super) generation: u16,
    pub(super) tag: Option<Tag>,
    pub(super) state: SlotState,
    /// Of a reserved slot: bytes from its start on that were written.
    pub(super) written: u32,
}

// Eight to a line: a lookup by a pointer misses the processor's caches once here.
const _: () = assert!(size_of::<Slot>() == 8);

impl Slot {
    pub(super) fn free(generation: u16) -> Self {
        Self { generation, tag: None, state: SlotState::Free, written: 0 }
    }

    pub(super) fn persisted(generation: u16, tag: Tag) -> Self {
        Self { generation, tag: Some(tag), state: SlotState::Persisted, written: 0 }
    }

    /// The slot when it is reserved.
    pub(super) fn reserved(self, tag: Tag) -> Self {
        Self { tag: Some(tag), state: SlotState::Reserved, written: 0, ..self }
    }

    /// The generation of pointers to its present or next life.
    pub(super) fn pointer_generation(self) -> u16 {
        match self.state {
            SlotState::Persisted => self.generation,
            SlotState::Free | SlotState::Reserved => (self.generation + 1) & GENERATION_MAX,
        }
    }

    /// The slot when it is activated.
    pub(super) fn activated(self) -> Self {
        let tag = self.tag.expect("a reserved slot has a tag");
        Self::persisted(self.pointer_generation(), tag)
    }

    /// The slot when it is free again.
    pub(super) fn released(self) -> Self {
        Self::free(self.generation)
    }

    /// Its state, as far as a pointer is concerned: free, if the pointer is to another life.
    pub(super) fn state_for(self, pointer: AnyPtr) -> SlotState {
        let is_its = self.tag == pointer.tag() && self.pointer_generation() == pointer.generation();
        if is_its { self.state } else { SlotState::Free }
    }

    /// The stored form.
    pub(super) fn encode(self, ground: &Ground, place: u64) -> u32 {
        let (state, tag) = match self.state {
            SlotState::Free | SlotState::Reserved => (FREE, 0),
            SlotState::Persisted => (PERSISTED, self.tag.map_or(0, |tag| u32::from(tag.number()))),
        };
        let word = u32::from(self.generation) << GENERATION_SHIFT
            | tag << TAG_SHIFT
            | state << STATE_SHIFT;
        word | ground.check(place, u64::from(word)) as u32 & ((1 << CHECK_BITS) - 1)
    }

    /// The slot of a stored state, if it has its check.
    pub(super) fn decode(ground: &Ground, place: u64, word: u32) -> Option<Self> {
        let generation = (word >> GENERATION_SHIFT) as u16;
        let tag = Tag::stored(u64::from(word >> TAG_SHIFT));
        let slot = match (word >> STATE_SHIFT & 3, tag) {
            (FREE, None) => Self::free(generation),
            (PERSISTED, Some(tag)) => Self::persisted(generation, tag),
            _ => return None,
        };
        (slot.encode(ground, place) == word).then_some(slot)
    }
}

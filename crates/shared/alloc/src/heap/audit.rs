//! The check of a whole heap: each word has its check, and each persisted slot is reached exactly once.

use std::collections::HashSet;

use super::base::Heap;
use super::chunk_word::{ChunkWord, Purpose};
use super::ground::Ground;
use super::layout::{CHUNK, CHUNKS, chunks_of};
use super::pointer::AnyPtr;
use super::slab::{SlabKind, Slots, state_at};
use super::slot::{Slot, SlotState};
use super::table::{Chunk, Found, Slab, wild};
use crate::Result;

/// The bytes of a heap, each counted once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Accounting {
    /// Of slots that are reached, and of the roots'.
    pub reachable: u64,
    /// Of slots of dropped owners, which are to be reclaimed.
    pub dropped: u64,
    /// Of reserved slots.
    pub reserved: u64,
    /// Of free slots and chunks.
    pub free: u64,
    /// Of the heap's own chunks, of states, and of remainders that are shorter than a slot.
    pub metadata: u64,
}

impl Accounting {
    /// All bytes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.reachable + self.dropped + self.reserved + self.free + self.metadata
    }
}

impl Heap {
    /// Checks all words of the heap, and that `reachable` are exactly the persisted slots, each once: all but those of
    /// the roots and of dropped owners. Looks at all chunks and slots; takes memory for each pointer.
    ///
    /// # Errors
    /// [`crate::Error::Damaged`] names a damaged word, a pointer that leads to no persisted slot or was there before, or
    /// a persisted slot that no pointer leads to.
    pub fn check(&self, reachable: impl IntoIterator<Item = AnyPtr>) -> Result<Accounting> {
        let mut reached = HashSet::new();
        let roots = self.roots.by_name.values().map(|root| root.pointer);
        for pointer in reachable.into_iter().chain(roots) {
            let found = self.table.find_in(&self.ground, pointer, SlotState::Persisted)?;
            if !reached.insert(found.place) {
                return Err(wild(&self.ground, pointer, "two pointers lead to its slot"));
            }
        }
        let mut accounting = Accounting::default();
        for segment in 0..self.ground.segments() {
            let chunks = chunks_of(segment);
            accounting.metadata += u64::from(CHUNKS - chunks.len() as u32) * CHUNK;
            let mut id = chunks.start;
            while id < chunks.end {
                id += self.check_chunk(&mut accounting, &reached, id)?;
            }
        }
        assert_eq!(accounting.total(), u64::from(self.ground.segments()) * crate::SEGMENT);
        Ok(accounting)
    }

    /// Checks a chunk, or a span; returns how many chunks that are.
    fn check_chunk(
        &self,
        accounting: &mut Accounting,
        reached: &HashSet<u64>,
        id: u32,
    ) -> Result<u32> {
        let stored = ChunkWord::read(&self.ground, id)?;
        let expect = |purpose, generation| {
            if stored == (ChunkWord { purpose, generation }) {
                return Ok(());
            }
            let why = "its word changed while it was in use";
            Err(self.ground.damaged(Ground::chunk_name(id), why))
        };
        match self.table.chunk(&self.ground, id)? {
            Chunk::Slab(slab) => {
                let SlabKind { owner, class } = slab.kind;
                expect(Purpose::Slab { class, owner }, slab.generation)?;
                self.check_slab(accounting, reached, id, slab)?;
                Ok(1)
            }
            Chunk::Span(span) => {
                let (owner, slot, chunks) = (span.owner, span.slot, span.chunks);
                let len = u64::from(chunks) * CHUNK;
                let place = super::layout::chunk_at(id);
                let found = Found { chunk: id, index: None, place, len, owner, slot };
                let word = super::door::span_word(&found, slot);
                expect(word.purpose, word.generation)?;
                for tail in id + 1..id + chunks {
                    let ChunkWord { purpose, .. } = ChunkWord::read(&self.ground, tail)?;
                    if purpose != Purpose::Free {
                        let why = format!("it is used, and in the span of chunk {id}");
                        return Err(self.ground.damaged(Ground::chunk_name(tail), why));
                    }
                }
                self.count(accounting, reached, &found)?;
                Ok(chunks)
            }
            Chunk::Free { generation } => {
                expect(Purpose::Free, *generation)?;
                accounting.free += CHUNK;
                Ok(1)
            }
            Chunk::Tail | Chunk::Meta => {
                let why = "it is marked as the heap's own, or as a part of a span";
                Err(self.ground.damaged(Ground::chunk_name(id), why))
            }
        }
    }

    fn check_slab(
        &self,
        accounting: &mut Accounting,
        reached: &HashSet<u64>,
        id: u32,
        slab: &Slab,
    ) -> Result<()> {
        let SlabKind { owner, class } = slab.kind;
        let known = self.table.slots(&self.ground, id, slab)?;
        let stored = Slots::read(&self.ground, id, class)?;
        accounting.metadata += CHUNK - u64::from(known.len()) * u64::from(class.shape().len);
        for (index, (slot, stored)) in (0..).zip(known.iter().zip(stored.iter())) {
            let as_stored = |slot: Slot| slot.encode(&self.ground, state_at(id, index));
            let found = Found::of_slab(id, slab.kind, index, slot);
            debug_assert_eq!(found.owner, owner);
            if as_stored(slot) != as_stored(stored) {
                let what = format!("{}, slot {index}", Ground::chunk_name(id));
                return Err(self.ground.damaged(what, "its state changed while it was in use"));
            }
            self.count(accounting, reached, &found)?;
        }
        Ok(())
    }

    fn count(
        &self,
        accounting: &mut Accounting,
        reached: &HashSet<u64>,
        found: &Found,
    ) -> Result<()> {
        let len = found.len;
        match found.slot.state {
            SlotState::Free => accounting.free += len,
            SlotState::Reserved => accounting.reserved += len,
            SlotState::Persisted if reached.contains(&found.place) => accounting.reachable += len,
            SlotState::Persisted if self.dead.contains(found.owner) => accounting.dropped += len,
            SlotState::Persisted => {
                let why = format!("it is persisted for {}, and not reached", found.owner);
                return Err(wild(&self.ground, found.pointer(), &why));
            }
        }
        Ok(())
    }
}

//! Reclaims the space of dropped owners, chunk by chunk, between other work.
//!
//! A publication puts an owner on the list of dropped ones. From then on nothing is allocated for it, and each chunk of
//! it may be freed by its word alone. A pass looks at all segments; once it is through, and the chunks are durably free,
//! the owners that were on the list when it began are taken from it. A crash ends a pass, and the next one finds fewer
//! chunks.
//!
//! Costs: a fence for each step that frees chunks, and one for the end of a pass; two more if the newest publications
//! were about a chunk that is freed.

use std::ops::Range;

use super::base::Heap;
use super::chunk_word::{ChunkWord, Purpose};
use super::dead;
use super::layout::{ChunkId, chunks_of, dead_word_at};
use super::owner::Owner;
use super::slot::SlotState;
use super::table::Chunk;
use crate::Result;

/// A pass over all segments.
pub(super) struct Pass {
    segments: Range<u32>,
    /// The dropped owners, and the numbers of their words.
    owners: Vec<(usize, Owner)>,
}

impl Heap {
    /// Reclaims space of dropped owners in the next so many segments. Pointers to their slots, also to reserved ones, do
    /// not lead anywhere then. Returns whether all dropped owners are reclaimed. It
    /// fences all that was stored before, too.
    ///
    /// # Errors
    /// [`crate::Error::Damaged`] if a chunk's word is; the pool's errors. The next call goes on.
    pub fn reclaim(&mut self, segments: u32) -> Result<bool> {
        self.fence()?;
        if self.dead.is_empty() {
            return Ok(true);
        }
        let all = self.ground.segments();
        let owners = self.dead.iter();
        let pass =
            self.pass.get_or_insert_with(|| Pass { segments: 0..all, owners: owners.collect() });
        let owners: Vec<Owner> = pass.owners.iter().map(|&(_, owner)| owner).collect();
        let end = pass.segments.end.min(pass.segments.start.saturating_add(segments));
        for segment in pass.segments.start..end {
            self.reclaim_segment(segment, &owners)?;
            if let Some(pass) = &mut self.pass {
                pass.segments.start = segment + 1;
            }
        }
        if let Some(pass) = self.pass.take_if(|pass| pass.segments.is_empty()) {
            self.end(pass)?;
        }
        Ok(self.dead.is_empty())
    }

    fn reclaim_segment(&mut self, segment: u32, owners: &[Owner]) -> Result<()> {
        if !self.space.is_known(segment) {
            self.look_at(segment)?;
        }
        let (mut slabs, mut spans): (Vec<ChunkId>, Vec<ChunkId>) = (Vec::new(), Vec::new());
        for id in chunks_of(segment) {
            match self.table.chunk(&self.ground, id)? {
                Chunk::Slab(slab) if owners.contains(&slab.kind.owner) => slabs.push(id),
                Chunk::Span(span) if owners.contains(&span.owner) => spans.push(id),
                _ => {}
            }
        }
        if !slabs.is_empty() {
            self.free_slabs(&slabs)?;
        }
        if !spans.is_empty() {
            self.free_spans(&spans)?;
        }
        Ok(())
    }

    fn free_spans(&mut self, ids: &[ChunkId]) -> Result<()> {
        for &id in ids {
            let Chunk::Span(span) = self.table.chunk(&self.ground, id)? else { continue };
            let (generation, state) = (span.slot.generation, span.slot.state);
            let place = super::layout::chunk_at(id);
            let len = u64::from(span.chunks) * super::layout::CHUNK;
            self.make_way(place, len)?;
            self.make_way(super::layout::chunk_word_at(id), 8)?;
            if state == SlotState::Persisted {
                self.store_chunk_word(id, ChunkWord { purpose: Purpose::Free, generation });
            }
        }
        self.fence()?;
        ids.iter().for_each(|&id| self.release(id, None));
        Ok(())
    }

    /// Takes the owners of a pass from the list. One fence.
    fn end(&mut self, pass: Pass) -> Result<()> {
        for &(index, _) in &pass.owners {
            // The publication that dropped the owner must not do so again.
            self.make_way(dead_word_at(index), 8)?;
        }
        for &(index, _) in &pass.owners {
            let place = dead_word_at(index);
            let word = self.ground.checked(place, dead::payload(None));
            self.ground.store_word(place, word);
        }
        self.fence()?;
        for (index, _) in pass.owners {
            self.dead.remove(index);
        }
        Ok(())
    }
}

//! The use of a heap's space, and its wear.

use std::collections::BTreeMap;

use super::base::Heap;
use super::layout::{CHUNK, CHUNKS, chunks_of};
use super::owner::Owner;
use super::slab::SlabKind;
use super::slot::SlotState;
use super::table::Chunk;
use crate::{Result, SEGMENT};

/// The space of an owner, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OwnerUsage {
    /// Of persisted slots.
    pub persisted: u64,
    /// Of reserved slots.
    pub reserved: u64,
    /// Of free slots in its slabs.
    pub free: u64,
    /// Of the states, and of remainders that are shorter than a slot.
    pub overhead: u64,
    /// Persisted slots.
    pub slots: u64,
}

/// The space of a heap, in bytes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Usage {
    /// Of its segments: the sum of all others.
    pub total: u64,
    /// Of the heap's own chunks.
    pub metadata: u64,
    /// Of free chunks.
    pub free: u64,
    /// Of the named roots.
    pub roots: OwnerUsage,
    /// Of owners, also of dropped ones that are not reclaimed.
    pub owners: BTreeMap<Owner, OwnerUsage>,
    /// Lines written back to the segment that was written most, since the heap was opened.
    pub lines_max: u64,
    /// The same in the mean of all segments.
    pub lines_mean: f64,
}

impl OwnerUsage {
    /// All its bytes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.persisted + self.reserved + self.free + self.overhead
    }

    fn add(&mut self, state: SlotState, len: u64) {
        match state {
            SlotState::Persisted => {
                self.persisted += len;
                self.slots += 1;
            }
            SlotState::Reserved => self.reserved += len,
            SlotState::Free => self.free += len,
        }
    }
}

impl Heap {
    /// The use of the heap's space. Looks at all of its chunks and slots.
    ///
    /// # Errors
    /// [`crate::Error::Damaged`] if a word is.
    pub fn usage(&self) -> Result<Usage> {
        let mut usage = Usage {
            total: u64::from(self.ground.segments()) * SEGMENT,
            lines_max: self.ground.lines().max().unwrap_or(0),
            lines_mean: self.ground.lines().sum::<u64>() as f64 / self.ground.lines().len() as f64,
            ..Usage::default()
        };
        for segment in 0..self.ground.segments() {
            usage.metadata += u64::from(CHUNKS - chunks_of(segment).len() as u32) * CHUNK;
            let mut id = chunks_of(segment).start;
            while id < chunks_of(segment).end {
                id += self.add_chunk(&mut usage, id)?;
            }
        }
        Ok(usage)
    }

    /// Counts a chunk, or a span; returns how many chunks that are.
    fn add_chunk(&self, usage: &mut Usage, id: u32) -> Result<u32> {
        let mut of = |owner: Owner| match owner {
            Owner::ROOTS => std::mem::take(&mut usage.roots),
            owner => usage.owners.get(&owner).copied().unwrap_or_default(),
        };
        let (owner, counted, chunks) = match self.table.chunk(&self.ground, id)? {
            Chunk::Slab(slab) => {
                let SlabKind { owner, class } = slab.kind;
                let (shape, mut counted) = (class.shape(), of(owner));
                let slots = self.table.slots(&self.ground, id, slab)?;
                slots.iter().for_each(|slot| counted.add(slot.state, shape.len.into()));
                counted.overhead += CHUNK - u64::from(shape.count) * u64::from(shape.len);
                (owner, counted, 1)
            }
            Chunk::Span(span) => {
                let mut counted = of(span.owner);
                counted.add(span.slot.state, u64::from(span.chunks) * CHUNK);
                (span.owner, counted, span.chunks)
            }
            Chunk::Free { .. } | Chunk::Tail => {
                usage.free += CHUNK;
                return Ok(1);
            }
            Chunk::Meta => {
                usage.metadata += CHUNK;
                return Ok(1);
            }
        };
        match owner {
            Owner::ROOTS => usage.roots = counted,
            owner => drop(usage.owners.insert(owner, counted)),
        }
        Ok(chunks)
    }
}

//! Space that is held back, as a removal copies nodes before it frees any: so a heap that is full still takes removals.
//!
//! Transactions that add something begin only if some of the space is there. Others, and a sync, may use it.

use halite_alloc::Error;
use halite_alloc::heap::{Heap, NvPtr, Owner, Tag, Tagged};

use crate::index::Result;

/// Chunks of the heap that are held back: a removal needs one for each kind of slot that it copies, at most. The slots of
/// one serve many removals, as each sync frees as many as were copied.
const CHUNKS: usize = 8;

/// The fewest with which something may be added.
const CHUNKS_MIN: usize = 2;

/// Bytes of a chunk.
const CHUNK: u64 = 64 << 10;

/// A chunk that is held back. It is only reserved, so that a crash gives it back.
#[derive(Debug)]
enum Held {}

impl Tagged for Held {
    const TAG: Tag = Tag::new(54);
}

/// The chunks that are held back.
#[derive(Debug, Default)]
pub(super) struct Cushion(Vec<NvPtr<Held>>);

impl Cushion {
    /// Holds back as many chunks as there are to be, or as there are.
    pub(super) fn fill(&mut self, heap: &mut Heap, owner: Owner) -> Result<()> {
        while self.0.len() < CHUNKS {
            match heap.reserve(owner, CHUNK) {
                Ok(chunk) => self.0.push(chunk),
                Err(Error::Full { .. }) if self.0.len() >= CHUNKS_MIN => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Lets all of them be used. Returns whether there was one.
    pub(super) fn give(&mut self, heap: &mut Heap) -> Result<bool> {
        let is_there = !self.0.is_empty();
        self.0.drain(..).try_for_each(|chunk| heap.cancel(chunk))?;
        Ok(is_there)
    }
}

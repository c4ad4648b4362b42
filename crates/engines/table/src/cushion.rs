//! Space that is held back, as a removal or a statement that drops something may need some before it frees any: so a heap that
//! is full still takes them.
//!
//! Transactions that add something hold it back first. Others may use it.

use halite_alloc::heap::{Heap, NvPtr, Owner, Tag, Tagged};
use halite_alloc::{Error, Result};

/// Bytes of a chunk.
const CHUNK: u64 = 64 << 10;

/// A chunk that is held back. It is only reserved, so that a crash gives it back.
#[derive(Debug)]
enum Held {}

impl Tagged for Held {
    const TAG: Tag = Tag::new(54);
}

/// The chunks that are held back.
#[derive(Debug)]
pub(crate) struct Cushion {
    held: Vec<NvPtr<Held>>,
    min: usize,
    max: usize,
}

impl Cushion {
    /// One that is to have `max` chunks, and at least `min` for something to be added.
    pub(crate) const fn new(min: usize, max: usize) -> Self {
        Self { held: Vec::new(), min, max }
    }

    /// Holds back as many chunks as there are to be, or as there are.
    ///
    /// # Errors
    /// [`Error::Full`] if there are fewer than the least; the heap's.
    pub(crate) fn fill(&mut self, heap: &mut Heap, owner: Owner) -> Result<()> {
        while self.held.len() < self.max {
            match heap.reserve(owner, CHUNK) {
                Ok(chunk) => self.held.push(chunk),
                Err(Error::Full { .. }) if self.held.len() >= self.min => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Lets all of them be used. Returns whether there was one.
    ///
    /// # Errors
    /// The heap's.
    pub(crate) fn give(&mut self, heap: &mut Heap) -> Result<bool> {
        let is_there = !self.held.is_empty();
        self.held.drain(..).try_for_each(|chunk| heap.cancel(chunk))?;
        Ok(is_there)
    }
}

//! Frees that wait until no durable superblock leads to their blocks.
//!
//! ```text
//!  durable superblocks    g-1     g            g     g+1              g+1    g+2
//!  being built                        g+1                  g+2
//!                              free(e, g+1)          still deferred       may be allocated
//! ```
//!
//! An extent that is freed while generation g is being built is reachable from g-1. The last two durable superblocks
//! have to stay whole: a pool whose newest one is lost opens with the one before it. So the extent may be overwritten
//! once the last two are g and g+1.

use std::collections::BTreeMap;
use std::ops::Range;

/// Deferred frees of a vdev.
#[derive(Default)]
pub(crate) struct DeferredFrees {
    /// By the generation that was being built when they were freed.
    by_generation: BTreeMap<u64, Vec<Range<u64>>>,
    /// Blocks in all of them.
    blocks: u64,
}

impl DeferredFrees {
    /// Defers the free of blocks that are not reachable from a generation any more, and were from the one before.
    pub(crate) fn defer(&mut self, blocks: Range<u64>, generation: u64) {
        self.blocks += blocks.end - blocks.start;
        self.by_generation.entry(generation).or_default().push(blocks);
    }

    /// Takes the blocks that may be allocated when the superblock of a generation is durable: those that were freed
    /// before that generation was begun.
    pub(crate) fn take_reusable(&mut self, durable: u64) -> Vec<Range<u64>> {
        let kept = self.by_generation.split_off(&durable);
        let taken = std::mem::replace(&mut self.by_generation, kept);
        let taken: Vec<_> = taken.into_values().flatten().collect();
        self.blocks -= taken.iter().map(|blocks| blocks.end - blocks.start).sum::<u64>();
        taken
    }

    /// Blocks that wait.
    pub(crate) fn blocks(&self) -> u64 {
        self.blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_waits_for_the_checkpoint_after_the_one_that_is_being_built() {
        let mut deferred = DeferredFrees::default();
        deferred.defer(10..15, 7);
        deferred.defer(30..31, 8);
        deferred.defer(20..22, 7);
        assert!(deferred.take_reusable(7).is_empty());
        assert_eq!(deferred.blocks(), 8);
        assert_eq!(deferred.take_reusable(8), [10..15, 20..22]);
        assert_eq!((deferred.blocks(), deferred.take_reusable(8).len()), (1, 0));
        assert_eq!(deferred.take_reusable(20).first(), Some(&(30..31)));
        assert_eq!((deferred.take_reusable(20).len(), deferred.blocks()), (0, 0));
    }
}

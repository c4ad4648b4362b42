//! The nodes that were checked since the heap was opened, so that a lookup does not read all bytes of each again.
//!
//! A table has the words of nodes at places by their hashes. A word that another one has displaced is checked again. The word
//! has the generation of its slot, so that the next life of a slot is another node.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Places of the table, as a power of two.
const BITS: u32 = 15;

/// Words of nodes that have their checks.
pub(super) struct Checked(Box<[AtomicU64]>);

impl Checked {
    pub(super) fn new() -> Self {
        Self((0..1 << BITS).map(|_| AtomicU64::new(0)).collect())
    }

    fn place(&self, word: u64) -> &AtomicU64 {
        let hash = word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - BITS);
        &self.0[hash as usize]
    }

    /// Whether a node was checked.
    #[inline]
    pub(super) fn contains(&self, word: u64) -> bool {
        self.place(word).load(Relaxed) == word
    }

    /// Takes note of a node that has its check. What was read before stays read: the bytes do not change.
    pub(super) fn insert(&self, word: u64) {
        self.place(word).store(word, Relaxed);
    }
}

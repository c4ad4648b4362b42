//! A memtable: a non-volatile tree, and the slots that its entries lead to.
//!
//! ```text
//! entry of a primary index:    key ─► 0: tombstone │ pointer: a whole row (`tuple.rs`) │ pointer and bit 63: a delta (`delta.rs`)
//! entry of a secondary one:    entry ─► 0: tombstone │ pointer: the row's primary key (`bytes.rs`)
//! ```
//!
//! A secondary entry has the primary key and not the row's place: a compaction of the primary index moves rows, and leaves
//! the secondary indexes as they are.
//!
//! All its slots have two owners that are no other's, with numbers beside each other: one for the tree and the filter, and
//! one for the slots that entries lead to. So a memtable is dropped by a publication that drops the two, however large it is.

use halite_alloc::heap::{AnyPtr, Heap, NvPtr, Owner};

use super::bytes::{Delta, PrimaryKey};
use super::filter::Filter;
use crate::Result;
use crate::index::nonvolatile::NonVolatileTree;
use crate::method::catalog_slot::owner;
use crate::tuple::{Tuple, Tuples};

/// The word of a key that is removed.
pub(super) const TOMBSTONE: u64 = 0;

/// In the word of a primary index's entry: it leads to a delta.
const DELTA: u64 = 1 << 63;

/// The slot that an entry of a primary index leads to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Lead {
    Whole(NvPtr<Tuple>),
    Delta(NvPtr<Delta>),
    Tombstone,
}

impl Lead {
    pub(super) fn of(word: u64) -> Self {
        match word {
            TOMBSTONE => Self::Tombstone,
            word if word & DELTA != 0 => Self::Delta(NvPtr::from_word(word & !DELTA)),
            word => Self::Whole(NvPtr::from_word(word)),
        }
    }

    pub(super) fn word(self) -> u64 {
        match self {
            Self::Whole(tuple) => tuple.word(),
            Self::Delta(delta) => delta.word() | DELTA,
            Self::Tombstone => TOMBSTONE,
        }
    }

    /// All slots that the entry leads to.
    pub(super) fn slots(self, heap: &Heap, tuples: Tuples<'_>) -> Result<Vec<AnyPtr>> {
        match self {
            Self::Whole(tuple) => tuples.slots(heap, tuple),
            Self::Delta(delta) => Ok(vec![delta.any()]),
            Self::Tombstone => Ok(Vec::new()),
        }
    }
}

/// The slot that an entry of a secondary index leads to; `None` for a tombstone.
pub(super) fn key_slot(word: u64) -> Option<NvPtr<PrimaryKey>> {
    (word != TOMBSTONE).then(|| NvPtr::from_word(word))
}

/// A memtable.
#[derive(Debug, Clone)]
pub(super) struct Memtable {
    pub(super) tree: NonVolatileTree,
    /// The bytes of its entries, and of the slots that they lead to, about.
    pub(super) bytes: u64,
    /// Of an immutable memtable, once it is built.
    pub(super) filter: Option<Filter>,
}

impl Memtable {
    /// The word of a key with a hash.
    pub(super) fn get(&self, heap: &Heap, (key, hash): (&[u8], u64)) -> Result<Option<u64>> {
        if let Some(filter) = &self.filter
            && !filter.may_have(heap, hash)?
        {
            return Ok(None);
        }
        Ok(self.tree.get(heap, key)?)
    }
}

/// The owners of a memtable's slots: of its tree and filter, and of the slots that entries lead to.
pub(super) fn owners(tree: &NonVolatileTree) -> [Owner; 2] {
    [tree.owner(), owner(tree.owner().number() + 1)]
}

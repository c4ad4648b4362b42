//! Reads of nodes: those of the dirty directory in DRAM, the others in the heap.

use std::borrow::Cow;

use halite_alloc::heap::{Heap, NvPtr};

use super::batch::Dirty;
use super::node::{CHECK, CowKey, CowNode, HEAD, damaged, has_check};
use super::shared::Shared;
use crate::index::btree::{LEVELS_MAX, Read, shape_of};
use crate::index::node::{self, Shape};
use crate::index::{Error, Result};

/// The nodes of a directory.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    pub(super) heap: &'a Heap,
    pub(super) shared: &'a Shared,
    /// The writable nodes, if it is the dirty directory.
    pub(super) dirty: Option<&'a Dirty>,
}

impl<'a> Reader<'a> {
    /// The node of a word, which has to be of this level, with the bytes before it.
    pub(super) fn slot(self, id: u64, level: u8) -> Result<&'a [u8]> {
        let pointer = NvPtr::<CowNode>::from_word(id);
        let slot = match self.dirty.and_then(|dirty| dirty.get(&id)) {
            Some(node) => &node.bytes[..],
            None => {
                let slot = self.heap.read_at(pointer, 0, self.shared.node_len as u64)?;
                if !self.shared.checked.contains(id) {
                    self.check(pointer, slot)?;
                    self.shared.checked.insert(id);
                }
                slot
            }
        };
        match slot[HEAD - 1] == level {
            true => Ok(slot),
            false => Err(damaged(pointer, "it is of another level of the tree")),
        }
    }

    /// Checks the bytes of a node.
    pub(super) fn check(self, pointer: NvPtr<CowNode>, slot: &[u8]) -> Result<()> {
        if !has_check(self.shared.salt, pointer, slot) {
            return Err(damaged(pointer, "it does not have its check"));
        }
        let level = slot[HEAD - 1];
        if usize::from(level) >= LEVELS_MAX {
            return Err(damaged(pointer, "it is no node"));
        }
        let node = node::check(&slot[HEAD..], shape_of::<Self>(level));
        node.map_err(|reason| damaged(pointer, reason))
    }

    pub(super) fn key(self, reference: u64, len: usize) -> Result<&'a [u8]> {
        let pointer = NvPtr::<CowKey>::from_word(reference);
        let slot = self.heap.read_at(pointer, 0, (CHECK + len) as u64)?;
        match has_check(self.shared.salt, pointer, slot) {
            true => Ok(&slot[CHECK..]),
            false => Err(damaged(pointer, "a long key does not have its check")),
        }
    }
}

impl Read for Reader<'_> {
    type Error = Error;
    type Node<'a>
        = &'a [u8]
    where
        Self: 'a;

    const LEAF: Shape = Shape::WORDS;

    #[inline]
    fn node(&self, id: u64, level: u8) -> Result<&[u8]> {
        Ok(&self.slot(id, level)?[HEAD..])
    }

    fn long_key(&self, reference: u64, len: usize) -> Result<Cow<'_, [u8]>> {
        Ok(Cow::Borrowed(self.key(reference, len)?))
    }
}

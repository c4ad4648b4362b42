//! Changes of a tree in the dirty directory: nodes are copied on write.

use std::borrow::Cow;

use halite_alloc::heap::{Heap, NvPtr, Owner};

use super::batch::Batch;
use super::node::{CHECK, CowKey, CowNode, HEAD, seal};
use super::read::Reader;
use super::shared::Shared;
use crate::component::Component;
use crate::index::btree::{Nodes, Read};
use crate::index::node::Shape;
use crate::index::node::entries::Entries;
use crate::index::{Error, Result};

/// The nodes of a tree that is changed.
pub(super) struct Writer<'a> {
    pub(super) heap: &'a mut Heap,
    pub(super) shared: &'a Shared,
    pub(super) batch: &'a mut Batch,
    pub(super) owner: Owner,
    pub(super) scratch: &'a mut Entries,
}

impl Writer<'_> {
    fn reader(&self) -> Reader<'_> {
        Reader { heap: self.heap, shared: self.shared, dirty: Some(&self.batch.dirty) }
    }

    /// Reserves a slot for a node, which is in DRAM until the next sync.
    fn take_in(&mut self, bytes: Box<[u8]>) -> Result<u64> {
        let slot = self.heap.reserve::<CowNode>(self.owner, bytes.len() as u64)?;
        self.batch.add_node(slot.any(), bytes);
        Ok(slot.word())
    }
}

impl Read for Writer<'_> {
    type Error = Error;
    type Node<'a>
        = &'a [u8]
    where
        Self: 'a;

    const LEAF: Shape = Shape::WORDS;

    fn node(&self, id: u64, level: u8) -> Result<&[u8]> {
        Ok(&self.reader().slot(id, level)?[HEAD..])
    }

    fn long_key(&self, reference: u64, len: usize) -> Result<Cow<'_, [u8]>> {
        Ok(Cow::Borrowed(self.reader().key(reference, len)?))
    }
}

impl Nodes for Writer<'_> {
    fn make_own(&mut self, id: u64, level: u8) -> Result<u64> {
        let _in = Component::Recovery.enter();
        if self.batch.dirty.contains_key(&id) {
            return Ok(id);
        }
        let copy = self.reader().slot(id, level)?.into();
        let own = self.take_in(copy)?;
        self.release(id);
        Ok(own)
    }

    fn node_mut(&mut self, id: u64) -> &mut [u8] {
        self.batch.node_mut(id)
    }

    fn allocate(&mut self, level: u8) -> Result<u64> {
        let mut bytes = vec![0; self.shared.node_len].into_boxed_slice();
        bytes[HEAD - 1] = level;
        self.take_in(bytes)
    }

    fn release(&mut self, id: u64) {
        self.batch.drop_slot(NvPtr::from_word(id));
    }

    fn keep_long_key(&mut self, key: &[u8]) -> Result<u64> {
        let mut bytes = [&[0; CHECK][..], key].concat();
        let slot = self.heap.reserve::<CowKey>(self.owner, bytes.len() as u64)?;
        seal(self.shared.salt, slot, &mut bytes);
        self.heap.write(slot, 0, &bytes)?;
        self.batch.add(slot.any());
        Ok(slot.word())
    }

    fn release_long_key(&mut self, reference: u64, _len: usize) -> Result<()> {
        self.batch.drop_slot(NvPtr::from_word(reference));
        Ok(())
    }

    fn scratch(&mut self) -> &mut Entries {
        self.scratch
    }
}

//! The dirty directory: what commits have changed since the last sync, and how the last of them is undone.
//!
//! A transaction changes the batch step by step. Before it changes a node that a transaction before it has copied, the node
//! is kept as it is. What it reserves and what it does without is noted. So it can be undone alone, until it is finished.

use std::collections::{BTreeMap, BTreeSet};

use halite_alloc::heap::{AnyPtr, Heap, NvPtr};

use super::directory::Roots;
use super::garbage::Garbage;
use super::node::{HEAD, seal};
use super::shared::Shared;
use crate::index::Result;
use crate::index::btree::Root;

/// A writable node, in DRAM.
#[derive(Debug, Clone)]
pub(super) struct DirtyNode {
    /// The bytes of its slot.
    pub(super) bytes: Box<[u8]>,
    /// The last transaction that changed it.
    transaction: u64,
}

/// Writable nodes by the words of their slots, which are reserved.
pub(super) type Dirty = BTreeMap<u64, DirtyNode>;

/// The before-images by which a transaction that is not finished is undone.
#[derive(Debug, Default)]
struct Undo {
    /// Slots that it reserved.
    added: Vec<AnyPtr>,
    /// Slots that the directory does without from it on.
    dropped: Vec<AnyPtr>,
    /// Nodes as they were before it.
    nodes: Vec<(u64, DirtyNode)>,
    /// Roots as they were before it.
    roots: Vec<(u32, Option<Root>)>,
}

/// The dirty directory.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) dirty: Dirty,
    pub(super) roots: Roots,
    /// Slots that are reserved, and that the next directory has.
    pub(super) new: BTreeSet<AnyPtr>,
    /// Persisted slots that the next directory does without.
    pub(super) freed: Vec<AnyPtr>,
    /// Garbage that names slots which are persisted already, and which the next directory has.
    pub(super) staged: Vec<NvPtr<Garbage>>,
    /// The garbage before that; null if there is none.
    pub(super) before_staged: NvPtr<Garbage>,
    /// The number of the transaction that is not finished.
    transaction: u64,
    undo: Undo,
}

impl Batch {
    /// The dirty directory that is equal to a current one.
    pub(super) fn of(roots: Roots) -> Self {
        Self {
            dirty: Dirty::new(),
            roots,
            new: BTreeSet::new(),
            freed: Vec::new(),
            staged: Vec::new(),
            before_staged: NvPtr::NULL,
            transaction: 0,
            undo: Undo::default(),
        }
    }

    /// Whether it differs from the current directory in nothing.
    pub(super) fn is_clean(&self) -> bool {
        self.new.is_empty() && self.freed.is_empty() && self.staged.is_empty()
    }

    /// Slots that its publication activates and frees.
    pub(super) fn changes(&self) -> usize {
        self.new.len() + self.freed.len() + self.undo.dropped.len()
    }

    /// Takes a reserved slot in.
    pub(super) fn add(&mut self, slot: AnyPtr) {
        self.new.insert(slot);
        self.undo.added.push(slot);
    }

    /// Does without a slot, once the transaction is finished.
    pub(super) fn drop_slot(&mut self, slot: AnyPtr) {
        self.undo.dropped.push(slot);
    }

    /// Takes a writable node in.
    pub(super) fn add_node(&mut self, slot: AnyPtr, bytes: Box<[u8]>) {
        self.dirty.insert(slot.word(), DirtyNode { bytes, transaction: self.transaction });
        self.add(slot);
    }

    /// A writable node, to be changed.
    pub(super) fn node_mut(&mut self, id: u64) -> &mut [u8] {
        let node = self.dirty.get_mut(&id).expect("a node is made writable before it is changed");
        if node.transaction != self.transaction {
            self.undo.nodes.push((id, node.clone()));
            node.transaction = self.transaction;
        }
        &mut node.bytes[HEAD..]
    }

    /// Gives a tree another root.
    pub(super) fn set_root(&mut self, tree: u32, root: Option<Root>) {
        let before = match root {
            Some(root) => self.roots.insert(tree, root),
            None => self.roots.remove(&tree),
        };
        self.undo.roots.push((tree, before));
    }

    /// Finishes the transaction.
    pub(super) fn finish(&mut self, heap: &mut Heap) -> Result<()> {
        let undo = std::mem::take(&mut self.undo);
        self.transaction += 1;
        for slot in undo.dropped {
            match self.new.remove(&slot) {
                true => {
                    self.dirty.remove(&slot.word());
                    heap.cancel(slot)?;
                }
                false => self.freed.push(slot),
            }
        }
        Ok(())
    }

    /// Undoes the transaction.
    pub(super) fn undo(&mut self, heap: &mut Heap) -> Result<()> {
        let undo = std::mem::take(&mut self.undo);
        self.transaction += 1;
        for slot in undo.added {
            self.new.remove(&slot);
            self.dirty.remove(&slot.word());
            heap.cancel(slot)?;
        }
        self.dirty.extend(undo.nodes);
        for (tree, root) in undo.roots.into_iter().rev() {
            match root {
                Some(root) => drop(self.roots.insert(tree, root)),
                None => drop(self.roots.remove(&tree)),
            }
        }
        Ok(())
    }

    /// Writes the nodes to their slots.
    pub(super) fn write_nodes(&mut self, heap: &mut Heap, shared: &Shared) -> Result<()> {
        for (&id, node) in &mut self.dirty {
            let pointer = NvPtr::<super::node::CowNode>::from_word(id);
            seal(shared.salt, pointer, &mut node.bytes);
            heap.write(pointer, 0, &node.bytes)?;
        }
        Ok(())
    }

    /// Takes out slots that are persisted now, and that garbage names until the group is.
    pub(super) fn stage(&mut self, slots: &[AnyPtr], garbage: NvPtr<Garbage>) {
        for slot in slots {
            self.new.remove(slot);
            self.dirty.remove(&slot.word());
        }
        self.staged.push(garbage);
    }
}

//! Puts children in the place of others, by one publication: up to the header, as far as inner nodes have to be written
//! anew.

use std::ops::Range;

use halite_alloc::heap::{AnyPtr, Heap, NvPtr, Publication};

use super::descend::Step;
use super::inner::{Child, child_at, children, divide, encode, len};
use super::node::{InnerNode, seed};
use super::tree::{Between, LEVEL_AT, NonVolatileTree, ROOT_AT};
use crate::index::Result;

/// Nodes that are replaced, in one publication.
#[derive(Default)]
pub(super) struct Edit {
    publication: Publication,
    /// The slots that it has reserved.
    reserved: Vec<AnyPtr>,
}

impl Edit {
    /// Has a reserved slot be a part of the tree.
    pub(super) fn activate<T>(&mut self, pointer: NvPtr<T>) {
        self.publication.activate(pointer);
        self.reserved.push(pointer.any());
    }

    /// Frees a node.
    pub(super) fn free<T>(&mut self, pointer: NvPtr<T>) {
        self.publication.free(pointer);
    }

    /// Makes the change if it could be put together, and gives up what it has reserved if not. Two fences at most: the
    /// first makes durable what the caller has stored, so that a log which it has truncated no longer names a node that is
    /// freed.
    pub(super) fn finish(mut self, heap: &mut Heap, made: Result<()>) -> Result<()> {
        let done = made.and_then(|()| {
            heap.fence()?;
            Ok(heap.publish(&mut self.publication)?)
        });
        if done.is_err() {
            for pointer in self.reserved {
                // A medium that failed refuses this, too.
                let _ = heap.cancel(pointer);
            }
        }
        done
    }
}

impl NonVolatileTree {
    /// Puts `new` children in the place of some of the last step's node; if there is no step, in the place of the root, a
    /// leaf. The first of them has the lowest key of the first of those. `lows` has the lowest keys of the steps' nodes.
    pub(super) fn graft(
        &self,
        heap: &mut Heap,
        (steps, lows): (&[Step], &[Vec<u8>]),
        replaced: Range<usize>,
        new: Vec<Child>,
        edit: &mut Edit,
    ) -> Result<()> {
        let Some((step, _)) = steps.split_last() else {
            return self.set_root(heap, new, 0, edit);
        };
        if let ([child], 1) = (&new[..], replaced.len()) {
            edit.publication.store(step.node, child_at(replaced.start), child.word);
            return Ok(());
        }
        let inner = self.inner(heap, step.node, Between::ALL)?;
        let mut all = children(inner, &lows[steps.len() - 1]);
        all.splice(replaced, new);
        self.rebuild(heap, (steps, lows), all, edit)
    }

    /// Gives the last step's node other children: writes it anew as one node or more, and its parents as far as their
    /// number changes. A node with few children takes those of a neighbour, or theirs it.
    pub(super) fn rebuild(
        &self,
        heap: &mut Heap,
        (mut steps, lows): (&[Step], &[Vec<u8>]),
        mut all: Vec<Child>,
        edit: &mut Edit,
    ) -> Result<()> {
        let (_, mut level) = self.root(heap)?;
        level -= steps.len() as u64;
        while let Some((step, above)) = steps.split_last() {
            // The first child that is left may have all keys from the node's lowest on.
            if let Some(first) = all.first_mut() {
                first.low.clone_from(&lows[above.len()]);
            }
            edit.free(step.node);
            let Some(parent) = above.last() else { break };
            let inner = self.inner(heap, parent.node, Between::ALL)?;
            let mut siblings = children(inner, &lows[above.len() - 1]);
            let mut replaced = parent.index..parent.index + 1;
            let neighbour = if parent.index > 0 { parent.index - 1 } else { 1 };
            if !all.is_empty()
                && len(&all) < self.node_len / 4
                && let Some(Child { low, word }) = siblings.get(neighbour)
            {
                let node = NvPtr::from_word(*word);
                let mut others = children(self.inner(heap, node, Between::ALL)?, low);
                if len(&all) + len(&others) <= self.node_len / 4 * 3 {
                    edit.free(node);
                    if neighbour < parent.index {
                        others.append(&mut all);
                        all = others;
                        replaced.start = neighbour;
                    } else {
                        all.append(&mut others);
                        replaced.end = neighbour + 1;
                    }
                }
            }
            let new = self.write_inner(heap, all, edit)?;
            if let ([child], 1) = (&new[..], replaced.len()) {
                edit.publication.store(parent.node, child_at(replaced.start), child.word);
                return Ok(());
            }
            siblings.splice(replaced, new);
            (steps, all, level) = (above, siblings, level + 1);
        }
        self.set_root(heap, all, level, edit)
    }

    /// Makes the nodes of a level the only ones of the tree below the root.
    fn set_root(
        &self,
        heap: &mut Heap,
        mut nodes: Vec<Child>,
        mut level: u64,
        edit: &mut Edit,
    ) -> Result<()> {
        if nodes.is_empty() {
            let leaf = self.write_empty_leaf(heap)?;
            edit.activate(leaf);
            (nodes, level) = (vec![Child { low: Vec::new(), word: leaf.word() }], 0);
        }
        while nodes.len() > 1 {
            nodes = self.write_inner(heap, nodes, edit)?;
            level += 1;
        }
        let (root, level_word) = (nodes[0].word, self.level_word(nodes[0].word, level));
        edit.publication.store(self.header, ROOT_AT, root);
        edit.publication.store(self.header, LEVEL_AT, level_word);
        Ok(())
    }

    /// Writes inner nodes with these children.
    fn write_inner(&self, heap: &mut Heap, all: Vec<Child>, edit: &mut Edit) -> Result<Vec<Child>> {
        let mut nodes = Vec::new();
        if !all.is_empty() {
            divide(all, self.node_len, &mut nodes);
        }
        let mut written = Vec::with_capacity(nodes.len());
        for mut children in nodes {
            let node = heap.reserve::<InnerNode>(self.owner, len(&children) as u64)?;
            edit.activate(node);
            heap.write(node, 0, &encode(&children, seed(self.salt, node)))?;
            written.push(Child { low: children.swap_remove(0).low, word: node.word() });
        }
        Ok(written)
    }
}

//! Nodes in memory.
//!
//! A node divides its range of keys by pivots, and has a slot for each part: the *buffer*, runs of messages that are on
//! their way down, the newest first; and the *link* to what is below. At level 1, the lowest, that is a leaf: one run,
//! the base, or none yet. So a leaf needs no node of its own, and a node is small.
//!
//! ```text
//!  level 2        ┌──────────────┬──────────────┐
//!                 │ runs, link   │ runs, link   │        pivots: the first key of each slot but the first
//!                 └──────────┬───┴───────────┬──┘
//!  level 1  ┌────────┬───────▼┐     ┌────────▼────────┐
//!           │ runs,  │ runs,  │     │ ...             │
//!           │ base   │ base   │     └─────────────────┘
//!           └────────┴────────┘
//! ```
//!
//! Nodes never change: a flush makes new ones, and readers keep the ones that they began with. A link to a node that
//! is stored is a pointer; one to a node that a flush has made since the last checkpoint has the node itself.

use std::sync::Arc;

use crate::run::Run;
use crate::tree::pointer::NodePointer;

/// A node of a tree.
#[derive(Clone)]
pub(crate) struct Node {
    /// 1 where links lead to leaves.
    pub(crate) level: u8,
    /// The first key of each slot but the first.
    pub(crate) pivots: Vec<Arc<[u8]>>,
    pub(crate) slots: Vec<Slot>,
}

/// A part of a node's keys.
#[derive(Clone)]
pub(crate) struct Slot {
    /// The buffer: the newest run first.
    pub(crate) runs: Vec<Arc<Run>>,
    pub(crate) link: Link,
}

/// The child of a slot.
#[derive(Clone)]
pub(crate) enum Link {
    /// A leaf: its base run, if it has any messages.
    Leaf(Option<Arc<Run>>),
    /// A node as the last checkpoint, or an earlier one, has stored it.
    Stored(Arc<NodePointer>),
    /// A node that is not stored yet.
    Fresh(Arc<Node>),
}

/// Bounds of keys: from the first up to the second, where there are any.
pub(crate) type Bounds<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

impl Slot {
    /// A leaf of these messages.
    pub(crate) fn leaf(base: Option<Arc<Run>>) -> Self {
        Self { runs: Vec::new(), link: Link::Leaf(base) }
    }

    /// The leaf's base, if it is a slot of one that has messages.
    pub(crate) fn base(&self) -> Option<&Arc<Run>> {
        match &self.link {
            Link::Leaf(base) => base.as_ref(),
            Link::Stored(_) | Link::Fresh(_) => None,
        }
    }

    /// A slot above nothing, at a level.
    pub(crate) fn empty(level: u8) -> Self {
        if level == 1 {
            return Self::leaf(None);
        }
        Self { runs: Vec::new(), link: Link::Fresh(Arc::new(Node::empty(level - 1))) }
    }

    /// Whether it has no message, as far as that is known without reading.
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
            && match &self.link {
                Link::Leaf(base) => base.is_none(),
                Link::Stored(_) => false,
                Link::Fresh(node) => node.slots.iter().all(Self::is_empty),
            }
    }

    /// Bytes of keys and payloads in its buffer.
    pub(crate) fn buffered_bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.pointer().bytes).sum()
    }
}

impl Node {
    /// A node of no message.
    pub(crate) fn empty(level: u8) -> Self {
        Self { level, pivots: Vec::new(), slots: vec![Slot::empty(level)] }
    }

    /// The number of the slot that has a key.
    #[inline]
    pub(crate) fn slot_of(&self, key: &[u8]) -> usize {
        self.pivots.partition_point(|pivot| **pivot <= *key)
    }

    /// The bounds of a slot within those of the node.
    pub(crate) fn bounds_of<'a>(&'a self, slot: usize, (low, high): Bounds<'a>) -> Bounds<'a> {
        let low = slot.checked_sub(1).map_or(low, |before| Some(&*self.pivots[before]));
        let high = self.pivots.get(slot).map_or(high, |pivot| Some(&**pivot));
        (low, high)
    }

    /// Puts slots in the place of one; `pivots` are the first keys of all but the first of them. Without any, the
    /// neighbours share its keys; the last slot of a node stays, empty.
    pub(crate) fn replace(&mut self, slot: usize, pivots: Vec<Arc<[u8]>>, slots: Vec<Slot>) {
        if slots.is_empty() {
            if self.slots.len() == 1 {
                self.slots[0] = Slot::empty(self.level);
                return;
            }
            self.slots.remove(slot);
            self.pivots.remove(slot.saturating_sub(1));
            return;
        }
        assert_eq!(pivots.len() + 1, slots.len(), "a pivot between two slots");
        self.slots.splice(slot..=slot, slots);
        self.pivots.splice(slot..slot, pivots);
    }

    /// Divides the node into nodes of at most `fanout` slots, with the first keys of all but the first.
    pub(crate) fn split(self, fanout: usize) -> (Vec<Arc<[u8]>>, Vec<Self>) {
        let parts = self.slots.len().div_ceil(fanout);
        let each = self.slots.len().div_ceil(parts);
        let (mut nodes, mut firsts) = (Vec::with_capacity(parts), Vec::new());
        let (mut slots, mut pivots) = (self.slots.into_iter(), self.pivots.into_iter());
        while slots.len() > 0 {
            let part: Vec<_> = slots.by_ref().take(each).collect();
            let between: Vec<_> = pivots.by_ref().take(part.len() - 1).collect();
            firsts.extend(pivots.next());
            nodes.push(Self { level: self.level, pivots: between, slots: part });
        }
        (firsts, nodes)
    }

    /// Refuses a node that no flush would have made.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        if self.slots.len() != self.pivots.len() + 1 {
            return Err("it has not one pivot less than slots");
        }
        if !self.pivots.is_sorted_by(|a, b| a < b) {
            return Err("its pivots do not ascend");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> Arc<[u8]> {
        format!("{number:03}").as_bytes().into()
    }

    fn node(slots: usize) -> Node {
        let pivots = (1..slots).map(key).collect();
        Node { level: 1, pivots, slots: (0..slots).map(|_| Slot::leaf(None)).collect() }
    }

    #[test]
    fn a_node_is_split_into_parts_that_have_its_slots_and_pivots() {
        for (slots, fanout) in [(5, 4), (9, 4), (33, 32), (2, 2), (1, 4)] {
            let (firsts, nodes) = node(slots).split(fanout);
            assert_eq!(nodes.iter().map(|node| node.slots.len()).sum::<usize>(), slots);
            let mut pivots = nodes[0].pivots.clone();
            for (first, node) in firsts.iter().zip(&nodes[1..]) {
                node.check().unwrap();
                assert!(node.slots.len() <= fanout);
                pivots.push(Arc::clone(first));
                pivots.extend(node.pivots.iter().cloned());
            }
            assert_eq!(pivots, node(slots).pivots);
        }
    }

    #[test]
    fn a_slot_is_replaced_by_several_or_by_none() {
        let mut node = node(3);
        node.replace(1, vec![b"0015"[..].into()], vec![Slot::leaf(None), Slot::leaf(None)]);
        node.check().unwrap();
        assert_eq!((node.slots.len(), &*node.pivots[1]), (4, &b"0015"[..]));
        assert_eq!(node.slot_of(b"0015"), 2);
        node.replace(0, Vec::new(), Vec::new());
        assert_eq!((node.slots.len(), node.slot_of(b"")), (3, 0));
        assert_eq!(&*node.pivots[0], b"0015");
        (0..4).for_each(|_| node.replace(0, Vec::new(), Vec::new()));
        node.check().unwrap();
        assert_eq!(node.slots.len(), 1);
    }
}

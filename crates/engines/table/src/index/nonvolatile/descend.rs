//! The way from the root to the leaf of a key, and lookups.

use halite_alloc::heap::{Heap, NvPtr};

use super::inner::Inner;
use super::leaf::{Entry, Key, Leaf, hash};
use super::node::{InnerNode, LeafNode};
use super::tree::{Between, NonVolatileTree, damaged};
use crate::component::Component;
use crate::index::Result;

/// An inner node, and the child of it that was taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub(super) node: NvPtr<InnerNode>,
    pub(super) index: usize,
}

/// A leaf, and the keys that it may have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found<'h> {
    pub(super) leaf: NvPtr<LeafNode>,
    pub(super) may_have: Between<'h>,
}

/// The way to a leaf, which outlives changes of the heap. The lowest keys are those that nodes may have: of the root, of its
/// child, and so on to the leaf.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) steps: Vec<Step>,
    pub(super) lows: Vec<Vec<u8>>,
    pub(super) leaf: NvPtr<LeafNode>,
    pub(super) high: Option<Vec<u8>>,
    /// The key that all keys below the leaf's parent are below.
    pub(super) parent_high: Option<Vec<u8>>,
}

impl Path {
    /// The keys that the leaf may have.
    pub(super) fn may_have(&self) -> Between<'_> {
        Between { low: self.lows.last().expect("the leaf has one"), high: self.high.as_deref() }
    }
}

impl NonVolatileTree {
    /// Goes down to the leaf of a key, and tells of each node on the way.
    pub(super) fn descend<'h>(
        &self,
        heap: &'h Heap,
        key: &[u8],
        mut step: impl FnMut(Step, Inner<'h>, Between<'h>),
    ) -> Result<Found<'h>> {
        let (mut word, level) = self.root(heap)?;
        let mut may_have = Between::ALL;
        for _ in 0..level {
            let node = NvPtr::from_word(word);
            let inner = self.inner(heap, node, may_have)?;
            let index = inner.child_of(key);
            step(Step { node, index }, inner, may_have);
            (word, may_have) = (inner.child(index), may_have.of_child(inner, index));
        }
        Ok(Found { leaf: NvPtr::from_word(word), may_have })
    }

    /// The way to the leaf of a key.
    pub(super) fn path(&self, heap: &Heap, key: &[u8]) -> Result<Path> {
        let (mut steps, mut lows, mut parent_high) = (Vec::new(), Vec::new(), None);
        let Found { leaf, may_have } = self.descend(heap, key, |step, _, may_have| {
            steps.push(step);
            lows.push(may_have.low.to_vec());
            parent_high = may_have.high;
        })?;
        lows.push(may_have.low.to_vec());
        let owned = |high: Option<&[u8]>| high.map(<[u8]>::to_vec);
        let (high, parent_high) = (owned(may_have.high), owned(parent_high));
        Ok(Path { steps, lows, leaf, high, parent_high })
    }

    /// The value of a key.
    ///
    /// # Errors
    /// [`crate::index::Error::DamagedNode`] if a node on the way is; the heap's for a pointer that leads nowhere.
    pub fn get(&self, heap: &Heap, key: &[u8]) -> Result<Option<u64>> {
        let _in = Component::Index.enter();
        let found = self.descend(heap, key, |_, _, _| ())?;
        let leaf = self.leaf(heap, found.leaf)?;
        let entry = self.find(heap, found, leaf, (key, hash(key, self.salt)))?;
        Ok(entry.map(|entry| entry.value))
    }

    /// Whether a key is there. Of a leaf without the key, not every entry is checked: for callers that are about to prepare a
    /// change of the key, which checks them.
    ///
    /// # Errors
    /// As [`NonVolatileTree::get`].
    pub fn contains(&self, heap: &Heap, key: &[u8]) -> Result<bool> {
        let _in = Component::Index.enter();
        let found = self.descend(heap, key, |_, _, _| ())?;
        let leaf = self.leaf(heap, found.leaf)?;
        Ok(self.tagged(heap, found, leaf, (key, hash(key, self.salt)))?.is_some())
    }

    /// The entry of a key among those of a leaf that have its tag.
    fn tagged<'h>(
        &self,
        heap: &'h Heap,
        Found { leaf: pointer, may_have }: Found<'_>,
        leaf: Leaf<'h>,
        (key, hash): (&[u8], u64),
    ) -> Result<Option<Entry<'h>>> {
        for entry in leaf.tagged(hash) {
            let entry = entry.map_err(|damage| damaged(pointer, damage))?;
            let (other, _) = self.checked_key(heap, pointer, &entry, may_have)?;
            if other == key {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    /// The entry of a key in its leaf. That there is none is said only of a leaf of which every entry has its check.
    pub(super) fn find<'h>(
        &self,
        heap: &'h Heap,
        found: Found<'_>,
        leaf: Leaf<'h>,
        (key, hash): (&[u8], u64),
    ) -> Result<Option<Entry<'h>>> {
        let there = self.tagged(heap, found, leaf, (key, hash))?;
        if there.is_none() {
            heap.read_proven(found.leaf, |_| {
                let mut entries = leaf.entries();
                entries.try_for_each(|entry| {
                    let entry = entry.map_err(|damage| damaged(found.leaf, damage))?;
                    self.checked_key(heap, found.leaf, &entry, found.may_have).map(drop)
                })
            })?;
            // The leaf may be another one, and long keys are in slots that have changed since.
            for (number, entry) in leaf.entries().enumerate() {
                let entry = entry.map_err(|damage| damaged(found.leaf, damage))?;
                if number == 0 || matches!(entry.key, Key::Elsewhere(..)) {
                    self.checked_key(heap, found.leaf, &entry, found.may_have)?;
                }
            }
        }
        Ok(there)
    }
}

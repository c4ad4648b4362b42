//! Checks a whole tree.

use halite_alloc::heap::{AnyPtr, Heap, NvPtr};

use super::leaf::Key;
use super::node::{Damage, InnerNode, LeafNode};
use super::tree::{Between, NonVolatileTree, damaged};
use crate::index::Result;

impl NonVolatileTree {
    /// Checks all nodes and keys, and hands over every pointer that a slot of the tree is reached by, for
    /// [`Heap::check`]. Returns how many entries there are.
    ///
    /// # Errors
    /// [`crate::index::Error::DamagedNode`]; the heap's for a pointer that leads nowhere.
    pub fn check(&self, heap: &Heap, mut visit: impl FnMut(AnyPtr)) -> Result<u64> {
        Self::open(heap, self.header)?;
        visit(self.header.any());
        let (root, level) = self.root(heap)?;
        let (mut entries, mut nodes) = (0, vec![(root, level, Vec::new(), None::<Vec<u8>>)]);
        while let Some((word, level, low, high)) = nodes.pop() {
            let may_have = Between { low: &low, high: high.as_deref() };
            if level == 0 {
                entries += self.check_leaf(heap, NvPtr::from_word(word), may_have, &mut visit)?;
                continue;
            }
            let node = NvPtr::<InnerNode>::from_word(word);
            visit(node.any());
            let inner = self.inner(heap, node, may_have)?;
            for index in (0..inner.count()).rev() {
                let of_child = Between::of_child(may_have, inner, index);
                if of_child.high.is_some_and(|high| high <= of_child.low) && index > 0 {
                    return Err(damaged(node, Damage("its keys do not ascend")));
                }
                let high = of_child.high.map(<[u8]>::to_vec);
                nodes.push((inner.child(index), level - 1, of_child.low.to_vec(), high));
            }
        }
        Ok(entries)
    }

    fn check_leaf(
        &self,
        heap: &Heap,
        pointer: NvPtr<LeafNode>,
        may_have: Between<'_>,
        visit: &mut impl FnMut(AnyPtr),
    ) -> Result<u64> {
        visit(pointer.any());
        let mut keys = Vec::new();
        for entry in self.leaf(heap, pointer)?.entries() {
            let entry = entry.map_err(|damage| damaged(pointer, damage))?;
            keys.push(self.checked_key(heap, pointer, &entry, may_have)?.0);
            if let Key::Elsewhere(key, _) = entry.key {
                visit(key.any());
            }
        }
        keys.sort_unstable();
        if keys.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(damaged(pointer, Damage("it has two entries of a key")));
        }
        Ok(keys.len() as u64)
    }
}

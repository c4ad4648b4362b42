//! Scans of a range of keys, forward and in reverse.

use std::ops::Bound;

use halite_alloc::heap::{Heap, NvPtr};

use super::inner::Inner;
use super::tree::{Between, NonVolatileTree, damaged};
use crate::component::Component;
use crate::index::{Direction, Range, Result};

/// The entries of a range of a tree, one after the other. It reads a leaf at once, and takes memory for its entries.
pub struct NonVolatileScan<'h> {
    tree: NonVolatileTree,
    heap: &'h Heap,
    direction: Direction,
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    /// Levels of inner nodes.
    levels: u64,
    /// The inner nodes from the root on, the child of each that was taken, and the keys that it may have.
    path: Vec<(Inner<'h>, usize, Between<'h>)>,
    /// The entries of a leaf that are left; the next one is the last.
    entries: Vec<(&'h [u8], u64)>,
    is_over: bool,
}

impl NonVolatileTree {
    /// The entries of a range.
    ///
    /// # Errors
    /// [`crate::index::Error::DamagedNode`] if a node on the way to the first is; the heap's for a pointer that leads
    /// nowhere.
    pub fn scan<'h>(
        &self,
        heap: &'h Heap,
        (from, to): Range<'_>,
        direction: Direction,
    ) -> Result<NonVolatileScan<'h>> {
        let (from, to) = (from.map(<[u8]>::to_vec), to.map(<[u8]>::to_vec));
        let (path, entries) = (Vec::new(), Vec::new());
        let (root, levels) = self.root(heap)?;
        let mut scan = NonVolatileScan {
            tree: *self,
            heap,
            direction,
            from,
            to,
            levels,
            path,
            entries,
            is_over: false,
        };
        scan.descend(root, levels, Between::ALL, true)?;
        Ok(scan)
    }
}

impl<'h> NonVolatileScan<'h> {
    /// Goes down to a leaf, and takes its entries: to the first leaf of the range, or else to the first one there is.
    fn descend(
        &mut self,
        mut word: u64,
        level: u64,
        mut may_have: Between<'h>,
        is_first: bool,
    ) -> Result<()> {
        let is_forward = self.direction == Direction::Forward;
        for _ in 0..level {
            let inner = self.tree.inner(self.heap, NvPtr::from_word(word), may_have)?;
            let start = if is_forward { &self.from } else { &self.to };
            let index = match start {
                Bound::Included(key) | Bound::Excluded(key) if is_first => inner.child_of(key),
                _ if is_forward => 0,
                _ => inner.count() - 1,
            };
            self.path.push((inner, index, may_have));
            (word, may_have) = (inner.child(index), may_have.of_child(inner, index));
        }
        let pointer = NvPtr::from_word(word);
        self.entries.clear();
        for entry in self.tree.leaf(self.heap, pointer)?.entries() {
            let entry = entry.map_err(|damage| damaged(pointer, damage))?;
            let (key, _) = self.tree.checked_key(self.heap, pointer, &entry, may_have)?;
            if is_from(&self.from, key) && is_to(&self.to, key) {
                self.entries.push((key, entry.value));
            }
        }
        self.entries.sort_unstable_by(|one, other| match is_forward {
            true => other.0.cmp(one.0),
            false => one.0.cmp(other.0),
        });
        Ok(())
    }

    /// The next entry.
    ///
    /// # Errors
    /// As [`NonVolatileTree::scan`]; and then the scan is over.
    #[expect(clippy::should_implement_trait, reason = "a scan fails once")]
    pub fn next(&mut self) -> Result<Option<(&'h [u8], u64)>> {
        let _in = Component::Index.enter();
        while self.entries.is_empty() && !self.is_over {
            let went = self.next_leaf();
            self.is_over = !*went.as_ref().unwrap_or(&false);
            went?;
        }
        Ok(self.entries.pop())
    }

    /// Goes to the next leaf. Returns whether there is one that may have keys of the range.
    fn next_leaf(&mut self) -> Result<bool> {
        let is_forward = self.direction == Direction::Forward;
        while let Some((inner, index, may_have)) = self.path.pop() {
            let next = if is_forward { Some(index + 1) } else { index.checked_sub(1) };
            let Some(index) = next.filter(|&index| index < inner.count()) else { continue };
            let of_child = may_have.of_child(inner, index);
            let has_some = match is_forward {
                true => is_to(&self.to, of_child.low),
                false => of_child.high.is_none_or(|high| is_from(&self.from, high)),
            };
            if !has_some {
                return Ok(false);
            }
            self.path.push((inner, index, may_have));
            let level = self.levels - self.path.len() as u64;
            self.descend(inner.child(index), level, of_child, false)?;
            return Ok(true);
        }
        Ok(false)
    }
}

fn is_from(from: &Bound<Vec<u8>>, key: &[u8]) -> bool {
    match from {
        Bound::Unbounded => true,
        Bound::Included(from) => key >= &from[..],
        Bound::Excluded(from) => key > &from[..],
    }
}

fn is_to(to: &Bound<Vec<u8>>, key: &[u8]) -> bool {
    match to {
        Bound::Unbounded => true,
        Bound::Included(to) => key <= &to[..],
        Bound::Excluded(to) => key < &to[..],
    }
}

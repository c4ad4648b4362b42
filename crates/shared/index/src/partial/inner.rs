//! A node above leaves or above other inner nodes: separators, kept whole, and children.

use super::arrange::{Arranged, Run};
use super::leaf::{Leaf, capacity};
use crate::FullKeys;
use crate::keys::{FANOUT, Keys, common_prefix, separator};
use crate::node_ref::{NodeRef, Pooled};
use crate::prefetch;
use crate::slabs::Slabs;

/// A node with fewer separators looks for a neighbour to join.
const SPARSE: usize = FANOUT / 4;

#[derive(Clone)]
#[repr(C)]
pub(crate) struct Inner {
    /// One more than separators: the child to the right of a separator holds the keys from it on.
    children: Vec<Child>,
    keys: Keys,
}

#[derive(Clone)]
pub(crate) enum Child {
    Leaf(NodeRef<Leaf>),
    Inner(NodeRef<Inner>),
}

/// The right half of a node that was split, and the separator between it and the left half.
pub(crate) struct Split {
    pub(crate) separator: Box<[u8]>,
    pub(crate) right: Child,
}

impl Pooled for Inner {
    fn slabs() -> &'static Slabs {
        static SLABS: Slabs = Slabs::new(NodeRef::<Inner>::SLOT_LEN);
        &SLABS
    }
}

impl Child {
    /// Prefetches the lines that a search reads.
    #[inline]
    pub(crate) fn prefetch(&self) {
        match self {
            Self::Leaf(leaf) => leaf.prefetch(),
            Self::Inner(inner) => {
                let start = std::ptr::from_ref::<Inner>(inner).cast();
                prefetch::lines(start, std::mem::offset_of!(Inner, keys) + Keys::SEARCHED_LEN);
            }
        }
    }
}

/// Bytes of a node and all below it, with their counts.
pub(crate) fn heap_len(node: &NodeRef<Inner>) -> usize {
    let below = node.children.iter().map(|child| match child {
        Child::Leaf(leaf) => NodeRef::<Leaf>::SLOT_LEN + leaf.heap_len(),
        Child::Inner(inner) => heap_len(inner),
    });
    NodeRef::<Inner>::SLOT_LEN
        + node.keys.heap_len()
        + node.children.capacity() * size_of::<Child>()
        + below.sum::<usize>()
}

impl Inner {
    /// A node between two fences.
    pub(crate) fn new(low: Box<[u8]>, high: Option<Box<[u8]>>, first: Child) -> Self {
        let mut children = Vec::with_capacity(FANOUT + 1);
        children.push(first);
        Self { children, keys: Keys::new(low, high) }
    }

    /// Adds a child behind the others.
    pub(crate) fn push(&mut self, split: Split) {
        self.put_child(self.keys.len(), split);
    }

    pub(crate) fn children(&self) -> &[Child] {
        &self.children
    }

    /// Which child has `key`.
    #[inline]
    pub(crate) fn child_of(&self, key: &[u8]) -> usize {
        self.keys.search(key).map_or_else(|at| at, |at| at + 1)
    }

    /// The child that has `key`, to be changed.
    #[inline]
    pub(crate) fn child_mut(&mut self, key: &[u8]) -> &mut Child {
        let at = self.child_of(key);
        &mut self.children[at]
    }

    pub(crate) fn child_at_mut(&mut self, at: usize) -> &mut Child {
        &mut self.children[at]
    }

    /// The fence below a child: its keys are not less.
    pub(crate) fn low_of(&self, child: usize) -> Box<[u8]> {
        match child {
            0 => self.keys.low().into(),
            _ => self.keys.get(child - 1).into(),
        }
    }

    fn high_of(&self, child: usize) -> Option<Box<[u8]>> {
        if child == self.keys.len() {
            return self.keys.high().map(Into::into);
        }
        Some(self.keys.get(child).into())
    }

    /// Replaces the entry of `key` by the one that `entry` makes of the old one, which is returned.
    pub(crate) fn insert<F: FullKeys>(
        this: &mut NodeRef<Self>,
        key: &[u8],
        entry: impl FnOnce(Option<u64>) -> u64,
        keys: &F,
    ) -> Result<(Option<u64>, Option<Split>), F::Error> {
        let node = this.make_mut();
        let at = node.child_of(key);
        let child = &mut node.children[at];
        child.prefetch();
        let leaf = match child {
            Child::Inner(child) => {
                let (old, split) = Self::insert(child, key, entry, keys)?;
                return Ok((old, split.and_then(|split| node.insert_child(at, split))));
            }
            Child::Leaf(leaf) => leaf,
        };
        match leaf.search(key, keys)? {
            Ok(place) => {
                let old = leaf.entry(place);
                leaf.make_mut().set_entry(place, entry(Some(old)));
                Ok((Some(old), None))
            }
            Err(place) if leaf.is_full() => {
                Ok((None, node.insert_into_full(at, place, key, entry, keys)?))
            }
            Err(place) => {
                let leaf = leaf.make_mut();
                leaf.insert(place, key, entry(None));
                if leaf.asks_to_refine() {
                    node.refine(at, keys);
                }
                Ok((None, None))
            }
        }
    }

    fn refine<F: FullKeys>(&mut self, at: usize, keys: &F) {
        let high = self.high_of(at);
        let base = high.map_or(0, |high| common_prefix(&self.low_of(at), &high));
        if let Child::Leaf(leaf) = &mut self.children[at] {
            leaf.make_mut().refine(base, keys);
        }
    }

    fn leaf(&self, at: usize) -> Option<&Leaf> {
        match self.children.get(at)? {
            Child::Leaf(leaf) => Some(leaf),
            Child::Inner(_) => None,
        }
    }

    /// Leaves beside each other, of which there are `count`.
    fn run(&self, first: usize, count: usize) -> Option<Run<'_>> {
        let leaves: Option<Vec<_>> = (first..first + count).map(|at| self.leaf(at)).collect();
        let lows = (first..first + count).map(|at| self.low_of(at)).collect();
        let leaves = leaves?;
        Some(Run::new(leaves[0].partial(), leaves, lows, self.high_of(first + count - 1)))
    }

    /// Adds an entry whose leaf is full: shares the load with the neighbour that has less, or makes
    /// three leaves of two full ones (a B*-tree's split).
    fn insert_into_full<F: FullKeys>(
        &mut self,
        at: usize,
        place: usize,
        key: &[u8],
        entry: impl FnOnce(Option<u64>) -> u64,
        keys: &F,
    ) -> Result<Option<Split>, F::Error> {
        let Some(leaf) = self.leaf(at) else { unreachable!("a leaf") };
        let partial = leaf.partial();
        // Keys that come in ascending or descending order leave full leaves behind.
        if place == leaf.len() && at == self.keys.len() {
            let separator = keys.with_key(leaf.entry(place - 1), |below| separator(below, key))?;
            if separator > self.low_of(at) {
                let base = self.high_of(at).map_or(0, |high| common_prefix(&separator, &high));
                let mut right = Leaf::new(partial, &separator[..base], base);
                right.insert(0, key, entry(None));
                let right = Child::Leaf(NodeRef::new(right));
                return Ok(self.insert_child(at, Split { separator, right }));
            }
        }
        if place == 0 && at == 0 {
            let separator = keys.with_key(leaf.entry(0), |above| separator(key, above))?;
            if *separator > *key && self.high_of(0).is_none_or(|high| separator < high) {
                let base = common_prefix(self.keys.low(), &separator);
                let mut left = Leaf::new(partial, &separator[..base], base);
                left.insert(0, key, entry(None));
                let left = Child::Leaf(NodeRef::new(left));
                let right = std::mem::replace(&mut self.children[0], left);
                return Ok(self.insert_child(0, Split { separator, right }));
            }
        }
        let room = |at: usize| Some(capacity(partial) - self.leaf(at)?.len());
        let (left, right) = (at.checked_sub(1).and_then(room), room(at + 1));
        let (first, old_count) = match (left, right) {
            (None, None) => (at, 1),
            (left, right) if left > right => (at - 1, 2),
            _ => (at, 2),
        };
        let enough = capacity(partial) / 8;
        let count = if left.max(right) >= Some(enough) { 2 } else { old_count + 1 };
        let Some(run) = self.run(first, old_count) else { unreachable!("leaves") };
        let mut arranged = run.arrange(count, keys)?;
        arranged.insert(run.start_of(at - first) + place, key, entry(None));
        Ok(self.replace(first, old_count, arranged))
    }

    /// Puts leaves in the place of `old_count` others; there may be one more.
    fn replace(&mut self, first: usize, old_count: usize, arranged: Arranged) -> Option<Split> {
        let Arranged { leaves, mut separators } = arranged;
        let mut leaves: Vec<_> =
            leaves.into_iter().map(|leaf| Child::Leaf(NodeRef::new(leaf))).collect();
        let more = (leaves.len() > old_count).then(|| leaves.pop().zip(separators.pop())).flatten();
        (1..old_count).for_each(|_| self.keys.remove(first));
        for (at, separator) in (first..).zip(&separators) {
            self.keys.insert(at, separator);
        }
        self.children.splice(first..first + old_count, leaves);
        let (right, separator) = more?;
        self.insert_child(first + old_count - 1, Split { separator, right })
    }

    fn insert_child(&mut self, at: usize, split: Split) -> Option<Split> {
        if !self.keys.is_full_for(&split.separator) {
            self.put_child(at, split);
            return None;
        }
        let len = self.keys.len();
        let middle = if at == len { len - 1 } else { len / 2 };
        let separator: Box<[u8]> = self.keys.get(middle).into();
        let mut right = self.split_off(middle, &separator);
        if at <= middle {
            self.put_child(at, split);
        } else {
            right.put_child(at - middle - 1, split);
        }
        Some(Split { separator, right: Child::Inner(NodeRef::new(right)) })
    }

    fn put_child(&mut self, at: usize, split: Split) {
        // A copy has no room to spare.
        self.children.reserve_exact(FANOUT + 1 - self.children.len());
        self.children.insert(at + 1, split.right);
        self.keys.insert(at, &split.separator);
    }

    /// Keeps the children before a separator, and returns a node with those behind it.
    fn split_off(&mut self, middle: usize, separator: &[u8]) -> Self {
        let mut left = Keys::new(self.keys.low().into(), Some(separator.into()));
        left.extend_from(&self.keys, 0..middle);
        let mut right = Keys::new(separator.into(), self.keys.high().map(Into::into));
        right.extend_from(&self.keys, middle + 1..self.keys.len());
        let mut children = Vec::with_capacity(FANOUT + 1);
        children.extend(self.children.drain(middle + 1..));
        self.keys = left;
        Self { children, keys: right }
    }

    /// Removes the entry at `place` of the leaf that has `key`, and returns it.
    pub(crate) fn remove<F: FullKeys>(
        this: &mut NodeRef<Self>,
        key: &[u8],
        place: usize,
        keys: &F,
    ) -> u64 {
        let node = this.make_mut();
        let at = node.child_of(key);
        let (old, is_sparse) = match &mut node.children[at] {
            Child::Leaf(leaf) => {
                let leaf = leaf.make_mut();
                let old = leaf.remove(place);
                (old, leaf.is_sparse())
            }
            Child::Inner(child) => {
                let old = Self::remove(child, key, place, keys);
                (old, child.keys.len() < SPARSE)
            }
        };
        if is_sparse {
            let _ = node.join_children(at, keys) || at > 0 && node.join_children(at - 1, keys);
        }
        old
    }

    /// Joins the children at `left` and behind it, if both fit into one node.
    pub(crate) fn join_children<F: FullKeys>(&mut self, left: usize, keys: &F) -> bool {
        match (self.children.get(left), self.children.get(left + 1)) {
            (Some(Child::Leaf(a)), Some(Child::Leaf(b))) => {
                let (len, capacity) = (a.len() + b.len(), capacity(a.partial()));
                // Leaves are joined only with room to spare, or if one of them is empty.
                if len > capacity * 7 / 8 && (len > capacity || a.len() > 0 && b.len() > 0) {
                    return false;
                }
                // One leaf needs no cut, so no key is missed.
                let Some(Ok(joined)) = self.run(left, 2).map(|run| run.arrange(1, keys)) else {
                    return false;
                };
                self.replace(left, 2, joined);
                true
            }
            (Some(Child::Inner(a)), Some(Child::Inner(b))) => {
                if !a.keys.could_join(&b.keys, 1) {
                    return false;
                }
                let (low, high) = (a.keys.low().into(), b.keys.high().map(Into::into));
                let mut joined = Keys::new(low, high);
                joined.extend_from(&a.keys, 0..a.keys.len());
                joined.insert(joined.len(), &self.keys.get(left));
                joined.extend_from(&b.keys, 0..b.keys.len());
                let mut children = Vec::with_capacity(FANOUT + 1);
                children.extend(a.children.iter().chain(&b.children).cloned());
                self.children[left] = Child::Inner(NodeRef::new(Self { children, keys: joined }));
                self.children.remove(left + 1);
                self.keys.remove(left);
                true
            }
            _ => false,
        }
    }
}

impl Arranged {
    /// Adds an entry between those at `place - 1` and `place`.
    pub(crate) fn insert(&mut self, place: usize, key: &[u8], entry: u64) {
        let (mut leaf, mut place) = (0, place);
        while let Some(separator) = self.separators.get(leaf) {
            let len = self.leaves[leaf].len();
            if place < len || place == len && key < &**separator {
                break;
            }
            place -= len;
            leaf += 1;
        }
        self.leaves[leaf].insert(place, key, entry);
    }
}

//! A counted B+ tree in DRAM: a sorted sequence whose inner nodes know how many items are below each child, so that an item
//! is found by its order and by its number (its rank), and either from the other, in logarithmic time.
//!
//! A leaf packs its items as its type chooses ([`Leaf`]): positions of lists, and scores with members of sorted sets.

mod numbers;
mod scored;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::ops::ControlFlow;

pub(crate) use numbers::Numbers;
pub(crate) use scored::Scored;

/// Items of a leaf, and children of an inner node, at most.
const NODE_MAX: usize = 64;

/// Nodes with fewer are joined with a neighbour, if both fit.
const NODE_MIN: usize = NODE_MAX / 4;

/// The items of a leaf, in order.
pub(crate) trait Leaf: Default {
    /// An item, as it is passed.
    type Item<'a>: Copy
    where
        Self: 'a;

    fn len(&self) -> usize;

    fn get(&self, index: usize) -> Self::Item<'_>;

    fn insert(&mut self, index: usize, item: Self::Item<'_>);

    fn remove(&mut self, index: usize);

    /// Cuts the items from `at` on off.
    fn split_off(&mut self, at: usize) -> Self;

    fn append(&mut self, other: Self);

    /// Bytes of the memory that it takes.
    fn bytes(&self) -> usize;

    fn compare(one: Self::Item<'_>, other: Self::Item<'_>) -> Ordering;
}

/// The tree.
#[derive(Debug)]
pub(crate) struct CountedTree<L> {
    root: Node<L>,
    len: usize,
}

#[derive(Debug)]
enum Node<L> {
    Leaf(L),
    Inner(Vec<Child<L>>),
}

#[derive(Debug)]
struct Child<L> {
    /// Items below.
    count: usize,
    node: Box<Node<L>>,
}

impl<L: Leaf> Child<L> {
    fn new(node: Node<L>) -> Self {
        Self { count: node.count(), node: Box::new(node) }
    }
}

impl<L: Leaf> Node<L> {
    fn count(&self) -> usize {
        match self {
            Self::Leaf(leaf) => leaf.len(),
            Self::Inner(children) => children.iter().map(|child| child.count).sum(),
        }
    }

    /// Items, or children.
    fn width(&self) -> usize {
        match self {
            Self::Leaf(leaf) => leaf.len(),
            Self::Inner(children) => children.len(),
        }
    }

    fn first(&self) -> L::Item<'_> {
        match self {
            Self::Leaf(leaf) => leaf.get(0),
            Self::Inner(children) => children[0].node.first(),
        }
    }

    fn get(&self, rank: usize) -> L::Item<'_> {
        match self {
            Self::Leaf(leaf) => leaf.get(rank),
            Self::Inner(children) => {
                let (index, rank) = child_of(children, rank);
                children[index].node.get(rank)
            }
        }
    }

    /// How many items are before the first one for which `is_before` does not hold.
    fn partition_point<F: FnMut(L::Item<'_>) -> bool>(&self, is_before: &mut F) -> usize {
        match self {
            Self::Leaf(leaf) => {
                let (mut low, mut high) = (0, leaf.len());
                while low < high {
                    let middle = usize::midpoint(low, high);
                    if is_before(leaf.get(middle)) {
                        low = middle + 1;
                    } else {
                        high = middle;
                    }
                }
                low
            }
            Self::Inner(children) => {
                let index = children.partition_point(|child| is_before(child.node.first()));
                let Some(index) = index.checked_sub(1) else { return 0 };
                let before: usize = children[..index].iter().map(|child| child.count).sum();
                before + children[index].node.partition_point(is_before)
            }
        }
    }

    /// Inserts an item so that it has a rank. Returns what has to follow this node, if it was divided.
    fn insert(&mut self, rank: usize, item: L::Item<'_>) -> Option<Self> {
        match self {
            Self::Leaf(leaf) => {
                let is_end = rank == leaf.len();
                leaf.insert(rank, item);
                // Items that come in order leave full leaves behind.
                let at = if is_end { NODE_MAX } else { NODE_MAX.div_ceil(2) };
                (leaf.len() > NODE_MAX).then(|| Self::Leaf(leaf.split_off(at)))
            }
            Self::Inner(children) => {
                let (index, rank) = child_before(children, rank);
                let child = &mut children[index];
                let rest = child.node.insert(rank, item);
                child.count += 1;
                if let Some(rest) = rest {
                    let rest = Child::new(rest);
                    child.count -= rest.count;
                    children.insert(index + 1, rest);
                }
                let at = if index + 2 == children.len() { NODE_MAX } else { NODE_MAX.div_ceil(2) };
                (children.len() > NODE_MAX).then(|| Self::Inner(children.split_off(at)))
            }
        }
    }

    fn remove(&mut self, rank: usize) {
        match self {
            Self::Leaf(leaf) => leaf.remove(rank),
            Self::Inner(children) => {
                let (index, rank) = child_of(children, rank);
                let child = &mut children[index];
                child.node.remove(rank);
                child.count -= 1;
                if child.node.width() < NODE_MIN {
                    join(children, index);
                }
            }
        }
    }

    fn append(&mut self, other: Self) {
        match (self, other) {
            (Self::Leaf(leaf), Self::Leaf(other)) => leaf.append(other),
            (Self::Inner(children), Self::Inner(mut other)) => children.append(&mut other),
            _ => unreachable!("neighbours have the same height"),
        }
    }

    fn visit<B, F: FnMut(L::Item<'_>) -> ControlFlow<B>>(
        &self,
        from: usize,
        visit: &mut F,
    ) -> ControlFlow<B> {
        match self {
            Self::Leaf(leaf) => (from..leaf.len()).try_for_each(|index| visit(leaf.get(index))),
            Self::Inner(children) => {
                let (first, mut from) = child_of(children, from);
                for child in &children[first..] {
                    child.node.visit(from, visit)?;
                    from = 0;
                }
                ControlFlow::Continue(())
            }
        }
    }

    fn visit_back<B, F: FnMut(L::Item<'_>) -> ControlFlow<B>>(
        &self,
        from: usize,
        visit: &mut F,
    ) -> ControlFlow<B> {
        match self {
            Self::Leaf(leaf) => (0..=from).rev().try_for_each(|index| visit(leaf.get(index))),
            Self::Inner(children) => {
                let (last, mut from) = child_of(children, from);
                for (index, child) in children[..=last].iter().enumerate().rev() {
                    child.node.visit_back(from, visit)?;
                    from = index.checked_sub(1).map_or(0, |before| children[before].count - 1);
                }
                ControlFlow::Continue(())
            }
        }
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Leaf(leaf) => leaf.bytes(),
                Self::Inner(children) => {
                    let own = children.capacity() * size_of::<Child<L>>();
                    own + children.iter().map(|child| child.node.bytes()).sum::<usize>()
                }
            }
    }
}

/// The child that has the item of a rank, and the rank there.
fn child_of<L>(children: &[Child<L>], mut rank: usize) -> (usize, usize) {
    for (index, child) in children.iter().enumerate() {
        if rank < child.count {
            return (index, rank);
        }
        rank -= child.count;
    }
    panic!("a rank is below the number of items");
}

/// The child that an item of a rank may be inserted into, and the rank there: it may be behind the child's last one.
fn child_before<L>(children: &[Child<L>], mut rank: usize) -> (usize, usize) {
    let last = children.len() - 1;
    for (index, child) in children[..last].iter().enumerate() {
        if rank <= child.count {
            return (index, rank);
        }
        rank -= child.count;
    }
    (last, rank)
}

/// Joins a child that has few items with a neighbour if both fit into a node, and drops it if it is empty.
fn join<L: Leaf>(children: &mut Vec<Child<L>>, index: usize) {
    if children[index].count == 0 {
        children.remove(index);
        return;
    }
    for first in [index.checked_sub(1), Some(index)].into_iter().flatten() {
        let Some(second) = children.get(first + 1) else { continue };
        if children[first].node.width() + second.node.width() <= NODE_MAX {
            let second = children.remove(first + 1);
            children[first].count += second.count;
            children[first].node.append(*second.node);
            return;
        }
    }
}

impl<L: Leaf> Default for CountedTree<L> {
    fn default() -> Self {
        Self { root: Node::Leaf(L::default()), len: 0 }
    }
}

impl<L: Leaf> CountedTree<L> {
    /// How many items there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The item with a rank, counted from 0.
    pub(crate) fn get(&self, rank: usize) -> Option<L::Item<'_>> {
        (rank < self.len).then(|| self.root.get(rank))
    }

    /// How many items are before the first one for which `is_before` does not hold; it holds for a beginning of all items.
    pub(crate) fn partition_point(&self, mut is_before: impl FnMut(L::Item<'_>) -> bool) -> usize {
        if self.len == 0 { 0 } else { self.root.partition_point(&mut is_before) }
    }

    /// How many items are before `item`, and whether it is there.
    pub(crate) fn rank(&self, item: L::Item<'_>) -> (usize, bool) {
        let rank = self.partition_point(|other| L::compare(other, item) == Ordering::Less);
        let is_there = self.get(rank).is_some_and(|found| L::compare(found, item).is_eq());
        (rank, is_there)
    }

    /// Inserts an item; returns whether it was not there.
    pub(crate) fn insert(&mut self, item: L::Item<'_>) -> bool {
        let (rank, is_there) = self.rank(item);
        if is_there {
            return false;
        }
        if let Some(rest) = self.root.insert(rank, item) {
            let first = std::mem::replace(&mut self.root, Node::Inner(Vec::new()));
            self.root = Node::Inner(vec![Child::new(first), Child::new(rest)]);
        }
        self.len += 1;
        true
    }

    /// Removes an item; returns whether it was there.
    pub(crate) fn remove(&mut self, item: L::Item<'_>) -> bool {
        let (rank, is_there) = self.rank(item);
        if is_there {
            self.remove_at(rank);
        }
        is_there
    }

    /// Removes the item with a rank, which is there.
    pub(crate) fn remove_at(&mut self, rank: usize) {
        assert!(rank < self.len, "there is an item of this rank");
        self.root.remove(rank);
        self.len -= 1;
        loop {
            match &mut self.root {
                Node::Inner(children) if children.is_empty() => {
                    self.root = Node::Leaf(L::default());
                }
                Node::Inner(children) if children.len() == 1 => {
                    let only = children.pop().expect("there is one");
                    self.root = *only.node;
                }
                _ => return,
            }
        }
    }

    /// Visits the items from a rank on, until `visit` breaks.
    pub(crate) fn visit<B>(
        &self,
        from: usize,
        mut visit: impl FnMut(L::Item<'_>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        match from < self.len {
            true => self.root.visit(from, &mut visit),
            false => ControlFlow::Continue(()),
        }
    }

    /// Visits the items from a rank on down to the first one, until `visit` breaks.
    pub(crate) fn visit_back<B>(
        &self,
        from: usize,
        mut visit: impl FnMut(L::Item<'_>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        match from < self.len {
            true => self.root.visit_back(from, &mut visit),
            false => ControlFlow::Continue(()),
        }
    }

    /// Bytes of the memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.root.bytes()
    }
}

/// Makes room for one item more, and for few besides: most leaves stay as they are for long.
fn reserve<T>(items: &mut Vec<T>, more: usize) {
    if items.capacity() - items.len() < more {
        items.reserve_exact(more + items.len() / 8);
    }
}

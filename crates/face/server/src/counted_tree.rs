//! A counted B+ tree in DRAM: a sorted sequence whose inner nodes know how many items are below each child, so that an item
//! is found by its order and by its number (its rank), and either from the other, in logarithmic time.
//!
//! A leaf packs its items as its type chooses ([`Leaf`]): positions of lists, and scores with members of sorted sets.

use std::cmp::Ordering;
use std::ops::ControlFlow;

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

/// A leaf of numbers. Those that follow each other at one distance, as positions do that were given in order, are not kept
/// one by one.
#[derive(Debug)]
pub(crate) enum Numbers {
    Steps { first: u64, step: u64, len: usize },
    All(Vec<u64>),
}

impl Default for Numbers {
    fn default() -> Self {
        Self::Steps { first: 0, step: 0, len: 0 }
    }
}

/// The number at an index among those that begin with `first`, at a distance, if there can be one.
fn nth(first: u64, step: u64, index: usize) -> Option<u64> {
    first.checked_add(step.checked_mul(index as u64)?)
}

impl Numbers {
    /// The numbers one by one.
    fn all(&mut self) -> &mut Vec<u64> {
        if let Self::Steps { .. } = self {
            *self = Self::All((0..self.len()).map(|index| self.get(index)).collect());
        }
        match self {
            Self::All(numbers) => numbers,
            Self::Steps { .. } => unreachable!("they are kept one by one now"),
        }
    }
}

impl Leaf for Numbers {
    type Item<'a> = u64;

    fn len(&self) -> usize {
        match self {
            Self::Steps { len, .. } => *len,
            Self::All(numbers) => numbers.len(),
        }
    }

    fn get(&self, index: usize) -> u64 {
        match self {
            Self::Steps { first, step, .. } => first + step * index as u64,
            Self::All(numbers) => numbers[index],
        }
    }

    fn insert(&mut self, index: usize, item: u64) {
        if let Self::Steps { first, step, len } = self {
            match *len {
                0 => {
                    (*first, *len) = (item, 1);
                    return;
                }
                1 => {
                    (*first, *step, *len) = ((*first).min(item), first.abs_diff(item), 2);
                    return;
                }
                _ if index == *len && nth(*first, *step, index) == Some(item) => {
                    *len += 1;
                    return;
                }
                _ if index == 0 && item.checked_add(*step) == Some(*first) => {
                    (*first, *len) = (item, *len + 1);
                    return;
                }
                _ => {}
            }
        }
        let numbers = self.all();
        reserve(numbers, 1);
        numbers.insert(index, item);
    }

    fn remove(&mut self, index: usize) {
        match self {
            Self::Steps { first, step, len } if index == 0 => {
                *len -= 1;
                *first += if *len > 0 { *step } else { 0 };
            }
            Self::Steps { len, .. } if index + 1 == *len => *len -= 1,
            _ => {
                self.all().remove(index);
            }
        }
    }

    fn split_off(&mut self, at: usize) -> Self {
        if let Self::Steps { step, len, .. } = *self {
            let rest = match len - at {
                0 => Self::default(),
                left => Self::Steps { first: self.get(at), step, len: left },
            };
            if let Self::Steps { len, .. } = self {
                *len = at;
            }
            return rest;
        }
        let numbers = self.all();
        let rest = numbers.split_off(at);
        numbers.shrink_to_fit();
        Self::All(rest)
    }

    fn append(&mut self, other: Self) {
        for index in 0..other.len() {
            self.insert(self.len(), other.get(index));
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Steps { .. } => 0,
            Self::All(numbers) => numbers.capacity() * size_of::<u64>(),
        }
    }

    fn compare(one: u64, other: u64) -> Ordering {
        one.cmp(&other)
    }
}

/// A leaf of members with scores, by the score and then by the member's bytes. Scores are never NaN.
#[derive(Debug, Default)]
pub(crate) struct Scored {
    scores: Vec<f64>,
    /// The ends of the members: [`NODE_MAX`] members, and one more, take less than 2^32 bytes.
    ends: Vec<u32>,
    members: Vec<u8>,
}

const _: () = assert!(((NODE_MAX + 1) * halite::KEY_LEN_MAX) as u64 <= u32::MAX as u64);

impl Scored {
    fn start(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |before| self.ends[before] as usize)
    }
}

impl Leaf for Scored {
    type Item<'a> = (f64, &'a [u8]);

    fn len(&self) -> usize {
        self.scores.len()
    }

    fn get(&self, index: usize) -> (f64, &[u8]) {
        (self.scores[index], &self.members[self.start(index)..self.ends[index] as usize])
    }

    fn insert(&mut self, index: usize, (score, member): (f64, &[u8])) {
        let at = self.start(index);
        reserve(&mut self.members, member.len());
        reserve(&mut self.scores, 1);
        reserve(&mut self.ends, 1);
        self.members.splice(at..at, member.iter().copied());
        self.scores.insert(index, score);
        self.ends.insert(index, at as u32);
        for end in &mut self.ends[index..] {
            *end += member.len() as u32;
        }
    }

    fn remove(&mut self, index: usize) {
        let (start, end) = (self.start(index), self.ends[index] as usize);
        self.members.drain(start..end);
        self.scores.remove(index);
        self.ends.remove(index);
        for at in &mut self.ends[index..] {
            *at -= (end - start) as u32;
        }
    }

    fn split_off(&mut self, at: usize) -> Self {
        let start = self.start(at);
        let scores = self.scores.split_off(at);
        let mut ends = self.ends.split_off(at);
        ends.iter_mut().for_each(|end| *end -= start as u32);
        let members = self.members.split_off(start);
        self.scores.shrink_to_fit();
        self.ends.shrink_to_fit();
        self.members.shrink_to_fit();
        Self { scores, ends, members }
    }

    fn append(&mut self, other: Self) {
        let start = self.members.len() as u32;
        self.members.extend_from_slice(&other.members);
        self.scores.extend_from_slice(&other.scores);
        self.ends.extend(other.ends.into_iter().map(|end| end + start));
    }

    fn bytes(&self) -> usize {
        self.scores.capacity() * size_of::<f64>()
            + self.ends.capacity() * size_of::<u32>()
            + self.members.capacity()
    }

    fn compare(one: (f64, &[u8]), other: (f64, &[u8])) -> Ordering {
        let by_score = one.0.partial_cmp(&other.0).expect("no score is NaN");
        by_score.then_with(|| one.1.cmp(other.1))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn check<L: Leaf>(tree: &CountedTree<L>) {
        fn heights<L: Leaf>(node: &Node<L>, root: bool) -> usize {
            match node {
                Node::Leaf(leaf) => {
                    assert!(leaf.len() <= NODE_MAX && (root || leaf.len() > 0));
                    1
                }
                Node::Inner(children) => {
                    assert!(!children.is_empty() && children.len() <= NODE_MAX);
                    let mut all = BTreeSet::new();
                    for child in children {
                        assert_eq!(child.count, child.node.count());
                        all.insert(heights(&child.node, false));
                    }
                    assert_eq!(all.len(), 1, "leaves are equally deep");
                    1 + all.pop_first().unwrap()
                }
            }
        }
        heights(&tree.root, true);
        assert_eq!(tree.len, tree.root.count());
    }

    #[test]
    fn numbers_in_steps_take_little_memory() {
        let mut tree = CountedTree::<Numbers>::default();
        for number in 0..100_000 {
            tree.insert(number << 16);
        }
        assert!(tree.bytes() < 200_000, "{}", tree.bytes());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn numbers_are_a_sorted_sequence(steps in vec((0..3_u8, 0..800_u64), 0..900)) {
            let (mut tree, mut model) = (CountedTree::<Numbers>::default(), BTreeSet::new());
            for (step, number) in steps {
                match step {
                    0 => prop_assert_eq!(tree.remove(number), model.remove(&number)),
                    _ => prop_assert_eq!(tree.insert(number), model.insert(number)),
                }
            }
            check(&tree);
            let sorted: Vec<u64> = model.iter().copied().collect();
            for from in [0, 1, sorted.len() / 2, sorted.len().saturating_sub(1), sorted.len()] {
                let from = from.min(sorted.len());
                let mut seen = Vec::new();
                let _ = tree.visit(from, |item| -> ControlFlow<()> {
                    seen.push(item);
                    ControlFlow::Continue(())
                });
                prop_assert_eq!(&seen[..], &sorted[from..]);
                seen.clear();
                let _ = tree.visit_back(from, |item| -> ControlFlow<()> {
                    seen.push(item);
                    ControlFlow::Continue(())
                });
                let expected: Vec<u64> = match from < sorted.len() {
                    true => sorted[..=from].iter().rev().copied().collect(),
                    false => Vec::new(),
                };
                prop_assert_eq!(seen, expected);
            }
            for (rank, number) in sorted.iter().enumerate() {
                prop_assert_eq!(tree.get(rank), Some(*number));
                prop_assert_eq!(tree.rank(*number), (rank, true));
            }
        }

        #[test]
        fn numbers_at_one_distance_are_kept_as_such(
            steps in vec((0..6_u8, any::<u16>()), 0..600), gap in 1..9_u64,
        ) {
            let (mut tree, mut model) = (CountedTree::<Numbers>::default(), BTreeSet::new());
            let middle = 1 << 40;
            for (step, random) in steps {
                let (first, last) = (model.first().copied(), model.last().copied());
                let random = random as usize;
                let number = match step {
                    0 => first.map_or(middle, |first| first - gap),
                    1 | 2 => last.map_or(middle, |last| last + gap),
                    3 => first.unwrap_or(0),
                    4 => last.unwrap_or(0),
                    _ => model.iter().nth(random % model.len().max(1)).map_or(0, |at| at + 1),
                };
                match step == 3 || step == 4 || step == 5 && random.is_multiple_of(2) {
                    true => prop_assert_eq!(tree.remove(number), model.remove(&number)),
                    false => prop_assert_eq!(tree.insert(number), model.insert(number)),
                }
            }
            check(&tree);
            for (rank, number) in model.iter().enumerate() {
                prop_assert_eq!(tree.get(rank), Some(*number));
                prop_assert_eq!(tree.rank(*number), (rank, true));
            }
        }

        #[test]
        fn members_are_sorted_by_score_and_bytes(
            steps in vec((any::<bool>(), -3..3_i32, vec(any::<u8>(), 0..3)), 0..300),
        ) {
            let (mut tree, mut model) = (CountedTree::<Scored>::default(), BTreeSet::new());
            for (puts, score, member) in steps {
                let item = (f64::from(score), &member[..]);
                match puts {
                    true => prop_assert_eq!(tree.insert(item), model.insert((score, member))),
                    false => prop_assert_eq!(tree.remove(item), model.remove(&(score, member))),
                }
            }
            check(&tree);
            for (rank, (score, member)) in model.iter().enumerate() {
                prop_assert_eq!(tree.get(rank), Some((f64::from(*score), &member[..])));
            }
            while tree.len() > 0 {
                tree.remove_at(tree.len() / 2);
                check(&tree);
            }
        }
    }
}

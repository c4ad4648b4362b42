//! The algorithm of the B+trees, over nodes wherever they are.
//!
//! A store of nodes implements [`Read`], and [`Nodes`] if they can be changed; the same code then looks keys up
//! (here), inserts (`put.rs`), removes (`remove.rs`) and scans (`scan.rs`). A store that copies on write gives a node
//! another number when it becomes writable ([`Nodes::make_own`]), and the descent of a change puts that into the
//! parent: so a change copies the nodes from the root to the leaf, each at most once until the store commits.
//!
//! A node splits at the place that divides its bytes evenly; but behind its last entry if the new one is that, so that
//! keys that arrive in order fill their leaves. A node that is less than a quarter full is merged with a neighbour of
//! the same parent if both take at most three quarters of a node. All leaves have the same depth.

pub(crate) mod put;
pub(crate) mod remove;
pub(crate) mod scan;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Deref;

use super::node::entries::Entries;
use super::node::{self, Shape};

/// The levels that a tree may have: more than four thousand million nodes of two children need.
pub(crate) const LEVELS_MAX: usize = 40;

/// The root of a tree: its node, and how many levels of inner nodes there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Root {
    pub(crate) id: u64,
    pub(crate) level: u8,
}

/// Nodes that can be read. Leaves are of level 0.
pub(crate) trait Read {
    /// Why a node cannot be read, or changed.
    type Error;
    /// A node that is being read.
    type Node<'a>: Deref<Target = [u8]>
    where
        Self: 'a;

    /// The shape of leaves.
    const LEAF: Shape;

    /// A node, which has to be of this level.
    fn node(&self, id: u64, level: u8) -> Result<Self::Node<'_>, Self::Error>;

    /// A long key, by its reference and its length.
    fn long_key(&self, reference: u64, len: usize) -> Result<Cow<'_, [u8]>, Self::Error>;
}

/// Nodes that can be changed. After an error the tree is in no defined state, and the store drops the changes.
pub(crate) trait Nodes: Read {
    /// Makes a node writable, under the number that it then has.
    fn make_own(&mut self, id: u64, level: u8) -> Result<u64, Self::Error>;

    /// A writable node.
    fn node_mut(&mut self, id: u64) -> &mut [u8];

    /// A new writable node, with any bytes.
    fn allocate(&mut self, level: u8) -> Result<u64, Self::Error>;

    /// Gives a node back.
    fn release(&mut self, id: u64);

    /// Stores a long key.
    fn keep_long_key(&mut self, key: &[u8]) -> Result<u64, Self::Error>;

    /// Gives a long key back.
    fn release_long_key(&mut self, reference: u64, len: usize) -> Result<(), Self::Error>;

    /// Memory for entries, which serves again and again.
    fn scratch(&mut self) -> &mut Entries;
}

/// The shape of nodes of a level.
pub(crate) const fn shape_of<S: Read>(level: u8) -> Shape {
    if level == 0 { S::LEAF } else { S::LEAF.inner() }
}

/// Finds a key in a node.
#[inline]
pub(crate) fn search<S: Read>(
    store: &S,
    node: &[u8],
    shape: Shape,
    key: &[u8],
) -> Result<(usize, bool), S::Error> {
    node::search(node, shape, key, |reference, len| -> Result<Ordering, S::Error> {
        Ok((*store.long_key(reference, len)?).cmp(key))
    })
}

/// The entry of an inner node that leads to a key.
#[inline]
pub(crate) fn entry_to<S: Read>(store: &S, node: &[u8], key: &[u8]) -> Result<usize, S::Error> {
    let (index, is_there) = search(store, node, S::LEAF.inner(), key)?;
    Ok(if is_there { index } else { index - 1 })
}

/// Looks a key up, and hands its value over.
pub(crate) fn get<S: Read, T>(
    store: &S,
    root: Option<Root>,
    key: &[u8],
    found: impl FnOnce(&[u8]) -> T,
) -> Result<Option<T>, S::Error> {
    let Some(Root { mut id, level }) = root else { return Ok(None) };
    for level in (1..=level).rev() {
        let node = store.node(id, level)?;
        let index = entry_to(store, &node, key)?;
        id = node::child(&node, S::LEAF.inner(), index);
    }
    let leaf = store.node(id, 0)?;
    let (index, is_there) = search(store, &leaf, S::LEAF, key)?;
    Ok(is_there.then(|| found(node::value(&leaf, S::LEAF, index))))
}

/// The nodes from the root to the parent of a leaf, and the entry of each that was taken.
pub(crate) struct Path {
    steps: [(u64, u16); LEVELS_MAX],
    len: usize,
}

impl Path {
    const fn new() -> Self {
        Self { steps: [(0, 0); LEVELS_MAX], len: 0 }
    }

    fn push(&mut self, id: u64, index: usize) {
        self.steps[self.len] = (id, index as u16);
        self.len += 1;
    }

    fn pop(&mut self) -> Option<(u64, usize)> {
        self.len = self.len.checked_sub(1)?;
        let (id, index) = self.steps[self.len];
        Some((id, index.into()))
    }
}

/// Descends to the leaf of a key, and makes each node on the way writable. Returns the leaf too.
fn descend<S: Nodes>(store: &mut S, root: &mut Root, key: &[u8]) -> Result<(Path, u64), S::Error> {
    let mut path = Path::new();
    root.id = store.make_own(root.id, root.level)?;
    let mut id = root.id;
    for level in (1..=root.level).rev() {
        let parent = store.node(id, level)?;
        let index = entry_to(store, &parent, key)?;
        let child = node::child(&parent, S::LEAF.inner(), index);
        drop(parent);
        path.push(id, index);
        id = own_child(store, (id, index), child, level - 1)?;
    }
    Ok((path, id))
}

/// Makes a child writable, and tells its parent the number.
fn own_child<S: Nodes>(
    store: &mut S,
    (parent, index): (u64, usize),
    child: u64,
    level: u8,
) -> Result<u64, S::Error> {
    let own = store.make_own(child, level)?;
    if own != child {
        let (parent, shape) = (store.node_mut(parent), S::LEAF.inner());
        let number = &own.to_le_bytes()[..shape.reference];
        node::value_mut(parent, shape, index).copy_from_slice(number);
    }
    Ok(own)
}

/// Puts the entries of a node into those that are there.
fn take<S: Read>(
    store: &S,
    entries: &mut Entries,
    node: &[u8],
    shape: Shape,
) -> Result<(), S::Error> {
    entries.append(node, shape, |reference, len, to| {
        to.extend_from_slice(&store.long_key(reference, len)?);
        Ok(())
    })
}

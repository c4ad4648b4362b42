//! Iteration over a snapshot.

use std::ops::Range;

use super::inner::{Child, Inner};
use super::leaf::Leaf;
use crate::FullKeys;
use crate::node_ref::NodeRef;

/// A walk over the entries of a range, in one direction, in the state when it began.
///
/// The range's bounds were looked up when it began, so it reads no keys.
pub struct PartialKeyCursor {
    /// The path to the leaf: inner nodes, each with the child that was entered.
    path: Vec<(NodeRef<Inner>, usize)>,
    leaf: NodeRef<Leaf>,
    /// The entries of the leaf that are still to come.
    rest: Range<usize>,
    /// Where the range ends in the cursor's direction; none if with the tree.
    stop: Option<(NodeRef<Leaf>, usize)>,
    ascending: bool,
}

impl PartialKeyCursor {
    pub(crate) fn all(root: &NodeRef<Inner>) -> Self {
        let mut cursor = Self::at(root, true, |_| 0);
        cursor.enter(None);
        cursor
    }

    pub(crate) fn ascending<F: FullKeys>(
        root: &NodeRef<Inner>,
        start: &[u8],
        end: Option<&[u8]>,
        keys: &F,
    ) -> Result<Self, F::Error> {
        let mut cursor = Self::at(root, true, |inner| inner.child_of(start));
        if end.is_some_and(|end| end <= start) {
            cursor.path.clear();
            return Ok(cursor);
        }
        if let Some(end) = end {
            cursor.stop = Some(Self::place(root, end, keys)?);
        }
        let first = match start {
            [] => 0,
            start => cursor.leaf.search(start, keys)?.unwrap_or_else(|at| at),
        };
        cursor.enter(Some(first));
        Ok(cursor)
    }

    pub(crate) fn descending<F: FullKeys>(
        root: &NodeRef<Inner>,
        start: &[u8],
        end: Option<&[u8]>,
        keys: &F,
    ) -> Result<Self, F::Error> {
        let mut cursor = Self::at(root, false, |inner| match end {
            Some(end) => inner.child_of(end),
            None => inner.children().len() - 1,
        });
        if end.is_some_and(|end| end <= start) {
            cursor.path.clear();
            return Ok(cursor);
        }
        if !start.is_empty() {
            cursor.stop = Some(Self::place(root, start, keys)?);
        }
        let behind = match end {
            Some(end) => cursor.leaf.search(end, keys)?.unwrap_or_else(|at| at),
            None => cursor.leaf.len(),
        };
        cursor.enter(Some(behind));
        Ok(cursor)
    }

    /// A cursor at the leaf that `choose` leads to, which yields no entry of it yet.
    fn at(root: &NodeRef<Inner>, ascending: bool, choose: impl Fn(&Inner) -> usize) -> Self {
        let mut path = Vec::new();
        let leaf = descend(&mut path, root, choose);
        Self { path, leaf, rest: 0..0, stop: None, ascending }
    }

    /// Returns where `key` is, or would be.
    fn place<F: FullKeys>(
        root: &NodeRef<Inner>,
        key: &[u8],
        keys: &F,
    ) -> Result<(NodeRef<Leaf>, usize), F::Error> {
        let leaf = descend(&mut Vec::new(), root, |inner| inner.child_of(key));
        let at = leaf.search(key, keys)?.unwrap_or_else(|at| at);
        Ok((leaf, at))
    }

    /// The entry that `next` will return: its record can be brought into the cache meanwhile.
    pub fn peek(&mut self) -> Option<u64> {
        while self.rest.is_empty() {
            if self.stops_here() || !self.next_leaf() {
                return None;
            }
        }
        let at = if self.ascending { self.rest.start } else { self.rest.end - 1 };
        Some(self.leaf.entry(at))
    }

    /// Skips the leaves that this walk and another have in common from here on: of two states of one tree,
    /// the leaves that were not written in between. Both ascend.
    pub fn skip_common(&mut self, other: &mut Self) {
        debug_assert!(self.ascending && other.ascending);
        while self.peek().is_some()
            && other.peek().is_some()
            && self.leaf.is(&other.leaf)
            && self.rest == other.rest
        {
            self.rest.start = self.rest.end;
            other.rest.start = other.rest.end;
        }
    }

    fn stops_here(&self) -> bool {
        self.stop.as_ref().is_some_and(|(leaf, _)| leaf.is(&self.leaf))
    }

    /// Sets the entries that are to come of the leaf, from `from` on.
    fn enter(&mut self, from: Option<usize>) {
        let stop = self.stop.as_ref().filter(|_| self.stops_here()).map(|(_, at)| *at);
        self.rest = if self.ascending {
            from.unwrap_or(0)..stop.unwrap_or(self.leaf.len())
        } else {
            stop.unwrap_or(0)..from.unwrap_or(self.leaf.len())
        };
    }

    /// Moves to the next leaf of the path, if there is one.
    fn next_leaf(&mut self) -> bool {
        while let Some((node, at)) = self.path.pop() {
            let beside = |at: usize| {
                if self.ascending { Some(at + 1) } else { at.checked_sub(1) }
                    .filter(|&at| at < node.children().len())
            };
            let Some(next) = beside(at) else { continue };
            // While the records of this leaf's entries are read, the leaf after it arrives.
            if let Some(after) = beside(next) {
                node.children()[after].prefetch();
            }
            let child = node.children()[next].clone();
            self.path.push((node, next));
            let ascending = self.ascending;
            self.leaf = match child {
                Child::Leaf(leaf) => leaf,
                Child::Inner(inner) => descend(&mut self.path, &inner, |inner| {
                    if ascending { 0 } else { inner.children().len() - 1 }
                }),
            };
            self.enter(None);
            return true;
        }
        false
    }
}

/// Walks down to the leaf that `choose` leads to, and adds to the path.
fn descend(
    path: &mut Vec<(NodeRef<Inner>, usize)>,
    root: &NodeRef<Inner>,
    choose: impl Fn(&Inner) -> usize,
) -> NodeRef<Leaf> {
    let mut inner = root;
    loop {
        let at = choose(inner);
        path.push((NodeRef::clone(inner), at));
        let child = &inner.children()[at];
        child.prefetch();
        match child {
            Child::Leaf(leaf) => return NodeRef::clone(leaf),
            Child::Inner(child) => inner = child,
        }
    }
}

impl Iterator for PartialKeyCursor {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let entry = self.peek()?;
        if self.ascending {
            self.rest.start += 1;
        } else {
            self.rest.end -= 1;
        }
        Some(entry)
    }
}

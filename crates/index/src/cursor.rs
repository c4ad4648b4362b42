//! Iteration over a snapshot.

use std::ops::Range;

use crate::node::{Body, Node};
use crate::node_ref::NodeRef;

/// A walk over the entries of a range, in one direction, in the state when it began.
pub struct Cursor {
    /// The path to the leaf: inner nodes, each with the child that was entered.
    path: Vec<(NodeRef, usize)>,
    leaf: NodeRef,
    /// The entries of the leaf that are still to come.
    rest: Range<usize>,
    /// The entry that came last.
    last: usize,
    start: Box<[u8]>,
    end: Option<Box<[u8]>>,
    ascending: bool,
}

impl Cursor {
    pub(crate) fn ascending(root: &NodeRef, start: &[u8], end: Option<&[u8]>) -> Self {
        let mut cursor = Self::new(root, start, end, true);
        cursor.descend(NodeRef::clone(root), |node| node.child_of(start));
        cursor
    }

    pub(crate) fn descending(root: &NodeRef, start: &[u8], end: Option<&[u8]>) -> Self {
        let mut cursor = Self::new(root, start, end, false);
        cursor.descend(NodeRef::clone(root), |node| match end {
            // The child of `end` begins at or before it, so the last smaller key is there or left.
            Some(end) => node.child_of(end),
            None => node.keys.len(),
        });
        cursor
    }

    fn new(root: &NodeRef, start: &[u8], end: Option<&[u8]>, ascending: bool) -> Self {
        Self {
            path: Vec::new(),
            leaf: NodeRef::clone(root),
            rest: 0..0,
            last: 0,
            start: start.into(),
            end: end.map(Into::into),
            ascending,
        }
    }

    /// Puts the key of the entry that `next` just returned into `key`. Once `next` has returned
    /// `None` there is none, and what `key` then holds means nothing.
    pub fn copy_key(&self, key: &mut Vec<u8>) {
        self.leaf.keys.copy_to(self.last, key);
    }

    /// Walks down from `node` to the leaf that `choose` leads to.
    fn descend(&mut self, mut node: NodeRef, choose: impl Fn(&Node) -> usize) {
        while let Body::Inner(children) = &node.body {
            let at = choose(&node);
            let child = NodeRef::clone(&children[at]);
            self.path.push((node, at));
            node = child;
        }
        self.rest = self.within(&node);
        self.leaf = node;
    }

    /// The entries of a leaf that are in the range. A bound outside the leaf's fences is no bound.
    fn within(&self, leaf: &Node) -> Range<usize> {
        let keys = &leaf.keys;
        let place = |key: &[u8]| keys.search(key).unwrap_or_else(|at| at);
        let above = |key: &[u8]| keys.high().is_some_and(|high| key >= high);
        let start = match &*self.start {
            start if start < keys.low() => 0,
            start if above(start) => keys.len(),
            start => place(start),
        };
        let end = match self.end.as_deref() {
            None => keys.len(),
            Some(end) if end < keys.low() => 0,
            Some(end) if above(end) => keys.len(),
            Some(end) => place(end),
        };
        start..end.max(start)
    }

    /// Whether leaves beyond this one, in the cursor's direction, may have entries of the range.
    fn goes_on(&self) -> bool {
        if self.ascending {
            match (self.leaf.keys.high(), self.end.as_deref()) {
                (Some(high), Some(end)) => high < end,
                (high, _) => high.is_some(),
            }
        } else {
            self.leaf.keys.low() > &*self.start
        }
    }

    /// Moves to the next leaf of the path, if there is one.
    fn next_leaf(&mut self) -> bool {
        while let Some((node, at)) = self.path.pop() {
            let Body::Inner(children) = &node.body else {
                unreachable!("the path has inner nodes")
            };
            let next = if self.ascending { Some(at + 1) } else { at.checked_sub(1) };
            let Some((next, child)) = next.and_then(|next| Some((next, children.get(next)?)))
            else {
                continue;
            };
            let child = NodeRef::clone(child);
            self.path.push((node, next));
            if self.ascending {
                self.descend(child, |_| 0);
            } else {
                self.descend(child, |node| node.keys.len());
            }
            return true;
        }
        false
    }
}

impl Iterator for Cursor {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        loop {
            let next = if self.ascending { self.rest.next() } else { self.rest.next_back() };
            if let Some(at) = next {
                let Body::Leaf(values) = &self.leaf.body else { unreachable!("a leaf") };
                self.last = at;
                return Some(values[at]);
            }
            if !self.goes_on() || !self.next_leaf() {
                return None;
            }
        }
    }
}

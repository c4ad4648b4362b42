//! Scans of a range of keys, forward and in reverse.

use std::ops::Bound;

use super::{Read, Root, entry_to, search, shape_of};
use crate::index::node::{self, Key};

/// The direction of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Ascending keys.
    Forward,
    /// Descending keys.
    Reverse,
}

/// Keys between two bounds.
pub type Range<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

struct Step<'a, S: Read + 'a> {
    node: S::Node<'a>,
    level: u8,
    /// Forward, the next entry; in reverse, the one behind that.
    index: usize,
}

/// The entries of a range of a tree, one after the other.
pub(crate) struct Scan<'a, S: Read> {
    store: &'a S,
    /// From the root to a leaf; empty at the end.
    path: Vec<Step<'a, S>>,
    direction: Direction,
    /// Where it ends.
    end: Bound<Vec<u8>>,
    key: Vec<u8>,
    /// Entries were left out at the end of the path since the last one.
    current: usize,
}

impl<'a, S: Read> Scan<'a, S> {
    /// A scan that begins before the first entry of the range.
    pub(crate) fn new(
        store: &'a S,
        root: Option<Root>,
        (from, to): Range<'_>,
        direction: Direction,
    ) -> Result<Self, S::Error> {
        let (start, end) = match direction {
            Direction::Forward => (from, to),
            Direction::Reverse => (to, from),
        };
        let path = Vec::with_capacity(root.map_or(0, |root| usize::from(root.level) + 1));
        let end = end.map(<[u8]>::to_vec);
        let mut scan = Self { store, path, direction, end, key: Vec::new(), current: 0 };
        if let Some(root) = root {
            scan.descend(root.id, root.level, start)?;
        }
        Ok(scan)
    }

    /// Goes down from a node to the first leaf behind a bound, in the direction of the scan.
    fn descend(&mut self, mut id: u64, mut level: u8, bound: Bound<&[u8]>) -> Result<(), S::Error> {
        loop {
            let node = self.store.node(id, level)?;
            let count = node::count(&node);
            let is_forward = self.direction == Direction::Forward;
            let index = match bound {
                Bound::Unbounded if is_forward => 0,
                Bound::Unbounded if level == 0 => count,
                Bound::Unbounded => count - 1,
                Bound::Included(key) | Bound::Excluded(key) if level > 0 => {
                    entry_to(self.store, &node, key)?
                }
                Bound::Included(key) | Bound::Excluded(key) => {
                    let (index, is_there) = search(self.store, &node, shape_of::<S>(0), key)?;
                    let takes_key = matches!(bound, Bound::Included(_)) == is_forward;
                    index + usize::from(is_there && !takes_key)
                }
            };
            if level == 0 {
                self.path.push(Step { node, level, index });
                return Ok(());
            }
            id = node::child(&node, S::LEAF.inner(), index);
            self.path.push(Step { node, level, index });
            level -= 1;
        }
    }

    /// Goes to the next entry. Returns whether there is one.
    pub(crate) fn advance(&mut self) -> Result<bool, S::Error> {
        while let Some(last) = self.path.last_mut() {
            let is_forward = self.direction == Direction::Forward;
            let there = match is_forward {
                true => last.index + usize::from(last.level > 0) < node::count(&last.node),
                false => last.index > 0,
            };
            if !there {
                self.path.pop();
                continue;
            }
            if last.level > 0 {
                last.index = if is_forward { last.index + 1 } else { last.index - 1 };
                let (id, level) =
                    (node::child(&last.node, S::LEAF.inner(), last.index), last.level - 1);
                self.descend(id, level, Bound::Unbounded)?;
                continue;
            }
            self.current = if is_forward { last.index } else { last.index - 1 };
            last.index = if is_forward { last.index + 1 } else { last.index - 1 };
            self.key.clear();
            match node::key(&last.node, S::LEAF, self.current) {
                Key::Long(reference, len) => {
                    self.key.extend_from_slice(&self.store.long_key(reference, len)?);
                }
                whole => whole.append_to(&mut self.key),
            }
            if !self.is_within() {
                self.path.clear();
            }
            return Ok(!self.path.is_empty());
        }
        Ok(false)
    }

    fn is_within(&self) -> bool {
        match (&self.end, self.direction) {
            (Bound::Unbounded, _) => true,
            (Bound::Included(end), Direction::Forward) => self.key <= *end,
            (Bound::Excluded(end), Direction::Forward) => self.key < *end,
            (Bound::Included(end), Direction::Reverse) => self.key >= *end,
            (Bound::Excluded(end), Direction::Reverse) => self.key > *end,
        }
    }

    /// The key of the entry that [`Scan::advance`] went to.
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Its value.
    pub(crate) fn value(&self) -> &[u8] {
        let leaf = self.path.last().expect("there is an entry");
        node::value(&leaf.node, S::LEAF, self.current)
    }
}

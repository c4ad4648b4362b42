//! The tree.

use crate::Cursor;
use crate::keys::Keys;
use crate::node::{Body, Node};
use crate::node_ref::NodeRef;
use crate::prefetch;

/// An ordered map from byte strings to 8-byte values, cloned in constant time.
///
/// With `n` keys a lookup visits `log32..log64(n)` nodes. An entry takes 21 bytes, plus what its key
/// has beyond the prefix that its node shares and 8 more bytes, divided by how full the nodes are.
#[derive(Clone)]
pub struct BPlusTree {
    pub(crate) root: NodeRef,
    pub(crate) len: u64,
    /// Levels of inner nodes.
    pub(crate) height: usize,
}

impl Default for BPlusTree {
    fn default() -> Self {
        Self { root: NodeRef::new(Node::empty_leaf([].into(), None)), len: 0, height: 0 }
    }
}

impl BPlusTree {
    /// An empty tree.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of keys.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value of `key`.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<u64> {
        self.find(key, |keys| keys.search(key).ok())
    }

    /// The value of `key`, or of another key, if `key` is not there: the caller compares. Saves the
    /// cache miss for the part of a key that a node does not need to tell its keys apart.
    #[must_use]
    pub fn get_candidate(&self, key: &[u8]) -> Option<u64> {
        self.find(key, |keys| keys.candidate(key))
    }

    /// Brings what an insert of `key` will touch into the cache, for a caller who has to wait for
    /// something else first.
    pub fn prepare_insert(&self, key: &[u8]) {
        prefetch::to_insert(self.leaf_of(key));
    }

    /// Brings what a search for `key` will touch into the cache.
    pub fn prepare_search(&self, key: &[u8]) {
        prefetch::to_search(self.leaf_of(key));
    }

    /// The leaf that has `key`, if any has; not looked at.
    fn leaf_of(&self, key: &[u8]) -> &Node {
        let mut node = &self.root;
        // Counted, because to ask a node whether it is a leaf is to wait for it.
        for _ in 0..self.height {
            let Body::Inner(children) = &node.body else {
                unreachable!("leaves are at the bottom")
            };
            node = &children[node.child_of(key)];
        }
        node
    }

    fn find(&self, key: &[u8], in_leaf: impl FnOnce(&Keys) -> Option<usize>) -> Option<u64> {
        let mut node = &self.root;
        loop {
            match &node.body {
                Body::Leaf(values) => return in_leaf(&node.keys).map(|at| values[at]),
                Body::Inner(children) => {
                    node = &children[node.child_of(key)];
                    prefetch::to_search(node);
                }
            }
        }
    }

    /// Sets the value of `key` and returns the old one.
    pub fn insert(&mut self, key: &[u8], value: u64) -> Option<u64> {
        self.insert_with(key, |_| value)
    }

    /// Sets the value of `key` to what `value` makes of the old one, and returns the old one.
    pub fn insert_with(
        &mut self,
        key: &[u8],
        value: impl FnOnce(Option<u64>) -> u64,
    ) -> Option<u64> {
        let (old, split) = Node::insert(&mut self.root, key, value);
        self.len += u64::from(old.is_none());
        if let Some(split) = split {
            let mut keys = Keys::new([].into(), None);
            keys.insert(0, &split.separator);
            let children = vec![NodeRef::clone(&self.root), split.right];
            self.root = NodeRef::new(Node { keys, body: Body::Inner(children) });
            self.height += 1;
        }
        old
    }

    /// Changes the value of `key` in place, if it is there; whether it is. One walk.
    pub fn modify(&mut self, key: &[u8], change: impl FnOnce(&mut u64)) -> bool {
        let mut node = self.root.make_mut();
        loop {
            match &mut node.body {
                Body::Leaf(values) => {
                    let found = node.keys.search(key);
                    return found.map(|at| change(&mut values[at])).is_ok();
                }
                Body::Inner(children) => {
                    let at = node.keys.search(key).map_or_else(|at| at, |at| at + 1);
                    prefetch::to_search(&children[at]);
                    node = children[at].make_mut();
                }
            }
        }
    }

    /// Removes `key` and returns its value.
    pub fn remove(&mut self, key: &[u8]) -> Option<u64> {
        // Shared nodes are not copied for a key that is not there.
        self.get(key)?;
        let old = Node::remove(&mut self.root, key);
        self.len -= u64::from(old.is_some());
        while let Body::Inner(children) = &self.root.body
            && let [child] = &children[..]
        {
            self.root = NodeRef::clone(child);
            self.height -= 1;
        }
        old
    }

    /// The entries from `start` up to, not including, `end`, ascending, as they are now.
    #[must_use]
    pub fn range(&self, start: &[u8], end: Option<&[u8]>) -> Cursor {
        Cursor::ascending(&self.root, start, end)
    }

    /// The same entries, descending.
    #[must_use]
    pub fn range_rev(&self, start: &[u8], end: Option<&[u8]>) -> Cursor {
        Cursor::descending(&self.root, start, end)
    }

    /// An entry chosen by `random`: one child a level, so entries of sparse nodes come up more often.
    #[must_use]
    pub fn sample(&self, mut random: u64) -> Option<u64> {
        let mut choose = |len: usize| {
            let chosen = random % len as u64;
            // Each level takes fresh bits: a step of splitmix64.
            random = (random ^ random >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ random >> 27;
            chosen as usize
        };
        let mut node = &self.root;
        loop {
            match &node.body {
                // A leaf that could join neither neighbour: the next entry will do, or the one before.
                Body::Leaf(_) if node.keys.len() == 0 => {
                    let low = node.keys.low();
                    return self.range(low, None).chain(self.range_rev(b"", Some(low))).next();
                }
                Body::Leaf(values) => return Some(values[choose(node.keys.len())]),
                Body::Inner(children) => node = &children[choose(children.len())],
            }
        }
    }

    /// Bytes that the tree takes on the heap, shared nodes included.
    #[must_use]
    pub fn heap_len(&self) -> usize {
        self.root.heap_len()
    }
}

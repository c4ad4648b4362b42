//! The volatile B+tree: ordered keys and numbers in DRAM, in nodes of 64 B to 16 KiB.
//!
//! Nodes are slices of chunks of memory, and known by their numbers; a node has its keys within it (`node.rs` has the
//! format), but for those that are longer than a quarter of it. A lookup reads log(n) nodes, and of each the header,
//! the prefix and some slots: with nodes of 512 B and keys of 16 B, a leaf has up to 17 entries. There is no lock: a
//! tree has one owner.
//!
//! A change of the tree ends the scans before it, as Rust's borrows say; a scan is continued by another one from its
//! last key on, which is excluded. What is in the tree is lost with the process.

mod arena;

use std::borrow::Cow;
use std::convert::Infallible;

use self::arena::Arena;
use super::KEY_LEN_MAX;
use super::btree::put::put;
use super::btree::remove::remove;
use super::btree::scan::{Direction, Range, Scan};
use super::btree::{Nodes, Read, Root, get};
use super::node::Shape;
use super::node::entries::Entries;
use crate::component::Component;

/// The length in bytes of a node by default (Arulraj: the testbed's STX B+tree).
pub const NODE_LEN: usize = 512;

/// An ordered map from byte strings to numbers, in DRAM.
pub struct VolatileTree {
    nodes: Memory,
    root: Option<Root>,
    len: usize,
}

struct Memory {
    arena: Arena,
    /// The long keys, and the free places among them.
    long_keys: Vec<Box<[u8]>>,
    free_keys: Vec<u32>,
    scratch: Entries,
}

impl VolatileTree {
    /// An empty tree with nodes of so many bytes.
    ///
    /// # Panics
    /// If `node_len` is not a power of two from 64 to 16,384.
    #[must_use]
    pub fn new(node_len: usize) -> Self {
        assert!(
            node_len.is_power_of_two() && (64..=16 << 10).contains(&node_len),
            "a node of {node_len} bytes"
        );
        let nodes = Memory {
            arena: Arena::new(node_len),
            long_keys: Vec::new(),
            free_keys: Vec::new(),
            scratch: Entries::default(),
        };
        Self { nodes, root: None, len: 0 }
    }

    /// A tree of entries in the order of their keys. Its nodes are full.
    ///
    /// # Panics
    /// If `node_len` is not as [`VolatileTree::new`] asks, or a key is not above the one before it.
    pub fn of_sorted<K: AsRef<[u8]>>(
        node_len: usize,
        entries: impl IntoIterator<Item = (K, u64)>,
    ) -> Self {
        let mut tree = Self::new(node_len);
        let mut last: Option<K> = None;
        for (key, value) in entries {
            let is_behind = last.is_none_or(|last| last.as_ref() < key.as_ref());
            assert!(is_behind, "the entries of a tree are in the order of their keys");
            // A new last entry splits its node behind all others, so that those stay full.
            tree.insert(key.as_ref(), value);
            last = Some(key);
        }
        tree
    }

    /// Adds an entry. If the key is there, nothing changes, and its value is returned.
    ///
    /// # Panics
    /// If the key is longer than [`KEY_LEN_MAX`].
    pub fn insert(&mut self, key: &[u8], value: u64) -> Option<u64> {
        self.put(key, value, false)
    }

    /// Sets the value of a key, and returns the former one.
    ///
    /// # Panics
    /// If the key is longer than [`KEY_LEN_MAX`].
    pub fn set(&mut self, key: &[u8], value: u64) -> Option<u64> {
        self.put(key, value, true)
    }

    fn put(&mut self, key: &[u8], value: u64, replaces: bool) -> Option<u64> {
        let _in = Component::Index.enter();
        assert!(key.len() <= KEY_LEN_MAX, "a key of {} bytes", key.len());
        let (mut old, value) = (None, value.to_le_bytes());
        let before = |value: &[u8]| old = Some(number(value));
        let Ok(_) = put(&mut self.nodes, &mut self.root, key, &value, replaces, before);
        self.len += usize::from(old.is_none());
        old
    }

    /// Removes an entry, and returns its value.
    pub fn remove(&mut self, key: &[u8]) -> Option<u64> {
        let _in = Component::Index.enter();
        let mut old = None;
        let Ok(_) = remove(&mut self.nodes, &mut self.root, key, |value| old = Some(number(value)));
        self.len -= usize::from(old.is_some());
        old
    }

    /// The value of a key.
    #[must_use]
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<u64> {
        let _in = Component::Index.enter();
        let Ok(found) = get(&self.nodes, self.root, key, number);
        found
    }

    /// The entries of a range.
    #[must_use]
    pub fn scan(&self, range: Range<'_>, direction: Direction) -> VolatileScan<'_> {
        let Ok(scan) = Scan::new(&self.nodes, self.root, range, direction);
        VolatileScan(scan)
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of the nodes and long keys that the tree has.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        let long: usize = self.nodes.long_keys.iter().map(|key| key.len()).sum();
        self.nodes.arena.used_bytes() + long
    }

    /// Bytes of memory that the tree takes, with those that it keeps for more nodes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let Memory { arena, long_keys, free_keys, .. } = &self.nodes;
        let long: usize = long_keys.iter().map(|key| key.len()).sum();
        arena.memory_bytes() + long + long_keys.capacity() * 16 + free_keys.capacity() * 4
    }
}

/// The entries of a range of a [`VolatileTree`], one after the other.
pub struct VolatileScan<'a>(Scan<'a, Memory>);

impl VolatileScan<'_> {
    /// The next entry.
    #[expect(clippy::should_implement_trait, reason = "the key is lent until the next call")]
    pub fn next(&mut self) -> Option<(&[u8], u64)> {
        let _in = Component::Index.enter();
        let Ok(is_there) = self.0.advance();
        is_there.then(|| (self.0.key(), number(self.0.value())))
    }
}

fn number(value: &[u8]) -> u64 {
    u64::from_le_bytes(*value.as_array().expect("a number of 8 bytes"))
}

impl Read for Memory {
    type Error = Infallible;
    type Node<'a> = &'a [u8];

    const LEAF: Shape = Shape::NUMBERS;

    #[inline]
    fn node(&self, id: u64, _level: u8) -> Result<&[u8], Infallible> {
        Ok(self.arena.node(id as u32))
    }

    fn long_key(&self, reference: u64, _len: usize) -> Result<Cow<'_, [u8]>, Infallible> {
        Ok(Cow::Borrowed(&self.long_keys[reference as usize]))
    }
}

impl Nodes for Memory {
    fn make_own(&mut self, id: u64, _level: u8) -> Result<u64, Infallible> {
        Ok(id)
    }

    fn node_mut(&mut self, id: u64) -> &mut [u8] {
        self.arena.node_mut(id as u32)
    }

    fn allocate(&mut self, _level: u8) -> Result<u64, Infallible> {
        Ok(self.arena.allocate().into())
    }

    fn release(&mut self, id: u64) {
        self.arena.release(id as u32);
    }

    fn keep_long_key(&mut self, key: &[u8]) -> Result<u64, Infallible> {
        let place = match self.free_keys.pop() {
            Some(place) => {
                self.long_keys[place as usize] = key.into();
                place
            }
            None => {
                self.long_keys.push(key.into());
                u32::try_from(self.long_keys.len() - 1).expect("fewer than 2^32 long keys")
            }
        };
        Ok(place.into())
    }

    fn release_long_key(&mut self, reference: u64, _len: usize) -> Result<(), Infallible> {
        self.long_keys[reference as usize] = Box::default();
        self.free_keys.push(reference as u32);
        Ok(())
    }

    fn scratch(&mut self) -> &mut Entries {
        &mut self.scratch
    }
}

#[cfg(test)]
mod tests;

//! A tree: its header, and the nodes that it reads.
//!
//! ```text
//!  header:  root u64 | level u8, check of both u56 | node length u32, owner u32 | check u64 of the word before
//! ```
//!
//! The word of the root leads to a leaf if the level is zero, and else to an inner node. Publications change both words
//! together. The checks are seeded with the header's pointer.

use halite_alloc::heap::{Heap, NvPtr, Owner, Publication};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::additions::LeafBuilder;
use super::inner::Inner;
use super::leaf::{Entry, Key, Leaf, hash, leaf_len};
use super::node::{Damage, InnerNode, LeafNode, TreeHeader, number, seed};
use crate::index::{Error, KEY_LEN_MAX, Result};

/// Where the words of a header are.
pub(super) const ROOT_AT: u64 = 0;
pub(super) const LEVEL_AT: u64 = 8;
const SHAPE_AT: usize = 16;
const HEADER_LEN: u64 = 32;

/// Levels of inner nodes at most: more than 2^64 entries need.
const LEVELS_MAX: u64 = 40;

/// Bytes of an inner node that are fetched together: of a longer one, a search reads few lines.
const PREFETCHED: usize = 1024;

/// The bits of the level in its word.
const LEVEL_MASK: u64 = (1 << 8) - 1;

/// Keys between two bounds: the first is included, the last is not. Without a last one, all keys from the first on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Between<'a> {
    pub(super) low: &'a [u8],
    pub(super) high: Option<&'a [u8]>,
}

impl<'a> Between<'a> {
    pub(super) const ALL: Self = Self { low: &[], high: None };

    pub(super) fn contains(self, key: &[u8]) -> bool {
        self.low <= key && self.high.is_none_or(|high| key < high)
    }

    /// The keys that a child may have.
    pub(super) fn of_child(self, inner: Inner<'a>, index: usize) -> Self {
        let low = inner.low(index).unwrap_or(self.low);
        Self { low, high: inner.high(index).or(self.high) }
    }
}

/// An ordered map from byte strings to numbers that persists in a heap. It has no memory of its own: the heap is handed to
/// each call, and is always the same.
#[derive(Debug, Clone, Copy)]
pub struct NonVolatileTree {
    pub(super) header: NvPtr<TreeHeader>,
    pub(super) owner: Owner,
    pub(super) node_len: usize,
    pub(super) salt: u64,
}

impl NonVolatileTree {
    /// Makes an empty tree, which is there once the publication has happened: that also stores the pointer to its header
    /// somewhere. All its slots have this owner.
    ///
    /// # Errors
    /// The heap's, if it has no room.
    ///
    /// # Panics
    /// If `node_len` is not a power of two from 256 to 16,384.
    pub fn create(
        heap: &mut Heap,
        owner: Owner,
        node_len: usize,
        publication: &mut Publication,
    ) -> Result<Self> {
        assert!(is_node_len(node_len), "a node of {node_len} bytes");
        let (header, salt) = (heap.reserve(owner, HEADER_LEN)?, heap.salt());
        let tree = Self { header, owner, node_len, salt };
        let written = tree.write_empty_leaf(heap).and_then(|leaf| {
            let shape = node_len as u64 | u64::from(owner.number()) << 32;
            let level = level_word(leaf.word(), 0, seed(salt, header));
            let words = [leaf.word(), level, shape, word_check(shape, seed(salt, header))];
            let bytes = words.map(u64::to_le_bytes).concat();
            heap.write(header, 0, &bytes).map(|()| leaf).map_err(Error::from)
        });
        match written {
            Ok(leaf) => {
                publication.activate(leaf);
                publication.activate(header);
                Ok(tree)
            }
            Err(error) => {
                heap.cancel(header)?;
                Err(error)
            }
        }
    }

    /// Opens the tree with a header. One load.
    ///
    /// # Errors
    /// The heap's if the pointer leads to no header; [`Error::DamagedNode`].
    pub fn open(heap: &Heap, header: NvPtr<TreeHeader>) -> Result<Self> {
        let (bytes, salt) = (heap.read_at(header, 0, HEADER_LEN)?, heap.salt());
        let shape = number(bytes, SHAPE_AT);
        let (node_len, owner) = (shape as u32 as usize, Owner::new((shape >> 32) as u32));
        let is_whole = number(bytes, SHAPE_AT + 8) == word_check(shape, seed(salt, header));
        match owner {
            Some(owner) if is_whole && is_node_len(node_len) => {
                Ok(Self { header, owner, node_len, salt })
            }
            _ => Err(damaged(header, Damage("the tree's header does not have its check"))),
        }
    }

    /// The pointer to its header, by which it is opened.
    #[must_use]
    pub fn header(&self) -> NvPtr<TreeHeader> {
        self.header
    }

    /// The owner of its slots.
    #[must_use]
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// The words of the root and its level.
    pub(super) fn root(&self, heap: &Heap) -> Result<(u64, u64)> {
        let bytes = heap.read_at(self.header, ROOT_AT, LEVEL_AT + 8)?;
        let (root, word) = (number(bytes, ROOT_AT as usize), number(bytes, LEVEL_AT as usize));
        let level = word & LEVEL_MASK;
        if level > LEVELS_MAX || word != level_word(root, level, seed(self.salt, self.header)) {
            return Err(damaged(self.header, Damage("the tree's root does not have its check")));
        }
        Ok((root, level))
    }

    /// The word of the level of a root.
    pub(super) fn level_word(&self, root: u64, level: u64) -> u64 {
        level_word(root, level, seed(self.salt, self.header))
    }

    pub(super) fn leaf_len(&self) -> usize {
        leaf_len(self.node_len)
    }

    /// Reserves and writes a leaf without entries.
    pub(super) fn write_empty_leaf(&self, heap: &mut Heap) -> Result<NvPtr<LeafNode>> {
        self.write_leaf(heap, &mut LeafBuilder::new(self.leaf_len()))
    }

    /// Reserves and writes a leaf.
    pub(super) fn write_leaf(
        &self,
        heap: &mut Heap,
        leaf: &mut LeafBuilder,
    ) -> Result<NvPtr<LeafNode>> {
        let pointer = heap.reserve(self.owner, self.leaf_len() as u64)?;
        heap.write(pointer, 0, leaf.finish(seed(self.salt, pointer)))?;
        Ok(pointer)
    }

    /// Reads a leaf.
    pub(super) fn leaf<'h>(&self, heap: &'h Heap, pointer: NvPtr<LeafNode>) -> Result<Leaf<'h>> {
        heap.prefetch(pointer, self.leaf_len() as u64);
        Leaf::read(heap.read(pointer)?, self.leaf_len(), seed(self.salt, pointer))
            .map_err(|damage| damaged(pointer, damage))
    }

    /// Reads an inner node that may have some keys.
    pub(super) fn inner<'h>(
        &self,
        heap: &'h Heap,
        pointer: NvPtr<InnerNode>,
        may_have: Between<'_>,
    ) -> Result<Inner<'h>> {
        heap.prefetch(pointer, self.node_len.min(PREFETCHED) as u64);
        let named = |damage| damaged(pointer, damage);
        let prove = |slot: &[u8]| Inner::prove(slot, seed(self.salt, pointer)).map_err(named);
        let inner = Inner::of(heap.read_proven(pointer, prove)?).map_err(named)?;
        let last = inner.count() - 1;
        let mut keys = inner.high(0).into_iter().chain(inner.low(last));
        if !keys.all(|key| may_have.contains(key)) {
            return Err(damaged(pointer, Damage("it has keys of another node")));
        }
        Ok(inner)
    }

    /// Reads and checks the key of an entry of a leaf that may have some keys. Returns its hash, too.
    pub(super) fn checked_key<'h>(
        &self,
        heap: &'h Heap,
        leaf: NvPtr<LeafNode>,
        entry: &Entry<'h>,
        may_have: Between<'_>,
    ) -> Result<(&'h [u8], u64)> {
        let key = match entry.key {
            Key::Here(key) => key,
            Key::Elsewhere(pointer, len) => heap.read_at(pointer, 0, len as u64)?,
        };
        let hash = hash(key, self.salt);
        entry.check(hash).map_err(|damage| damaged(leaf, damage))?;
        if !may_have.contains(key) {
            return Err(damaged(leaf, Damage("it has keys of another leaf")));
        }
        Ok((key, hash))
    }
}

fn is_node_len(node_len: usize) -> bool {
    node_len.is_power_of_two() && (256..=16 << 10).contains(&node_len)
}

fn word_check(word: u64, seed: u64) -> u64 {
    xxh3_64_with_seed(&word.to_le_bytes(), seed)
}

fn level_word(root: u64, level: u64, seed: u64) -> u64 {
    word_check(root, seed ^ level) & !LEVEL_MASK | level
}

/// The error of a damaged slot.
pub(super) fn damaged<T>(pointer: NvPtr<T>, Damage(reason): Damage) -> Error {
    Error::DamagedNode { pointer: pointer.word(), reason }
}

const _: () = assert!(KEY_LEN_MAX < 1 << 15, "a length leaves a bit of its field");

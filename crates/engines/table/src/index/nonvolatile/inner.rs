//! An inner node of the non-volatile tree: children, and the keys between them. It is written once; only the words that
//! lead to its children change.
//!
//! ```text
//!  count u16 | keys at u16 | check u32 | child u64 x count | end of key u16 x (count - 1) | key | key | ...
//! ```
//!
//! Key i is the lowest that the child behind it may have. The check is over everything but the words of the children, and
//! is seeded with the node's pointer; what a child's word leads to has a check of its own, and keys between those beside
//! the word. A node of which two keys are long is longer than others, so that each has four children at least.

use std::cmp::Ordering;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::node::{Damage, number, short};

const HEAD: usize = 8;
const WORD: usize = 8;
const END: usize = 2;

/// Children that a node has room for, whatever its keys are.
const CHILDREN_MIN: usize = 4;

/// An inner node that is read, and had its check.
#[derive(Clone, Copy)]
pub(super) struct Inner<'a> {
    bytes: &'a [u8],
    count: usize,
    ends: usize,
    keys: usize,
}

/// Where the word of a child is in a node.
pub(super) const fn child_at(index: usize) -> u64 {
    (HEAD + index * WORD) as u64
}

impl<'a> Inner<'a> {
    /// The node in a slot, which was proven.
    pub(super) fn of(slot: &'a [u8]) -> Result<Self, Damage> {
        let (count, keys) = (usize::from(short(slot, 0)), usize::from(short(slot, 2)));
        let ends = HEAD + count * WORD;
        if count == 0 || keys != ends + (count - 1) * END || keys > slot.len() {
            return Err(Damage("its counts contradict each other"));
        }
        Ok(Self { bytes: slot, count, ends, keys })
    }

    /// Checks the node in a slot.
    pub(super) fn prove(slot: &'a [u8], seed: u64) -> Result<(), Damage> {
        let inner = Self::of(slot)?;
        let (count, ends, keys) = (inner.count, inner.ends, inner.keys);
        let mut last = 0;
        for index in 0..count - 1 {
            let end = inner.end(index);
            if end < last || keys + end > slot.len() {
                return Err(Damage("a key lies behind its end"));
            }
            last = end;
        }
        let stored = u32::from_le_bytes(slot[4..8].try_into().expect("there are four"));
        if check(&slot[..keys + last], ends, seed) != stored {
            return Err(Damage("it does not have its check"));
        }
        Ok(())
    }

    /// The number of children.
    pub(super) fn count(self) -> usize {
        self.count
    }

    /// The word that leads to a child.
    pub(super) fn child(self, index: usize) -> u64 {
        number(self.bytes, HEAD + index * WORD)
    }

    fn end(self, index: usize) -> usize {
        usize::from(short(self.bytes, self.ends + index * END))
    }

    /// The lowest key that child `index` may have, if it is not the first one.
    pub(super) fn low(self, index: usize) -> Option<&'a [u8]> {
        let key = index.checked_sub(1)?;
        let from = key.checked_sub(1).map_or(0, |before| self.end(before));
        // A node that rots behind its proof leads to a node with other keys, which is noticed there.
        Some(self.bytes.get(self.keys + from..self.keys + self.end(key)).unwrap_or_default())
    }

    /// The key that all keys of child `index` are below, if it is not the last one.
    pub(super) fn high(self, index: usize) -> Option<&'a [u8]> {
        (index + 1 < self.count).then(|| self.low(index + 1).expect("it is not the first one"))
    }

    /// The child that has a key.
    pub(super) fn child_of(self, key: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.count - 1);
        while low < high {
            let middle = low.midpoint(high);
            match self.high(middle).expect("it is not the last one").cmp(key) {
                Ordering::Greater => high = middle,
                _ => low = middle + 1,
            }
        }
        low
    }
}

/// The check of a node that ends with its bytes.
fn check(bytes: &[u8], ends: usize, seed: u64) -> u32 {
    let counts = u64::from(u32::from_le_bytes(bytes[..4].try_into().expect("there are four")));
    xxh3_64_with_seed(&bytes[ends..], seed ^ counts << 16) as u32
}

/// A child, and the lowest key that it may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Child {
    pub(super) low: Vec<u8>,
    pub(super) word: u64,
}

/// The children of a node, whose own lowest key this is.
pub(super) fn children(inner: Inner<'_>, low: &[u8]) -> Vec<Child> {
    let low = |index| inner.low(index).unwrap_or(low).to_vec();
    (0..inner.count()).map(|index| Child { low: low(index), word: inner.child(index) }).collect()
}

/// The length of a node with these children.
pub(super) fn len(children: &[Child]) -> usize {
    let keys: usize = children.iter().skip(1).map(|child| child.low.len() + END).sum();
    HEAD + children.len() * WORD + keys
}

/// Divides children into nodes of at most so many bytes, or few children: one, or more of about the same length.
pub(super) fn divide(mut children: Vec<Child>, node_len: usize, into: &mut Vec<Vec<Child>>) {
    let whole = len(&children);
    if whole <= node_len || children.len() <= CHILDREN_MIN {
        into.push(children);
        return;
    }
    let mut at = CHILDREN_MIN / 2;
    while at < children.len() - CHILDREN_MIN / 2 && len(&children[..at]) < whole / 2 {
        at += 1;
    }
    let right = children.split_off(at);
    divide(children, node_len, into);
    divide(right, node_len, into);
}

/// The bytes of a node with these children. The lowest key of the first is not stored: the parent has it.
pub(super) fn encode(children: &[Child], seed: u64) -> Vec<u8> {
    let ends = HEAD + children.len() * WORD;
    let keys = ends + (children.len() - 1) * END;
    let mut bytes = Vec::with_capacity(len(children));
    bytes.extend_from_slice(&(children.len() as u16).to_le_bytes());
    bytes.extend_from_slice(&(keys as u16).to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend(children.iter().flat_map(|child| child.word.to_le_bytes()));
    let mut end = 0;
    for child in &children[1..] {
        end += child.low.len();
        bytes.extend_from_slice(&(end as u16).to_le_bytes());
    }
    bytes.extend(children[1..].iter().flat_map(|child| &child.low));
    let check = check(&bytes, ends, seed);
    bytes[4..8].copy_from_slice(&check.to_le_bytes());
    bytes
}

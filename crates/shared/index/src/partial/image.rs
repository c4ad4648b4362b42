//! The stored form of a tree: its leaves, in order, each with the fence below it.
//!
//! ```text
//! fence len   guard len   skip   count   fence   guard   heads          entries
//!     4           4        4       2     bytes   bytes   k bytes each   8 bytes each, little-endian
//! ```
//!
//! Neither writing nor reading it takes a full key: the heads are stored as the leaf has them, and the
//! nodes above the leaves are built from the fences. So a tree of 10^7 keys is read at the speed of a copy.
//!
//! The reader decides the fate of each entry. An entry whose key cannot be read any more, but that still
//! matters to an operation on the same key, becomes a *ghost*: not in the tree, and found by its head.

use super::build::above_leaves;
use super::inner::{Child, Inner};
use super::leaf::{Leaf, capacity, first_8};
use super::{PartialKeyTree, PartialLen};
use crate::keys::common_prefix;
use crate::node_ref::NodeRef;

/// Bytes of a leaf's image before its fence.
const FIXED: usize = 14;

impl PartialKeyTree {
    /// The images of its leaves, ascending.
    #[must_use]
    pub fn into_images(self) -> LeafImages {
        LeafImages { path: vec![(self.root, 0)] }
    }
}

/// The images of a tree's leaves, one after the other. Reads no key.
///
/// A node is released before its children, so that no call takes longer for a larger tree.
pub struct LeafImages {
    /// Inner nodes, each with its next child; the last one is visited first.
    path: Vec<(NodeRef<Inner>, usize)>,
}

impl LeafImages {
    /// Appends the image of the next leaf to `out`. Returns whether there was one.
    pub fn next(&mut self, out: &mut Vec<u8>) -> bool {
        while let Some((node, at)) = self.path.pop() {
            let rest = node.children().get(at..).unwrap_or_default();
            match rest.first() {
                None => {}
                Some(Child::Leaf(leaf)) => {
                    if let Some(next) = rest.get(1) {
                        next.prefetch();
                    }
                    write_leaf(&node.low_of(at), leaf, out);
                    self.path.push((node, at + 1));
                    return true;
                }
                Some(Child::Inner(_)) => {
                    let inner = rest.iter().map_while(|child| match child {
                        Child::Inner(inner) => Some((inner.clone(), 0)),
                        Child::Leaf(_) => None,
                    });
                    let inner: Vec<_> = inner.collect();
                    if inner.len() < rest.len() {
                        self.path.push((node.clone(), at + inner.len()));
                    }
                    self.path.extend(inner.into_iter().rev());
                }
            }
        }
        false
    }
}

fn write_leaf(low: &[u8], leaf: &Leaf, out: &mut Vec<u8>) {
    let guard = leaf.guard();
    for number in [low.len(), guard.len(), leaf.skip()] {
        out.extend_from_slice(&(number as u32).to_le_bytes());
    }
    out.extend_from_slice(&(leaf.len() as u16).to_le_bytes());
    out.extend_from_slice(low);
    out.extend_from_slice(guard);
    out.extend_from_slice(leaf.heads());
    for at in 0..leaf.len() {
        out.extend_from_slice(&leaf.entry(at).to_le_bytes());
    }
}

/// The fate of an entry that is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// The entry is in the tree.
    Keep,
    /// The entry is not in the tree.
    Drop,
    /// The entry is not in the tree, but its ghost is found by its key.
    Ghost,
}

/// Reads a tree from the images of its leaves.
pub struct TreeReader {
    partial: PartialLen,
    leaves: Vec<(Box<[u8]>, Child)>,
    /// Bytes that the last leaf's fences must have in common.
    base: usize,
    ghosts: Vec<GhostLeaf>,
    len: u64,
}

/// The ghosts of a leaf.
struct GhostLeaf {
    low: Box<[u8]>,
    high: Option<Box<[u8]>>,
    guard: Box<[u8]>,
    skip: usize,
    /// Each with its head.
    entries: Vec<(u64, u64)>,
}

/// The parts of a leaf's image.
struct Image<'a> {
    low: &'a [u8],
    guard: &'a [u8],
    skip: usize,
    heads: &'a [u8],
    entries: &'a [[u8; 8]],
}

impl<'a> Image<'a> {
    fn parse(partial: PartialLen, bytes: &'a [u8]) -> Option<Self> {
        let (fixed, rest) = bytes.split_first_chunk::<FIXED>()?;
        let number = |at: usize| {
            fixed[at..].first_chunk().map_or(0, |number| u32::from_le_bytes(*number) as usize)
        };
        let (low, guard, skip) = (number(0), number(4), number(8));
        let len = usize::from(u16::from_le_bytes([fixed[12], fixed[13]]));
        if len > capacity(partial) || guard > skip {
            return None;
        }
        let (low, rest) = rest.split_at_checked(low)?;
        let (guard, rest) = rest.split_at_checked(guard)?;
        let (heads, entries) = rest.split_at_checked(len * partial.bytes())?;
        let (entries, behind) = entries.as_chunks();
        let is_whole = entries.len() == len && behind.is_empty();
        is_whole.then_some(Self { low, guard, skip, heads, entries })
    }
}

impl TreeReader {
    /// Reads a tree whose entries keep so many bytes of their keys.
    #[must_use]
    pub fn new(partial: PartialLen) -> Self {
        Self { partial, leaves: Vec::new(), base: 0, ghosts: Vec::new(), len: 0 }
    }

    /// Reads the image of the next leaf; `fate` decides the fate of each of its entries. `None` if the
    /// bytes are not those of a leaf that may follow: then there is no such tree.
    pub fn read_leaf(&mut self, bytes: &[u8], mut fate: impl FnMut(u64) -> Fate) -> Option<()> {
        let Image { low, guard, skip, heads, entries } = Image::parse(self.partial, bytes)?;
        self.end_leaf(Some(low))?;
        let head_len = self.partial.bytes();
        let head = |at: usize| first_8(&heads[at * head_len..][..head_len]);
        if !(1..entries.len()).all(|at| head(at - 1) <= head(at)) {
            return None;
        }
        let mut leaf = Leaf::restore(self.partial, skip, guard.into());
        let mut ghosts = Vec::new();
        for (at, entry) in entries.iter().enumerate() {
            let entry = u64::from_le_bytes(*entry);
            match fate(entry) {
                Fate::Keep => leaf.push(&heads[at * head_len..][..head_len], entry),
                Fate::Drop => {}
                Fate::Ghost => ghosts.push((head(at), entry)),
            }
        }
        if !ghosts.is_empty() {
            let (low, guard) = (low.into(), guard.into());
            self.ghosts.push(GhostLeaf { low, high: None, guard, skip, entries: ghosts });
        }
        self.base = skip - guard.len();
        self.len += leaf.len() as u64;
        self.leaves.push((low.into(), Child::Leaf(NodeRef::new(leaf))));
        Some(())
    }

    /// Checks that the last leaf may end at a fence.
    fn end_leaf(&mut self, high: Option<&[u8]>) -> Option<()> {
        let Some((low, _)) = self.leaves.last() else {
            return high.is_none_or(<[u8]>::is_empty).then_some(());
        };
        let common = high.map_or(0, |high| common_prefix(low, high));
        if self.base > common || high.is_some_and(|high| high <= low) {
            return None;
        }
        if let Some(ghosts) = self.ghosts.last_mut().filter(|ghosts| ghosts.low == *low) {
            ghosts.high = high.map(Into::into);
        }
        Some(())
    }

    /// The tree of the leaves that were read, and the ghosts; `None` if there is no such tree.
    #[must_use]
    pub fn finish(mut self) -> Option<(PartialKeyTree, Ghosts)> {
        self.end_leaf(None)?;
        let tree = above_leaves(self.partial, self.leaves, self.len);
        Some((tree, Ghosts { partial: self.partial, leaves: self.ghosts }))
    }
}

/// Entries that are not in their tree any more. Their keys cannot be read.
pub struct Ghosts {
    partial: PartialLen,
    leaves: Vec<GhostLeaf>,
}

impl Ghosts {
    /// The ghosts that may have been the entry of `key`: that one, if there is one, and rarely others.
    pub fn candidates(&self, key: &[u8]) -> impl Iterator<Item = u64> {
        let at = self.leaves.partition_point(|leaf| &*leaf.low <= key);
        let leaf = at.checked_sub(1).map(|at| &self.leaves[at]);
        let leaf = leaf.filter(|leaf| leaf.high.as_deref().is_none_or(|high| key < high));
        let behind = |at: usize| key.get(at..).unwrap_or_default();
        let leaf =
            leaf.filter(|leaf| behind(leaf.skip - leaf.guard.len()).starts_with(&leaf.guard));
        let head = leaf.map_or(0, |leaf| self.partial.truncate(first_8(behind(leaf.skip))));
        let entries = leaf.map_or(&[][..], |leaf| &leaf.entries);
        entries.iter().filter(move |(of, _)| *of == head).map(|(_, entry)| *entry)
    }

    /// The ghosts that may have had keys from `start` up to, not including, `end`: all that had, and others
    /// of the same leaves.
    pub fn range(&self, start: &[u8], end: Option<&[u8]>) -> impl Iterator<Item = u64> {
        let from = self
            .leaves
            .partition_point(|leaf| leaf.high.as_deref().is_some_and(|high| high <= start));
        let to = end
            .map_or(self.leaves.len(), |end| self.leaves.partition_point(|leaf| &*leaf.low < end));
        let leaves = self.leaves.get(from..to).unwrap_or_default();
        leaves.iter().flat_map(|leaf| leaf.entries.iter().map(|(_, entry)| *entry))
    }
}

//! Building a tree from sorted entries, bottom up.

use super::inner::{Child, Inner, Split};
use super::leaf::{Leaf, capacity};
use super::{PartialKeyTree, PartialLen};
use crate::SortedKey;
use crate::keys::{FANOUT, common_prefix, separator};
use crate::node_ref::NodeRef;

/// Children that a built inner node gets at the most: the first splits below do not split it.
const INNER_FILL: usize = FANOUT * 7 / 8;

impl PartialKeyTree {
    /// Builds a tree from entries in ascending order of their keys, without duplicates. Leaves are
    /// filled to about 7/8, so that the first inserts do not split them.
    ///
    /// # Panics
    /// If the keys do not ascend.
    pub fn from_sorted<K: SortedKey>(
        partial: PartialLen,
        entries: impl IntoIterator<Item = (K, u64)>,
    ) -> Self {
        let mut leaves = Leaves { partial, nodes: Vec::new(), low: [].into(), pending: Vec::new() };
        let mut len = 0;
        for (key, entry) in entries {
            leaves.push(key, entry);
            len += 1;
        }
        leaves.close(leaves.pending.len(), None);
        above_leaves(partial, leaves.nodes, len)
    }
}

/// The tree of leaves and their low fences, which have `len` entries.
pub(crate) fn above_leaves(
    partial: PartialLen,
    leaves: Vec<(Box<[u8]>, Child)>,
    len: u64,
) -> PartialKeyTree {
    let mut level = parents(leaves.into_iter());
    while level.len() > 1 {
        level = parents(level.into_iter().map(|(low, inner)| (low, Child::Inner(inner))));
    }
    match level.pop() {
        Some((_, root)) => PartialKeyTree { root, len, partial },
        None => PartialKeyTree::new(partial),
    }
}

struct Leaves<K> {
    partial: PartialLen,
    /// Each with its low fence.
    nodes: Vec<(Box<[u8]>, Child)>,
    /// The low fence of the leaf that is being built.
    low: Box<[u8]>,
    pending: Vec<(K, u64)>,
}

impl<K: SortedKey> Leaves<K> {
    fn push(&mut self, key: K, entry: u64) {
        if let Some((last, _)) = self.pending.last() {
            assert!(last.start() < key.start(), "the keys ascend");
        }
        self.pending.push((key, entry));
        let capacity = capacity(self.partial);
        if self.pending.len() < capacity {
            return;
        }
        // The cut is where the separator is shortest.
        let fence_at =
            |at: usize| separator(self.pending[at - 1].0.start(), self.pending[at].0.start());
        let (middle, window) = (capacity * 7 / 8, capacity / 16);
        let places = middle - window..middle + window;
        let best = places
            .map(|at| (fence_at(at), at))
            .min_by_key(|(fence, at)| (fence.len(), at.abs_diff(middle)));
        if let Some((fence, at)) = best {
            self.close(at, Some(fence));
        }
    }

    /// Makes a leaf of the first entries.
    fn close(&mut self, count: usize, high: Option<Box<[u8]>>) {
        let base = high.as_deref().map_or(0, |high| common_prefix(&self.low, high));
        let leaf = Leaf::build(self.partial, &self.pending[..count], base);
        self.pending.drain(..count);
        let low = std::mem::replace(&mut self.low, high.unwrap_or_default());
        self.nodes.push((low, Child::Leaf(NodeRef::new(leaf))));
    }
}

/// The level above a level of children and their low fences. Each parent has as many children, give
/// or take one.
fn parents(
    mut children: impl ExactSizeIterator<Item = (Box<[u8]>, Child)>,
) -> Vec<(Box<[u8]>, NodeRef<Inner>)> {
    let count = children.len().div_ceil(INNER_FILL);
    let mut groups: Vec<Vec<_>> = Vec::new();
    for parent in 0..count {
        let take = children.len().div_ceil(count - parent);
        groups.push(children.by_ref().take(take).collect());
    }
    let mut highs: Vec<_> = groups.iter().skip(1).map(|group| Some(group[0].0.clone())).collect();
    highs.push(None);
    let mut parents = Vec::new();
    for (group, high) in groups.into_iter().zip(highs) {
        let mut group = group.into_iter();
        let Some((low, first)) = group.next() else { break };
        let mut node = Inner::new(low.clone(), high, first);
        for (separator, right) in group {
            node.push(Split { separator, right });
        }
        parents.push((low, NodeRef::new(node)));
    }
    parents
}

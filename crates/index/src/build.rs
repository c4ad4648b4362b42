//! Building a tree from sorted entries, bottom up.

use crate::BPlusTree;
use crate::keys::{FANOUT, Keys, separator};
use crate::node::{Body, Node};
use crate::node_ref::NodeRef;

/// Keys that a built node gets: most of its room, so that the first inserts do not split it.
const FILL: usize = FANOUT * 7 / 8;

impl BPlusTree {
    /// Builds a tree from entries in ascending order of their keys, without duplicates.
    ///
    /// # Panics
    /// If the keys do not ascend.
    pub fn from_sorted<K: AsRef<[u8]>>(entries: impl IntoIterator<Item = (K, u64)>) -> Self {
        let mut leaves = Leaves { nodes: Vec::new(), low: [].into(), pending: Vec::new() };
        let mut len = 0;
        for (key, value) in entries {
            leaves.push(key, value);
            len += 1;
        }
        leaves.close(None);
        let (mut level, mut height) = (leaves.nodes, 0);
        while level.len() > 1 {
            level = parents(level);
            height += 1;
        }
        level.pop().map_or_else(Self::new, |root| Self { root, len, height })
    }
}

struct Leaves<K> {
    nodes: Vec<NodeRef>,
    /// The low fence of the leaf in the making.
    low: Box<[u8]>,
    pending: Vec<(K, u64)>,
}

impl<K: AsRef<[u8]>> Leaves<K> {
    fn push(&mut self, key: K, value: u64) {
        if let Some((last, _)) = self.pending.last() {
            assert!(last.as_ref() < key.as_ref(), "the keys ascend");
            let tails: usize = self.pending.iter().map(|(key, _)| key.as_ref().len()).sum();
            if self.pending.len() >= FILL || tails > FILL * 1024 {
                let fence = separator(last.as_ref(), key.as_ref());
                self.close(Some(fence));
            }
        }
        self.pending.push((key, value));
    }

    fn close(&mut self, high: Option<Box<[u8]>>) {
        let low = std::mem::replace(&mut self.low, high.clone().unwrap_or_default());
        let mut keys = Keys::new(low, high);
        let mut values = [0; FANOUT];
        for (at, (key, value)) in self.pending.drain(..).enumerate() {
            keys.insert(at, key.as_ref());
            values[at] = value;
        }
        self.nodes.push(NodeRef::new(Node { keys, body: Body::Leaf(values) }));
    }
}

/// The level above `level`. Each parent has as many children, give or take one.
fn parents(level: Vec<NodeRef>) -> Vec<NodeRef> {
    let count = level.len().div_ceil(FILL);
    let mut children = level.into_iter();
    (0..count)
        .map(|parent| {
            let take = children.len().div_ceil(count - parent);
            let group: Vec<_> = children.by_ref().take(take).collect();
            let (first, last) = (&group[0].keys, &group[group.len() - 1].keys);
            let mut keys = Keys::new(first.low().into(), last.high().map(Into::into));
            for child in &group[1..] {
                keys.insert(keys.len(), child.keys.low());
            }
            NodeRef::new(Node { keys, body: Body::Inner(group) })
        })
        .collect()
}

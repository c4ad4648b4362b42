//! A node of the tree.

use crate::keys::{FANOUT, Keys, separator, shift_right};
use crate::node_ref::{NodeRef, Pooled};
use crate::prefetch;
use crate::slabs::Slabs;

/// A node with fewer entries looks for a neighbour to join.
const SPARSE: usize = FANOUT / 4;

#[derive(Clone)]
#[repr(C)]
pub(crate) struct Node {
    pub(crate) keys: Keys,
    pub(crate) body: Body,
}

#[derive(Clone)]
#[expect(
    clippy::large_enum_variant,
    reason = "a node is behind a reference, and nearly all are leaves"
)]
pub(crate) enum Body {
    /// The value of each key.
    Leaf([u64; FANOUT]),
    /// Children, one more than keys: the keys are what separates them, and the child to the right
    /// of a separator holds the keys from it on.
    Inner(Vec<NodeRef>),
}

impl Pooled for Node {
    fn slabs() -> &'static Slabs {
        static SLABS: Slabs = Slabs::new(NodeRef::<Node>::SLOT_LEN);
        &SLABS
    }
}

/// The right half of a node that was split, and what separates it from the left.
pub(crate) struct Split {
    pub(crate) separator: Box<[u8]>,
    pub(crate) right: NodeRef,
}

impl Node {
    pub(crate) fn empty_leaf(low: Box<[u8]>, high: Option<Box<[u8]>>) -> Self {
        Self { keys: Keys::new(low, high), body: Body::Leaf([0; FANOUT]) }
    }

    /// Which child has `key`.
    #[inline]
    pub(crate) fn child_of(&self, key: &[u8]) -> usize {
        self.keys.search(key).map_or_else(|at| at, |at| at + 1)
    }

    /// Sets the value of `key` to what `value` makes of the old one, which is returned.
    pub(crate) fn insert(
        this: &mut NodeRef,
        key: &[u8],
        value: impl FnOnce(Option<u64>) -> u64,
    ) -> (Option<u64>, Option<Split>) {
        let node = this.make_mut();
        match &mut node.body {
            Body::Leaf(values) => match node.keys.search(key) {
                Ok(at) => {
                    let old = values[at];
                    values[at] = value(Some(old));
                    (Some(old), None)
                }
                Err(at) => (None, node.insert_into_leaf(at, key, value(None))),
            },
            Body::Inner(children) => {
                let at = node.keys.search(key).map_or_else(|at| at, |at| at + 1);
                prefetch::to_search(&children[at]);
                let (old, split) = Self::insert(&mut children[at], key, value);
                (old, split.and_then(|split| node.insert_child(at, split)))
            }
        }
    }

    fn insert_into_leaf(&mut self, at: usize, key: &[u8], value: u64) -> Option<Split> {
        if !self.keys.is_full_for(key) {
            self.put_value(at, key, value);
            return None;
        }
        // Keys that come in ascending order leave full nodes behind.
        let len = self.keys.len();
        let middle = if at == len { len } else { len / 2 };
        let below = self.keys.get(middle - 1);
        let separator = if middle == len {
            separator(&below, key)
        } else {
            separator(&below, &self.keys.get(middle))
        };
        let mut right = self.split_off(middle, middle, &separator);
        if key < &*separator {
            self.put_value(at, key, value);
        } else {
            right.put_value(at - middle, key, value);
        }
        Some(Split { separator, right: NodeRef::new(right) })
    }

    fn put_value(&mut self, at: usize, key: &[u8], value: u64) {
        let Body::Leaf(values) = &mut self.body else { unreachable!("a leaf") };
        shift_right(values, at, self.keys.len(), value);
        self.keys.insert(at, key);
    }

    fn insert_child(&mut self, at: usize, split: Split) -> Option<Split> {
        if !self.keys.is_full_for(&split.separator) {
            self.put_child(at, split);
            return None;
        }
        let len = self.keys.len();
        let middle = if at == len { len - 1 } else { len / 2 };
        let separator: Box<[u8]> = self.keys.get(middle).into();
        let mut right = self.split_off(middle, middle + 1, &separator);
        if at <= middle {
            self.put_child(at, split);
        } else {
            right.put_child(at - middle - 1, split);
        }
        Some(Split { separator, right: NodeRef::new(right) })
    }

    fn put_child(&mut self, at: usize, split: Split) {
        let Body::Inner(children) = &mut self.body else { unreachable!("an inner node") };
        children.insert(at + 1, split.right);
        self.keys.insert(at, &split.separator);
    }

    /// Keeps the keys before `keep`, and returns a node with those from `from` on.
    fn split_off(&mut self, keep: usize, from: usize, separator: &[u8]) -> Self {
        let len = self.keys.len();
        let mut left = Keys::new(self.keys.low().into(), Some(separator.into()));
        left.extend_from(&self.keys, 0..keep);
        let mut right = Keys::new(separator.into(), self.keys.high().map(Into::into));
        right.extend_from(&self.keys, from..len);
        let body = match &mut self.body {
            Body::Leaf(values) => {
                let mut moved = [0; FANOUT];
                moved[..len - from].copy_from_slice(&values[from..len]);
                Body::Leaf(moved)
            }
            Body::Inner(children) => Body::Inner(children.split_off(from)),
        };
        self.keys = left;
        Self { keys: right, body }
    }

    /// Removes `key`, which is there, and returns its value.
    pub(crate) fn remove(this: &mut NodeRef, key: &[u8]) -> Option<u64> {
        let node = this.make_mut();
        match &mut node.body {
            Body::Leaf(values) => {
                let at = node.keys.search(key).ok()?;
                let old = values[at];
                values.copy_within(at + 1..node.keys.len(), at);
                node.keys.remove(at);
                Some(old)
            }
            Body::Inner(children) => {
                let at = node.keys.search(key).map_or_else(|at| at, |at| at + 1);
                let old = Self::remove(&mut children[at], key)?;
                if children[at].keys.len() < SPARSE {
                    let _ = node.join_children(at) || at > 0 && node.join_children(at - 1);
                }
                Some(old)
            }
        }
    }

    /// Joins the children at `left` and behind it, if both fit into one node.
    fn join_children(&mut self, left: usize) -> bool {
        let Body::Inner(children) = &mut self.body else { return false };
        let [a, b] = [children.get(left), children.get(left + 1)];
        let (Some(a), Some(b)) = (a, b) else { return false };
        let separators = usize::from(matches!(a.body, Body::Inner(_)));
        if !a.keys.could_join(&b.keys, separators) {
            return false;
        }
        let mut keys = Keys::new(a.keys.low().into(), b.keys.high().map(Into::into));
        keys.extend_from(&a.keys, 0..a.keys.len());
        let body = match (&a.body, &b.body) {
            (Body::Leaf(first), Body::Leaf(second)) => {
                let mut values = *first;
                let len = b.keys.len();
                values[a.keys.len()..a.keys.len() + len].copy_from_slice(&second[..len]);
                Body::Leaf(values)
            }
            (Body::Inner(first), Body::Inner(second)) => {
                keys.insert(keys.len(), &self.keys.get(left));
                Body::Inner(first.iter().chain(second).cloned().collect())
            }
            _ => unreachable!("all leaves are on one level"),
        };
        keys.extend_from(&b.keys, 0..b.keys.len());
        children[left] = NodeRef::new(Self { keys, body });
        children.remove(left + 1);
        self.keys.remove(left);
        true
    }

    /// Bytes of this node and all below it, with their counters.
    pub(crate) fn heap_len(&self) -> usize {
        let below = match &self.body {
            Body::Leaf(_) => 0,
            Body::Inner(children) => {
                children.capacity() * size_of::<NodeRef>()
                    + children.iter().map(|child| child.heap_len()).sum::<usize>()
            }
        };
        size_of::<Self>() + 2 * size_of::<usize>() + self.keys.heap_len() + below
    }
}

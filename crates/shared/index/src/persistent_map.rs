//! An ordered map whose states outlive its changes: a clone takes constant time, and shares unchanged nodes.
//!
//! It is a treap (Seidel and Aragon 1996) whose priorities are hashes of the keys, so its keys alone determine its
//! shape. A change copies the path to the changed node: Driscoll et al., "Making Data Structures Persistent" (1989).
//! The hash is seeded anew in each process, so no choice of keys makes paths long.
//!
//! # Costs
//!
//! Of `n` keys, lookups visit about `2 ln n` nodes, and changes copy as many. An iterator visits each node that it
//! yields, and a path.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Arc, LazyLock};

use halite_sim::cost;

static PRIORITIES: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// An ordered map.
pub struct PersistentMap<K, V> {
    root: Link<K, V>,
}

type Link<K, V> = Option<Arc<Node<K, V>>>;

#[derive(Clone)]
struct Node<K, V> {
    key: K,
    value: V,
    /// No less than those of the children.
    priority: u64,
    left: Link<K, V>,
    right: Link<K, V>,
}

impl<K, V> Default for PersistentMap<K, V> {
    fn default() -> Self {
        Self { root: None }
    }
}

impl<K, V> Clone for PersistentMap<K, V> {
    fn clone(&self) -> Self {
        Self { root: self.root.clone() }
    }
}

impl<K: Ord + Hash + Clone, V: Clone> PersistentMap<K, V> {
    /// The value of a key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let (found, value) = self.at_or_before(key)?;
        (found.borrow() == key).then_some(value)
    }

    /// The last entry up to a key.
    pub fn at_or_before<Q: Ord + ?Sized>(&self, key: &Q) -> Option<(&K, &V)>
    where
        K: Borrow<Q>,
    {
        let (mut link, mut found) = (&self.root, None);
        while let Some(node) = link {
            cost::step();
            link = if node.key.borrow() <= key {
                found = Some((&node.key, &node.value));
                &node.right
            } else {
                &node.left
            };
        }
        found
    }

    /// Sets the value of a key.
    pub fn insert(&mut self, key: K, value: V) {
        let priority = PRIORITIES.hash_one(&key);
        let (left, rest) = split(self.root.take(), &|other| *other < key);
        let (_, right) = split(rest, &|other| *other <= key);
        let node = Node { key, value, priority, left: None, right: None };
        self.root = merge(merge(left, Some(Arc::new(node))), right);
    }

    /// Removes a key.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q)
    where
        K: Borrow<Q>,
    {
        let (left, rest) = split(self.root.take(), &|other| other.borrow() < key);
        let (_, right) = split(rest, &|other| other.borrow() <= key);
        self.root = merge(left, right);
    }

    /// Removes the keys from `start` up to `end`, which is no less.
    pub fn remove_range<Q: Ord + ?Sized>(&mut self, start: &Q, end: &Q)
    where
        K: Borrow<Q>,
    {
        let (left, rest) = split(self.root.take(), &|other| other.borrow() < start);
        let (_, right) = split(rest, &|other| other.borrow() < end);
        self.root = merge(left, right);
    }

    /// All entries, in the order of keys.
    pub fn iter(&self) -> Iter<'_, K, V> {
        let mut iter = Iter { path: Vec::new() };
        iter.descend(&self.root);
        iter
    }

    /// The entries from a key on, in order.
    pub fn iter_from<Q: Ord + ?Sized>(&self, start: &Q) -> Iter<'_, K, V>
    where
        K: Borrow<Q>,
    {
        let mut iter = Iter { path: Vec::new() };
        let mut link = &self.root;
        while let Some(node) = link {
            cost::step();
            link = if node.key.borrow() < start {
                &node.right
            } else {
                iter.path.push(node);
                &node.left
            };
        }
        iter
    }
}

/// Divides the nodes below a link: into keys for which `is_left` says so, which are before all others; and those.
fn split<K: Clone, V: Clone>(
    link: Link<K, V>,
    is_left: &impl Fn(&K) -> bool,
) -> (Link<K, V>, Link<K, V>) {
    let Some(mut node) = link else { return (None, None) };
    cost::step();
    // This copies a node that other states share.
    let changed = Arc::make_mut(&mut node);
    if is_left(&changed.key) {
        let (left, right) = split(changed.right.take(), is_left);
        changed.right = left;
        (Some(node), right)
    } else {
        let (left, right) = split(changed.left.take(), is_left);
        changed.left = right;
        (left, Some(node))
    }
}

/// Joins the nodes below two links, of which the first has the lesser keys.
fn merge<K: Clone, V: Clone>(left: Link<K, V>, right: Link<K, V>) -> Link<K, V> {
    let (mut one, mut other) = match (left, right) {
        (Some(one), Some(other)) => (one, other),
        (only, None) | (None, only) => return only,
    };
    cost::step();
    if one.priority >= other.priority {
        let changed = Arc::make_mut(&mut one);
        changed.right = merge(changed.right.take(), Some(other));
        Some(one)
    } else {
        let changed = Arc::make_mut(&mut other);
        changed.left = merge(Some(one), changed.left.take());
        Some(other)
    }
}

/// Entries of a map, in the order of keys.
pub struct Iter<'a, K, V> {
    /// The nodes that are still to come whose left is done; the next is the last.
    path: Vec<&'a Node<K, V>>,
}

impl<'a, K, V> Iter<'a, K, V> {
    fn descend(&mut self, mut link: &'a Link<K, V>) {
        while let Some(node) = link {
            cost::step();
            self.path.push(node);
            link = &node.left;
        }
    }
}

impl<'a, K, V> Iterator for Iter<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        let node = self.path.pop()?;
        self.descend(&node.right);
        Some((&node.key, &node.value))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Change {
        Insert(u8, u32),
        Remove(u8),
        RemoveRange(u8, u8),
    }

    fn change() -> impl Strategy<Value = Change> {
        prop_oneof![
            4 => (any::<u8>(), any::<u32>()).prop_map(|(key, value)| Change::Insert(key, value)),
            2 => any::<u8>().prop_map(Change::Remove),
            1 => (any::<u8>(), any::<u8>()).prop_map(|(a, b)| Change::RemoveRange(a.min(b), a.max(b))),
        ]
    }

    proptest! {
        #[test]
        fn every_state_is_what_it_was_however_the_map_changes(
            changes in prop::collection::vec(change(), 1..80),
        ) {
            let (mut map, mut model) = (PersistentMap::default(), BTreeMap::new());
            let mut states = Vec::new();
            for change in changes {
                match change {
                    Change::Insert(key, value) => {
                        map.insert(key, value);
                        model.insert(key, value);
                    }
                    Change::Remove(key) => {
                        map.remove(&key);
                        model.remove(&key);
                    }
                    Change::RemoveRange(start, end) => {
                        map.remove_range(&start, &end);
                        model.retain(|key, _| !(start..end).contains(key));
                    }
                }
                states.push((map.clone(), model.clone()));
            }
            for (map, model) in states {
                prop_assert!(map.iter().eq(model.iter()));
                for key in 0..=u8::MAX {
                    prop_assert_eq!(map.get(&key), model.get(&key));
                    prop_assert_eq!(map.at_or_before(&key), model.range(..=key).next_back());
                    prop_assert_eq!(map.iter_from(&key).next(), model.range(key..).next());
                }
            }
        }
    }

    #[test]
    fn ascending_keys_make_no_long_path() {
        let mut map = PersistentMap::default();
        (0..10_000_u32).for_each(|key| map.insert(key, ()));
        for key in (0..10_000).step_by(97) {
            let steps = cost::of(|| assert!(map.get(&key).is_some()));
            assert!(steps < 80, "{steps} nodes to one of 10,000 keys");
        }
    }
}

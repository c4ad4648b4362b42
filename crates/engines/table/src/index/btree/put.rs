//! Insertion, replacement, and splits.

use super::{Nodes, Path, Root, descend, search, shape_of, take};
use crate::index::node::entries::{Entries, common_len};
use crate::index::node::{self, Shape};

/// Sets the value of a key. A value that the key already has is handed to `old`, and stays unless `replaces`. Returns
/// whether the key was there.
pub(crate) fn put<S: Nodes>(
    store: &mut S,
    root: &mut Option<Root>,
    key: &[u8],
    value: &[u8],
    replaces: bool,
    old: impl FnOnce(&[u8]),
) -> Result<bool, S::Error> {
    let tree = match root {
        Some(tree) => tree,
        None => {
            let id = store.allocate(0)?;
            node::clear(store.node_mut(id), &[]);
            root.insert(Root { id, level: 0 })
        }
    };
    let (mut path, leaf) = descend(store, tree, key)?;
    let node = store.node(leaf, 0)?;
    let (index, is_there) = search(store, &node, S::LEAF, key)?;
    if !is_there {
        drop(node);
        let entry = Entry { key, long: None, value };
        insert(store, tree, &mut path, (leaf, 0, index), entry)?;
        return Ok(false);
    }
    let before = node::value(&node, S::LEAF, index);
    old(before);
    if !replaces {
        return Ok(true);
    }
    if before.len() == value.len() {
        drop(node);
        node::value_mut(store.node_mut(leaf), S::LEAF, index).copy_from_slice(value);
        return Ok(true);
    }
    let long = match node::key(&node, S::LEAF, index) {
        node::Key::Long(reference, _) => Some(reference),
        node::Key::Whole(..) => None,
    };
    drop(node);
    node::remove(store.node_mut(leaf), S::LEAF, index);
    insert(store, tree, &mut path, (leaf, 0, index), Entry { key, long, value })?;
    Ok(true)
}

/// An entry that is to be inserted. A long key may be stored already.
struct Entry<'a> {
    key: &'a [u8],
    long: Option<u64>,
    value: &'a [u8],
}

/// Inserts an entry into a node, and after a split one into its parent.
fn insert<S: Nodes>(
    store: &mut S,
    root: &mut Root,
    path: &mut Path,
    (mut id, mut level, mut index): (u64, u8, usize),
    entry: Entry<'_>,
) -> Result<(), S::Error> {
    let Some(mut split) = insert_one(store, (id, level, index), entry)? else { return Ok(()) };
    loop {
        let parent = path.pop();
        level += 1;
        let shape = S::LEAF.inner();
        let value = &split.right.to_le_bytes()[..shape.reference];
        let Some((parent, taken)) = parent else {
            let top = store.allocate(level)?;
            let node = store.node_mut(top);
            node::clear(node, &[]);
            let first = &id.to_le_bytes()[..shape.reference];
            let is_in = node::insert(node, shape, 0, (&[], None), first);
            assert!(is_in, "an empty node has room");
            *root = Root { id: top, level };
            let entry = Entry { key: &split.key, long: split.long, value };
            let again = insert_one(store, (top, level, 1), entry)?;
            assert!(again.is_none(), "a node has room for two children");
            return Ok(());
        };
        (id, index) = (parent, taken + 1);
        let entry = Entry { key: &split.key, long: split.long, value };
        match insert_one(store, (id, level, index), entry)? {
            Some(next) => split = next,
            None => return Ok(()),
        }
    }
}

/// The new right half of a node, and the key that divides both.
struct Split {
    right: u64,
    key: Vec<u8>,
    long: Option<u64>,
}

/// Inserts an entry into a node, which splits if it has no room.
fn insert_one<S: Nodes>(
    store: &mut S,
    (id, level, index): (u64, u8, usize),
    Entry { key, long, value }: Entry<'_>,
) -> Result<Option<Split>, S::Error> {
    let shape = shape_of::<S>(level);
    let is_long = key.len() > shape.key_max(store.node_mut(id).len());
    let long = match (is_long, long) {
        (true, None) => Some(store.keep_long_key(key)?),
        (_, long) => long,
    };
    if node::insert(store.node_mut(id), shape, index, (key, long), value) {
        return Ok(None);
    }
    let mut entries = std::mem::take(store.scratch());
    entries.clear();
    let split = (|| -> Result<Option<Split>, S::Error> {
        let node = store.node(id, level)?;
        take(store, &mut entries, &node, shape)?;
        let (former, has_prefix) = (node::prefix(&node).len(), node::has_prefix(&node, key));
        let len = node.len();
        drop(node);
        entries.insert(index, key, long, value);
        let all = 0..entries.len();
        if let Some(prefix) = entries.fitting_prefix(&all, former, shape, len) {
            entries.pack(all, prefix, shape, store.node_mut(id));
            return Ok(None);
        }
        let at = split_place(&entries, index, (former, has_prefix), shape, len);
        let right = store.allocate(level)?;
        for (id, part) in [(id, 0..at), (right, at..entries.len())] {
            let prefix = entries.fitting_prefix(&part, former, shape, len);
            let prefix = prefix.expect("each half fits with the prefix that the whole had");
            entries.pack(part, prefix, shape, store.node_mut(id));
        }
        let (key, long) = match level {
            0 => (separator(entries.key(at - 1).0, entries.key(at).0), None),
            _ => entries.key(at),
        };
        Ok(Some(Split { right, key: key.to_vec(), long }))
    })();
    *store.scratch() = entries;
    split
}

/// The shortest key that is above `left` and not above `right`.
fn separator<'a>(left: &[u8], right: &'a [u8]) -> &'a [u8] {
    &right[..common_len(left, right) + 1]
}

/// How many entries stay in the left half. `index` is the new one. Each half fits with the former prefix: no entry
/// takes more than half the room behind one.
fn split_place(
    entries: &Entries,
    index: usize,
    (former, has_prefix): (usize, bool),
    shape: Shape,
    len: usize,
) -> usize {
    let last = entries.len() - 1;
    if index == last {
        return last;
    }
    if !has_prefix {
        // The key is below all others: it stays alone, or with the first child.
        return index + 1;
    }
    let size = |range| entries.size(&range, former, shape);
    let whole = size(0..entries.len());
    let mut left = size(0..0);
    let (mut best, mut best_size) = (0, usize::MAX);
    // An inner node has two children at least where it can.
    let least = if last > 2 { 1 + shape.keyless } else { 1 };
    for at in 1..entries.len() {
        left += entries.entry_size(at - 1, at - 1 < shape.keyless, former, shape);
        let right = whole - left + size(0..0);
        let larger = left.max(right);
        if larger < best_size && larger <= len && at >= least && entries.len() - at >= least {
            (best, best_size) = (at, larger);
        }
    }
    assert!(best > 0, "no entry is longer than half a node");
    best
}

//! Removal, and merges.

use super::{Nodes, Path, Root, descend, own_child, search, shape_of, take};
use crate::index::node::{self, Key};

/// Removes a key, whose value is handed to `old`. Returns whether it was there; if not, nodes were made writable for
/// nothing.
pub(crate) fn remove<S: Nodes>(
    store: &mut S,
    root: &mut Option<Root>,
    key: &[u8],
    old: impl FnOnce(&[u8]),
) -> Result<bool, S::Error> {
    let Some(tree) = root else { return Ok(false) };
    let (mut path, leaf) = descend(store, tree, key)?;
    let node = store.node(leaf, 0)?;
    let (index, is_there) = search(store, &node, S::LEAF, key)?;
    if !is_there {
        return Ok(false);
    }
    old(node::value(&node, S::LEAF, index));
    drop(node);
    remove_entry(store, leaf, 0, index)?;
    shrink(store, root, &mut path, leaf)?;
    Ok(true)
}

/// Removes an entry, and the long keys that the node then no longer has.
fn remove_entry<S: Nodes>(store: &mut S, id: u64, level: u8, index: usize) -> Result<(), S::Error> {
    let shape = shape_of::<S>(level);
    // The first child has no key; with it the second loses its own.
    let of_key = index.max(shape.keyless);
    let node = store.node_mut(id);
    let long = match of_key < node::count(node) {
        true => match node::key(node, shape, of_key) {
            Key::Long(reference, len) => Some((reference, len)),
            Key::Whole(..) => None,
        },
        false => None,
    };
    node::remove(node, shape, index);
    match long {
        Some((reference, len)) => store.release_long_key(reference, len),
        None => Ok(()),
    }
}

/// Merges a node that became small with a neighbour, removes it if it is empty, and goes on with its parent.
fn shrink<S: Nodes>(
    store: &mut S,
    root: &mut Option<Root>,
    path: &mut Path,
    mut id: u64,
) -> Result<(), S::Error> {
    let mut level = 0;
    while let Some((parent, index)) = path.pop() {
        let node = store.node_mut(id);
        if node::count(node) == 0 {
            store.release(id);
            remove_entry(store, parent, level + 1, index)?;
        } else if node::used(node) >= node.len() / 4
            || !merge(store, level, parent, index)? && !merge(store, level, parent, index + 1)?
        {
            return Ok(());
        }
        (id, level) = (parent, level + 1);
    }
    while let Some(tree) = root {
        let node = store.node(tree.id, tree.level)?;
        let next = match (node::count(&node), tree.level) {
            (0, _) => None,
            (1, 1..) => {
                Some(Root { id: node::child(&node, S::LEAF.inner(), 0), level: tree.level - 1 })
            }
            _ => return Ok(()),
        };
        drop(node);
        store.release(tree.id);
        *root = next;
    }
    Ok(())
}

/// Merges a node, if there is one, with the one before it, if both have room in three quarters of one.
fn merge<S: Nodes>(
    store: &mut S,
    level: u8,
    parent: u64,
    right_index: usize,
) -> Result<bool, S::Error> {
    let shape = shape_of::<S>(level);
    let inner = store.node(parent, level + 1)?;
    if right_index == 0 || right_index == node::count(&inner) {
        return Ok(false);
    }
    let above = S::LEAF.inner();
    let child = |index| node::child(&inner, above, index);
    let (left, right) = (child(right_index - 1), child(right_index));
    let (between, between_long) = match node::key(&inner, above, right_index) {
        Key::Long(reference, len) => {
            (store.long_key(reference, len)?.into_owned(), Some(reference))
        }
        whole => {
            let mut bytes = Vec::new();
            whole.append_to(&mut bytes);
            (bytes, None)
        }
    };
    drop(inner);
    let (one, other) = (store.node(left, level)?, store.node(right, level)?);
    let (len, former) = (one.len(), node::prefix(&one).len());
    if node::used(&one) + node::used(&other) > len {
        return Ok(false);
    }
    drop((one, other));
    let mut entries = std::mem::take(store.scratch());
    entries.clear();
    let merged = (|| -> Result<bool, S::Error> {
        let one = store.node(left, level)?;
        take(store, &mut entries, &one, shape)?;
        drop(one);
        let first = entries.len();
        let other = store.node(right, level)?;
        take(store, &mut entries, &other, shape)?;
        drop(other);
        if shape.keyless > 0 {
            entries.set_key(first, &between, between_long);
        }
        let all = 0..entries.len();
        let Some(prefix) = entries.fitting_prefix(&all, former, shape, len / 4 * 3) else {
            return Ok(false);
        };
        let left = own_child(store, (parent, right_index - 1), left, level)?;
        entries.pack(all, prefix, shape, store.node_mut(left));
        store.release(right);
        Ok(true)
    })();
    *store.scratch() = entries;
    if !merged? {
        return Ok(false);
    }
    // Of inner nodes the merged one has the key between both now.
    if shape.keyless > 0 {
        node::remove(store.node_mut(parent), above, right_index);
    } else {
        remove_entry(store, parent, level + 1, right_index)?;
    }
    Ok(true)
}

//! Divides entries among new leaves.

use halite_alloc::heap::NvPtr;

use super::additions::LeafBuilder;
use super::leaf::{ENTRIES_MAX, ENTRY, Key, room};
use super::node::LongKey;

/// An entry of a leaf that is written anew.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) key: Vec<u8>,
    pub(super) hash: u64,
    pub(super) value: u64,
    /// Where the key is, if it is long.
    pub(super) long: Option<NvPtr<LongKey>>,
    /// Whether the entry is there from the beginning.
    pub(super) before: bool,
    /// Whether it will be there.
    pub(super) after: bool,
}

/// A leaf that is to be written.
pub(super) struct Piece {
    /// The lowest key that it may have. That of the first piece is left to the caller.
    pub(super) low: Vec<u8>,
    pub(super) leaf: LeafBuilder,
    /// A key that it has.
    pub(super) key: Vec<u8>,
}

impl Item {
    /// The key as a leaf has it.
    pub(super) fn stored_key(&self) -> Key<'_> {
        match self.long {
            Some(pointer) => Key::Elsewhere(pointer, self.key.len()),
            None => Key::Here(&self.key),
        }
    }
}

/// The shortest key that is above one and not above another.
pub(super) fn separator(below: &[u8], key: &[u8]) -> Vec<u8> {
    let same = below.iter().zip(key).take_while(|(one, other)| one == other).count();
    key[..(same + 1).min(key.len())].to_vec()
}

/// Entries of the same key: they share its bytes, and stay together.
fn groups(items: &[Item]) -> impl Iterator<Item = &[Item]> {
    items.chunk_by(|one, other| one.key == other.key)
}

fn bytes_of(group: &[Item]) -> usize {
    group.len() * ENTRY + group[0].stored_key().stored_len()
}

/// Bytes that items take in leaves.
pub(super) fn bytes(items: &[Item]) -> usize {
    groups(items).map(bytes_of).sum()
}

/// How full leaves become that share items evenly: a single one, if most of it then stays free.
pub(super) fn even(items: &[Item], leaf_len: usize) -> usize {
    let (all, full) = (bytes(items), room(leaf_len) / 4 * 3);
    let kept = items.iter().filter(|item| item.after);
    let kept: usize = kept.map(|item| bytes_of(std::slice::from_ref(item))).sum();
    if kept <= full && all <= room(leaf_len) && items.len() <= ENTRIES_MAX {
        return room(leaf_len);
    }
    all.div_ceil(all.div_ceil(full).max(2))
}

/// Divides items, which are in the order of their keys, among leaves that have no more entries once they have so many bytes
/// of them.
pub(super) fn pieces(items: &[Item], leaf_len: usize, full: usize) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    let (mut used, mut count, mut last): (usize, usize, &[u8]) = (0, 0, &[]);
    for group in groups(items) {
        let (key, len) = (&group[0].key, bytes_of(group));
        let has_room = used + len <= room(leaf_len) && count + group.len() <= ENTRIES_MAX;
        if pieces.is_empty() || !has_room || used >= full {
            let low = separator(last, key);
            pieces.push(Piece { low, leaf: LeafBuilder::new(leaf_len), key: key.clone() });
            (used, count) = (0, 0);
        }
        let leaf = &mut pieces.last_mut().expect("there is one").leaf;
        for (number, item) in group.iter().enumerate() {
            let entry = (&item.stored_key(), item.hash, item.value);
            leaf.add(entry, number > 0, (item.before, item.after));
        }
        (used, count, last) = (used + len, count + group.len(), key);
    }
    pieces
}

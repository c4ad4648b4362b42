//! Entries that are added to a leaf, where none is yet.

use super::leaf::{ENTRIES_MAX, ENTRY, Entry, Key, Leaf, encode, present, room};
use super::node::Damage;

/// Finds places for new entries in a leaf, which are not those of the entries that are there.
#[derive(Clone)]
pub(super) struct Additions {
    leaf_len: usize,
    /// The places that may not be written before the leaf's word is durable.
    taken: u64,
    /// Where keys are, in order.
    keys: Vec<(usize, usize)>,
    /// The entries that will be there.
    pub(super) bits: u64,
}

/// An entry to be stored.
#[derive(Debug)]
pub(super) struct Addition {
    pub(super) at: usize,
    pub(super) entry: [u8; ENTRY],
    /// The key and its place, unless it is there already.
    pub(super) key: Option<(usize, Vec<u8>)>,
    pub(super) place: usize,
    key_at: usize,
}

impl Additions {
    /// Additions to a leaf that is there.
    pub(super) fn to(leaf: Leaf<'_>) -> Result<Self, Damage> {
        let extent = |entry: Entry<'_>| (entry.key_at, entry.key_at + entry.key.stored_len());
        let mut keys =
            leaf.entries().map(|entry| entry.map(extent)).collect::<Result<Vec<_>, _>>()?;
        keys.sort_unstable();
        Ok(Self { leaf_len: leaf.len(), taken: leaf.bits(), keys, bits: leaf.bits() })
    }

    fn to_empty(leaf_len: usize) -> Self {
        Self { leaf_len, taken: 0, keys: Vec::new(), bits: 0 }
    }

    /// Removes the entry at a place. It stays as it is: the removal may be taken back.
    pub(super) fn remove(&mut self, place: usize) {
        self.bits &= !(1 << place);
    }

    /// Adds an entry, whose key may be there already, at some place. Returns what is to be stored, or `None` if there is no
    /// room.
    pub(super) fn add(
        &mut self,
        key: &Key<'_>,
        hash: u64,
        value: u64,
        there: Option<usize>,
    ) -> Option<Addition> {
        let place = (!self.taken).trailing_zeros() as usize;
        let at = place * ENTRY;
        let first_key = self.keys.iter().map(|&(from, _)| from).min();
        if place >= ENTRIES_MAX || at + ENTRY > first_key.unwrap_or(room(self.leaf_len)) {
            return None;
        }
        let key_at = match there {
            Some(at) => at,
            None => self.take_room(key.stored_len(), place)?,
        };
        (self.taken, self.bits) = (self.taken | 1 << place, self.bits | 1 << place);
        let entry = encode(hash, value, key_at, key);
        let key = there.is_none().then(|| (key_at, key.stored()));
        Some(Addition { at, entry, key, place, key_at })
    }

    /// Takes the highest room for a key that is left beside an entry at a place.
    fn take_room(&mut self, len: usize, place: usize) -> Option<usize> {
        let last = 64 - (self.taken | 1 << place).leading_zeros() as usize;
        let mut end = room(self.leaf_len);
        let mut index = self.keys.len();
        for &(from, to) in self.keys.iter().rev() {
            if to + len <= end {
                break;
            }
            (end, index) = (end.min(from), index - 1);
        }
        let at = end.checked_sub(len).filter(|&at| at >= last * ENTRY)?;
        self.keys.insert(index, (at, end));
        Some(at)
    }
}

/// A leaf, put together in memory.
pub(super) struct LeafBuilder {
    bytes: Vec<u8>,
    additions: Additions,
    /// The entries that are there from the beginning, and those that will be.
    pub(super) before: u64,
    pub(super) after: u64,
    last_key_at: Option<usize>,
}

impl LeafBuilder {
    pub(super) fn new(leaf_len: usize) -> Self {
        let (bytes, additions) = (vec![0; leaf_len], Additions::to_empty(leaf_len));
        Self { bytes, additions, before: 0, after: 0, last_key_at: None }
    }

    /// Adds an entry, whose key may be that of the one before it. Says whether it is there from the beginning, and whether
    /// it will be.
    ///
    /// # Panics
    /// If there is no room for it.
    pub(super) fn add(
        &mut self,
        (key, hash, value): (&Key<'_>, u64, u64),
        has_last_key: bool,
        (before, after): (bool, bool),
    ) {
        let there = if has_last_key { self.last_key_at } else { None };
        let added = self.additions.add(key, hash, value, there).expect("the leaf has room");
        if let Some((at, key)) = added.key {
            self.bytes[at..at + key.len()].copy_from_slice(&key);
        }
        self.bytes[added.at..added.at + ENTRY].copy_from_slice(&added.entry);
        self.before |= u64::from(before) << added.place;
        self.after |= u64::from(after) << added.place;
        self.last_key_at = Some(added.key_at);
    }

    /// The bytes of the leaf with this seed.
    pub(super) fn finish(&mut self, seed: u64) -> &[u8] {
        let at = room(self.bytes.len());
        self.bytes[at..].copy_from_slice(&present(self.before, seed).to_le_bytes());
        &self.bytes
    }
}

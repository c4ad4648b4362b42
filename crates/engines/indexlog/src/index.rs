//! The index of a key space: a tree in the order of keys, or a table by their hashes.
//!
//! Each opening of the store chooses which. An operation that a table does not have is made of a walk over all of its
//! entries: the keys in a range are read from their records.

use halite_contract::{KeyRange, Result};
use halite_index::{FullKeys, HashIndex, PartialKeyTree, PartialLen, SortedKey};

use crate::entry::Entry;
use crate::options::IndexKind;
use crate::read::readable::ReadableBlocks;

/// Keys ahead of the one at hand that are brought into the cache.
const AHEAD: usize = 8;

/// How the indexes of a store are made.
#[derive(Clone, Copy)]
pub(crate) enum Form {
    /// Trees that keep so many bytes of each key.
    Ordered(PartialLen),
    /// Tables, whose hashes are seeded so that no client can make keys that collide.
    Hash([u64; 2]),
}

impl Default for Form {
    fn default() -> Self {
        Self::Ordered(PartialLen::Eight)
    }
}

impl Form {
    /// The form of a kind; `random` gives numbers that cannot be guessed.
    pub(crate) fn new(kind: IndexKind, mut random: impl FnMut() -> Result<u64>) -> Result<Self> {
        kind.check()?;
        Ok(match kind {
            IndexKind::Ordered { key_bytes } => {
                let known = PartialLen::ALL.into_iter().find(|len| len.bytes() == key_bytes);
                Self::Ordered(known.unwrap_or_default())
            }
            IndexKind::Hash => Self::Hash([random()?, random()?]),
        })
    }

    /// An index without keys.
    pub(crate) fn empty(self) -> Index {
        match self {
            Self::Ordered(partial) => Index::Ordered(PartialKeyTree::new(partial)),
            Self::Hash(seed) => Index::Hash(HashIndex::new(seed)),
        }
    }

    /// Whether an index is built from whole keys.
    pub(crate) fn reads_keys(self) -> bool {
        matches!(self, Self::Hash(_))
    }

    /// An index of entries in the ascending order of their keys, without duplicates.
    pub(crate) fn build<K: SortedKey>(
        self,
        sorted: impl Iterator<Item = (K, u64)>,
        keys: &ReadableBlocks,
    ) -> Result<Index> {
        Ok(match self {
            Self::Ordered(partial) => Index::Ordered(PartialKeyTree::from_sorted(partial, sorted)),
            Self::Hash(seed) => {
                let mut table = HashIndex::new(seed);
                for (key, entry) in sorted {
                    table.insert(key.whole(), entry, keys)?;
                }
                Index::Hash(table)
            }
        })
    }
}

/// An index from keys to entries. A clone is a snapshot, made in constant time.
#[derive(Clone)]
pub(crate) enum Index {
    Ordered(PartialKeyTree),
    Hash(HashIndex),
}

/// Calls a method that both indexes have.
macro_rules! either {
    ($index:expr, $name:ident => $call:expr) => {
        match $index {
            Self::Ordered($name) => $call,
            Self::Hash($name) => $call,
        }
    };
}

impl Index {
    pub(crate) fn len(&self) -> u64 {
        either!(self, index => index.len())
    }

    pub(crate) fn is_empty(&self) -> bool {
        either!(self, index => index.is_empty())
    }

    /// The entry of a key. `keys` has the keys of all entries, here and below.
    pub(crate) fn get(&self, key: &[u8], keys: &ReadableBlocks) -> Result<Option<u64>> {
        either!(self, index => index.get(key, keys))
    }

    /// Returns the entry of a key, or, if the key is not there, perhaps that of another: the caller compares.
    pub(crate) fn get_candidate(&self, key: &[u8], keys: &ReadableBlocks) -> Result<Option<u64>> {
        either!(self, index => index.get_candidate(key, keys))
    }

    /// Brings the index's lines of a key into the cache.
    pub(crate) fn prepare(&self, key: &[u8]) {
        either!(self, index => index.prepare(key));
    }

    /// Prefetches the full keys that an operation will read, once the key is prepared.
    pub(crate) fn prepare_compare(&self, key: &[u8], keys: &ReadableBlocks) {
        either!(self, index => index.prepare_compare(key, keys));
    }

    /// Prefetches for operations on many keys, and for the current records of these keys; waits for the cache misses of
    /// all together.
    pub(crate) fn prefetch(&self, wanted: &[&[u8]], keys: &ReadableBlocks) {
        let found = |entry| keys.prefetch_record(Entry::from_bits(entry));
        either!(self, index => index.prefetch(wanted, found));
    }

    pub(crate) fn insert(
        &mut self,
        key: &[u8],
        entry: u64,
        keys: &ReadableBlocks,
    ) -> Result<Option<u64>> {
        self.insert_with(key, |_| entry, keys)
    }

    /// Sets the entry of a key to the result of `entry` on the old one, which is returned.
    pub(crate) fn insert_with(
        &mut self,
        key: &[u8],
        entry: impl FnOnce(Option<u64>) -> u64,
        keys: &ReadableBlocks,
    ) -> Result<Option<u64>> {
        either!(self, index => index.insert_with(key, entry, keys))
    }

    /// Changes the entry of a key that is there.
    pub(crate) fn modify_present(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut u64),
        keys: &ReadableBlocks,
    ) -> Result<bool> {
        either!(self, index => index.modify_present(key, change, keys))
    }

    /// Returns for each of `wanted` the entry of its key, if `is` accepts it, given the place among them. Waits for
    /// the cache misses of all together.
    pub(crate) fn find_entries(
        &self,
        wanted: &[&[u8]],
        is: impl Fn(usize, u64) -> bool,
        keys: &ReadableBlocks,
    ) -> Result<Vec<Option<u64>>> {
        match self {
            Self::Ordered(tree) => Ok(tree.find_entries(wanted, is)),
            Self::Hash(table) => {
                wanted.iter().for_each(|key| table.prepare(key));
                let find = |(at, key): (usize, &&[u8])| {
                    Ok(table.get_candidate(key, keys)?.filter(|&entry| is(at, entry)))
                };
                wanted.iter().enumerate().map(find).collect()
            }
        }
    }

    /// Changes the entry of a key, which `is` accepts; whether it is there.
    pub(crate) fn modify_entry(
        &mut self,
        key: &[u8],
        is: impl Fn(u64) -> bool,
        change: impl FnOnce(&mut u64),
        keys: &ReadableBlocks,
    ) -> Result<bool> {
        match self {
            Self::Ordered(tree) => Ok(tree.modify_entry(key, is, change)),
            Self::Hash(table) => table.modify_present(key, change, keys),
        }
    }

    pub(crate) fn remove(&mut self, key: &[u8], keys: &ReadableBlocks) -> Result<Option<u64>> {
        either!(self, index => index.remove(key, keys))
    }

    /// Removes the keys of a range, and returns their entries.
    ///
    /// # Errors
    /// A key cannot be read: in a tree one near a bound, in a table any, if the range is not all.
    pub(crate) fn remove_range(
        &mut self,
        start: &[u8],
        end: Option<&[u8]>,
        keys: &ReadableBlocks,
    ) -> Result<Vec<u64>> {
        let table = match self {
            Self::Ordered(tree) => return tree.remove_range(start, end, keys),
            Self::Hash(table) => table,
        };
        if start.is_empty() && end.is_none() {
            let removed = table.iter().collect();
            table.clear();
            return Ok(removed);
        }
        let range = KeyRange::new(start, end.map(<[u8]>::to_vec));
        let found = found(table.iter().collect(), &range, keys)?;
        found.iter().try_for_each(|(key, _)| table.remove(key, keys).map(drop))?;
        Ok(found.into_iter().map(|(_, entry)| entry).collect())
    }

    /// Whether a range has keys.
    pub(crate) fn has_any(
        &self,
        start: &[u8],
        end: Option<&[u8]>,
        keys: &ReadableBlocks,
    ) -> Result<bool> {
        match self {
            Self::Ordered(tree) => Ok(tree.range(start, end, keys)?.next().is_some()),
            Self::Hash(table) if start.is_empty() && end.is_none() => Ok(!table.is_empty()),
            Self::Hash(table) => {
                let range = KeyRange::new(start, end.map(<[u8]>::to_vec));
                for entry in table.iter() {
                    if keys.with_key(entry, |key| range.contains(key))? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }

    /// The keys of a range, ascending.
    pub(crate) fn keys(&self, range: &KeyRange, keys: &ReadableBlocks) -> Result<Vec<Vec<u8>>> {
        match self {
            Self::Ordered(tree) => {
                let entries = tree.range(range.start(), range.end(), keys)?;
                entries.map(|entry| keys.with_key(entry, <[u8]>::to_vec)).collect()
            }
            Self::Hash(table) => {
                let mut found = found(table.iter().collect(), range, keys)?;
                found.sort_unstable();
                Ok(found.into_iter().map(|(key, _)| key).collect())
            }
        }
    }

    /// Whether a range has the keys that it had in an earlier state, with the records that they had then, which
    /// `is_old` tells. Reads no record of an entry that did not change.
    pub(crate) fn is_unchanged(
        &self,
        before: Option<&Self>,
        range: &KeyRange,
        keys: &ReadableBlocks,
        is_old: impl Fn(Entry) -> Result<bool>,
    ) -> Result<bool> {
        let (now, mut then) = match (self, before) {
            (_, None) => return Ok(!self.has_any(range.start(), range.end(), keys)?),
            (Self::Ordered(now), Some(Self::Ordered(then))) => {
                let (start, end) = (range.start(), range.end());
                (now.range(start, end, keys)?, then.range(start, end, keys)?)
            }
            (now, Some(then)) => {
                let found = now.keys_and_entries(range, keys)?;
                if found.len() != then.keys_and_entries(range, keys)?.len() {
                    return Ok(false);
                }
                for (_, entry) in found {
                    if !is_old(Entry::from_bits(entry))? {
                        return Ok(false);
                    }
                }
                return Ok(true);
            }
        };
        let mut now = now;
        loop {
            now.skip_common(&mut then);
            // A record that `is_old` is among those of `then`, too; so equal counts mean the same records.
            match (now.next().map(Entry::from_bits), then.next().map(Entry::from_bits)) {
                (None, None) => return Ok(true),
                (Some(now), Some(then)) if now.place() == then.place() || is_old(now)? => {}
                _ => return Ok(false),
            }
        }
    }

    /// The keys of a range and their entries, in no order.
    fn keys_and_entries(
        &self,
        range: &KeyRange,
        keys: &ReadableBlocks,
    ) -> Result<Vec<(Vec<u8>, u64)>> {
        found(self.iter().collect(), range, keys)
    }

    /// All entries; in the order of keys, if the index has one.
    pub(crate) fn iter(&self) -> Box<dyn Iterator<Item = u64> + '_> {
        either!(self, index => Box::new(index.iter()))
    }

    /// An entry chosen by `random`.
    pub(crate) fn sample(&self, random: u64) -> Option<u64> {
        either!(self, index => index.sample(random))
    }

    /// Bytes on the heap.
    pub(crate) fn heap_len(&self) -> usize {
        either!(self, index => index.heap_len())
    }
}

/// The entries whose keys are in a range, with these, in no order.
fn found(
    entries: Vec<u64>,
    range: &KeyRange,
    keys: &ReadableBlocks,
) -> Result<Vec<(Vec<u8>, u64)>> {
    let mut found = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        if let Some(later) = entries.get(at + AHEAD) {
            keys.prefetch(*later);
        }
        let key = keys.with_key(*entry, |key| range.contains(key).then(|| key.to_vec()))?;
        found.extend(key.map(|key| (key, *entry)));
    }
    Ok(found)
}

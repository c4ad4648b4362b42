//! Deletions whose tombstones are gone, for transactions that began before them.
//!
//! A tombstone is dropped when no older version of its key is on the medium, however new the tombstone is. A
//! transaction that found the key absent still has to know whether it existed since (`validation`). So the hashes of
//! the keys of dropped tombstones that are newer than the oldest snapshot are kept in DRAM; where those would be too
//! many, only the highest number of such a tombstone is. Both may report a change that did not happen, and never miss
//! one.

use std::collections::HashMap;

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Keys that are kept one by one: 1.5 MiB of DRAM at most.
const KEYS_MAX: usize = 64 << 10;

/// Tombstones that were dropped while an older snapshot was alive.
#[derive(Default)]
pub(crate) struct DroppedTombstones {
    /// The number of a key's newest dropped tombstone, by the key's hash.
    keys: HashMap<u64, u64>,
    /// The highest number of the dropped tombstones whose keys are not kept.
    others: u64,
}

impl DroppedTombstones {
    /// Notes that tombstone number `seq` is dropped; `oldest` is the number behind the last operation that the oldest
    /// snapshot shows, if there is one.
    pub(crate) fn note(&mut self, space: u32, key: &[u8], seq: u64, oldest: Option<u64>) {
        let is_expected = oldest.is_some_and(|oldest| seq >= oldest);
        if self.keys.len() >= KEYS_MAX || oldest.is_none() {
            let newest = self.keys.drain().map(|(_, seq)| seq).max();
            self.others = self.others.max(newest.unwrap_or(0));
        }
        if is_expected {
            let newest = self.keys.entry(hash(space, key)).or_default();
            *newest = seq.max(*newest);
        }
    }

    /// Notes that the tombstone of a range is dropped.
    pub(crate) fn note_range(&mut self, seq: u64) {
        self.others = self.others.max(seq);
    }

    /// Whether a tombstone of a key, of number `since` or higher, may have been dropped.
    pub(crate) fn has_since(&self, space: u32, key: &[u8], since: u64) -> bool {
        let of_key = self.keys.get(&hash(space, key));
        self.others >= since || of_key.is_some_and(|&seq| seq >= since)
    }
}

fn hash(space: u32, key: &[u8]) -> u64 {
    xxh3_64_with_seed(key, space.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_is_told_to_snapshots_that_are_older() {
        let mut dropped = DroppedTombstones::default();
        dropped.note(1, b"a", 10, Some(8));
        dropped.note(1, b"b", 7, Some(8));
        assert!(dropped.has_since(1, b"a", 8) && dropped.has_since(1, b"a", 10));
        for (space, key, since) in [(1, &b"a"[..], 11), (2, b"a", 8), (1, b"b", 7), (1, b"c", 0)] {
            assert!(!dropped.has_since(space, key, since.max(1)), "{space} {key:?} {since}");
        }
        dropped.note_range(20);
        assert!(dropped.has_since(2, b"z", 20) && !dropped.has_since(2, b"z", 21));
    }

    #[test]
    fn of_too_many_only_the_newest_number_is_known() {
        let mut dropped = DroppedTombstones::default();
        let last = KEYS_MAX as u64 + 9;
        (1..=last).for_each(|seq| dropped.note(0, &seq.to_le_bytes(), seq, Some(1)));
        assert!(dropped.keys.len() <= KEYS_MAX);
        assert!(dropped.has_since(0, b"any", KEYS_MAX as u64));
        assert!((1..=last).all(|seq| dropped.has_since(0, &seq.to_le_bytes(), seq)));
        assert!(!dropped.has_since(0, b"any", last));
    }
}

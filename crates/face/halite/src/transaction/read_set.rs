//! The read set of a transaction, as far as it has to be remembered.
//!
//! An absent key counts like a present one. A scan counts as the range from its start to the last key that it returned,
//! or to its end if it reached the end: keys behind were not read.

use std::collections::BTreeMap;

use halite_contract::{KeyRange, KeySpaceId};

use super::write_set::ENTRY_BYTES;

/// Keys and ranges that were read.
#[derive(Default)]
pub(super) struct ReadSet {
    /// The value: whether the commit depends on the key being unchanged.
    keys: BTreeMap<(KeySpaceId, Box<[u8]>), bool>,
    /// `None` for a scan that has not returned a key yet.
    scans: Vec<(KeySpaceId, Option<KeyRange>)>,
    bytes: usize,
}

impl ReadSet {
    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes that a key takes.
    pub(super) fn cost(key: &[u8]) -> usize {
        ENTRY_BYTES + key.len()
    }

    /// Notes that a key was read.
    pub(super) fn add(&mut self, space: KeySpaceId, key: &[u8], is_relied_on: bool) {
        let relied_on = self.keys.entry((space, key.into())).or_insert_with(|| {
            self.bytes += Self::cost(key);
            false
        });
        *relied_on |= is_relied_on;
    }

    /// Notes that a scan began; it may read its whole range until it is known to have ended. Returns its number.
    pub(super) fn begin_scan(&mut self, space: KeySpaceId, range: &KeyRange) -> usize {
        self.bytes += bytes_of(range);
        self.scans.push((space, Some(range.clone())));
        self.scans.len() - 1
    }

    /// Notes the range that a scan has read, at its end.
    pub(super) fn end_scan(&mut self, number: usize, read: Option<KeyRange>) {
        let (_, range) = &mut self.scans[number];
        self.bytes -= range.as_ref().map_or(0, bytes_of);
        self.bytes += read.as_ref().map_or(0, bytes_of);
        *range = read;
    }

    /// The keys that were read: all, or those that are relied on.
    pub(super) fn keys(&self, only_relied_on: bool) -> impl Iterator<Item = (KeySpaceId, &[u8])> {
        let keys = self.keys.iter().filter(move |(_, relied_on)| **relied_on || !only_relied_on);
        keys.map(|((space, key), _)| (*space, &key[..]))
    }

    /// The ranges that were read.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (KeySpaceId, &KeyRange)> {
        self.scans.iter().filter_map(|(space, range)| Some((*space, range.as_ref()?)))
    }
}

fn bytes_of(range: &KeyRange) -> usize {
    ENTRY_BYTES + range.start().len() + range.end().map_or(0, <[u8]>::len)
}

//! Tombstones: the records of deleted keys and ranges, and the dead records that each keeps from coming back.
//!
//! A tombstone must stay on the medium as long as an older version of a key that it deleted does; otherwise the key
//! would be back after the next open. So every dead record is counted exactly once: by the oldest range tombstone
//! that covers its key and is newer than it, or else by the newest record of its key: a live record (in its index
//! entry) or a tombstone (here). When a block is collected, each dead record in it is taken off its count. A
//! tombstone that counts no record is dead, and is dropped when its own block is collected.

use std::collections::BTreeMap;

use halite_contract::Result;
use halite_index::{PartialKeyTree, PartialLen};

use crate::entry::Entry;
use crate::read::readable::ReadableBlocks;

mod dropped;

use dropped::DroppedTombstones;

/// Bytes of its key that the entry of a tombstone keeps: few, with every kind of index.
pub(crate) const PARTIAL_LEN: PartialLen = PartialLen::Eight;

/// The tombstones of all key spaces.
#[derive(Default)]
pub(crate) struct Tombstones {
    points: BTreeMap<u32, PartialKeyTree>,
    /// By sequence number, ascending.
    ranges: BTreeMap<u32, Vec<RangeTombstone>>,
    dropped: DroppedTombstones,
}

/// The deletion of a range.
pub(crate) struct RangeTombstone {
    pub(crate) seq: u64,
    pub(crate) start: Box<[u8]>,
    pub(crate) end: Option<Box<[u8]>>,
    pub(crate) entry: Entry,
    /// Dead records that it keeps from coming back.
    pub(crate) stale: Stale,
}

/// A number of dead records; not exact any more once it took over an inexact count.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Stale(u64);

impl Stale {
    const INEXACT: Self = Self(u64::MAX);

    /// The count that was stored as `bits`.
    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The stored form.
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    pub(crate) fn is_zero(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn add_one(&mut self) {
        self.0 = self.0.saturating_add(1);
    }

    /// One record less, if the number is exact.
    pub(crate) fn remove_one(&mut self) {
        if *self != Self::INEXACT {
            debug_assert!(self.0 > 0, "every dead record is counted once");
            self.0 = self.0.saturating_sub(1);
        }
    }

    /// Counts a record that dies, and those that its entry counted.
    pub(crate) fn take_over(&mut self, dead: Entry) {
        self.0 = match dead.stale() {
            Entry::STALE_MAX => u64::MAX,
            stale => self.0.saturating_add(u64::from(stale) + 1),
        };
    }
}

impl RangeTombstone {
    pub(crate) fn covers(&self, key: &[u8], seq: u64) -> bool {
        seq < self.seq && self.contains(key)
    }

    fn contains(&self, key: &[u8]) -> bool {
        key >= &self.start[..] && self.end.as_deref().is_none_or(|end| key < end)
    }
}

impl Tombstones {
    /// The tombstone of a key. `keys` has the keys of all records, here and below.
    pub(crate) fn get(
        &self,
        space: u32,
        key: &[u8],
        keys: &ReadableBlocks,
    ) -> Result<Option<Entry>> {
        let Some(points) = self.points.get(&space) else { return Ok(None) };
        Ok(points.get(key, keys)?.map(Entry::from_bits))
    }

    pub(crate) fn insert(
        &mut self,
        space: u32,
        key: &[u8],
        entry: Entry,
        keys: &ReadableBlocks,
    ) -> Result<()> {
        let points = self.points.entry(space).or_insert_with(|| PartialKeyTree::new(PARTIAL_LEN));
        points.insert(key, entry.bits(), keys)?;
        Ok(())
    }

    pub(crate) fn remove(
        &mut self,
        space: u32,
        key: &[u8],
        keys: &ReadableBlocks,
    ) -> Result<Option<Entry>> {
        let Some(points) = self.points.get_mut(&space) else { return Ok(None) };
        let entry = points.remove(key, keys)?.map(Entry::from_bits);
        if points.is_empty() {
            self.points.remove(&space);
        }
        Ok(entry)
    }

    /// Sets all tombstones of a key space at once.
    pub(crate) fn set_points(&mut self, space: u32, points: PartialKeyTree) {
        if !points.is_empty() {
            self.points.insert(space, points);
        }
    }

    /// Removes the tombstones of the keys in a range, and returns their entries.
    pub(crate) fn remove_range(
        &mut self,
        space: u32,
        start: &[u8],
        end: Option<&[u8]>,
        keys: &ReadableBlocks,
    ) -> Result<Vec<Entry>> {
        let Some(points) = self.points.get_mut(&space) else { return Ok(Vec::new()) };
        let removed = points.remove_range(start, end, keys)?;
        if points.is_empty() {
            self.points.remove(&space);
        }
        Ok(removed.into_iter().map(Entry::from_bits).collect())
    }

    /// Whether a key, or a range with it, was deleted by a record from number `since` on, or may have been by one
    /// whose tombstone is dropped.
    pub(crate) fn deleted_since(
        &self,
        space: u32,
        key: &[u8],
        since: u64,
        keys: &ReadableBlocks,
    ) -> Result<bool> {
        if self.dropped.has_since(space, key, since) {
            return Ok(true);
        }
        if let Some(ranges) = self.ranges.get(&space) {
            let newer = ranges.partition_point(|tombstone| tombstone.seq < since);
            if ranges[newer..].iter().any(|tombstone| tombstone.contains(key)) {
                return Ok(true);
            }
        }
        match self.get(space, key, keys)? {
            Some(tombstone) => keys.with_record(tombstone, |record| record.seq() >= since),
            None => Ok(false),
        }
    }

    /// Adds the newest range tombstone.
    pub(crate) fn insert_range(&mut self, space: u32, tombstone: RangeTombstone) {
        let ranges = self.ranges.entry(space).or_default();
        debug_assert!(ranges.last().is_none_or(|last| last.seq < tombstone.seq));
        ranges.push(tombstone);
    }

    /// The tombstones of keys, by key space.
    pub(crate) fn points(&self) -> impl Iterator<Item = (u32, &PartialKeyTree)> {
        self.points.iter().map(|(space, points)| (*space, points))
    }

    /// The range tombstones, by key space and in their order.
    pub(crate) fn ranges_by_space(&self) -> impl Iterator<Item = (u32, &RangeTombstone)> {
        let of_space = |(space, ranges): (&u32, _)| (*space, ranges);
        let spaces = self.ranges.iter().map(of_space);
        spaces.flat_map(|(space, ranges): (u32, &Vec<_>)| {
            ranges.iter().map(move |range| (space, range))
        })
    }

    /// Whether ranges of a key space were deleted.
    pub(crate) fn has_ranges(&self, space: u32) -> bool {
        self.ranges.contains_key(&space)
    }

    /// All range tombstones.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = &RangeTombstone> {
        self.ranges.values().flatten()
    }

    /// The range tombstone with a sequence number.
    pub(crate) fn range(&self, space: u32, seq: u64) -> Option<&RangeTombstone> {
        let ranges = self.ranges.get(&space)?;
        let at = ranges.binary_search_by_key(&seq, |tombstone| tombstone.seq).ok()?;
        ranges.get(at)
    }

    /// Returns the tombstone of a range, to be changed.
    pub(crate) fn range_mut(&mut self, space: u32, seq: u64) -> Option<&mut RangeTombstone> {
        let ranges = self.ranges.get_mut(&space)?;
        let at = ranges.binary_search_by_key(&seq, |tombstone| tombstone.seq).ok()?;
        ranges.get_mut(at)
    }

    /// Drops the tombstone of a key, number `seq`, which counts no record any more; `oldest` is the number behind the
    /// last operation that the oldest snapshot shows, if there is one.
    pub(crate) fn drop_tombstone(
        &mut self,
        space: u32,
        key: &[u8],
        seq: u64,
        oldest: Option<u64>,
        keys: &ReadableBlocks,
    ) -> Result<()> {
        self.remove(space, key, keys)?;
        self.dropped.note(space, key, seq, oldest);
        Ok(())
    }

    /// Drops the tombstone of a range, which counts no record any more.
    pub(crate) fn drop_range_tombstone(&mut self, space: u32, seq: u64) {
        self.dropped.note_range(seq);
        if let Some(ranges) = self.ranges.get_mut(&space) {
            ranges.retain(|tombstone| tombstone.seq != seq);
            if ranges.is_empty() {
                self.ranges.remove(&space);
            }
        }
    }

    /// The range tombstone that counts a dead record: the oldest that covers it.
    pub(crate) fn covering(
        &mut self,
        space: u32,
        key: &[u8],
        seq: u64,
    ) -> Option<&mut RangeTombstone> {
        let ranges = self.ranges.get_mut(&space)?;
        let newer = ranges.partition_point(|tombstone| tombstone.seq <= seq);
        ranges[newer..].iter_mut().find(|tombstone| tombstone.covers(key, seq))
    }

    /// Bytes of DRAM.
    pub(crate) fn heap_len(&self) -> usize {
        let ranges = self.ranges.values().flatten().map(|tombstone| {
            size_of_val(tombstone)
                + tombstone.start.len()
                + tombstone.end.as_deref().map_or(0, <[u8]>::len)
        });
        self.points.values().map(PartialKeyTree::heap_len).sum::<usize>() + ranges.sum::<usize>()
    }
}

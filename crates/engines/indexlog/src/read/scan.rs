//! Scans: a snapshot of the index, and the space that it points to.
//!
//! While a record is copied, the ones behind it are on their way into the cache (Lersch, Fig. 5.6).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::vec;

use halite_contract::{Bytes, Direction, KeyRange, KeySpaceId, Partitioning, Reader, Result, Scan};
use halite_index::{FullKeys, HashIndex, KWayMerge, PartialKeyCursor};

use crate::entry::Entry;
use crate::index::Index;
use crate::partition::Partition;
use crate::read::readable::ReadableBlocks;
use crate::read::view::View;

/// Records behind the one being copied that are prefetched.
const AHEAD: usize = 4;

/// Keys that a scan of a table reads before it lets writers in.
const SORTED_AT_ONCE: usize = 256;

/// A moment of a partition. Space that is hidden later is kept while it lives.
pub(crate) struct Moment {
    partition: Arc<Partition>,
    epoch: u64,
    /// Whether it is among the partition's scans.
    is_noted: AtomicBool,
}

impl Moment {
    /// The present of a partition whose view, `view`, is locked.
    pub(crate) fn of(partition: &Arc<Partition>, view: &View, reader: Reader) -> Self {
        // Under the view's lock: no space is hidden between the snapshot and this.
        partition.scans.begin(view.epoch, view.position, reader);
        let is_noted = AtomicBool::new(true);
        Self { partition: Arc::clone(partition), epoch: view.epoch, is_noted }
    }

    pub(crate) fn partition(&self) -> &Partition {
        &self.partition
    }

    /// Sets its purpose.
    pub(crate) fn name(&self, reader: Reader) {
        self.partition.scans.name(self.epoch, reader);
    }

    /// Keeps no space for it any more: it is not read again.
    pub(crate) fn end(&self) {
        if self.is_noted.swap(false, Ordering::Relaxed) {
            self.partition.scans.end(self.epoch);
        }
    }
}

impl Clone for Moment {
    fn clone(&self) -> Self {
        let is_noted = self.is_noted.load(Ordering::Relaxed);
        let is_noted = AtomicBool::new(is_noted && self.partition.scans.begin_again(self.epoch));
        Self { partition: Arc::clone(&self.partition), epoch: self.epoch, is_noted }
    }
}

impl Drop for Moment {
    fn drop(&mut self) {
        self.end();
    }
}

/// A scan of one key space of one partition.
pub(crate) struct RangeScan {
    moment: Moment,
    cursor: Cursor,
    /// Entries that the cursor is past: their records are on their way.
    ahead: VecDeque<u64>,
}

/// The rest of a scan.
enum Cursor {
    /// Of a tree.
    Ordered(PartialKeyCursor),
    /// Of a table, whose keys are still to be read.
    Unsorted { table: HashIndex, range: KeyRange, direction: Direction },
    /// Of a table.
    Sorted(vec::IntoIter<u64>),
}

impl RangeScan {
    /// Begins a scan of the state that `view`, the partition's, shows while it is locked.
    pub(crate) fn begin(
        partition: &Arc<Partition>,
        view: &View,
        space: KeySpaceId,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<Self> {
        let index = &view.user_space(space)?.index;
        Self::of(Moment::of(partition, view, Reader::Scan), index, &view.blocks, range, direction)
    }

    /// Begins a scan of an index as it was at a moment, with the keys of its entries.
    pub(crate) fn of(
        moment: Moment,
        index: &Index,
        keys: &ReadableBlocks,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<Self> {
        let cursor = match index {
            Index::Ordered(tree) => {
                let (start, end) = (range.start(), range.end());
                // A tree is not given a range that ends before it begins.
                let end = if range.is_empty() { Some(start) } else { end };
                Cursor::Ordered(match direction {
                    Direction::Forward => tree.range(start, end, keys)?,
                    Direction::Reverse => tree.range_rev(start, end, keys)?,
                })
            }
            Index::Hash(table) => {
                Cursor::Unsorted { table: table.clone(), range: range.clone(), direction }
            }
        };
        Ok(Self { moment, cursor, ahead: VecDeque::new() })
    }
}

/// The scans of all partitions as one, in the order of keys.
pub(crate) fn join(
    mut scans: Vec<RangeScan>,
    partitioning: &Partitioning,
    direction: Direction,
) -> Scan {
    match (scans.len(), partitioning) {
        (1, _) => Box::new(scans.swap_remove(0)),
        (_, Partitioning::Hash(_)) => {
            Box::new(KWayMerge::new(scans, move |a, b| direction.is_before(a, b)))
        }
        (_, Partitioning::Ranges(_)) => {
            if direction == Direction::Reverse {
                scans.reverse();
            }
            Box::new(scans.into_iter().flatten())
        }
    }
}

impl Cursor {
    fn next(&mut self) -> Option<u64> {
        match self {
            Self::Ordered(cursor) => cursor.next(),
            Self::Sorted(entries) => entries.next(),
            Self::Unsorted { .. } => None,
        }
    }
}

/// The entries of a table whose keys are in a range, in order; those whose keys cannot be read come
/// first, for the scan to say so.
fn sorted(
    partition: &Partition,
    table: &HashIndex,
    range: &KeyRange,
    direction: Direction,
) -> vec::IntoIter<u64> {
    let entries: Vec<_> = table.iter().collect();
    let (mut first, mut found) = (Vec::new(), Vec::new());
    for entries in entries.chunks(SORTED_AT_ONCE) {
        let view = partition.view.read();
        entries.iter().for_each(|entry| view.blocks.prefetch(*entry));
        for &entry in entries {
            let inside = |key: &[u8]| range.contains(key).then(|| Box::<[u8]>::from(key));
            match view.blocks.with_key(entry, inside) {
                Ok(key) => found.extend(key.map(|key| (key, entry))),
                Err(_) => first.push(entry),
            }
        }
    }
    found.sort_unstable();
    if direction == Direction::Reverse {
        found.reverse();
    }
    first.extend(found.into_iter().map(|(_, entry)| entry));
    first.into_iter()
}

impl Iterator for RangeScan {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        let Self { moment, cursor, ahead } = self;
        let partition = moment.partition();
        if let Cursor::Unsorted { table, range, direction } = cursor {
            *cursor = Cursor::Sorted(sorted(partition, table, range, *direction));
        }
        let pinned = {
            let view = partition.view.read();
            while ahead.len() <= AHEAD
                && let Some(entry) = cursor.next()
            {
                view.blocks.prefetch_record(Entry::from_bits(entry));
                ahead.push_back(entry);
            }
            view.pin(Entry::from_bits(ahead.pop_front()?))
        };
        Some(partition.named(pinned.and_then(|pinned| pinned.pair(partition.salt))))
    }
}

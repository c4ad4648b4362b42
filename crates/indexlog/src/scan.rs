//! Scans: a snapshot of the index, and the space that it leads to.

use std::collections::BTreeMap;
use std::sync::Arc;

use halite_engine::{Bytes, Direction, KeyRange, KeySpaceId, Result};
use halite_index::Cursor;
use halite_pmem::locks::Mutex;

use crate::entry::Entry;
use crate::partition::Partition;
use crate::read::View;

/// The scans that are under way, by the epoch of the view in which each began.
#[derive(Default)]
pub(crate) struct Scans {
    epochs: Mutex<BTreeMap<u64, usize>>,
}

impl Scans {
    /// The epoch of the oldest scan. What went out of sight later, it may still read.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.epochs.lock().keys().next().copied()
    }

    fn begin(&self, epoch: u64) {
        *self.epochs.lock().entry(epoch).or_default() += 1;
    }

    fn end(&self, epoch: u64) {
        let mut epochs = self.epochs.lock();
        if let Some(count) = epochs.get_mut(&epoch) {
            *count -= 1;
            if *count == 0 {
                epochs.remove(&epoch);
            }
        }
    }
}

/// A scan of one key space of one partition.
pub(crate) struct RangeScan {
    partition: Arc<Partition>,
    cursor: Cursor,
    epoch: u64,
}

impl RangeScan {
    /// Begins a scan of what `view`, the partition's, shows while it is locked.
    pub(crate) fn begin(
        partition: &Arc<Partition>,
        view: &View,
        space: KeySpaceId,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<Self> {
        let tree = &view.user_space(space)?.tree;
        let (start, end) = (range.start(), range.end());
        // An empty range is not a tree's concern.
        let end = if range.is_empty() { Some(start) } else { end };
        let cursor = match direction {
            Direction::Forward => tree.range(start, end),
            Direction::Reverse => tree.range_rev(start, end),
        };
        let epoch = view.epoch;
        // Under the view's lock: nothing goes out of sight between the snapshot and this.
        partition.scans.begin(epoch);
        Ok(Self { partition: Arc::clone(partition), cursor, epoch })
    }
}

impl Iterator for RangeScan {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = Entry::from_bits(self.cursor.next()?);
        Some(self.partition.read_pair(entry))
    }
}

impl Drop for RangeScan {
    fn drop(&mut self) {
        self.partition.scans.end(self.epoch);
    }
}

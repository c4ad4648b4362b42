//! Scans: a snapshot of the index, and the space that it leads to.

use std::collections::BTreeMap;
use std::sync::Arc;

use halite_engine::{Bytes, Direction, KeyRange, KeySpaceId, Partitioning, Result, Scan};
use halite_index::{PartialKeyCursor, PartialKeyTree};
use halite_pmem::locks::Mutex;

use crate::entry::Entry;
use crate::merge::Merge;
use crate::partition::Partition;
use crate::read::{ReadableBlocks, View};

/// The scans and snapshots that are under way, by the epoch of the view in which each began.
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

/// A moment of a partition. What went out of sight later is kept while it lives.
pub(crate) struct Moment {
    partition: Arc<Partition>,
    epoch: u64,
}

impl Moment {
    /// The present of a partition whose view, `view`, is locked.
    pub(crate) fn of(partition: &Arc<Partition>, view: &View) -> Self {
        // Under the view's lock: nothing goes out of sight between the snapshot and this.
        partition.scans.begin(view.epoch);
        Self { partition: Arc::clone(partition), epoch: view.epoch }
    }

    pub(crate) fn partition(&self) -> &Partition {
        &self.partition
    }
}

impl Clone for Moment {
    fn clone(&self) -> Self {
        self.partition.scans.begin(self.epoch);
        Self { partition: Arc::clone(&self.partition), epoch: self.epoch }
    }
}

impl Drop for Moment {
    fn drop(&mut self) {
        self.partition.scans.end(self.epoch);
    }
}

/// A scan of one key space of one partition.
pub(crate) struct RangeScan {
    moment: Moment,
    cursor: PartialKeyCursor,
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
        Self::of(Moment::of(partition, view), tree, &view.blocks, range, direction)
    }

    /// Begins a scan of an index as it was at a moment, with the keys of its entries.
    pub(crate) fn of(
        moment: Moment,
        tree: &PartialKeyTree,
        keys: &ReadableBlocks,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<Self> {
        let (start, end) = (range.start(), range.end());
        // An empty range is not a tree's concern.
        let end = if range.is_empty() { Some(start) } else { end };
        let cursor = match direction {
            Direction::Forward => tree.range(start, end, keys)?,
            Direction::Reverse => tree.range_rev(start, end, keys)?,
        };
        Ok(Self { moment, cursor })
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
        (_, Partitioning::Hash(_)) => Box::new(Merge::new(scans, direction)),
        (_, Partitioning::Ranges(_)) => {
            if direction == Direction::Reverse {
                scans.reverse();
            }
            Box::new(scans.into_iter().flatten())
        }
    }
}

impl Iterator for RangeScan {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = Entry::from_bits(self.cursor.next()?);
        Some(self.moment.partition().read_pair(entry))
    }
}

//! Scans: a snapshot of the index, and the space that it leads to.

use std::collections::BTreeMap;
use std::sync::Arc;

use halite_engine::{Bytes, Direction, KeyRange, Result};
use halite_index::Cursor;
use halite_pmem::locks::Mutex;

use crate::engine::Shared;
use crate::entry::Entry;

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

/// A scan of one key space.
pub(crate) struct RangeScan {
    shared: Arc<Shared>,
    cursor: Cursor,
    epoch: u64,
}

impl RangeScan {
    pub(crate) fn begin(
        shared: &Arc<Shared>,
        space: u32,
        range: &KeyRange,
        direction: Direction,
    ) -> Option<Self> {
        let view = shared.view.read();
        let tree = &view.spaces.get(&space)?.tree;
        let (start, end) = (range.start(), range.end());
        // An empty range is not a tree's concern.
        let end = if range.is_empty() { Some(start) } else { end };
        let cursor = match direction {
            Direction::Forward => tree.range(start, end),
            Direction::Reverse => tree.range_rev(start, end),
        };
        let epoch = view.epoch;
        // Under the view's lock: nothing goes out of sight between the snapshot and this.
        shared.scans.begin(epoch);
        Some(Self { shared: Arc::clone(shared), cursor, epoch })
    }
}

impl Iterator for RangeScan {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = Entry::from_bits(self.cursor.next()?);
        Some(self.shared.read_pair(entry))
    }
}

impl Drop for RangeScan {
    fn drop(&mut self) {
        self.shared.scans.end(self.epoch);
    }
}

//! Snapshots: one point in time across all partitions.
//!
//! The views of all partitions are locked, in order, and the trees of their key spaces cloned, each in
//! constant time. Each partition notes the epoch, as for a scan: what goes out of sight later waits in
//! limbo until the snapshot, and the scans of it, are gone.

use std::collections::BTreeMap;
use std::sync::Arc;

use halite_engine::{
    Bytes, Direction, Error, KeyRange, KeySpaceId, Partitioning, Result, Scan, Snapshot,
};

use crate::batch;
use crate::engine::is_internal;
use crate::partition::Partition;
use crate::read::Space;
use crate::scan::{Moment, RangeScan, join};
use crate::write::CATALOGUE;

/// A snapshot of a store.
pub(crate) struct StoreSnapshot {
    partitioning: Partitioning,
    parts: Vec<Part>,
}

/// What a partition showed.
struct Part {
    moment: Moment,
    spaces: BTreeMap<u32, Space>,
}

impl StoreSnapshot {
    /// The present of all partitions.
    pub(crate) fn take(partitions: &[Arc<Partition>], partitioning: &Partitioning) -> Result<Self> {
        let parts = batch::views(partitions, |partition, view| {
            let mut spaces = view.spaces.clone();
            // A key space is dropped when its name is gone; it leaves the views one after the other. The
            // first partition has the names.
            if Arc::ptr_eq(partition, &partitions[0]) {
                for (id, space) in view.spaces.iter().filter(|(id, _)| !is_internal(**id)) {
                    if view.live(CATALOGUE, space.name.as_bytes())?.is_none() {
                        spaces.remove(id);
                    }
                }
            }
            Ok(Part { moment: Moment::of(partition, view), spaces })
        });
        let parts = parts.into_iter().collect::<Result<_>>()?;
        Ok(Self { partitioning: partitioning.clone(), parts })
    }

    /// A key space in a part. The first part knows which there were.
    fn space(&self, part: usize, space: KeySpaceId) -> Result<&Space> {
        let exists = !is_internal(space.0) && self.parts[0].spaces.contains_key(&space.0);
        let found = self.parts[part].spaces.get(&space.0);
        found.filter(|_| exists).ok_or(Error::NoSuchKeySpace)
    }
}

impl Snapshot for StoreSnapshot {
    fn key_spaces(&self) -> Vec<(String, KeySpaceId)> {
        let named = self.parts[0].spaces.iter().filter(|(id, _)| !is_internal(**id));
        let mut all: Vec<_> =
            named.map(|(id, space)| (space.name.to_string(), KeySpaceId(*id))).collect();
        all.sort();
        all
    }

    fn get(&self, space: KeySpaceId, key: &[u8]) -> Result<Option<Bytes>> {
        let part = self.partitioning.partition_of(key);
        let tree = &self.space(part, space)?.tree;
        self.parts[part].moment.partition().get_in(tree, key)
    }

    fn len(&self, space: KeySpaceId) -> Result<u64> {
        (0..self.parts.len()).map(|part| Ok(self.space(part, space)?.tree.len())).sum()
    }

    fn scan(&self, space: KeySpaceId, range: KeyRange, direction: Direction) -> Result<Scan> {
        let begin = |(number, part): (usize, &Part)| {
            let tree = &self.space(number, space)?.tree;
            let view = part.moment.partition().view.read();
            RangeScan::of(part.moment.clone(), tree, &view.blocks, &range, direction)
        };
        let scans: Result<Vec<_>> = self.parts.iter().enumerate().map(begin).collect();
        Ok(join(scans?, &self.partitioning, direction))
    }
}

//! The engine's capabilities: its traits beyond the core of the contract.

use std::sync::Arc;

use halite_contract::{
    Direction, Durability, Expectation, KeyRange, KeySpaceId, Op, Partitioned, Partitioning,
    Result, Scan, Snapshot, Snapshots, SpaceManagement, Stats, Transactional,
};

use super::{Lsm, count};
use crate::long_scan::LongScan;
use crate::record;
use crate::refusals::Purpose;
use crate::scan::{ReadAt, bounds};
use crate::snapshot::StoreSnapshot;

impl Partitioned for Lsm {
    fn partitioning(&self) -> Partitioning {
        self.partitioning.clone()
    }

    fn partitions(&self) -> usize {
        self.store.trees.len()
    }

    fn partition_of(&self, key: &[u8]) -> usize {
        self.tree_of(key)
    }

    fn prefetch(&self, partition: usize, space: KeySpaceId, keys: &[&[u8]]) {
        let Some(tree) = self.store.trees.get(partition) else { return };
        let full: Vec<Vec<u8>> =
            keys.iter().map(|key| [&space.0.to_be_bytes(), *key].concat()).collect();
        let full: Vec<&[u8]> = full.iter().map(Vec::as_slice).collect();
        tree.view().active.prefetch_keys(&full);
        if let Some(rows) = &self.store.rows {
            rows.prefetch(partition, &full);
        }
    }

    fn scan_partition(
        &self,
        partition: usize,
        space: KeySpaceId,
        range: KeyRange,
        direction: Direction,
    ) -> Result<Scan> {
        self.spaces.check(space)?;
        let at = ReadAt::now(&self.store);
        Ok(Box::new(LongScan::new(&at, partition, bounds(space, &range), direction)))
    }

    fn len_of_partition(&self, partition: usize, space: KeySpaceId) -> Result<u64> {
        self.count_partition(partition, space, &mut |_, _| true).map(|(len, _)| len)
    }

    fn count_partition(
        &self,
        partition: usize,
        space: KeySpaceId,
        go_on: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<(u64, bool)> {
        self.spaces.check(space)?;
        count(&ReadAt::now(&self.store), partition..partition + 1, space, go_on)
    }

    fn partition_stats(&self, partition: usize) -> Stats {
        let domain = self.store.memory.home().pool().domain();
        let mut stats = Stats { domain, is_tiered: true, ..Stats::default() };
        self.add_stats(partition, &mut stats);
        stats
    }
}

impl Snapshots for Lsm {
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        let _writing = self.writing.read();
        Ok(Arc::new(StoreSnapshot {
            at: ReadAt::now(&self.store),
            spaces: self.spaces.load(),
            partitioning: self.partitioning.clone(),
        }))
    }
}

impl Transactional for Lsm {
    fn write_if(
        &self,
        ops: &[Op<'_>],
        durability: Durability,
        expected: &[Expectation<'_>],
    ) -> Result<()> {
        self.write_for(ops, Purpose::of(ops, Purpose::Put), durability, expected)
    }
}

impl SpaceManagement for Lsm {
    fn write_bookkeeping(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        self.write_for(ops, Purpose::of(ops, Purpose::Bookkeeping), durability, &[])
    }

    /// Does nothing where the store has threads for that.
    fn collect_ahead(&self, partition: usize) -> Result<bool> {
        self.store.collect_ahead(partition)
    }

    fn space_of(&self, key_len: usize, value_len: usize) -> u64 {
        record::len(key_len + 4, value_len) as u64
    }
}

//! The engine's capabilities: its traits beyond the core of the contract.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use halite_contract::{
    ChangeFeed, Changes, Direction, Durability, Engine, Expectation, IndexSnapshots, KeyRange,
    KeySpaceId, OnDemand, Op, Partitioned, Partitioning, Result, Scan, Snapshot, Snapshots,
    SpaceManagement, Stats, Transactional,
};

use super::{IndexLog, check_ops};
use crate::read::scan::RangeScan;
use crate::read::snapshot::StoreSnapshot;
use crate::record;

impl Partitioned for IndexLog {
    fn partitioning(&self) -> Partitioning {
        self.partitioning.clone()
    }

    fn partitions(&self) -> usize {
        self.partitions.len()
    }

    fn partition_of(&self, key: &[u8]) -> usize {
        self.partitioning.partition_of(key)
    }

    fn prefetch(&self, partition: usize, space: KeySpaceId, keys: &[&[u8]]) {
        if let Some(partition) = self.partitions.find(partition) {
            partition.prefetch(space, keys);
        }
    }

    fn scan_partition(
        &self,
        partition: usize,
        space: KeySpaceId,
        range: KeyRange,
        direction: Direction,
    ) -> Result<Scan> {
        let partition = self.partitions.get(partition)?;
        let scan = RangeScan::begin(partition, &partition.view.read(), space, &range, direction)?;
        Ok(Box::new(scan))
    }

    fn len_of_partition(&self, partition: usize, space: KeySpaceId) -> Result<u64> {
        let view = self.partitions.get(partition)?.view.read();
        Ok(view.user_space(space)?.index.len())
    }

    fn visit_partition(
        &self,
        partition: usize,
        space: KeySpaceId,
        position: u64,
        count: usize,
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<u64>> {
        let partition = self.partitions.get(partition)?;
        partition.named(partition.visit(space, position, count, visit))
    }

    fn sync_partition(&self, partition: usize) -> Result<()> {
        self.partitions.get(partition)?.change(|writer| writer.sync())
    }

    fn partition_stats(&self, partition: usize) -> Stats {
        let mut stats = Stats { domain: self.pool.domain(), ..Stats::default() };
        if let Some(partition) = self.partitions.find(partition) {
            partition.add_stats(&mut stats);
        }
        stats
    }
}

impl Snapshots for IndexLog {
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        let all = self.partitions.all()?;
        Ok(Arc::new(StoreSnapshot::take(all, &self.partitioning, self.history)?))
    }
}

impl Transactional for IndexLog {
    fn write_if(
        &self,
        ops: &[Op<'_>],
        durability: Durability,
        expected: &[Expectation<'_>],
    ) -> Result<()> {
        if expected.is_empty() {
            return self.write(ops, durability);
        }
        check_ops(ops)?;
        self.write_all(ops, durability, expected, false)
    }
}

impl ChangeFeed for IndexLog {
    fn change_log(&self) -> Option<u64> {
        self.change_log
    }

    fn change_positions(&self, partition: usize) -> Result<Range<u64>> {
        self.partitions.get(partition)?.change_positions()
    }

    fn changes(&self, partition: usize, from: u64) -> Result<Changes> {
        self.partitions.get(partition)?.changes(partition, from)
    }
}

impl OnDemand for IndexLog {
    fn wait_ready(&self) -> Result<()> {
        self.partitions.all().map(drop)
    }

    fn wait_partition(&self, partition: usize, time: Duration) -> Result<bool> {
        self.partitions.wait(partition, time)
    }
}

impl IndexSnapshots for IndexLog {
    fn snapshot_index(&self) -> Result<bool> {
        let mut all_have = true;
        for partition in self.partitions.all()? {
            all_have &= partition.snapshot_index()?;
        }
        Ok(all_have)
    }
}

impl SpaceManagement for IndexLog {
    fn write_bookkeeping(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        self.write_for(ops, durability, true)
    }

    fn collect_ahead(&self, partition: usize) -> Result<bool> {
        match self.partitions.find(partition) {
            Some(partition) => partition.collect_ahead(),
            None => Ok(false),
        }
    }

    fn space_of(&self, key_len: usize, value_len: usize) -> u64 {
        record::space(key_len, value_len)
    }
}

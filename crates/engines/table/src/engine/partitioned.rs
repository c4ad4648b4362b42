//! The partitions of the testbed as those of the contract: by a hash of the key.

use std::sync::Arc;

use halite_contract::{
    Direction, KeyRange, KeySpaceId, Partitioned, Partitioning, Result, Scan, Stats,
};

use super::TableEngine;
use super::scan::PartScan;

impl Partitioned for TableEngine {
    fn partitioning(&self) -> Partitioning {
        self.store.partitioning.clone()
    }

    fn partitions(&self) -> usize {
        self.store.testbed.partitions()
    }

    fn partition_of(&self, key: &[u8]) -> usize {
        self.store.partitioning.partition_of(key)
    }

    fn scan_partition(
        &self,
        partition: usize,
        space: KeySpaceId,
        range: KeyRange,
        direction: Direction,
    ) -> Result<Scan> {
        let (space, reader) = self.store.read(space)?;
        let reader = Arc::new(reader);
        Ok(Box::new(PartScan::new(&self.store, &reader, &space, partition, (range, direction))))
    }

    fn len_of_partition(&self, partition: usize, space: KeySpaceId) -> Result<u64> {
        let (space, _spaces) = self.store.space(space)?;
        self.store.len_of(&space, partition)
    }

    fn sync_partition(&self, partition: usize) -> Result<()> {
        self.store.sync_partition(partition)
    }

    fn partition_stats(&self, partition: usize) -> Stats {
        self.store.partition_stats(partition)
    }
}

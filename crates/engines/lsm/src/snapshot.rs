//! A snapshot: a sequence that is kept readable, and the key spaces of its time.

use std::sync::Arc;

use halite_contract::{Bytes, Direction, KeyRange, KeySpaceId, Result, Scan, Snapshot};

use crate::engine::{count, scan_all};
use crate::read::At;
use crate::scan::ReadAt;
use crate::spaces::Spaces;

/// One state of all trees.
pub(crate) struct StoreSnapshot {
    pub(crate) at: Arc<ReadAt>,
    pub(crate) spaces: Arc<Spaces>,
    pub(crate) partitioning: halite_contract::Partitioning,
}

impl StoreSnapshot {
    fn key(space: KeySpaceId, key: &[u8]) -> Vec<u8> {
        [&space.0.to_be_bytes(), key].concat()
    }
}

impl Snapshot for StoreSnapshot {
    fn key_spaces(&self) -> Vec<(String, KeySpaceId)> {
        self.spaces.named()
    }

    fn get(&self, space: KeySpaceId, key: &[u8]) -> Result<Option<Bytes>> {
        self.spaces.check(space)?;
        let tree = self.partitioning.partition_of(key);
        self.at.store.get(tree, &Self::key(space, key), At::Sequence(self.at.sequence))
    }

    fn len(&self, space: KeySpaceId) -> Result<u64> {
        self.spaces.check(space)?;
        let (len, _) = count(&self.at, 0..self.partitioning.count(), space, &mut |_, _| true)?;
        Ok(len)
    }

    fn scan(&self, space: KeySpaceId, range: KeyRange, direction: Direction) -> Result<Scan> {
        self.spaces.check(space)?;
        Ok(scan_all(&self.at, &self.partitioning, space, &range, direction))
    }
}

//! Snapshots: readers of the whole store at one time.

use std::sync::Arc;

use halite_contract::{Bytes, Direction, Error, KeyRange, KeySpaceId, Result, Scan, Snapshot};

use super::pairs::Pairs;
use super::scan::scan;
use super::space::Space;
use super::store::{ById, Store};
use super::versions::Reader;

/// A snapshot.
pub(super) struct TableSnapshot {
    store: Arc<Store>,
    pub(super) reader: Arc<Reader>,
    pub(super) spaces: Arc<ById>,
}

impl TableSnapshot {
    /// Of the present.
    pub(super) fn new(store: &Arc<Store>) -> Self {
        // No key space comes or goes between the two.
        let spaces = store.spaces.read();
        let reader = Arc::new(store.versions.read());
        Self { store: store.clone(), reader, spaces: spaces.by_id.clone() }
    }

    pub(super) fn reader(&self) -> &Reader {
        &self.reader
    }

    fn space(&self, id: KeySpaceId) -> Result<&Arc<Space>> {
        self.spaces.get(&id).ok_or(Error::NoSuchKeySpace)
    }
}

impl Snapshot for TableSnapshot {
    fn key_spaces(&self) -> Vec<(String, KeySpaceId)> {
        self.spaces.values().map(|space| (space.name.clone(), space.id)).collect()
    }

    fn get(&self, space: KeySpaceId, key: &[u8]) -> Result<Option<Bytes>> {
        let space = self.space(space)?;
        let partition = self.store.partitioning.partition_of(key);
        self.store.read_partition(partition, |tx| {
            if let Some(before) = self.reader.replaced((space.id, partition), key) {
                return Ok(before);
            }
            let mut pairs = Pairs::new(tx, partition, &space.tables[partition]);
            Ok(pairs.get(key)?.map(Bytes::from))
        })
    }

    /// Reads all pairs.
    fn len(&self, space: KeySpaceId) -> Result<u64> {
        let all = self.scan(space, KeyRange::all(), Direction::Forward)?;
        all.map(|pair| pair.map(|_| 1)).sum()
    }

    fn scan(&self, space: KeySpaceId, range: KeyRange, direction: Direction) -> Result<Scan> {
        Ok(scan(&self.store, &self.reader, self.space(space)?, &range, direction))
    }
}

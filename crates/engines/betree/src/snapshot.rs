//! A snapshot of the moment: a view that is kept, and the datasets of its time.

use std::sync::Arc;

use halite_contract::{Bytes, Direction, KeyRange, KeySpaceId, Result, Scan, Snapshot};

use crate::catalogue::Catalogue;
use crate::read;
use crate::scan::StoreScan;
use crate::store::Store;
use crate::store::view::View;
use crate::tree::Context;

/// One state of all datasets.
pub(crate) struct StoreSnapshot {
    context: Arc<Context>,
    pub(crate) view: Arc<View>,
    /// The sequence up to which it shows everything.
    pub(crate) at: u64,
    catalogue: Arc<Catalogue>,
}

impl StoreSnapshot {
    pub(crate) fn take(store: &Store) -> Self {
        let (view, at, catalogue) = store.state();
        Self { context: Arc::clone(&store.trees), view, at, catalogue }
    }

    /// Whether it is of a store.
    pub(crate) fn is_of(&self, store: &Store) -> bool {
        Arc::ptr_eq(&self.context, &store.trees)
    }
}

impl Snapshot for StoreSnapshot {
    fn key_spaces(&self) -> Vec<(String, KeySpaceId)> {
        self.catalogue.named()
    }

    fn get(&self, space: KeySpaceId, key: &[u8]) -> Result<Option<Bytes>> {
        self.catalogue.check(space)?;
        read::get(&self.context, &self.view, self.at, space.0, key)
    }

    fn len(&self, space: KeySpaceId) -> Result<u64> {
        self.catalogue.check(space)?;
        let (view, all) = (Arc::clone(&self.view), KeyRange::all());
        StoreScan::new(&self.context, view, self.at, space.0, &all, Direction::Forward)
            .count_pairs()
    }

    fn scan(&self, space: KeySpaceId, range: KeyRange, direction: Direction) -> Result<Scan> {
        self.catalogue.check(space)?;
        let view = Arc::clone(&self.view);
        let scan = StoreScan::new(&self.context, view, self.at, space.0, &range, direction);
        Ok(Box::new(scan))
    }
}

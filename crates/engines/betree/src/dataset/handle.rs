//! A persistent snapshot that is open for reading.

use std::sync::Arc;

use halite_contract::{Bytes, Direction, Error, KeyRange, KeySpaceId, Result, Scan, Snapshot};

use crate::read;
use crate::scan::StoreScan;
use crate::store::view::{Base, View};
use crate::tree::Context;

/// A snapshot of one dataset. It keeps the view that it was opened in, so its extents stay if it is deleted.
pub(super) struct OpenSnapshot {
    pub(super) context: Arc<Context>,
    pub(super) view: Arc<View>,
    pub(super) space: KeySpaceId,
    /// The name of the dataset when it was opened.
    pub(super) name: String,
    pub(super) base: Base,
}

impl OpenSnapshot {
    fn check(&self, space: KeySpaceId) -> Result<()> {
        match space == self.space {
            true => Ok(()),
            false => Err(Error::NoSuchKeySpace),
        }
    }

    fn walk(&self, range: &KeyRange, direction: Direction) -> StoreScan {
        let (view, dataset) = (Arc::clone(&self.view), self.space.0);
        match &self.base {
            Base::Tree(tree) => {
                let of = (dataset, tree.clone());
                StoreScan::of_tree(&self.context, view, of, range, direction)
            }
            Base::Pending { sequence, .. } => {
                StoreScan::new(&self.context, view, *sequence, dataset, range, direction)
            }
        }
    }
}

impl Snapshot for OpenSnapshot {
    fn key_spaces(&self) -> Vec<(String, KeySpaceId)> {
        vec![(self.name.clone(), self.space)]
    }

    fn get(&self, space: KeySpaceId, key: &[u8]) -> Result<Option<Bytes>> {
        self.check(space)?;
        match &self.base {
            Base::Tree(tree) => read::get_in_tree(&self.context, (space.0, tree), key),
            Base::Pending { sequence, .. } => {
                read::get(&self.context, &self.view, *sequence, space.0, key)
            }
        }
    }

    fn len(&self, space: KeySpaceId) -> Result<u64> {
        self.check(space)?;
        self.walk(&KeyRange::all(), Direction::Forward).count_pairs()
    }

    fn scan(&self, space: KeySpaceId, range: KeyRange, direction: Direction) -> Result<Scan> {
        self.check(space)?;
        Ok(Box::new(self.walk(&range, direction)))
    }
}

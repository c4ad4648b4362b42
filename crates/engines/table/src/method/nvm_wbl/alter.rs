//! Statements: another catalog, with the indexes that it has and without what was dropped, by one publication.

use std::collections::BTreeMap;
use std::sync::Arc;

use halite_alloc::Error as SpaceError;
use halite_alloc::heap::{DEAD_OWNERS_MAX, Heap, NvPtr, Publication};

use super::{NvmWbl, SEGMENTS};
use crate::catalog::Dropping;
use crate::index::nonvolatile::NonVolatileTree;
use crate::method::catalog_slot::{CatalogSlot, OWNERS_END, check_ids, indexes, owner};
use crate::method::house::{self, root_of};
use crate::tuple::cancel;
use crate::{Catalog, IndexId, Result};

impl NvmWbl {
    /// Puts a catalog in place of the one that is there, with all commits so far.
    pub(super) fn change_catalog(&mut self, catalog: Catalog) -> Result<()> {
        check_ids(&catalog, OWNERS_END)?;
        self.sync_group()?;
        let is_new = |dropping: &&Dropping| !self.catalog.dropping().contains(dropping);
        let dropped: Vec<_> = catalog.dropping().iter().filter(is_new).copied().collect();
        self.reclaim_for(dropped.len())?;
        let shared = Arc::clone(&self.shared);
        let heap = &mut shared.state.write().heap;
        match self.publish_catalog(heap, catalog.clone(), &dropped) {
            Err(error)
                if error.is_refusal() && !dropped.is_empty() && self.cushion.give(heap)? =>
            {
                self.publish_catalog(heap, catalog, &dropped)?;
            }
            published => published?,
        }
        if !dropped.is_empty() {
            self.dropped_at = Some(self.commits.covered);
        }
        Ok(())
    }

    /// Puts a catalog in its place, with an index for each that it has and the other had not, and without what was dropped.
    fn publish_catalog(
        &mut self,
        heap: &mut Heap,
        catalog: Catalog,
        dropped: &[Dropping],
    ) -> Result<()> {
        let mut publication = Publication::new();
        let planned = self.plan_catalog(heap, &catalog, &mut publication);
        for dropping in dropped {
            publication.drop_owner(owner(dropping.id()));
            if let Dropping::Index(index) = *dropping {
                publication.remove_root(&root_of(index));
            }
        }
        publication.free(self.catalog_slot);
        let reserved = publication.activated().to_vec();
        let published = planned.and_then(|planned| {
            heap.publish(&mut publication)?;
            Ok(planned)
        });
        match published {
            Ok((slot, trees)) => {
                (self.catalog, self.catalog_slot, self.trees) = (catalog, slot, trees);
                Ok(())
            }
            Err(error) if error.is_refusal() => {
                cancel(heap, &reserved)?;
                Err(error)
            }
            failed => self.failing(failed.map(drop)),
        }
    }

    fn plan_catalog(
        &self,
        heap: &mut Heap,
        catalog: &Catalog,
        publication: &mut Publication,
    ) -> Result<(NvPtr<CatalogSlot>, BTreeMap<IndexId, NonVolatileTree>)> {
        let slot = house::write_catalog(heap, catalog, publication)?;
        let mut trees = BTreeMap::new();
        for (_, index) in indexes(catalog) {
            let tree = match self.trees.get(&index) {
                Some(tree) => *tree,
                None => {
                    let (owner, len) = (owner(index.0), self.options.node_len);
                    let tree = NonVolatileTree::create(heap, owner, len, publication)?;
                    publication.set_root(&root_of(index), tree.header().word());
                    tree
                }
            };
            trees.insert(index, tree);
        }
        Ok((slot, trees))
    }

    /// Whether a view may read what was dropped.
    pub(super) fn is_dropped_viewed(&self) -> bool {
        let oldest = self.shared.oldest_view();
        oldest.zip(self.dropped_at).is_some_and(|(oldest, dropped_at)| oldest <= dropped_at)
    }

    /// Reclaims what was dropped before so many others are.
    fn reclaim_for(&self, dropped: usize) -> Result<()> {
        let mut state = self.shared.state.write();
        let heap = &mut state.heap;
        if heap.dropped_owners().count() + dropped <= DEAD_OWNERS_MAX {
            return Ok(());
        }
        if self.is_dropped_viewed() {
            let why = "a view needs tables and indexes that were dropped before".to_owned();
            return Err(SpaceError::Publication { why }.into());
        }
        while !heap.reclaim(SEGMENTS)? {}
        Ok(())
    }
}

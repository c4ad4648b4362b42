//! The use of the heap, and its check.

use halite_alloc::heap::{AnyPtr, NvPtr};

use super::{NvmCow, owner};
use crate::index::Direction;
use crate::method::Footprint;
use crate::{KeyRange, Result};

impl NvmCow {
    pub(super) fn used(&self) -> Result<Footprint> {
        let usage = self.store.shared().heap().usage()?;
        let persisted = |id| usage.owners.get(&owner(id)).map_or(0, |usage| usage.persisted);
        let mut footprint = Footprint::default();
        for table in self.catalog.tables() {
            footprint.table += persisted(table.id().0);
            footprint.index += persisted(table.primary().0);
            footprint.index += table.indexes().map(|index| persisted(index.id.0)).sum::<u64>();
        }
        footprint.other = usage.total - footprint.total();
        Ok(footprint)
    }

    /// Checks all nodes and tuples, and that each persisted slot is reached. All commits are synced.
    pub(super) fn verify_slots(&self) -> Result<()> {
        let mut reachable = Vec::new();
        for table in self.catalog.tables() {
            let (tree, tuples) = (table.primary().0, self.tuples(table));
            let mut scan = self.store.scan(tree, KeyRange::all().bounds(), Direction::Forward);
            while let Some((_, word)) = scan.next()? {
                let heap = self.store.shared().heap();
                reachable.extend(tuples.slots(&heap, NvPtr::from_word(word))?);
            }
        }
        let catalog = AnyPtr::from_word(self.store.attached());
        reachable.extend((!catalog.is_null()).then_some(catalog));
        let heap = self.store.shared().heap();
        self.store.check(&heap, &mut |pointer| reachable.push(pointer))?;
        heap.check(reachable)?;
        Ok(())
    }
}

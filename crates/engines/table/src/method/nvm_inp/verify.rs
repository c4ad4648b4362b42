//! The use of the heap, and its check.

use halite_alloc::heap::NvPtr;

use super::NvmInP;
use crate::index::Direction;
use crate::method::Footprint;
use crate::method::catalog_slot::owner;
use crate::{KeyRange, Result};

impl NvmInP {
    pub(super) fn used(&self) -> Result<Footprint> {
        let usage = self.heap.usage()?;
        let persisted = |id| usage.owners.get(&owner(id)).map_or(0, |usage| usage.persisted);
        let mut footprint = Footprint { log: self.log.len(), ..Footprint::default() };
        for table in self.catalog.tables() {
            footprint.table += persisted(table.id().0);
            footprint.index += persisted(table.primary().0);
            footprint.index += table.indexes().map(|index| persisted(index.id.0)).sum::<u64>();
        }
        footprint.other = usage.total - footprint.total();
        Ok(footprint)
    }

    /// Checks all nodes and tuples, and that each persisted slot is reached.
    pub(super) fn verify_slots(&self) -> Result<()> {
        let mut reachable = vec![self.catalog_slot.any(), self.log.slot()];
        for table in self.catalog.tables() {
            let tuples = self.tuples(table);
            let primary = self.tree(table.primary())?;
            primary.check(&self.heap, |pointer| reachable.push(pointer))?;
            for index in table.indexes() {
                self.tree(index.id)?.check(&self.heap, |pointer| reachable.push(pointer))?;
            }
            let mut scan =
                primary.scan(&self.heap, KeyRange::all().bounds(), Direction::Forward)?;
            while let Some((_, word)) = scan.next()? {
                reachable.extend(tuples.slots(&self.heap, NvPtr::from_word(word))?);
            }
        }
        self.heap.check(reachable)?;
        Ok(())
    }
}

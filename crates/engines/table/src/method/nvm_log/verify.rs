//! The use of the heap, and its check.

use halite_alloc::heap::AnyPtr;

use super::memtable::{Lead, Memtable, key_slot, owners};
use super::{NvmLog, filter};
use crate::index::Direction;
use crate::index::nonvolatile::NonVolatileTree;
use crate::method::catalog_slot::indexes;
use crate::method::{Footprint, Rows};
use crate::tuple::{Form, Tuples};
use crate::{Error, IndexId, KeyRange, Result, Table};

impl NvmLog {
    pub(super) fn used(&self) -> Result<Footprint> {
        let usage = self.heap.usage()?;
        let mut footprint = Footprint { log: self.log.len(), ..Footprint::default() };
        for (_, index) in indexes(&self.catalog) {
            let is_primary =
                self.catalog.index_by_id(index).is_some_and(|(_, position)| position.is_none());
            for tree in self.index(index)?.trees() {
                let [of_tree, of_slots] = owners(tree)
                    .map(|owner| usage.owners.get(&owner).map_or(0, |usage| usage.persisted));
                footprint.index += of_tree;
                match is_primary {
                    true => footprint.table += of_slots,
                    false => footprint.index += of_slots,
                }
            }
        }
        footprint.other = usage.total - footprint.total();
        Ok(footprint)
    }

    /// Checks all nodes, filters and slots, that each row is whole, and that each persisted slot is reached.
    pub(super) fn verify_slots(&self) -> Result<()> {
        let mut reachable = vec![self.catalog_slot.any(), self.log.slot()];
        for table in self.catalog.tables() {
            self.verify_index(table, table.primary(), &mut reachable)?;
            for index in table.indexes() {
                self.verify_index(table, index.id, &mut reachable)?;
            }
            let mut rows = self.rows(table, None, &KeyRange::all(), Direction::Forward)?;
            while rows.next()?.is_some() {}
        }
        self.heap.check(reachable)?;
        Ok(())
    }

    fn verify_index(&self, table: &Table, id: IndexId, reachable: &mut Vec<AnyPtr>) -> Result<()> {
        let index = self.index(id)?;
        reachable.push(index.directory().any());
        for memtable in &index.memtables {
            self.verify_filter(memtable, reachable)?;
        }
        for tree in index.trees() {
            self.verify_tree(table, id == table.primary(), tree, reachable)?;
        }
        Ok(())
    }

    fn verify_tree(
        &self,
        table: &Table,
        is_primary: bool,
        tree: &NonVolatileTree,
        reachable: &mut Vec<AnyPtr>,
    ) -> Result<()> {
        tree.check(&self.heap, |pointer| reachable.push(pointer))?;
        let [_, owner] = owners(tree);
        let tuples =
            Tuples { schema: table.schema(), owner, seed: self.heap.salt(), form: Form::Slots };
        let mut scan = tree.scan(&self.heap, KeyRange::all().bounds(), Direction::Forward)?;
        while let Some((_, word)) = scan.next()? {
            match is_primary {
                true => reachable.extend(Lead::of(word).slots(&self.heap, tuples)?),
                false => reachable.extend(key_slot(word).map(|slot| slot.any())),
            }
        }
        Ok(())
    }

    /// Checks a filter, and that all keys pass it.
    fn verify_filter(&self, memtable: &Memtable, reachable: &mut Vec<AnyPtr>) -> Result<()> {
        let Some(filter) = &memtable.filter else { return Ok(()) };
        reachable.extend(filter.slots());
        filter.check(&self.heap)?;
        let range = KeyRange::all();
        let mut scan = memtable.tree.scan(&self.heap, range.bounds(), Direction::Forward)?;
        while let Some((key, _)) = scan.next()? {
            if !filter.may_have(&self.heap, filter::hash(&self.heap, key))? {
                let what = format!("the filter of {} blocks", filter.blocks());
                let why = format!("it does not let the key {} pass", key.escape_ascii());
                return Err(Error::damaged(what, why));
            }
        }
        Ok(())
    }
}

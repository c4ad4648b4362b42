//! The use of the heap, and its check.

use std::collections::BTreeSet;

use halite_alloc::heap::{AnyPtr, Heap, NvPtr};

use super::head::{Head, Versions};
use super::{NvmWbl, entry_of, tree_key};
use crate::index::Direction;
use crate::method::Footprint;
use crate::method::catalog_slot::owner;
use crate::{Error, KeyRange, Result, Table};

impl NvmWbl {
    pub(super) fn used(&self) -> Result<Footprint> {
        let state = self.shared.state.read();
        let heap = &state.heap;
        let usage = heap.usage()?;
        let persisted = |id| usage.owners.get(&owner(id)).map_or(0, |usage| usage.persisted);
        let mut footprint = Footprint::default();
        for table in self.catalog.tables() {
            footprint.table += persisted(table.id().0);
            footprint.index += persisted(table.primary().0);
            footprint.index += table.indexes().map(|index| persisted(index.id.0)).sum::<u64>();
        }
        footprint.log = heap.len_of(self.commits.slot())?;
        footprint.other = usage.total - footprint.total();
        Ok(footprint)
    }

    /// Checks all nodes, heads and versions, and that each persisted slot is reached. All commits are synced.
    pub(super) fn verify_slots(&self) -> Result<()> {
        let state = self.shared.state.read();
        let heap = &state.heap;
        let mut reachable = vec![self.catalog_slot.any(), self.commits.slot()];
        for tree in self.trees.values() {
            tree.check(heap, |pointer| reachable.push(pointer))?;
        }
        for table in self.catalog.tables() {
            let heads = self.verify_heads(heap, table, &mut reachable)?;
            for index in table.indexes() {
                let mut scan = self.tree(index.id)?.scan(
                    heap,
                    KeyRange::all().bounds(),
                    Direction::Forward,
                )?;
                while let Some((key, word)) = scan.next()? {
                    let is_its =
                        tree_key(index.schema, entry_of(index.schema, key), NvPtr::from_word(word))
                            == key;
                    if !is_its || !heads.contains(&word) {
                        return Err(table.dangling(key));
                    }
                }
            }
        }
        heap.check(reachable)?;
        Ok(())
    }

    /// Checks the heads of a table's rows. Returns their words.
    fn verify_heads(
        &self,
        heap: &Heap,
        table: &Table,
        reachable: &mut Vec<AnyPtr>,
    ) -> Result<BTreeSet<u64>> {
        let mut heads = BTreeSet::new();
        let tree = self.tree(table.primary())?;
        let mut scan = tree.scan(heap, KeyRange::all().bounds(), Direction::Forward)?;
        while let Some((_, word)) = scan.next()? {
            let head = NvPtr::<Head>::from_word(word);
            heads.insert(word);
            reachable.push(head.any());
            let versions = Versions::read(heap, head)?;
            versions.covered(head, &self.commits.sight())?;
            let mut slots = BTreeSet::new();
            for version in versions.0 {
                if version.timestamp > self.commits.covered {
                    let why = "it has a version of a transaction that has not begun";
                    return Err(Error::damaged(format!("the head {word:#x} of a row"), why));
                }
                if !version.tuple.is_null() {
                    slots.extend(self.tuples(table).slots(heap, version.tuple)?);
                }
            }
            reachable.extend(slots);
        }
        Ok(heads)
    }
}

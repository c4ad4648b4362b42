//! The commit of a transaction: prepared unseen, logged, and stored in its places.

use std::collections::BTreeMap;

use halite_alloc::heap::NvPtr;

use super::NvmInP;
use crate::index::nonvolatile::{Change, NonVolatileTree, Prepared};
use crate::method::catalog_slot::owner;
use crate::method::house::HOUSE;
use crate::method::undo_log::{Changes, Freed, Place, Word};
use crate::tuple::{Tuple, cancel};
use crate::write_set::{RowWrite, WriteSet};
use crate::{Error, IndexId, Result, TableId};

/// What a transaction will change, when it is prepared.
#[derive(Default)]
struct Plan {
    changes: Changes,
    indexes: Vec<(NonVolatileTree, Prepared)>,
}

/// The words that the keys of an index lead to; `None` for a key that goes.
type Entries<'w> = BTreeMap<IndexId, Vec<(&'w [u8], Option<u64>)>>;

impl NvmInP {
    pub(super) fn commit_changes(&mut self, writes: &WriteSet) -> Result<()> {
        if writes.is_empty() {
            return Ok(());
        }
        if writes.rows().any(|(_, _, write)| write.after.is_some()) {
            self.cushion.fill(&mut self.heap, owner(HOUSE))?;
        }
        let mut plan = Plan::default();
        let prepared = self.prepare(writes, &mut plan);
        let prepared = prepared.and_then(|()| self.log.prepare(&mut self.heap, &mut plan.changes));
        if let Err(error) = prepared {
            let given_up = cancel(&mut self.heap, &plan.changes.activated);
            // Slots that cannot be given up stay reserved until the heap is opened again.
            return Err(given_up.err().unwrap_or(error));
        }
        let done = self.log.carry_out(&mut self.heap, &plan.changes, &plan.indexes);
        self.failing(done)
    }

    /// Prepares a transaction. After a failure, all slots that were reserved for it are among the activated ones.
    fn prepare(&mut self, writes: &WriteSet, plan: &mut Plan) -> Result<()> {
        let mut entries = Entries::new();
        let mut tuples = BTreeMap::new();
        for (table, key, write) in writes.rows() {
            let tuple = self.prepare_row(table, key, write, &mut plan.changes)?;
            if write.before.is_none() || write.after.is_none() {
                self.recent.forget(table, key);
            }
            let primary = self.catalog.table_by_id(table)?.primary();
            match (&write.before, tuple) {
                (None, Some(tuple)) => {
                    entries.entry(primary).or_default().push((key, Some(tuple.word())));
                    tuples.insert((table, key), tuple.word());
                }
                (Some(_), None) => entries.entry(primary).or_default().push((key, None)),
                _ => {}
            }
        }
        for (index, entry, write) in writes.entries() {
            let word = match &write.after {
                None => None,
                Some(key) => Some(self.tuple_of(index, key, &tuples)?),
            };
            entries.entry(index).or_default().push((entry, word));
        }
        for slot in &plan.changes.activated {
            self.heap.flush(*slot)?;
        }
        for (index, entries) in entries {
            let tree = self.tree(index)?;
            let changes = entries.iter().map(|&(key, word)| {
                word.map_or(Change::Remove(key), |word| Change::Put(key, word))
            });
            let prepared = tree.prepare(&mut self.heap, &changes.collect::<Vec<_>>())?;
            plan.changes.add(&tree, &prepared);
            plan.indexes.push((tree, prepared));
        }
        Ok(())
    }

    /// Prepares the change of a row. Returns its tuple, if there is one afterwards.
    fn prepare_row(
        &mut self,
        table: TableId,
        key: &[u8],
        write: &RowWrite,
        changes: &mut Changes,
    ) -> Result<Option<NvPtr<Tuple>>> {
        let table = self.catalog.table_by_id(table)?.clone();
        let tuples = self.tuples(&table);
        let Some(before) = &write.before else {
            let Some(after) = &write.after else { return Ok(None) };
            let inserted = tuples.insert(&mut self.heap, after.view(table.schema())?)?;
            changes.activated.extend(inserted.slots);
            return Ok(Some(inserted.tuple));
        };
        let tuple = self.tuple(&table, key)?.ok_or_else(|| table.dangling(key))?;
        let freed = match &write.after {
            None => tuples.slots(&self.heap, tuple)?,
            Some(after) => {
                let (before, after) = (before.view(table.schema())?, after.view(table.schema())?);
                let change = tuples.change(&mut self.heap, tuple, &before.changes_to(after)?)?;
                changes.activated.extend(change.activated);
                changes.words.extend(change.words.iter().map(|word| Word {
                    place: Place::Tuple(tuple),
                    at: word.at,
                    before: word.before,
                    after: word.after,
                }));
                change.freed
            }
        };
        for slot in freed {
            let (owner, len) = (owner(table.id().0), self.heap.len_of(slot)?);
            changes.freed.push(Freed { slot, owner, len });
        }
        Ok(write.after.is_some().then_some(tuple))
    }

    /// The word of the tuple with a primary key, new or not.
    fn tuple_of(
        &self,
        index: IndexId,
        key: &[u8],
        new: &BTreeMap<(TableId, &[u8]), u64>,
    ) -> Result<u64> {
        let unknown = || Error::UnknownTable { table: format!("of index #{}", index.0).into() };
        let (table, _) = self.catalog.index_by_id(index).ok_or_else(unknown)?;
        if let Some(word) = new.get(&(table.id(), key)) {
            return Ok(*word);
        }
        self.tuple(table, key)?.map(NvPtr::word).ok_or_else(|| table.dangling(key))
    }
}

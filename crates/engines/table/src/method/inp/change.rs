//! A change of rows in memory: prepared unseen, then shown, or cancelled.

use std::collections::BTreeMap;

use halite_alloc::heap::{AnyPtr, NvPtr};

use super::tables::Tables;
use crate::tuple::{Tuple, WordChange, cancel};
use crate::write_set::WriteSet;
use crate::{IndexId, Result, Row, Table, TableId};

/// What is to be shown.
#[derive(Default)]
pub(super) struct Plan<'w> {
    /// Slots of tuples and long values that are written.
    activated: Vec<AnyPtr>,
    freed: Vec<AnyPtr>,
    words: Vec<(NvPtr<Tuple>, WordChange)>,
    /// The words that keys of indexes lead to; `None` for a key that goes.
    entries: Vec<(IndexId, &'w [u8], Option<u64>)>,
}

impl Tables {
    /// Prepares a transaction. A failure leaves nothing.
    pub(super) fn prepare<'w>(&mut self, writes: &'w WriteSet) -> Result<Plan<'w>> {
        self.planned(|tables, plan| {
            let mut tuples = BTreeMap::new();
            for (table, key, write) in writes.rows() {
                let of = tables.catalog().table_by_id(table)?.clone();
                let (before, after) = (write.before.as_ref(), write.after.as_ref());
                if let Some(word) = tables.prepare_row(&of, key, before, after, plan)? {
                    tuples.insert((table, key), word);
                }
            }
            for (index, entry, write) in writes.entries() {
                let key = write.after.as_deref();
                let word = key.map(|key| tables.tuple_of(index, key, &tuples)).transpose()?;
                plan.entries.push((index, entry, word));
            }
            Ok(())
        })
    }

    /// Puts a row in place of another one with the same primary key, in no secondary index.
    pub(super) fn replace(
        &mut self,
        table: &Table,
        key: &[u8],
        (before, after): (Option<&Row>, Option<&Row>),
    ) -> Result<()> {
        let plan = self.planned(|tables, plan| {
            tables.prepare_row(table, key, before, after, plan).map(drop)
        })?;
        self.show(plan)
    }

    fn planned<'w>(
        &mut self,
        prepare: impl FnOnce(&mut Self, &mut Plan<'w>) -> Result<()>,
    ) -> Result<Plan<'w>> {
        let mut plan = Plan::default();
        match prepare(self, &mut plan) {
            Ok(()) => Ok(plan),
            Err(error) => {
                self.cancel(plan)?;
                Err(error)
            }
        }
    }

    /// Prepares the change of a row. Returns the word of its tuple, if that is new.
    fn prepare_row<'w>(
        &mut self,
        table: &Table,
        key: &'w [u8],
        before: Option<&Row>,
        after: Option<&Row>,
        plan: &mut Plan<'w>,
    ) -> Result<Option<u64>> {
        let tuples = self.tuples(table);
        let Some(before) = before else {
            let Some(after) = after else { return Ok(None) };
            let inserted = tuples.insert(&mut self.heap, after.view(table.schema())?)?;
            plan.activated.extend(inserted.slots);
            let word = inserted.tuple.word();
            plan.entries.push((table.primary(), key, Some(word)));
            return Ok(Some(word));
        };
        let found = self.tree(table.primary())?.get(key).ok_or_else(|| table.dangling(key))?;
        let tuple = NvPtr::<Tuple>::from_word(found);
        let Some(after) = after else {
            plan.freed.extend(tuples.slots(&self.heap, tuple)?);
            plan.entries.push((table.primary(), key, None));
            return Ok(None);
        };
        let (before, after) = (before.view(table.schema())?, after.view(table.schema())?);
        let change = tuples.change(&mut self.heap, tuple, &before.changes_to(after)?)?;
        plan.activated.extend(change.activated);
        plan.freed.extend(change.freed);
        plan.words.extend(change.words.into_iter().map(|word| (tuple, word)));
        Ok(None)
    }

    /// The word of the tuple with a primary key, new or not.
    fn tuple_of(
        &self,
        index: IndexId,
        key: &[u8],
        new: &BTreeMap<(TableId, &[u8]), u64>,
    ) -> Result<u64> {
        let table = self.table_of(index)?;
        let new = new.get(&(table.id(), key)).copied();
        let found = new.or_else(|| self.tree(table.primary()).ok()?.get(key));
        found.ok_or_else(|| table.dangling(key))
    }

    /// Gives up a plan.
    pub(super) fn cancel(&mut self, plan: Plan<'_>) -> Result<()> {
        cancel(&mut self.heap, &plan.activated)
    }

    /// Shows a plan. In a heap in memory, no byte has to be durable before another, and a fence is for the allocator alone: it
    /// lets freed slots be reserved again.
    pub(super) fn show(&mut self, plan: Plan<'_>) -> Result<()> {
        for slot in plan.activated {
            self.heap.activate(slot)?;
        }
        for (tuple, WordChange { at, after, .. }) in plan.words {
            self.heap.store_word(tuple, at, after)?;
        }
        for slot in plan.freed {
            self.heap.free(slot)?;
        }
        for (index, key, word) in plan.entries {
            let tree = self.tree_mut(index)?;
            match word {
                Some(word) => tree.set(key, word),
                None => tree.remove(key),
            };
        }
        Ok(self.heap.fence()?)
    }
}

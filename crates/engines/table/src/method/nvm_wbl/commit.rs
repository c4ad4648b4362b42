//! The commit of a transaction: its versions are written to reserved slots, and the group has them.

use std::collections::BTreeMap;
use std::sync::Arc;

use halite_alloc::heap::{AnyPtr, Heap, NvPtr};

use super::garbage::Item;
use super::group::Pending;
use super::head::{Head, Versions};
use super::{NvmWbl, is_full, tree_key};
use crate::method::catalog_slot::owner;
use crate::method::house::HOUSE;
use crate::tuple::{Tuple, cancel};
use crate::write_set::{EntryWrite, RowWrite, WriteSet};
use crate::{Error, IndexId, Result, Table, TableId};

/// Changes of a group after which it is synced before the next commit.
const GROUP: usize = 1200;

/// A transaction that is written.
#[derive(Default)]
struct Staged<'w> {
    rows: BTreeMap<(TableId, &'w [u8]), Pending>,
    /// All slots that were reserved for it.
    reserved: Vec<AnyPtr>,
    /// Reserved slots of the group that it replaces.
    replaced: Vec<AnyPtr>,
    /// Entries and rows that are superfluous when the record covers it.
    garbage: Vec<Item>,
}

impl NvmWbl {
    /// Adds a transaction to the group, whole or not at all.
    pub(super) fn commit_to_group(&mut self, writes: &WriteSet) -> Result<()> {
        if self.group.changes >= GROUP || self.last == self.commits.limit {
            self.sync_group()?;
        }
        let adds = writes.rows().any(|(_, _, write)| write.after.is_some())
            || writes.entries().any(|(_, _, write)| write.after.is_some());
        let mut done = self.stage_and_apply(writes, adds);
        if done.as_ref().is_err_and(is_full) && !self.group.is_empty() {
            // The group's sync frees what it has replaced.
            self.sync_group()?;
            done = self.stage_and_apply(writes, adds);
        }
        if done.as_ref().is_err_and(is_full) && !self.garbage.is_empty() {
            self.collect(usize::MAX)?;
            done = self.stage_and_apply(writes, adds);
        }
        done
    }

    fn stage_and_apply(&mut self, writes: &WriteSet, adds: bool) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.state.write();
        let heap = &mut state.heap;
        if adds {
            self.cushion.fill(heap, owner(HOUSE))?;
        }
        let mut staged = Staged::default();
        if let Err(error) = self.stage(heap, writes, &mut staged) {
            cancel(heap, &staged.reserved)?;
            return Err(error);
        }
        let applied = self.apply(heap, writes, staged);
        self.failing(applied)
    }

    fn stage<'w>(
        &self,
        heap: &mut Heap,
        writes: &'w WriteSet,
        staged: &mut Staged<'w>,
    ) -> Result<()> {
        for (table, key, write) in writes.rows() {
            let of = Table::clone(self.catalog.table_by_id(table)?);
            if let Some(pending) = self.stage_row(heap, &of, key, write, staged)? {
                staged.rows.insert((table, key), pending);
            }
        }
        for (index, entry, write) in writes.entries() {
            self.stage_entry(heap, index, (entry, write), staged)?;
        }
        for (&(table, key), pending) in &staged.rows {
            if pending.tuple.is_null() && !pending.head.is_null() {
                staged.garbage.push(Item::Row { table, key: key.to_vec() });
            }
        }
        Ok(())
    }

    /// Writes a version of a row.
    fn stage_row(
        &self,
        heap: &mut Heap,
        table: &Table,
        key: &[u8],
        write: &RowWrite,
        staged: &mut Staged<'_>,
    ) -> Result<Option<Pending>> {
        let (tuples, schema) = (self.tuples(table), table.schema());
        let former = match self.group.row(table.id(), key) {
            Some(pending) => pending.clone(),
            None => self.stored(heap, table, key)?,
        };
        let before = write.before.as_ref().map(|row| row.view(schema)).transpose()?;
        let after = write.after.as_ref().map(|row| row.view(schema)).transpose()?;
        let (tuple, slots, dropped) = match (before, after) {
            (None, None) => return Ok(None),
            (Some(_), None) => (NvPtr::NULL, Vec::new(), former.slots),
            (None, Some(after)) => {
                let inserted = tuples.insert(heap, after)?;
                staged.reserved.extend(&inserted.slots);
                (inserted.tuple, inserted.slots, former.slots)
            }
            (Some(before), Some(after)) => {
                if former.tuple.is_null() {
                    return Err(table.dangling(key));
                }
                let replaced = tuples.replace(heap, former.tuple, (before, after))?;
                staged.reserved.extend(&replaced.activated);
                let is_dropped = |slot: &AnyPtr| replaced.freed.contains(slot);
                let (dropped, kept): (Vec<_>, Vec<_>) =
                    former.slots.into_iter().partition(is_dropped);
                (replaced.tuple, [replaced.activated, kept].concat(), dropped)
            }
        };
        staged.replaced.extend(dropped);
        let (head, timestamp) = (former.head, self.last + 1);
        Ok(Some(Pending { head, tuple, timestamp, slots, is_linked: false }))
    }

    /// The newest covered version of a row.
    fn stored(&self, heap: &Heap, table: &Table, key: &[u8]) -> Result<Pending> {
        let (mut head, mut tuple) = (NvPtr::<Head>::NULL, NvPtr::<Tuple>::NULL);
        if let Some(word) = self.tree(table.primary())?.get(heap, key)? {
            head = NvPtr::from_word(word);
            let versions = Versions::read(heap, head)?;
            tuple = versions.0[versions.covered(head, &self.commits.sight())?].tuple;
        }
        Ok(Pending { head, tuple, timestamp: 0, slots: Vec::new(), is_linked: true })
    }

    /// Finds out what becomes of an entry of a secondary index.
    fn stage_entry(
        &self,
        heap: &Heap,
        index: IndexId,
        (entry, write): (&[u8], &EntryWrite),
        staged: &mut Staged<'_>,
    ) -> Result<()> {
        let unknown = || Error::UnknownTable { table: format!("of index #{}", index.0).into() };
        let (table, position) = self.catalog.index_by_id(index).ok_or_else(unknown)?;
        let of = position.and_then(|position| table.indexes().nth(position)).ok_or_else(unknown)?;
        if write.after.is_some() && of.schema.is_unique() {
            of.schema.key().check_len(entry.len() + 8)?;
        }
        let Some(key) = &write.before else { return Ok(()) };
        let head = match staged.rows.get(&(table.id(), &key[..])) {
            Some(pending) => pending.head,
            None => self.head_of(heap, table, key)?,
        };
        if !head.is_null() {
            staged.garbage.push(Item::Entry { index, key: tree_key(of.schema, entry, head) });
        }
        Ok(())
    }

    /// The head of a row that may be the group's; null if it has none.
    pub(super) fn head_of(&self, heap: &Heap, table: &Table, key: &[u8]) -> Result<NvPtr<Head>> {
        if let Some(pending) = self.group.row(table.id(), key) {
            return Ok(pending.head);
        }
        let word = self.tree(table.primary())?.get(heap, key)?;
        Ok(word.map_or(NvPtr::NULL, NvPtr::from_word))
    }

    fn apply(&mut self, heap: &mut Heap, writes: &WriteSet, staged: Staged<'_>) -> Result<()> {
        self.last += 1;
        cancel(heap, &staged.replaced)?;
        for ((table, key), pending) in staged.rows {
            self.group.changes += 1 + pending.slots.len();
            self.group.rows.entry(table).or_default().insert(key.to_vec(), pending);
        }
        for (index, entry, write) in writes.entries() {
            self.group.changes += 1;
            let entries = self.group.entries.entry(index).or_default();
            entries.insert(entry.to_vec(), write.after.clone());
        }
        staged.garbage.into_iter().for_each(|item| self.discard(item));
        Ok(())
    }
}

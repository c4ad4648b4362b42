//! The commit of a transaction: its tuples are written, and the dirty directory leads to them.

use std::collections::BTreeMap;

use halite_alloc::heap::NvPtr;
use halite_sim::planted;

use super::{NvmCow, is_full};
use crate::method::Method;
use crate::tuple::Tuple;
use crate::write_set::{RowWrite, WriteSet};
use crate::{Error, IndexId, Result, Table, TableId};

/// Changes of slots after which a group is synced before the next commit: about those that one publication takes.
const GROUP: usize = 1200;

/// Changes of slots that a transaction may have: those that a sync can put in place by its last publication.
const CHANGES_MAX: usize = 400_000;

/// Bytes of a change in the records of the heap.
const CHANGE: u64 = 16;

impl NvmCow {
    /// Adds a transaction to the group, whole or not at all.
    pub(super) fn commit_to_group(&mut self, writes: &WriteSet) -> Result<()> {
        if self.store.changes() > GROUP {
            self.sync()?;
        }
        let only_removes = writes.rows().all(|(_, _, write)| write.after.is_none())
            && writes.entries().all(|(_, _, write)| write.after.is_none());
        let mut done = self.write_or_undo(writes, only_removes);
        if done.as_ref().is_err_and(is_full) {
            // The group's sync frees what it has replaced.
            self.sync()?;
            let freed = self.store.free_garbage().map_err(Error::from);
            self.losing(freed)?;
            done = self.write_or_undo(writes, only_removes);
        }
        if only_removes && done.as_ref().is_err_and(is_full) && self.store.give_space()? {
            done = self.write_or_undo(writes, only_removes);
        }
        done
    }

    fn write_or_undo(&mut self, writes: &WriteSet, only_removes: bool) -> Result<()> {
        if !only_removes {
            self.store.hold_space()?;
        }
        let written = self.write(writes).and_then(|()| match self.store.changes() {
            0..=CHANGES_MAX => Ok(()),
            changes => Err(Error::TransactionTooLarge {
                len: changes as u64 * CHANGE,
                max: CHANGES_MAX as u64 * CHANGE,
            }),
        });
        let ended = match written {
            Ok(()) => self.store.finish(),
            Err(_) => self.store.undo(),
        };
        self.losing(ended.map_err(Error::from))?;
        written
    }

    fn write(&mut self, writes: &WriteSet) -> Result<()> {
        let mut tuples = BTreeMap::new();
        for (table, key, write) in writes.rows() {
            let of = Table::clone(self.catalog.table_by_id(table)?);
            if let Some(tuple) = self.write_row(&of, key, write)? {
                tuples.insert((table, key), tuple);
            }
        }
        for (index, entry, write) in writes.entries() {
            match &write.after {
                None => planted!(
                    "table.nvm-cow-entry-of-removed-row-stays",
                    None,
                    self.store.remove(index.0, entry)?
                ),
                Some(key) => {
                    let tuple = self.tuple_of(index, key, &tuples)?;
                    self.store.put(index.0, entry, tuple)?
                }
            };
        }
        Ok(())
    }

    /// Writes a row. Returns the word of its tuple, if there is one afterwards.
    fn write_row(&mut self, table: &Table, key: &[u8], write: &RowWrite) -> Result<Option<u64>> {
        let (tuples, primary) = (self.tuples(table), table.primary().0);
        let (before, after) = match (&write.before, &write.after) {
            (None, None) => return Ok(None),
            (None, Some(after)) => {
                let after = after.view(table.schema())?;
                let inserted = tuples.insert(&mut self.store.heap_mut(), after)?;
                self.store.add(inserted.slots);
                self.store.put(primary, key, inserted.tuple.word())?;
                return Ok(Some(inserted.tuple.word()));
            }
            (Some(_), None) => {
                let word = self.store.remove(primary, key)?;
                let tuple = word.map(NvPtr::<Tuple>::from_word);
                let tuple = tuple.ok_or_else(|| table.dangling(key))?;
                let slots = tuples.slots(&self.store.shared().heap(), tuple)?;
                self.store.drop_slots(slots);
                return Ok(None);
            }
            (Some(before), Some(after)) => {
                (before.view(table.schema())?, after.view(table.schema())?)
            }
        };
        let former = self.store.get(primary, key)?.map(NvPtr::<Tuple>::from_word);
        let former = former.ok_or_else(|| table.dangling(key))?;
        let replaced = tuples.replace(&mut self.store.heap_mut(), former, (before, after))?;
        let word = replaced.tuple.word();
        self.store.add(replaced.activated);
        self.store.drop_slots(replaced.freed);
        self.store.put(primary, key, word)?;
        // Entries that change are among those of the transaction.
        for index in table.indexes() {
            let entry = after.index_entry(index.schema)?;
            if before.index_entry(index.schema)? == entry {
                self.store.put(index.id.0, &entry, word)?;
            }
        }
        Ok(Some(word))
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
        let found = self.store.get(table.primary().0, key)?;
        found.ok_or_else(|| table.dangling(key))
    }
}

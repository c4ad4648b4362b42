//! The commit of a transaction to the mutable memtables: prepared unseen, logged, and stored in its places.
//!
//! | a row, or an entry of a secondary index | in the mutable memtable |
//! |---|---|
//! | is added | whole |
//! | changes, and the memtable has it whole | words of its tuple, and slots of its long columns |
//! | changes in half of its bytes or fewer, and only older memtables have it whole | a delta, in the place of one that is there |
//! | changes in more, and only older memtables have it whole | whole: reads need not look below it |
//! | is removed, and an older memtable has its key | a tombstone |
//! | is removed, and none has | nothing |

use std::collections::BTreeMap;

use halite_alloc::heap::AnyPtr;

use super::bytes::{Delta, PrimaryKey};
use super::delta::{DELTA_LEN_MAX, Fields, add_column, decode, encode};
use super::memtable::{Lead, TOMBSTONE, key_slot, owners};
use super::{NvmLog, bytes};
use crate::index::nonvolatile::{Change, NonVolatileTree, Prepared};
use crate::method::catalog_slot::owner;
use crate::method::house::HOUSE;
use crate::method::undo_log::{Changes, Freed, Place, Word};
use crate::tuple::{Form, Tuples, cancel};
use crate::write_set::{EntryWrite, RowWrite, WriteSet};
use crate::{IndexId, Result, RowRef, Table, TableId};

/// Bytes of an entry beside its key.
pub(super) const ENTRY: u64 = 16;

/// What a transaction will change, when it is prepared.
#[derive(Default)]
struct Plan {
    changes: Changes,
    indexes: Vec<(NonVolatileTree, Prepared)>,
    /// Bytes by which the mutable memtable of each index grows.
    growth: BTreeMap<IndexId, i64>,
    /// How many entries change.
    count: usize,
}

/// The words that the keys of an index lead to; `None` for a key that goes.
type Entries<'w> = BTreeMap<IndexId, Vec<(&'w [u8], Option<u64>)>>;

impl NvmLog {
    /// Commits changes. Returns how many entries of memtables they are.
    pub(super) fn commit_changes(&mut self, writes: &WriteSet) -> Result<usize> {
        if writes.is_empty() {
            return Ok(0);
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
        let done = done.and_then(|()| self.count(&plan.growth));
        self.failing(done).map(|()| plan.count)
    }

    /// Counts the bytes of mutable memtables, and marks those immutable that are full.
    fn count(&mut self, growth: &BTreeMap<IndexId, i64>) -> Result<()> {
        let full = self.options.memtable_bytes;
        for (&index, &growth) in growth {
            let Some(counted) = self.indexes.get_mut(&index) else { continue };
            counted.count(&mut self.heap, growth, full)?;
            if counted.mutable().bytes >= full {
                self.mark_immutable(index)?;
            }
        }
        Ok(())
    }

    /// Prepares a transaction. After a failure, all slots that were reserved for it are among the activated ones.
    fn prepare(&mut self, writes: &WriteSet, plan: &mut Plan) -> Result<()> {
        let mut entries = Entries::new();
        for (table, key, write) in writes.rows() {
            let (primary, word) = self.prepare_row(table, key, write, plan)?;
            if let Some(word) = word {
                entries.entry(primary).or_default().push((key, word));
            }
        }
        for (index, entry, write) in writes.entries() {
            let word = self.prepare_entry(index, entry, write, plan)?;
            entries.entry(index).or_default().push((entry, word));
        }
        for slot in &plan.changes.activated {
            self.heap.flush(*slot)?;
        }
        for (index, entries) in entries {
            let tree = self.index(index)?.mutable().tree;
            let changes = entries.iter().map(|&(key, word)| {
                word.map_or(Change::Remove(key), |word| Change::Put(key, word))
            });
            let prepared = tree.prepare(&mut self.heap, &changes.collect::<Vec<_>>())?;
            plan.changes.add(&tree, &prepared);
            plan.indexes.push((tree, prepared));
            plan.count += entries.len();
        }
        Ok(())
    }

    /// Prepares the change of a row. Returns the word of its key in the primary index, if that changes.
    fn prepare_row(
        &mut self,
        table: TableId,
        key: &[u8],
        write: &RowWrite,
        plan: &mut Plan,
    ) -> Result<(IndexId, Option<Option<u64>>)> {
        let table = self.catalog.table_by_id(table)?.clone();
        let (primary, schema) = (table.primary(), table.schema());
        let tree = self.index(primary)?.mutable().tree;
        let [_, owner] = owners(&tree);
        let tuples = Tuples { schema, owner, seed: self.heap.salt(), form: Form::Slots };
        let there = tree.get(&self.heap, key)?.map(Lead::of);
        let before = write.before.as_ref().map(|row| row.view(schema)).transpose()?;
        let after = write.after.as_ref().map(|row| row.view(schema)).transpose()?;
        let changes = &mut plan.changes;
        let (activated, freed) = (changes.activated.len(), changes.freed.len());
        let word = match (there, before, after) {
            (Some(Lead::Whole(tuple)), Some(before), Some(after)) => {
                let change = tuples.change(&mut self.heap, tuple, &before.changes_to(after)?)?;
                changes.activated.extend(change.activated);
                changes.words.extend(change.words.iter().map(|word| Word {
                    place: Place::Tuple(tuple),
                    at: word.at,
                    before: word.before,
                    after: word.after,
                }));
                self.free(&change.freed, tuples, changes)?;
                None
            }
            (Some(Lead::Tombstone), Some(_), _) => return Err(table.dangling(key)),
            (there, before, after) => {
                let freed = there.map(|lead| lead.slots(&self.heap, tuples)).transpose()?;
                self.free(&freed.unwrap_or_default(), tuples, changes)?;
                Some(match (before, after) {
                    (_, None) => self.is_below(primary, 0, key)?.then_some(TOMBSTONE),
                    (None, Some(after)) => Some(self.insert(tuples, after, changes)?),
                    (Some(before), Some(after)) => {
                        Some(self.change(&table, tuples, there, (before, after), changes)?)
                    }
                })
            }
        };
        let mut growth = 0;
        for &slot in &changes.activated[activated..] {
            growth += self.heap.len_of(slot)?.cast_signed();
        }
        growth -= changes.freed[freed..].iter().map(|freed| freed.len.cast_signed()).sum::<i64>();
        if let Some(word) = word {
            growth += growth_of_entries(key, there.is_some(), word.is_some());
        }
        *plan.growth.entry(primary).or_default() += growth;
        Ok((primary, word))
    }

    fn free(&self, slots: &[AnyPtr], tuples: Tuples<'_>, changes: &mut Changes) -> Result<()> {
        for &slot in slots {
            let len = self.heap.len_of(slot)?;
            changes.freed.push(Freed { slot, owner: tuples.owner, len });
        }
        Ok(())
    }

    /// Writes a row whole. Returns the word that leads to it.
    fn insert(
        &mut self,
        tuples: Tuples<'_>,
        row: RowRef<'_>,
        changes: &mut Changes,
    ) -> Result<u64> {
        let inserted = tuples.insert(&mut self.heap, row)?;
        changes.activated.extend(inserted.slots);
        Ok(Lead::Whole(inserted.tuple).word())
    }

    /// Writes what a row has changed since the older memtables, with the columns of the delta that is there, if there is
    /// one; or the row, if that is most of it. Returns the word that leads to it.
    fn change(
        &mut self,
        table: &Table,
        tuples: Tuples<'_>,
        there: Option<Lead>,
        (before, after): (RowRef<'_>, RowRef<'_>),
        changes: &mut Changes,
    ) -> Result<u64> {
        let mut fields = Fields::new();
        if let Some(Lead::Delta(delta)) = there {
            let columns = decode(table.schema(), bytes::read(&self.heap, delta)?)?;
            columns.keys().try_for_each(|&column| add_column(&mut fields, after, column))?;
        }
        for change in before.changes_to(after)? {
            add_column(&mut fields, after, change.column)?;
        }
        let delta = encode(&fields);
        if delta.len() > DELTA_LEN_MAX || 2 * delta.len() > after.bytes().len() {
            return self.insert(tuples, after, changes);
        }
        let slot = bytes::write::<Delta>(&mut self.heap, tuples.owner, &delta)?;
        changes.activated.push(slot.any());
        Ok(Lead::Delta(slot).word())
    }

    /// Prepares the change of an entry of a secondary index. Returns its word.
    fn prepare_entry(
        &mut self,
        index: IndexId,
        entry: &[u8],
        write: &EntryWrite,
        plan: &mut Plan,
    ) -> Result<Option<u64>> {
        let tree = self.index(index)?.mutable().tree;
        let [_, owner] = owners(&tree);
        let there = tree.get(&self.heap, entry)?;
        let mut growth = 0;
        if let Some(slot) = there.and_then(key_slot) {
            let (slot, len) = (slot.any(), self.heap.len_of(slot)?);
            plan.changes.freed.push(Freed { slot, owner, len });
            growth -= len.cast_signed();
        }
        let word = match &write.after {
            None => self.is_below(index, 0, entry)?.then_some(TOMBSTONE),
            Some(key) => {
                let slot = bytes::write::<PrimaryKey>(&mut self.heap, owner, key)?;
                plan.changes.activated.push(slot.any());
                growth += self.heap.len_of(slot)?.cast_signed();
                Some(slot.word())
            }
        };
        growth += growth_of_entries(entry, there.is_some(), word.is_some());
        *plan.growth.entry(index).or_default() += growth;
        Ok(word)
    }
}

/// Bytes by which a tree grows that gets an entry for a key, or loses it, beside the slot that the entry leads to.
fn growth_of_entries(key: &[u8], is_there: bool, is_put: bool) -> i64 {
    (ENTRY + key.len() as u64).cast_signed() * (i64::from(is_put) - i64::from(is_there))
}

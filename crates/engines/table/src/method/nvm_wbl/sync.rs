//! Sync: the group's versions are linked to the heads of their rows, and the record covers them.
//!
//! ```text
//!  step: states, heads, leaves' words ─► step ─► ... ─► last step, and `covered` │ durable
//!        └ a crash here leaves versions in a gap
//! ```
//!
//! A step is one publication of the heap, so that no crash leaves a slot that nothing leads to. A group with as many changes
//! as one takes is made durable by it whole, the record with it; one with more of them is visible when the last step is
//! durable, and not before. Each step leaves the newest covered version of each row in its head. What earlier
//! transactions have made superfluous goes in the steps, too, so that it costs no fence.

use std::sync::Arc;

use halite_alloc::heap::{AnyPtr, Heap, NvPtr};
use halite_sim::planted;

use super::garbage::Item;
use super::head::{self, Head, Version, Versions};
use super::shared::{Kept, State};
use super::step::Step;
use super::{NvmWbl, is_full, tree_key};
use crate::index::Error as IndexError;
use crate::method::catalog_slot::owner;
use crate::tuple::Tuples;
use crate::{Result, Table, TableId};

/// Items of garbage that a sync carries out, and those beside them for each change of the group.
const ITEMS: usize = 64;
const ITEMS_A_CHANGE: usize = 2;

impl NvmWbl {
    /// Makes the group durable. If there is no room for that, the group stays as it is; after another failure of a
    /// publication nothing is read or written any more.
    pub(super) fn sync_group(&mut self) -> Result<()> {
        if self.group.is_empty() {
            return Ok(());
        }
        self.collect(ITEMS + ITEMS_A_CHANGE * self.group.changes)
    }

    /// Makes the group durable, and carries out so many items of garbage at most.
    pub(super) fn collect(&mut self, items: usize) -> Result<()> {
        let done = match self.publish(items) {
            Err(error) if is_full(&error) => {
                let given = self.cushion.give(&mut self.shared.state.write().heap)?;
                if given { self.publish(items) } else { Err(error) }
            }
            done => done,
        };
        done.and_then(|()| self.end_sweep())
    }

    fn publish(&mut self, items: usize) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.state.write();
        let state = &mut *state;
        let mut step = Step::default();
        let filled = self.fill(state, &mut step, items);
        let published = filled.and_then(|()| {
            if self.group.is_empty() && step.is_empty() {
                self.garbage.drop_first(step.items);
                return Ok(());
            }
            self.take(state, &mut step, true)
        });
        if published.is_err() && self.failed.is_none() {
            self.give_up(&mut state.heap, &step)?;
        }
        published?;
        self.group = super::group::Group::default();
        state.forget(self.shared.oldest_view());
        Ok(())
    }

    /// Fills steps, and takes all but the last one.
    pub(super) fn fill(&mut self, state: &mut State, step: &mut Step, items: usize) -> Result<()> {
        let rows = self.group.rows.iter().flat_map(|(&table, rows)| {
            let left = rows.iter().filter(|(_, pending)| !pending.is_linked);
            left.map(move |(key, _)| (table, key.clone()))
        });
        for (table, key) in rows.collect::<Vec<_>>() {
            let table = Table::clone(self.catalog.table_by_id(table)?);
            self.link(state, step, &table, key)?;
        }
        for (index, entries) in self.group.entries.clone() {
            let Some((table, Some(position))) = self.catalog.index_by_id(index) else { continue };
            let (table, of) = (Table::clone(table), position);
            for (entry, key) in entries {
                let Some(key) = key else { continue };
                self.make_room(state, step, 2)?;
                let head = self.head_of(&state.heap, &table, &key)?;
                if head.is_null() {
                    return Err(table.dangling(&entry));
                }
                let schema = table.indexes().nth(of).expect("it was found").schema;
                step.put(index, tree_key(schema, &entry, head), head.word());
                step.weight += 2;
            }
        }
        self.carry_out_items(state, step, items)
    }

    /// Takes a step if it has no room for some changes.
    fn make_room(&mut self, state: &mut State, step: &mut Step, weight: usize) -> Result<()> {
        match !step.is_empty() && step.weight + weight > self.options.step {
            true => self.take(state, step, false),
            false => Ok(()),
        }
    }

    /// Links the group's version of a row to its head, by the place of one that no reader needs.
    fn link(
        &mut self,
        state: &mut State,
        step: &mut Step,
        table: &Table,
        key: Vec<u8>,
    ) -> Result<()> {
        let Some(pending) = self.group.row(table.id(), &key).cloned() else { return Ok(()) };
        let version = Version { tuple: pending.tuple, timestamp: pending.timestamp };
        if pending.head.is_null() {
            // A row that was added and removed in the group has never been there.
            if version.tuple.is_null() {
                return Ok(());
            }
            self.make_room(state, step, pending.slots.len() + 3)?;
            let head = state.heap.reserve::<Head>(owner(table.id().0), head::LEN)?;
            step.rows.push((table.id(), key.clone(), head, true));
            Versions([version, Version::NONE]).write(&mut state.heap, head)?;
            step.publication.activate(head);
            step.put(table.primary(), key.clone(), head.word());
            if let Some(pending) = self.group.row_mut(table.id(), &key) {
                pending.head = head;
            }
        } else {
            let (head, tuples) = (pending.head, self.tuples(table));
            let versions = Versions::read(&state.heap, head)?;
            let sight = self.commits.sight();
            let covered = versions.covered(head, &sight)?;
            let place = planted!("table.nvm-wbl-covered-version-replaced", covered, 1 - covered);
            let (displaced, others) = (versions.0[place], [versions.0[1 - place], version]);
            let freed = slots_of_one(&state.heap, tuples, displaced, &others)?;
            self.make_room(state, step, pending.slots.len() + freed.len() + 3)?;
            let seen = displaced.timestamp..versions.0[covered].timestamp;
            if seen.start > 0 && sight.sees(seen.start) && self.shared.is_viewed(seen.clone()) {
                let row = (!displaced.tuple.is_null())
                    .then(|| tuples.row(&state.heap, displaced.tuple))
                    .transpose()?;
                step.kept.push((head.word(), Kept { seen, row }));
            }
            freed.iter().for_each(|&slot| step.publication.free(slot));
            version.store(head, place, self.shared.salt, &mut step.publication);
            step.heads.insert(head.word());
            step.rows.push((table.id(), key, head, false));
            step.weight += freed.len();
        }
        pending.slots.iter().for_each(|&slot| step.publication.activate(slot));
        step.weight += pending.slots.len() + 3;
        Ok(())
    }

    /// Carries out the first items of garbage that no view needs.
    fn carry_out_items(
        &mut self,
        state: &mut State,
        step: &mut Step,
        mut items: usize,
    ) -> Result<()> {
        let oldest = self.shared.oldest_view().unwrap_or(u64::MAX).min(self.commits.covered);
        while items > 0
            && let Some((from, item)) = self.garbage.get(step.items).cloned()
            && from <= oldest
            && !self.is_viewed(state, from, &item)?
        {
            match item {
                Item::Row { table, key } => self.drop_row(state, step, table, key)?,
                Item::Entry { index, key } => {
                    self.make_room(state, step, 2)?;
                    let found = self.catalog.index_by_id(index).map(|(table, _)| table.clone());
                    if let Some(table) = found
                        && let Some(word) = self.tree(index)?.get(&state.heap, &key)?
                        && self.is_stale(state, &table, index, &key, NvPtr::from_word(word))?
                    {
                        step.remove(index, key);
                        step.weight += 2;
                    }
                }
            }
            step.items += 1;
            items -= 1;
        }
        Ok(())
    }

    /// Whether a view sees what an item is about otherwise than the newest readers do: its row has changed since, or its
    /// index was dropped. What follows in the queue waits with it, as a row goes behind its entries.
    fn is_viewed(&self, state: &State, from: u64, item: &Item) -> Result<bool> {
        let tree = match item {
            Item::Row { table, .. } => {
                let Ok(table) = self.catalog.table_by_id(*table) else { return Ok(false) };
                self.tree(table.primary())?
            }
            Item::Entry { index, .. } => match self.catalog.index_by_id(*index) {
                Some(_) => self.tree(*index)?,
                None => return Ok(self.is_dropped_viewed()),
            },
        };
        let (Item::Row { key, .. } | Item::Entry { key, .. }) = item;
        let Some(word) = tree.get(&state.heap, key)? else { return Ok(false) };
        let head = NvPtr::<Head>::from_word(word);
        let versions = Versions::read(&state.heap, head)?;
        let newest = versions.0[versions.covered(head, &self.commits.sight())?].timestamp;
        Ok(self.shared.is_viewed(from..newest))
    }

    /// Drops a row that was removed, or the version of one that a crash left.
    fn drop_row(
        &mut self,
        state: &mut State,
        step: &mut Step,
        table: TableId,
        key: Vec<u8>,
    ) -> Result<()> {
        let Ok(table) = self.catalog.table_by_id(table).cloned() else { return Ok(()) };
        // The group's version takes the place of what is to go.
        if self.group.row(table.id(), &key).is_some() {
            return Ok(());
        }
        let Some(word) = self.tree(table.primary())?.get(&state.heap, &key)? else { return Ok(()) };
        let (head, tuples) = (NvPtr::<Head>::from_word(word), self.tuples(&table));
        if step.heads.contains(&word) {
            return Ok(());
        }
        let versions = Versions::read(&state.heap, head)?;
        let covered = versions.covered(head, &self.commits.sight())?;
        let (current, other) = (versions.0[covered], versions.0[1 - covered]);
        let is_row = !current.tuple.is_null();
        if is_row && !self.commits.is_lost(other.timestamp) {
            return Ok(());
        }
        let freed = slots_of_one(&state.heap, tuples, other, &[current])?;
        self.make_room(state, step, freed.len() + 3)?;
        freed.iter().for_each(|&slot| step.publication.free(slot));
        if is_row {
            Version::NONE.store(head, 1 - covered, self.shared.salt, &mut step.publication);
        } else {
            step.publication.free(head);
            step.remove(table.primary(), key);
        }
        step.heads.insert(word);
        step.weight += freed.len() + 3;
        Ok(())
    }

    /// Makes a step durable, and empties it. The record covers the group with the last one.
    fn take(&mut self, state: &mut State, step: &mut Step, is_last: bool) -> Result<()> {
        let heap = &mut state.heap;
        let prepared = step.prepare(heap, |index| self.tree(index))?;
        let covers = planted!("table.nvm-wbl-record-with-first-step", true, is_last);
        if covers && !self.group.is_empty() {
            self.commits.cover(self.last, &mut step.publication);
        }
        let published = heap.publish(&mut step.publication);
        self.failing(published.map_err(crate::Error::from))?;
        let taken = std::mem::take(step);
        for (table, key, ..) in taken.rows {
            if let Some(pending) = self.group.row_mut(table, &key) {
                (pending.slots, pending.is_linked) = (Vec::new(), true);
            }
        }
        taken.kept.into_iter().for_each(|(head, kept)| state.keep(head, kept));
        self.garbage.drop_first(taken.items);
        if is_last && !self.group.is_empty() {
            self.commits.covered(self.last);
        }
        for (tree, prepared) in prepared {
            match tree.tidy(&mut state.heap, &prepared.words) {
                // The leaves stay as they are until there is room.
                Err(IndexError::Heap(halite_alloc::Error::Full { .. })) => {}
                tidied => self.failing(tidied.map_err(crate::Error::from))?,
            }
        }
        Ok(())
    }

    /// Gives up a step that was not taken.
    fn give_up(&mut self, heap: &mut Heap, step: &Step) -> Result<()> {
        for (table, key, _, is_new) in &step.rows {
            if let Some(pending) = self.group.row_mut(*table, key)
                && *is_new
            {
                pending.head = NvPtr::NULL;
            }
        }
        step.give_up(heap)
    }
}

/// The slots that a version has, and others have not.
fn slots_of_one(
    heap: &Heap,
    tuples: Tuples<'_>,
    version: Version,
    others: &[Version],
) -> Result<Vec<AnyPtr>> {
    let of = |version: &Version| match version.tuple.is_null() {
        true => Ok(Vec::new()),
        false => tuples.slots(heap, version.tuple),
    };
    let mut slots = of(&version)?;
    for other in others {
        let others = of(other)?;
        slots.retain(|slot| !others.contains(slot));
    }
    Ok(slots)
}

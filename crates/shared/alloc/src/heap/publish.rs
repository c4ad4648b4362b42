//! Publication: a set of changes that happen together, by one fence.
//!
//! ```text
//! validate ──► flush the bytes of activated slots, the record,  ──► fence ──► store the words
//!              and the words that the last publication stored                 in their places
//! ```
//!
//! The publication has happened once its record and the bytes that it leads to are durable, and not before. The words are
//! stored in their places after the fence; they are durable there by the next fence, and until then recovery stores them
//! again. The space for the record is there from the beginning, so a full heap can free.
//!
//! Costs: one fence; the lines of the activated slots' bytes, those of the record (three changes in the first, four in
//! each other), and those of the words of the publication before. A slot of 100 bytes and a word that leads to it: 2 or
//! 3 lines, 1, and 2. The bytes are read once for their check.

use std::collections::BTreeSet;

use halite_sim::planted;

use super::base::Heap;
use super::dead;
use super::door::span_word;
use super::layout::{DEAD_OWNERS_MAX, HEAP_ROOTS_MAX, chunk_word_at, dead_word_at, root_word_at};
use super::owner::Owner;
use super::pointer::{AnyPtr, Tag};
use super::publication::{HEAP_ROOT_NAME_LEN_MAX, Publication};
use super::ranges::Ranges;
use super::record::{self, ENTRIES_MAX, Entry};
use super::roots::{self, Root};
use super::slab::state_at;
use super::slot::{Slot, SlotState};
use super::table::{Found, wild};
use crate::{Error, Result};

/// A publication that was validated.
#[derive(Default)]
struct Plan {
    entries: Vec<Entry>,
    activated: Vec<Found>,
    freed: Vec<Found>,
    roots: Vec<(String, Option<Root>)>,
    dropped: Vec<(usize, Owner)>,
    /// Slots of new roots, which this publication reserved.
    reserved: Vec<AnyPtr>,
}

impl Heap {
    /// Makes all changes of a publication at once and durably, and takes them out of it. One fence; more only if there is
    /// no free slot for a new root.
    ///
    /// # Errors
    /// Before anything has changed: [`Error::Damaged`] if a pointer does not lead to a slot in the state that its change
    /// needs; [`Error::Publication`]; [`Error::Full`] for a new root; [`Error::OwnerDropped`]. The pool's errors; the
    /// next open then tells whether the publication happened.
    #[track_caller]
    pub fn publish(&mut self, publication: &mut Publication) -> Result<()> {
        self.check_synced()?;
        let mut plan = Plan::default();
        if let Err(error) = self.plan(publication, &mut plan) {
            for pointer in plan.reserved {
                self.cancel(pointer)?;
            }
            return Err(error);
        }
        if plan.entries.is_empty() {
            self.fence()?;
            publication.clear();
            return Ok(());
        }
        let mut published = Vec::new();
        for entry in &plan.entries {
            if let Some((place, len)) = entry.publishes(&self.ground, &self.table)? {
                published.push((place, place + len));
                self.ground.note(place, len);
            }
        }
        record::write(&mut self.ground, &self.table, self.log.sequence() + 1, &plan.entries)?;
        planted!("alloc.heap-words-before-record", self.store(&plan.entries));
        self.ground.fence()?;
        self.log.push(&plan.entries, published);
        self.after_fence();
        self.apply(plan);
        publication.clear();
        Ok(())
    }

    /// Stores the words of a publication, whose record is durable, in their places.
    fn store(&mut self, entries: &[Entry]) {
        for entry in entries {
            match *entry {
                Entry::Word { place, value } => planted!(
                    "alloc.heap-words-not-flushed",
                    self.ground.write_word(place, value),
                    self.ground.store_word(place, value)
                ),
                Entry::State { place, state, .. } => self.ground.store_half(place, state),
                Entry::Published { .. } => {}
            }
        }
    }

    fn apply(&mut self, plan: Plan) {
        self.store(&plan.entries);
        for Found { chunk, index, slot, .. } in plan.activated {
            *self.table.slot_mut(chunk, index) = slot.activated();
        }
        for Found { chunk, index, .. } in plan.freed {
            self.release(chunk, index);
        }
        for (name, root) in plan.roots {
            let before = match root {
                Some(root) => {
                    self.roots.free.remove(&root.index);
                    self.roots.by_name.insert(name, root);
                    continue;
                }
                None => self.roots.by_name.remove(&name),
            };
            self.roots.free.extend(before.map(|root| root.index));
        }
        for (index, owner) in plan.dropped {
            self.dead.insert(index, owner);
        }
    }

    /// Validates a publication.
    fn plan(&mut self, publication: &Publication, plan: &mut Plan) -> Result<()> {
        // New roots come first: their slots may cost a search for space.
        self.plan_roots(publication, plan)?;
        for &pointer in &publication.activated {
            self.plan_activation(pointer, plan)?;
        }
        for &pointer in &publication.freed {
            self.plan_free(pointer, plan)?;
        }
        let freed = plan.freed.iter().map(|found| (found.place, found.place + found.len));
        let freed = Ranges::of(freed.collect());
        let covered = self.plan_covers(publication, &freed, plan)?;
        for &super::publication::Store { pointer, at, value } in &publication.stored {
            let found = self.table.find_in(&self.ground, pointer, SlotState::Persisted)?;
            if !at.is_multiple_of(8) || at >= found.len {
                let why = format!("a word at {at} of a slot of {} bytes", found.len);
                return Err(wild(&self.ground, pointer, &why));
            }
            self.table.touch(&found);
            let place = found.place + at;
            if freed.touch(place, 8) || covered.touch(place, 8) {
                return Err(impossible(
                    "it stores a word in a slot that it frees, or in bytes that it covers",
                ));
            }
            plan.entries.push(Entry::Word { place, value });
        }
        self.plan_dropped_owners(publication, plan)?;
        plan.entries.sort_unstable_by_key(|entry| entry.stores());
        let is_twice =
            |pair: &[Entry]| pair[0].stores().is_some() && pair[0].stores() == pair[1].stores();
        if plan.entries.windows(2).any(is_twice) {
            return Err(impossible("it changes a slot or a word twice"));
        }
        if plan.entries.len() > ENTRIES_MAX {
            let why = format!("it has {} changes, at most {ENTRIES_MAX} fit", plan.entries.len());
            return Err(impossible(&why));
        }
        // Bytes alone are made durable by a fence alone.
        if plan.entries.iter().all(|entry| entry.stores().is_none()) {
            plan.entries.clear();
        }
        Ok(())
    }

    fn plan_activation(&self, pointer: AnyPtr, plan: &mut Plan) -> Result<()> {
        let found = self.table.find_in(&self.ground, pointer, SlotState::Reserved)?;
        self.check_owner(found.owner)?;
        self.plan_state(&found, found.slot.activated(), plan);
        if found.index.is_none() && found.slot.written > 0 {
            let (place, len) = (found.place, u64::from(found.slot.written));
            plan.entries.push(Entry::Published { place, len });
        }
        plan.activated.push(found);
        Ok(())
    }

    fn plan_free(&self, pointer: AnyPtr, plan: &mut Plan) -> Result<()> {
        let found = self.table.find_in(&self.ground, pointer, SlotState::Persisted)?;
        self.plan_state(&found, found.slot.released(), plan);
        plan.freed.push(found);
        Ok(())
    }

    fn plan_state(&self, found: &Found, slot: Slot, plan: &mut Plan) {
        plan.entries.push(match found.index {
            Some(index) => {
                let place = state_at(found.chunk, index);
                let state = slot.encode(&self.ground, place);
                Entry::State { place, state, written: found.slot.written }
            }
            None => {
                let value = span_word(found, slot).encode(&self.ground, found.chunk);
                Entry::Word { place: chunk_word_at(found.chunk), value }
            }
        });
    }

    /// Returns the covered ranges, too.
    fn plan_covers(
        &self,
        publication: &Publication,
        freed: &Ranges,
        plan: &mut Plan,
    ) -> Result<Ranges> {
        let mut covered = Vec::new();
        for (pointer, range) in &publication.covered {
            let found = self.table.find_in(&self.ground, *pointer, SlotState::Persisted)?;
            if range.start > range.end || range.end > found.len {
                let why = format!("bytes {range:?} of a slot of {}", found.len);
                return Err(wild(&self.ground, *pointer, &why));
            }
            let (place, len) = (found.place + range.start, range.end - range.start);
            if len > 0 {
                // The slot's next life would change bytes by which recovery tells whether the record is whole.
                if freed.touch(place, len) {
                    return Err(impossible("it covers bytes of a slot that it frees"));
                }
                plan.entries.push(Entry::Published { place, len });
                covered.push((place, place + len));
            }
        }
        Ok(Ranges::of(covered))
    }

    fn plan_roots(&mut self, publication: &Publication, plan: &mut Plan) -> Result<()> {
        let mut taken = BTreeSet::new();
        for (name, &value) in &publication.roots {
            let root = self.roots.by_name.get(name).copied();
            let changed = match (root, value) {
                (None, None) => continue,
                (Some(root), Some(value)) => {
                    let place = root.pointer.place();
                    let bytes = roots::encode(&self.ground, place, name, value);
                    let (words, _) = bytes.as_chunks();
                    for (place, word) in [place, place + roots::CHECK_AT].into_iter().zip(words) {
                        let value = u64::from_le_bytes(*word);
                        plan.entries.push(Entry::Word { place, value });
                    }
                    Some(Root { value, ..root })
                }
                (Some(root), None) => {
                    self.plan_free(root.pointer, plan)?;
                    self.plan_root_word(root.index, 0, plan);
                    None
                }
                (None, Some(value)) => Some(self.plan_new_root(name, value, &mut taken, plan)?),
            };
            plan.roots.push((name.clone(), changed));
        }
        Ok(())
    }

    fn plan_new_root(
        &mut self,
        name: &str,
        value: u64,
        taken: &mut BTreeSet<usize>,
        plan: &mut Plan,
    ) -> Result<Root> {
        if name.is_empty() || name.len() > HEAP_ROOT_NAME_LEN_MAX {
            let (len, max) = (name.len(), HEAP_ROOT_NAME_LEN_MAX);
            return Err(impossible(&format!("a root's name has {len} bytes, not 1 to {max}")));
        }
        let Some(index) = self.roots.free.iter().copied().find(|index| !taken.contains(index))
        else {
            return Err(impossible(&format!("a heap has at most {HEAP_ROOTS_MAX} roots")));
        };
        taken.insert(index);
        let len = roots::encode(&self.ground, 0, name, value).len() as u64;
        let pointer = self.reserve_any(Owner::ROOTS, Tag::ROOT, len)?;
        plan.reserved.push(pointer);
        let bytes = roots::encode(&self.ground, pointer.place(), name, value);
        let found = self.table.find_in(&self.ground, pointer, SlotState::Reserved)?;
        self.ground.write(found.place, &bytes);
        self.table.slot_mut(found.chunk, found.index).written = len as u32;
        self.plan_activation(pointer, plan)?;
        self.plan_root_word(index, pointer.place(), plan);
        Ok(Root { index, pointer, value })
    }

    fn plan_root_word(&self, index: usize, place: u64, plan: &mut Plan) {
        let at = root_word_at(index);
        plan.entries.push(Entry::Word { place: at, value: self.ground.checked(at, place / 8) });
    }

    fn plan_dropped_owners(&self, publication: &Publication, plan: &mut Plan) -> Result<()> {
        let owners: BTreeSet<Owner> = publication.dropped.iter().copied().collect();
        let mut free = self.dead.free();
        for owner in owners.into_iter().filter(|&owner| !self.dead.contains(owner)) {
            let Some(index) = free.next() else {
                let why = format!("{DEAD_OWNERS_MAX} dropped owners are not reclaimed yet");
                return Err(impossible(&why));
            };
            let place = dead_word_at(index);
            let value = self.ground.checked(place, dead::payload(Some(owner)));
            plan.entries.push(Entry::Word { place, value });
            plan.dropped.push((index, owner));
        }
        Ok(())
    }
}

fn impossible(why: &str) -> Error {
    Error::Publication { why: why.to_owned() }
}

//! Sync: the dirty directory becomes the current one.
//!
//! ```text
//!  write nodes ─► stage ─► stage ─► swap: activate the rest, free what is replaced, swing the master
//!                   └ activate 1,200 slots, named as garbage
//! ```
//!
//! The swap is one publication. A group that activates more slots than its record takes has most of them activated before:
//! each *stage* activates some, together with garbage that names them, so that a crash leaves none that nothing leads to.
//! The swap cuts this garbage off. Slots that it replaces and cannot free, for a snapshot or for their number, are garbage
//! from then on.

use std::sync::Arc;

use halite_alloc::heap::{AnyPtr, DEAD_OWNERS_MAX, Heap, NvPtr, Publication};
use halite_sim::planted;

use super::batch::Batch;
use super::directory::{Directory, MASTER, Roots};
use super::garbage::{self, Part, STEP};
use super::store::{Alteration, CowHeap, HOUSE, is_full, owner};
use crate::component::Component;
use crate::index::Result;

/// Segments of the heap that one step of reclamation looks at.
const SEGMENTS: u32 = 64;

/// How far a reclamation has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reclaimed {
    /// Nothing is left to be given back.
    All,
    /// There may be more.
    Some,
    /// A snapshot needs what is left.
    Waits,
}

impl Alteration {
    /// Adds what it changes to a directory, and to the publication of it.
    fn apply(&self, next: &mut Directory, roots: &mut Roots, publication: &mut Publication) {
        if next.attached != 0 {
            publication.free(AnyPtr::from_word(next.attached));
        }
        publication.activate(self.attached);
        next.attached = self.attached.word();
        for &number in &self.dropped {
            roots.remove(&number);
            publication.drop_owner(owner(number));
        }
    }
}

impl CowHeap {
    /// Makes the directory of a new store.
    pub(super) fn create(&mut self) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let directory = self.directory.clone();
        self.swing(&mut shared.heap.write(), directory, Publication::new())
    }

    /// Makes the group durable. If there is no room for that, or a slot is damaged, the group stays as it is; after
    /// another failure the store is lost until it is opened again.
    pub(crate) fn sync(&mut self) -> Result<()> {
        let _in = Component::Recovery.enter();
        if self.batch.is_clean() {
            return Ok(());
        }
        match self.publish() {
            Err(error) if is_full(&error) && self.give_space()? => self.publish(),
            published => published,
        }
    }

    fn publish(&mut self) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let heap = &mut shared.heap.write();
        self.free_oldest(heap)?;
        self.batch.write_nodes(heap, &shared)?;
        while self.batch.new.len() > STEP {
            self.stage(heap)?;
        }
        self.swap(heap, None)
    }

    /// Changes the attached word, and drops owners. The group has to be synced.
    pub(crate) fn alter(&mut self, alteration: &Alteration) -> Result<()> {
        assert!(self.batch.is_clean(), "statements follow a sync");
        let shared = Arc::clone(&self.shared);
        self.swap(&mut shared.heap.write(), Some(alteration))
    }

    /// Activates some slots of the group, which stay garbage until the swap.
    pub(super) fn stage(&mut self, heap: &mut Heap) -> Result<()> {
        let slots: Vec<_> = self.batch.new.iter().take(STEP).copied().collect();
        let mut next = self.next_directory();
        let written = garbage::write(heap, owner(HOUSE), next.sequence, &slots)?;
        let place = written[0];
        let mut publication = Publication::new();
        slots.iter().for_each(|&slot| publication.activate(slot));
        publication.activate(place);
        if self.batch.staged.is_empty() {
            self.batch.before_staged = self.directory.newest;
        }
        next.queue(None, &written, &mut publication);
        let swung = self.swing(heap, next, publication);
        if swung.is_err() && !self.is_lost {
            garbage::give_up(heap, &written)?;
        }
        swung?;
        self.batch.stage(&slots, place);
        Ok(())
    }

    /// Makes what is left of the group durable, and the dirty directory the current one.
    fn swap(&mut self, heap: &mut Heap, alteration: Option<&Alteration>) -> Result<()> {
        let mut next = self.next_directory();
        let mut publication = Publication::new();
        let batch = &self.batch;
        for &slot in &batch.new {
            planted!(
                "table.nvm-cow-node-not-activated",
                if batch.dirty.contains_key(&slot.word()) {
                    continue;
                }
            );
            publication.activate(slot);
        }
        let mut freed = batch.freed.clone();
        freed.extend(batch.staged.iter().map(|garbage| garbage.any()));
        let is_read = planted!(
            "table.nvm-cow-snapshot-not-waited-for",
            false,
            self.shared.oldest_snapshot().is_some()
        );
        let waiting = freed.split_off(if is_read { 0 } else { freed.len().min(STEP) });
        let written = garbage::write(heap, owner(HOUSE), next.sequence, &waiting)?;
        planted!("table.nvm-cow-freed-before-swap", {
            freed.drain(..).for_each(|slot| publication.free(slot));
            heap.publish(&mut publication)?;
        });
        freed.iter().for_each(|&slot| publication.free(slot));
        written.iter().for_each(|&garbage| publication.activate(garbage));
        let staged = (!batch.staged.is_empty()).then_some(batch.before_staged);
        next.queue(staged, &written, &mut publication);
        let mut roots = batch.roots.clone();
        if let Some(alteration) = alteration {
            alteration.apply(&mut next, &mut roots, &mut publication);
        }
        next.roots = Arc::new(roots);
        let swung = self.swing(heap, next, publication);
        if swung.is_err() && !self.is_lost {
            garbage::give_up(heap, &written)?;
        }
        swung?;
        if alteration.is_some_and(|alteration| !alteration.dropped.is_empty()) {
            self.dropped_at = self.directory.sequence;
        }
        let roots = (*self.directory.roots).clone();
        let written = std::mem::replace(&mut self.batch, Batch::of(roots));
        written.dirty.keys().for_each(|&node| self.shared.checked.insert(node));
        Ok(())
    }

    /// The directory that follows the current one, without changes.
    fn next_directory(&self) -> Directory {
        Directory { sequence: self.directory.sequence + 1, ..self.directory.clone() }
    }

    /// Makes a directory the current one, together with the changes of a publication.
    fn swing(
        &mut self,
        heap: &mut Heap,
        next: Directory,
        mut publication: Publication,
    ) -> Result<()> {
        let place = next.write(heap, owner(HOUSE))?;
        publication.activate(place);
        if !self.place.is_null() {
            publication.free(self.place);
        }
        publication.set_root(MASTER, place.word());
        self.is_lost = true;
        heap.publish(&mut publication)?;
        self.is_lost = false;
        (self.directory, self.place) = (next, place);
        Ok(())
    }

    /// Frees the oldest garbage, if no snapshot needs it. Returns whether it did.
    fn free_oldest(&mut self, heap: &mut Heap) -> Result<bool> {
        let oldest = self.directory.oldest;
        if oldest.is_null() || self.batch.staged.contains(&oldest) {
            return Ok(false);
        }
        let part = Part::read(heap, oldest)?;
        if !self.shared.is_past(part.sequence) {
            return Ok(false);
        }
        let mut next = self.next_directory();
        next.oldest = part.next;
        if next.oldest.is_null() {
            next.newest = NvPtr::NULL;
        }
        let mut publication = Publication::new();
        part.slots.iter().for_each(|&slot| publication.free(slot));
        publication.free(oldest);
        self.swing(heap, next, publication)?;
        if self.batch.before_staged == oldest {
            self.batch.before_staged = NvPtr::NULL;
        }
        Ok(true)
    }

    /// Frees all garbage that no snapshot needs.
    pub(crate) fn free_garbage(&mut self) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        while self.free_oldest(&mut shared.heap.write())? {}
        Ok(())
    }

    /// Gives back some space of garbage and of dropped owners.
    pub(crate) fn reclaim(&mut self) -> Result<Reclaimed> {
        let shared = Arc::clone(&self.shared);
        let heap = &mut shared.heap.write();
        // Slots of a dropped owner may be among the garbage.
        if self.free_oldest(heap)? {
            return Ok(Reclaimed::Some);
        }
        if !self.directory.oldest.is_null() || !self.shared.is_past(self.dropped_at) {
            return Ok(Reclaimed::Waits);
        }
        Ok(if heap.reclaim(SEGMENTS)? { Reclaimed::All } else { Reclaimed::Some })
    }

    /// Whether so many owners can be dropped before others are reclaimed.
    pub(crate) fn can_drop(&self, count: usize) -> bool {
        self.shared.heap().dropped_owners().count() + count <= DEAD_OWNERS_MAX
    }
}

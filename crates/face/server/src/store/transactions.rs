//! Transactions: changes gather in an [`Overlay`] and become one batch.

use halite::Durability;
use halite_sim::planted;

use super::overlay::{Overlay, Value};
use super::{Result, Store, elements, order, undo};
use crate::data_bytes::{DataBytes, Growth};
use crate::pubsub;

/// The most bytes of a batch whose memory is kept for the next one.
const BATCH_KEPT: usize = 1 << 20;

/// A moment of a transaction.
#[derive(Debug)]
pub(crate) struct Savepoint(undo::Mark, pubsub::Mark);

impl Store {
    /// Does changes as a transaction, or as a part of the one that has begun.
    pub(super) fn together(&mut self, change: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        if self.overlay.is_some() {
            return change(self);
        }
        self.begin();
        match change(self) {
            Ok(()) => self.commit(),
            Err(error) => {
                self.rollback();
                Err(error)
            }
        }
    }

    /// Begins a transaction: the changes until [`Store::commit`] are applied atomically.
    pub(crate) fn begin(&mut self) {
        debug_assert!(self.overlay.is_none(), "transactions do not nest");
        self.overlay = Some(Overlay::new(self.transaction_len_max));
        self.outbox.begin();
    }

    /// Whether a transaction has begun.
    pub(crate) fn in_transaction(&self) -> bool {
        self.overlay.is_some()
    }

    /// The transaction as it is now, to which [`Store::return_to`] returns; [`Store::release`] forgets it. There is one at
    /// a time.
    pub(crate) fn savepoint(&mut self) -> Option<Savepoint> {
        let mark = self.outbox.mark();
        Some(Savepoint(self.overlay.as_mut()?.save(), mark))
    }

    /// Lets the changes since a savepoint stay.
    pub(crate) fn release(&mut self, _: Savepoint) {
        if let Some(overlay) = &mut self.overlay {
            overlay.release();
        }
    }

    /// Discards the changes since a savepoint of the transaction.
    pub(crate) fn return_to(&mut self, savepoint: Savepoint) {
        if let Some(mut overlay) = self.overlay.take() {
            self.forget_residents(&overlay.touched);
            overlay.return_to(&savepoint.0);
            self.overlay = Some(overlay);
            self.outbox.return_to(savepoint.1);
        }
    }

    /// Discards the changes since [`Store::begin`].
    pub(crate) fn rollback(&mut self) {
        if let Some(overlay) = self.overlay.take() {
            self.forget_residents(&overlay.touched);
            self.outbox.rollback();
        }
    }

    /// Applies the changes since [`Store::begin`]; if that fails, none of them is applied. They are
    /// durable behind the next sync, if not at once.
    pub(crate) fn commit(&mut self) -> Result<()> {
        let Some(mut overlay) = self.overlay.take() else { return Ok(()) };
        let touched = std::mem::take(&mut overlay.touched);
        let committed = self.commit_overlay(overlay);
        match committed {
            Ok(true) => self.outbox.commit(),
            Ok(false) => self.outbox.commit_without_events(),
            Err(_) => {
                self.outbox.rollback();
                self.forget_residents(&touched);
            }
        }
        committed.map(drop)
    }

    /// Applies the changes; false: they were the removal of expired keys alone, which stay.
    fn commit_overlay(&mut self, mut overlay: Overlay) -> Result<bool> {
        let old_deadlines = self.old_deadlines(&overlay)?;
        let mut olds = old_deadlines.iter().copied();
        for (&place, changes) in &mut overlay.databases {
            let database = &self.databases[place];
            if changes.cleared {
                database.batch_clear(&mut self.batch);
            }
            for (key, change) in &mut changes.keys {
                match &mut change.value {
                    Value::Kept => {}
                    // The value is moved, so that it is in memory once: here or in the batch.
                    Value::Put(value) => {
                        self.batch.put(&database.values, key, std::mem::take(value));
                    }
                    Value::Removed => self.batch.delete(&database.values, key),
                }
                if olds.next().flatten() != change.deadline {
                    database.batch_deadline(&mut self.batch, key, change.deadline);
                }
            }
        }
        let changed_fields = match self.batch_field_deadlines(&overlay) {
            Ok(changed) => changed,
            Err(error) => {
                self.batch = self.db.batch();
                return Err(error);
            }
        };
        planted!("server.record-before-its-elements", self.commit_batch(true)?);
        let mut puts = false;
        for (&place, changes) in &mut overlay.elements {
            let elements = &self.databases[place].elements;
            for (key, value) in changes {
                match value {
                    Some(value) => {
                        // A note that elements go takes room, and makes more.
                        puts |= !elements::is_drop_note(key);
                        self.batch.put(elements, key, std::mem::take(value));
                    }
                    None => self.batch.delete(elements, key),
                }
            }
        }
        if let Some(order) = &overlay.order {
            let settings = &self.opened.get().expect("the databases are open").settings;
            self.batch.put(settings, order::KEY, order::encode(order));
        }
        if self.batch.is_empty() {
            return Ok(true);
        }
        let mut changes = overlay.databases.values().flat_map(|changes| changes.keys.values());
        puts |= changes.any(|change| matches!(change.value, Value::Put(_)) && !change.has_shrunk);
        match self.commit_batch(!puts && overlay.order.is_none()) {
            // Expired keys stay, and stay due, if they cannot be removed.
            Err(_) if !overlay.is_asked_for => return Ok(false),
            Err(error) => {
                // An engine may sync changes to several partitions with them: if that failed, the next sync tells.
                if !error.lacks_space() {
                    self.parts.iter_mut().flatten().for_each(|part| part.unsynced = true);
                }
                return Err(error);
            }
            Ok(()) => {}
        }
        let mut olds = old_deadlines.into_iter();
        let mut crowded = Vec::new();
        for (place, changes) in overlay.databases {
            if changes.cleared {
                for part in self.parts.iter_mut().flatten() {
                    part.unsynced = true;
                    part.clear(place);
                }
            }
            for (key, change) in changes.keys {
                let spot = self.spot_at(place, &key);
                self.part_mut(spot.partition).unsynced = true;
                let (old, new) = (olds.next().flatten(), change.deadline);
                if old != new {
                    let deadlines = &mut self.part_mut(spot.partition).deadlines[place];
                    deadlines.change(&key, old, new);
                    if deadlines.is_crowded() && !crowded.contains(&spot) {
                        crowded.push(spot);
                    }
                }
            }
        }
        // A slice is divided by its records, which are as the whole transaction has left them.
        crowded.into_iter().for_each(|spot| self.settle_deadlines(spot));
        self.note_field_deadlines(&changed_fields);
        for (place, changes) in overlay.elements {
            for key in changes.into_keys() {
                let partition = self.partition_of(&key);
                let part = self.part_mut(partition);
                part.unsynced = true;
                part.has_elements[place] = true;
            }
        }
        for of in overlay.dropped {
            self.part_mut(of.partition).dropped.push(of);
        }
        if let Some(order) = overlay.order {
            self.set_order(&order);
        }
        Ok(true)
    }

    /// Writes the batch, and gives its memory back if that is much. Bookkeeping (removals and deadlines) may take room
    /// that values may not.
    pub(super) fn commit_batch(&mut self, is_bookkeeping: bool) -> Result<()> {
        let is_large = self.batch.byte_len() > BATCH_KEPT;
        let committed = commit(&mut self.batch, self.data_bytes.as_deref(), is_bookkeeping);
        if is_large || committed.is_err() {
            self.batch = self.db.batch();
        }
        committed
    }
}

/// Commits a batch, and notes what it makes the records grow if that is asked for.
pub(super) fn commit(
    batch: &mut halite::Batch,
    data_bytes: Option<&DataBytes>,
    is_bookkeeping: bool,
) -> Result<()> {
    let growth = data_bytes.map(|_| Growth::of(batch));
    match is_bookkeeping {
        true => batch.commit_bookkeeping_and_clear(Durability::Deferred)?,
        false => batch.commit_and_clear(Durability::Deferred)?,
    }
    if let (Some(data_bytes), Some(growth)) = (data_bytes, growth) {
        data_bytes.add(&growth);
    }
    Ok(())
}

//! Keys that expire: their deadlines, as the transaction under way has them, and the removal of those that are due.

use halite_sim::planted;

use super::deadline_records::Records;
use super::deadlines::Due;
use super::overlay::Overlay;
use super::transactions::commit;
use super::{Result, Spot, Store, tracking};
use crate::notifications::EventClass;
use crate::partition_set::PartitionSet;

/// The effect of a write on the deadline of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NewDeadline {
    /// The deadline stays.
    Keep,
    /// The key does not expire.
    Clear,
    /// The key expires at this time, in milliseconds since 1970.
    At(u64),
}

impl Store {
    /// Returns when `key`, which has a value, expires: milliseconds since 1970.
    pub(crate) fn deadline(&self, db: usize, key: &[u8]) -> Result<Option<u64>> {
        self.deadline_at(self.spot(db, key), key)
    }

    /// Sets when `key`, which has a value, expires.
    pub(crate) fn set_deadline(&mut self, db: usize, key: &[u8], new: Option<u64>) -> Result<()> {
        let spot = self.spot(db, key);
        if let Some(overlay) = &mut self.overlay {
            overlay.set_deadline(spot.place, key, new)?;
        } else {
            let old = self.stored_deadline(spot, key)?;
            self.databases[spot.place].batch_deadline(&mut self.batch, key, new);
            self.commit_batch(true)?;
            self.note_deadline(spot, key, old, new);
        }
        self.changed(db, spot.partition, key);
        Ok(())
    }

    /// Removes up to `count_max` expired keys of the parts here; returns how many. Expired keys that cannot be removed
    /// now are hidden from all clients, and are tried again.
    pub(crate) fn expire_due(&mut self, count_max: usize) -> usize {
        if self.is_paused {
            return 0;
        }
        let (mut count, mut late) = (0, Vec::new());
        let is_watched = self.outbox.look_for_watchers();
        self.outbox.actor = 0;
        for part in self.parts.iter_mut().flatten() {
            for (place, database) in self.databases.iter().enumerate() {
                let left = count_max.saturating_sub(count + late.len());
                let records = Records::of_keys(database, part.number);
                // Records that cannot be read are reported by the commands on their keys.
                let found = part.deadlines[place].due(self.now_ms, left, &records);
                let due = found.unwrap_or_default();
                if due.is_empty() {
                    continue;
                }
                // More than the records of the keys may have to go.
                let has_elements =
                    planted!("server.expired-elements-stay", false, part.has_elements[place]);
                if has_elements || !part.field_deadlines[place].is_empty() {
                    late.extend(due.into_iter().map(|due| (place, due)));
                    continue;
                }
                for Due { key, .. } in &due {
                    self.batch.delete(&database.values, key);
                    self.batch.delete(&database.expires, key);
                }
                if commit(&mut self.batch, self.data_bytes.as_deref(), true).is_err() {
                    self.batch = self.db.batch();
                    due.iter().for_each(|due| part.deadlines[place].lower(&due.at, due.deadline));
                    continue;
                }
                part.unsynced = true;
                for Due { at, deadline, .. } in &due {
                    part.deadlines[place].change(at, Some(*deadline), None);
                }
                if let Some(db) = part.order.iter().position(|&at| at == place) {
                    for Due { key, .. } in &due {
                        part.watches.touch(db, key);
                        self.has_ready |= part.waiters.touch(db, key);
                        if is_watched {
                            tracking::invalidate(part, &mut self.outbox, key);
                        }
                        self.outbox.notify(EventClass::Expired, "expired", db, key);
                    }
                    self.changes += due.len() as u64;
                }
                count += due.len();
            }
        }
        for (place, Due { key, deadline, .. }) in late {
            let spot = self.spot_at(place, &key);
            let db = self.part(spot.partition).order.iter().position(|&at| at == place);
            let erased = self.together(|store| {
                if let Some(elements) = store.elements_at(spot, &key)? {
                    store.drop_elements(&elements)?;
                }
                store.erase_at(spot, &key)
            });
            if erased.is_ok() {
                count += 1;
                if let Some(db) = db {
                    self.changed(db, spot.partition, &key);
                    self.outbox.notify(EventClass::Expired, "expired", db, &key);
                }
            } else {
                self.part_mut(spot.partition).deadlines[place].lower(&key, deadline);
            }
        }
        self.expired += count as u64;
        count
    }

    /// The number of keys that expire in the parts of `partitions`, which are here, and the sum of
    /// their deadlines.
    pub(crate) fn expiring(&self, db: usize, partitions: PartitionSet) -> (usize, u128) {
        partitions.iter().fold((0, 0), |(len, sum), number| {
            let part = self.part(number);
            let deadlines = &part.deadlines[part.order[db]];
            (len + deadlines.len(), sum + deadlines.sum())
        })
    }

    #[inline]
    pub(super) fn deadline_at(&self, spot: Spot, key: &[u8]) -> Result<Option<u64>> {
        match self.changed_deadline(spot, key) {
            Some(deadline) => Ok(deadline),
            None => self.stored_deadline(spot, key),
        }
    }

    /// The deadline that the transaction has given a key, if it has changed it.
    #[inline]
    fn changed_deadline(&self, spot: Spot, key: &[u8]) -> Option<Option<u64>> {
        let changes = self.overlay.as_ref()?.databases.get(&spot.place)?;
        match changes.keys.get(key) {
            Some(change) => Some(change.deadline),
            None => changes.cleared.then_some(None),
        }
    }

    /// The deadline of a key, outside of the transaction.
    #[inline]
    pub(super) fn stored_deadline(
        &self,
        Spot { partition, place }: Spot,
        key: &[u8],
    ) -> Result<Option<u64>> {
        match self.part(partition).deadlines[place].is_empty() {
            true => Ok(None),
            false => Records::of_keys(&self.databases[place], partition).get(key),
        }
    }

    /// For each key that a transaction has changed, in order, the deadline that it had before.
    pub(super) fn old_deadlines(&self, overlay: &Overlay) -> Result<Vec<Option<u64>>> {
        let mut olds = Vec::new();
        for (&place, changes) in &overlay.databases {
            for key in changes.keys.keys() {
                olds.push(match changes.cleared {
                    true => None,
                    false => self.stored_deadline(self.spot_at(place, key), key)?,
                });
            }
        }
        Ok(olds)
    }

    /// Notes that the stored deadline of a key was changed.
    pub(super) fn note_deadline(
        &mut self,
        spot: Spot,
        key: &[u8],
        old: Option<u64>,
        new: Option<u64>,
    ) {
        if old == new {
            return;
        }
        self.part_mut(spot.partition).deadlines[spot.place].change(key, old, new);
        self.settle_deadlines(spot);
    }

    pub(super) fn settle_deadlines(&mut self, Spot { partition, place }: Spot) {
        let part = self.parts[partition].as_mut().expect("its part is here");
        part.deadlines[place].settle(&Records::of_keys(&self.databases[place], partition));
    }

    #[inline]
    pub(super) fn is_due(&self, spot: Spot, key: &[u8]) -> Result<bool> {
        let deadline = match self.changed_deadline(spot, key) {
            Some(deadline) => deadline,
            None => {
                let deadlines = &self.part(spot.partition).deadlines[spot.place];
                if !deadlines.may_be_due(key, self.now_ms) {
                    return Ok(false);
                }
                self.stored_deadline(spot, key)?
            }
        };
        Ok(deadline.is_some_and(|deadline| deadline <= self.now_ms))
    }

    /// Removes a key that is due. If it cannot be removed, it stays, and stays due: the next write tells why.
    pub(super) fn expire(&mut self, db: usize, spot: Spot, key: &[u8]) {
        if self.is_paused {
            return;
        }
        if self.overlay.is_some() {
            if let Ok(Some(elements)) = self.elements_at(spot, key)
                && self.drop_elements(&elements).is_err()
            {
                return;
            }
            if self.set_field_deadline_at(spot, key, None).is_err() {
                return;
            }
            if let Some(overlay) = &mut self.overlay {
                overlay.expire(spot.place, key);
            }
            self.changed(db, spot.partition, key);
            self.note_expired(db, key);
            return;
        }
        match self.erase(db, spot, key) {
            Ok(()) => self.note_expired(db, key),
            Err(_) => self.part_mut(spot.partition).watches.touch(db, key),
        }
    }

    fn note_expired(&mut self, db: usize, key: &[u8]) {
        self.expired += 1;
        self.notify(EventClass::Expired, "expired", db, key);
    }
}

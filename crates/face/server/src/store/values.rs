//! The values of keys: reads, writes and removals, each together with the key's deadline and its elements.

use halite::{Bytes, Durability};
use halite_sim::planted;

use super::elements::Elements;
use super::encodings::Encoding;
use super::lengths::check_lengths;
use super::overlay::Value;
use super::{NewDeadline, Result, Spot, Store};
use crate::notifications::EventClass;
use crate::stored::{STRING_TAG, Stored, Type, collection_id};

/// The most memory that is kept to tag the next value, in bytes.
const TAGGING_KEPT: usize = 1 << 20;

/// Keys that are prefetched together.
pub(super) const PREFETCHED_MAX: usize = 16;

impl Store {
    /// Prefetches the records of these keys, of those whose parts are here.
    pub(crate) fn prefetch(&self, db: usize, keys: &[&[u8]]) {
        let Some(part) = self.parts.iter().flatten().next() else { return };
        let values = &self.databases[part.order[db]].values;
        if self.parts.len() == 1 {
            return values.prefetch(0, keys);
        }
        for keys in keys.chunks(PREFETCHED_MAX) {
            let mut homes = [0; PREFETCHED_MAX];
            homes.iter_mut().zip(keys).for_each(|(home, key)| *home = self.partition_of(key));
            for part in self.parts.iter().flatten() {
                let (mut own, mut count) = ([&[][..]; PREFETCHED_MAX], 0);
                for (key, _) in keys.iter().zip(homes).filter(|(_, home)| *home == part.number) {
                    own[count] = key;
                    count += 1;
                }
                if count > 0 {
                    values.prefetch(part.number, &own[..count]);
                }
            }
        }
    }

    /// The value of `key`, unless it has expired.
    #[inline]
    pub(crate) fn get(&mut self, db: usize, key: &[u8]) -> Result<Option<Stored>> {
        let spot = self.spot(db, key);
        if self.is_due(spot, key)? {
            self.expire(db, spot, key);
            return Ok(None);
        }
        let value = self.value(spot, key)?;
        if self.uses_keys && value.is_some() {
            let (usage, now_ms, random) = (self.usage, self.now_ms, &mut self.random);
            let part = self.parts[spot.partition].as_mut().expect("its part is here");
            part.clocks.touch((spot.place, key), usage, now_ms, random);
        }
        Ok(value.map(Stored::from))
    }

    /// Whether `key` has a value.
    pub(crate) fn contains(&mut self, db: usize, key: &[u8]) -> Result<bool> {
        Ok(self.get(db, key)?.is_some())
    }

    /// Sets the value of `key` to a string, and its deadline.
    #[inline]
    pub(crate) fn put(
        &mut self,
        db: usize,
        key: &[u8],
        string: &[u8],
        deadline: NewDeadline,
    ) -> Result<()> {
        self.put_written(db, key, deadline, |value| value.extend_from_slice(string))
    }

    /// [`Store::put`] of a string that `write` appends: it is written behind its tag, and not copied there.
    #[inline]
    pub(crate) fn put_written(
        &mut self,
        db: usize,
        key: &[u8],
        deadline: NewDeadline,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<()> {
        let mut stored = std::mem::take(&mut self.tagging);
        stored.clear();
        stored.push(STRING_TAG);
        write(&mut stored);
        let put = self.put_stored(db, key, &stored, deadline);
        if stored.capacity() <= TAGGING_KEPT {
            self.tagging = stored;
        }
        put
    }

    /// Sets the value of `key`, in its stored form, and its deadline.
    #[inline]
    pub(crate) fn put_stored(
        &mut self,
        db: usize,
        key: &[u8],
        stored: &[u8],
        deadline: NewDeadline,
    ) -> Result<()> {
        let spot = self.spot(db, key);
        let elements = self.elements_at(spot, key)?;
        let elements = elements.filter(|elements| collection_id(stored) != Some(elements.id));
        let had_deadlines = stored.first() != Some(&Type::Hash.tag())
            && self.field_deadline_at(spot, key)?.is_some();
        if elements.is_some() || had_deadlines {
            return self.together(|store| {
                if let Some(elements) = elements {
                    planted!("server.replaced-elements-stay", (), store.drop_elements(&elements)?);
                }
                if had_deadlines {
                    store.set_field_deadline_at(spot, key, None)?;
                }
                store.put_record(db, spot, key, stored, deadline)
            });
        }
        self.put_record(db, spot, key, stored, deadline)
    }

    /// [`Store::put_stored`] of a collection that has lost elements and got none: as a removal does, it may take room that
    /// other writes may not. The deadline stays.
    pub(crate) fn put_shrunk(&mut self, db: usize, key: &[u8], stored: &[u8]) -> Result<()> {
        let place = self.spot(db, key).place;
        let has_grown = self.overlay.as_ref().is_some_and(|overlay| overlay.has_grown(place, key));
        self.put_stored(db, key, stored, NewDeadline::Keep)?;
        if let Some(overlay) = self.overlay.as_mut().filter(|_| !has_grown) {
            overlay.note_shrunk(place, key);
        }
        Ok(())
    }

    /// The elements of the collection at a key, expired or not, if it is one that has them in records of their own.
    pub(super) fn elements_at(&self, spot: Spot, key: &[u8]) -> Result<Option<Elements>> {
        if !self.part(spot.partition).has_elements[spot.place] {
            return Ok(None);
        }
        let value = self.value(spot, key)?;
        let id = value.and_then(|value| collection_id(&value));
        let Spot { partition, place } = spot;
        let elements = id.map(|id| Elements { partition, place, id });
        // Of a damaged record nothing else goes.
        Ok(elements.filter(|elements| elements.are_home(self.partitions())))
    }

    /// Notes that elements of the collection at a key were changed, and its record was not.
    pub(crate) fn note_changed(&mut self, db: usize, key: &[u8]) {
        let partition = self.partition_of(key);
        self.changed(db, partition, key);
    }

    /// Does changes of which clients that watch or track the keys are not told.
    pub(crate) fn unwatched<T>(&mut self, change: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.is_unwatched, true);
        let changed = change(self);
        self.is_unwatched = before;
        changed
    }

    /// Sets a value, and its deadline.
    #[inline]
    fn put_record(
        &mut self,
        db: usize,
        spot: Spot,
        key: &[u8],
        stored: &[u8],
        deadline: NewDeadline,
    ) -> Result<()> {
        let old = self.deadline_at(spot, key)?;
        let is_due = old.is_some_and(|at| at <= self.now_ms);
        let tells_new = self.outbox.events.include(EventClass::New);
        let is_new = tells_new && (is_due || !self.is_stored(spot, key)?);
        let new = match deadline {
            // A deadline that is due belongs to an expired value, even if that could not be removed.
            NewDeadline::Keep => old.filter(|&at| at > self.now_ms),
            NewDeadline::Clear => None,
            NewDeadline::At(at) => Some(at),
        };
        if let Some(overlay) = &mut self.overlay {
            check_lengths(key, stored)?;
            overlay.put(spot.place, key, stored, new)?;
        } else if old == new && self.data_bytes.is_none() {
            let values = &self.databases[spot.place].values;
            values.put_with(key, stored, Durability::Deferred)?;
        } else {
            let database = &self.databases[spot.place];
            self.batch.put(&database.values, key, stored);
            if old != new {
                database.batch_deadline(&mut self.batch, key, new);
            }
            self.commit_batch(false)?;
            if old != new {
                self.note_deadline(spot, key, old, new);
            }
        }
        self.part_mut(spot.partition).encodings[spot.place].forget(key);
        let (usage, now_ms) = (self.usage, self.now_ms);
        self.part_mut(spot.partition).clocks.put((spot.place, key), usage, now_ms);
        if is_due {
            self.notify(EventClass::Expired, "expired", db, key);
        }
        if is_new {
            self.notify(EventClass::New, "new", db, key);
        }
        self.changed(db, spot.partition, key);
        Ok(())
    }

    /// The encoding of a value, if that does not follow from its bytes.
    pub(crate) fn encoding(&self, db: usize, key: &[u8]) -> Option<Encoding> {
        let spot = self.spot(db, key);
        self.part(spot.partition).encodings[spot.place].get(key)
    }

    /// Notes that the encoding of a value that was put does not follow from its bytes.
    pub(crate) fn note_encoding(&mut self, db: usize, key: &[u8], encoding: Encoding) {
        let spot = self.spot(db, key);
        self.part_mut(spot.partition).encodings[spot.place].note(key, encoding);
    }

    /// Removes `key`; returns whether it had a value.
    pub(crate) fn remove(&mut self, db: usize, key: &[u8]) -> Result<bool> {
        let exists = self.contains(db, key)?;
        if exists {
            self.erase(db, self.spot(db, key), key)?;
        }
        Ok(exists)
    }

    /// The stored value of a key, expired or not.
    #[inline]
    pub(super) fn value(&self, spot: Spot, key: &[u8]) -> Result<Option<Bytes>> {
        let changes = self.overlay.as_ref().and_then(|overlay| overlay.databases.get(&spot.place));
        if let Some(changes) = changes {
            match changes.keys.get(key).map(|change| &change.value) {
                Some(Value::Put(value)) => return Ok(Some(Bytes::from(&value[..]))),
                Some(Value::Removed) => return Ok(None),
                None if changes.cleared => return Ok(None),
                None | Some(Value::Kept) => {}
            }
        }
        self.databases[spot.place].values.get(key)
    }

    /// Whether a key has a value and has not expired.
    pub(super) fn has_value(&self, spot: Spot, key: &[u8]) -> Result<bool> {
        Ok(!self.is_due(spot, key)? && self.value(spot, key)?.is_some())
    }

    /// Whether a key has a value, expired or not: a watch that began with an absent key has to see that.
    pub(super) fn is_stored(&self, spot: Spot, key: &[u8]) -> Result<bool> {
        Ok(self.value(spot, key)?.is_some())
    }

    /// Removes a key and its deadline.
    pub(super) fn erase(&mut self, db: usize, spot: Spot, key: &[u8]) -> Result<()> {
        match self.elements_at(spot, key)? {
            Some(elements) => self.together(|store| {
                store.drop_elements(&elements)?;
                store.erase_at(spot, key)
            })?,
            None if self.field_deadline_at(spot, key)?.is_some() => {
                self.together(|store| store.erase_at(spot, key))?;
            }
            None => self.erase_at(spot, key)?,
        }
        let part = self.part_mut(spot.partition);
        part.encodings[spot.place].forget(key);
        part.clocks.forget(spot.place, key);
        self.changed(db, spot.partition, key);
        Ok(())
    }

    /// Removes the record of a key, and its deadline.
    pub(super) fn erase_at(&mut self, spot: Spot, key: &[u8]) -> Result<()> {
        let place = spot.place;
        if let Some(overlay) = &mut self.overlay {
            overlay.remove(place, key)?;
            self.set_field_deadline_at(spot, key, None)?;
        } else {
            let old = self.stored_deadline(spot, key)?;
            let database = &self.databases[place];
            if old.is_some() || self.data_bytes.is_some() {
                self.batch.delete(&database.values, key);
                if old.is_some() {
                    self.batch.delete(&database.expires, key);
                }
                self.commit_batch(true)?;
                self.note_deadline(spot, key, old, None);
            } else {
                database.values.delete_with(key, Durability::Deferred)?;
            }
        }
        Ok(())
    }

    /// Notes that a key was changed. A transaction that fails in the end has made no change, and may still abort others
    /// that watch its keys: a client that retries loses no write.
    #[inline]
    pub(super) fn changed(&mut self, db: usize, partition: usize, key: &[u8]) {
        self.changes += 1;
        let is_stored = self.overlay.is_none();
        let part = self.part_mut(partition);
        part.unsynced |= is_stored;
        let is_waited = part.waiters.touch(db, key);
        self.has_ready |= is_waited;
        if self.is_unwatched {
            return;
        }
        self.part_mut(partition).watches.touch(db, key);
        if self.outbox.is_watched() {
            self.invalidate(partition, key);
        }
    }
}

//! The end of a change of a map: its record is written, and events are told.

use super::{Map, State, pairs, put_element, record_of};
use crate::collection::hash::own_value;
use crate::collection::tell;
use crate::failure::Outcome;
use crate::store::{NewDeadline, Resident, Store};
use crate::stored::{Type, WITH_ORDER};

impl Map {
    /// Writes the map, and tells of events: what was changed is there now. A map without fields is no more.
    pub(crate) fn save(
        self,
        store: &mut Store,
        events: impl IntoIterator<Item = &'static str>,
    ) -> Outcome {
        let is_gone = self.write(store, NewDeadline::Keep)?;
        tell(store, self.of, (self.db, &self.key), events, is_gone);
        Ok(())
    }

    /// [`Map::save`] of a map that takes the place of whatever the key had. If it has no fields, there is no event but that
    /// the key is gone.
    pub(crate) fn save_new(mut self, store: &mut Store, event: &'static str) -> Outcome {
        self.is_changed = true;
        let is_gone = match self.is_empty(store)? {
            true if !store.remove(self.db, &self.key)? => return Ok(()),
            true => true,
            false => self.write(store, NewDeadline::Clear)?,
        };
        let event = (!is_gone).then_some(event);
        tell(store, self.of, (self.db, &self.key), event, is_gone);
        Ok(())
    }

    /// Writes the map; returns whether its key is gone.
    pub(super) fn write(&self, store: &mut Store, deadline: NewDeadline) -> Outcome<bool> {
        if (self.is_changed || self.has_changed_elements) && self.is_empty(store)? {
            return Ok(self.was_there && store.remove(self.db, &self.key)?);
        }
        match &self.state {
            _ if !self.is_changed && !self.has_changed_elements => {
                if self.is_touched {
                    store.note_changed(self.db, &self.key);
                }
            }
            State::Elements(_) if !self.is_changed => store.note_changed(self.db, &self.key),
            State::Packed(packed)
                if self.was_there && !self.has_grown && deadline == NewDeadline::Keep =>
            {
                store.put_shrunk(self.db, &self.key, packed.stored())?;
            }
            State::Packed(packed) => {
                store.put_stored(self.db, &self.key, packed.stored(), deadline)?;
            }
            State::Elements(elements) => {
                let mut record = record_of(self.of, elements.id);
                if self.has_order {
                    record.push(WITH_ORDER);
                }
                store.put_stored(self.db, &self.key, &record, deadline)?;
            }
        }
        Ok(false)
    }

    /// Whether a map that is no set may still be one record, once a field was put.
    pub(super) fn fits(&self, store: &Store, field: &[u8], value: &[u8], is_new: bool) -> bool {
        let State::Packed(packed) = &self.state else { return true };
        let limits = &store.inline_limits;
        let (entries, is_short) = match self.of {
            Type::Hash => {
                let is_short = field.len().max(own_value(value).len()) <= limits.hash_value;
                (limits.hash_entries, is_short)
            }
            _ => (limits.sorted_set_entries, field.len() <= limits.sorted_set_value),
        };
        is_short && (!is_new || packed.iter().count() / 2 <= entries)
    }

    /// Gives each field a record of its own.
    pub(crate) fn unpack(&mut self, store: &mut Store) -> Outcome {
        let State::Packed(packed) = &self.state else { return Ok(()) };
        let elements = store.new_elements(self.db, &self.key)?;
        let mut count = 0;
        for (field, value) in pairs(packed) {
            put_element(store, &elements, field, value)?;
            count += 1;
        }
        if self.of != Type::SortedSet {
            store.resident(&elements, |_| Ok(Resident::Count(count)))?;
        }
        self.state = State::Elements(elements);
        self.is_changed = true;
        // A map that begins anew has none yet.
        self.has_lost_elements = count == 0;
        Ok(())
    }
}

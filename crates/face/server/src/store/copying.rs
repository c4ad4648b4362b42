//! Values that move to other keys, or are copied there.

use super::{NewDeadline, Order, Resident, Result, Spot, Store};
use crate::notifications::EventClass;
use crate::stored::collection_id;

impl Store {
    /// Copies the value of a key, with its deadline, in place of that of another one; returns whether there was a value. The
    /// elements of a collection are copied, too. Both keys are here, and a transaction has begun.
    pub(crate) fn copy(&mut self, from: (usize, &[u8]), to: (usize, &[u8])) -> Result<bool> {
        let Some(stored) = self.get(from.0, from.1)? else { return Ok(false) };
        match collection_id(stored.bytes()) {
            Some(id) if self.are_home(from.0, from.1, id) => {
                let source = self.elements(from.0, from.1, id);
                let copy = self.new_elements(to.0, to.1)?;
                let mut after = Vec::new();
                // A scan sees the state of its beginning, and the store cannot be changed beside it.
                loop {
                    let scan = self.scan(&source, &after, Order::Ascending)?;
                    let pairs: Vec<_> = scan.take(COPIED).collect::<Result<_>>()?;
                    for (element, value) in &pairs {
                        self.put_element(&copy, element, value)?;
                    }
                    let Some((last, _)) = pairs.last() else { break };
                    after = [last, &[0][..]].concat();
                }
                let mut record = stored.bytes().to_vec();
                record[2..10].copy_from_slice(&copy.id.to_be_bytes());
                self.put_copy(from, to, &record)?;
                // The times of a stream's consumers are newer in DRAM.
                let residents = &self.part(source.partition).residents;
                if let Some(Resident::Stream(state)) = residents.get(&source) {
                    let state = state.clone();
                    self.resident(&copy, |_| Ok(Resident::Stream(state)))?;
                }
            }
            Some(_) => {
                let what = format!("the collection `{}`", from.1.escape_ascii());
                let why = "its number is that of another partition".to_owned();
                return Err(halite::EngineError::Damaged { what, why }.into());
            }
            None => self.put_copy(from, to, stored.bytes())?,
        }
        Ok(true)
    }

    /// Moves the value of a key, with its deadline, in place of that of another one; returns whether there was a value. A
    /// collection takes its elements along, without touching them, unless the other key is in another database or
    /// partition. Both keys are here, and a transaction has begun.
    pub(crate) fn rename(&mut self, from: (usize, &[u8]), to: (usize, &[u8])) -> Result<bool> {
        let Some(stored) = self.get(from.0, from.1)? else { return Ok(false) };
        let (old, new) = (self.spot(from.0, from.1), self.spot(to.0, to.1));
        let is_near =
            |one: Spot, other: Spot| (one.partition, one.place) == (other.partition, other.place);
        if collection_id(stored.bytes()).is_none() || !is_near(old, new) {
            self.copy(from, to)?;
            self.remove(from.0, from.1)?;
            return Ok(true);
        }
        self.put_copy(from, to, stored.bytes())?;
        self.erase_at(old, from.1)?;
        self.changed(from.0, old.partition, from.1);
        Ok(true)
    }

    fn put_copy(&mut self, from: (usize, &[u8]), to: (usize, &[u8]), stored: &[u8]) -> Result<()> {
        let deadline = self.deadline(from.0, from.1)?;
        let of_fields = self.field_deadline(from.0, from.1)?;
        let encoding = self.encoding(from.0, from.1);
        // A key that is replaced counts as removed, so that it is new.
        let replaces = self.outbox.events.include(EventClass::New) && self.contains(to.0, to.1)?;
        self.put_stored(to.0, to.1, stored, deadline.map_or(NewDeadline::Clear, NewDeadline::At))?;
        self.set_field_deadline(to.0, to.1, of_fields)?;
        if let Some(encoding) = encoding {
            self.note_encoding(to.0, to.1, encoding);
        }
        if replaces {
            self.notify(EventClass::New, "new", to.0, to.1);
        }
        Ok(())
    }
}

/// Elements that are copied at once.
const COPIED: usize = 1024;

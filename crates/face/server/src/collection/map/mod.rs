//! Fields with values: what hashes, sets (whose values are empty) and sorted sets (whose values are scores) have in common.
//!
//! A small one is the record of its key: field, value, field, value, and so on, in the order in which the fields came. A
//! larger one has an element for each field ([`element_of`]), in the order of the hashes of the fields. That serves SCAN: its
//! cursor is the hash from which it goes on, so it needs no memory and survives any change. It also makes a random place
//! in it a random field.
//!
//! Costs of a larger map: a read of a field is one read of the engine; a change is one record. The number of fields is
//! counted when it is first asked for, and known in DRAM from then on.

mod samples;
mod saving;
mod visits;

use std::ops::ControlFlow;

use halite::Bytes;

use super::packed::{Entry, Packed};
use super::{check_ending, damaged, find, intset};
use crate::failure::Outcome;
use crate::order_ends::OrderEnds;
use crate::store::{Elements, RecentMap, Resident, Store};
use crate::stored::{
    FIELD_IN_KEY_MAX, IN_ELEMENTS, Type, collection_id, element_of, has_order, long_field,
    long_value,
};

/// A field and its value.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);

/// A map, as a command has it.
#[derive(Debug)]
pub(crate) struct Map {
    db: usize,
    key: Vec<u8>,
    of: Type,
    state: State,
    /// Whether the elements have the order of its fields, too.
    has_order: bool,
    /// Whether the key had it when it was opened.
    was_there: bool,
    /// Whether the key's record is to be written.
    is_changed: bool,
    /// Whether elements were changed.
    has_changed_elements: bool,
    /// Whether its last element may have gone.
    has_lost_elements: bool,
    /// Whether it counts as changed, whatever was changed.
    is_touched: bool,
    /// Whether a field was put.
    has_grown: bool,
    /// How many members a new set is about to get, of which Redis' choice depends.
    expected: usize,
}

#[derive(Debug)]
enum State {
    Packed(Packed),
    Elements(Elements),
}

impl Map {
    /// The map at a key, if there is one. Another type is refused.
    pub(crate) fn find(
        store: &mut Store,
        db: usize,
        key: &[u8],
        of: Type,
    ) -> Outcome<Option<Self>> {
        let Some(stored) = find(store, db, key, of)? else { return Ok(None) };
        let mut is_ordered = false;
        let state = match Packed::of(stored) {
            Ok(packed) if packed.is_sound() && packed.iter().count() % 2 == 0 => {
                State::Packed(packed)
            }
            Ok(_) => return Err(damaged(key, "its entries do not end where they should")),
            Err(stored) => match collection_id(stored.bytes()).zip(has_order(stored.bytes())) {
                Some((id, has_order)) => {
                    is_ordered = has_order;
                    State::Elements(store.note_recent_map(db, key, id))
                }
                None => return Err(damaged(key, "it has no number, or an unknown form")),
            },
        };
        let map = Self::new(db, key, of);
        Ok(Some(Self { state, has_order: is_ordered, was_there: true, ..map }))
    }

    /// The map at a key, or a new one that is there once it is saved.
    pub(crate) fn find_or_new(store: &mut Store, db: usize, key: &[u8], of: Type) -> Outcome<Self> {
        Ok(Self::find(store, db, key, of)?.unwrap_or_else(|| Self::new(db, key, of)))
    }

    /// A map without fields, in the place of whatever the key has.
    pub(crate) fn new(db: usize, key: &[u8], of: Type) -> Self {
        Self {
            db,
            key: key.to_vec(),
            of,
            state: State::Packed(Packed::new(of)),
            has_order: false,
            was_there: false,
            is_changed: false,
            has_changed_elements: false,
            has_lost_elements: false,
            is_touched: false,
            has_grown: false,
            expected: 1,
        }
    }

    /// Makes a set ready for so many members that are to be put, as far as they are new.
    pub(crate) fn expect(&mut self, store: &mut Store, members: usize) -> Outcome {
        self.expected = members;
        let State::Packed(packed) = &self.state else { return Ok(()) };
        let limits = &store.inline_limits;
        let most = match (packed.is_empty(), intset::is_one(packed)) {
            (true, _) => limits.set_entries.max(limits.intset_entries),
            (false, true) => limits.intset_entries,
            (false, false) => limits.set_entries,
        };
        if members > most { self.unpack(store) } else { Ok(()) }
    }

    /// Lets it count as changed when it is saved: those who watch its key are told.
    pub(crate) fn touch(&mut self) {
        self.is_touched = true;
    }

    /// Whether the elements have the order of its fields, too.
    pub(super) fn has_order(&self) -> bool {
        self.has_order
    }

    /// Notes that they have it from now on; the record of the key is yet to be written.
    pub(super) fn keep_order(&mut self) {
        self.has_order = true;
    }

    /// Whether it is one record.
    pub(crate) fn is_packed(&self) -> bool {
        matches!(self.state, State::Packed(_))
    }

    /// The elements, if it is not one record.
    pub(crate) fn elements(&self) -> Option<Elements> {
        match self.state {
            State::Elements(elements) => Some(elements),
            State::Packed(_) => None,
        }
    }

    /// The value of a field.
    pub(crate) fn get(&self, store: &Store, field: &[u8]) -> Outcome<Option<Bytes>> {
        match &self.state {
            State::Packed(packed) => {
                let found = find_pair(packed, field);
                Ok(found.map(|(_, value)| Bytes::from(packed.bytes(&value))))
            }
            State::Elements(elements) => {
                let Some(value) = store.element(elements, &element_of(field))? else {
                    return Ok(None);
                };
                self.value_of(field, value).map(Some)
            }
        }
    }

    pub(crate) fn contains(&self, store: &Store, field: &[u8]) -> Outcome<bool> {
        match &self.state {
            State::Packed(packed) => Ok(find_pair(packed, field).is_some()),
            State::Elements(elements) => Ok(store.element(elements, &element_of(field))?.is_some()),
        }
    }

    /// The value behind the field of a long one.
    fn value_of(&self, field: &[u8], value: Bytes) -> Outcome<Bytes> {
        if field.len() <= FIELD_IN_KEY_MAX {
            return Ok(value);
        }
        let len = value.len();
        match long_field(&value) {
            Some(stored) if stored == field => Ok(value.slice(4 + field.len()..len)),
            _ => Err(damaged(&self.key, "a long field is another one")),
        }
    }

    /// Sets the value of a field; returns whether the field is new.
    pub(crate) fn put(&mut self, store: &mut Store, field: &[u8], value: &[u8]) -> Outcome<bool> {
        self.has_grown = true;
        if let State::Packed(packed) = &mut self.state {
            let found = find_pair(packed, field);
            let is_new = found.is_none();
            match &found {
                Some((_, place)) if packed.bytes(place) == value => return Ok(false),
                Some((_, place)) => packed.replace(place, value),
                None if self.of == Type::Set => {
                    self.put_member(store, field)?;
                    return Ok(true);
                }
                None => {
                    packed.push(field);
                    packed.push(value);
                }
            }
            self.is_changed = true;
            if !self.fits(store, field, value, is_new) {
                self.unpack(store)?;
            }
            return Ok(is_new);
        }
        let State::Elements(elements) = self.state else { return Ok(false) };
        let before = self.get(store, field)?;
        if before.as_deref() == Some(value) {
            return Ok(false);
        }
        let is_new = before.is_none();
        put_element(store, &elements, field, value)?;
        self.has_changed_elements = true;
        if is_new {
            count(store, &elements, 1);
        }
        Ok(is_new)
    }

    /// Adds a member that is new to a set that is one record.
    fn put_member(&mut self, store: &mut Store, member: &[u8]) -> Outcome {
        let State::Packed(packed) = &mut self.state else { return Ok(()) };
        let limits = &store.inline_limits;
        let is_integer = is_integer(member);
        let was_empty = packed.is_empty();
        let was_intset = intset::is_one(packed);
        let stays_intset =
            is_integer && was_intset && (!was_empty || self.expected <= limits.intset_entries);
        if was_intset && !is_integer {
            intset::sort(packed);
        }
        packed.push(member);
        packed.push(b"");
        if was_empty && is_integer && !stays_intset {
            packed.mark();
        }
        self.is_changed = true;
        let count = packed.iter().count() / 2;
        let fits = match stays_intset {
            true => count <= limits.intset_entries,
            false => {
                let expected = if was_empty { self.expected } else { 0 };
                count.max(expected) <= limits.set_entries && member.len() <= limits.set_value
            }
        };
        if fits { Ok(()) } else { self.unpack(store) }
    }

    /// Removes a field; returns whether it was there.
    pub(crate) fn remove(&mut self, store: &mut Store, field: &[u8]) -> Outcome<bool> {
        match &mut self.state {
            State::Packed(packed) => {
                let Some((start, value)) = find_pair(packed, field) else { return Ok(false) };
                let is_listpack =
                    self.of == Type::Set && (packed.is_marked() || !is_integer(field));
                packed.remove(start..value.end);
                if is_listpack && !packed.is_marked() {
                    packed.mark();
                }
                self.is_changed = true;
                Ok(true)
            }
            State::Elements(elements) => {
                let elements = *elements;
                if !self.contains(store, field)? {
                    return Ok(false);
                }
                store.remove_element(&elements, &element_of(field))?;
                (self.has_changed_elements, self.has_lost_elements) = (true, true);
                count(store, &elements, -1);
                Ok(true)
            }
        }
    }

    /// [`Map::put`] of a field of which is known whether it is new: it is not looked up.
    pub(crate) fn put_known(
        &mut self,
        store: &mut Store,
        field: &[u8],
        value: &[u8],
        is_new: bool,
    ) -> Outcome {
        let State::Elements(elements) = self.state else {
            self.put(store, field, value)?;
            return Ok(());
        };
        put_element(store, &elements, field, value)?;
        self.has_changed_elements = true;
        if is_new {
            count(store, &elements, 1);
        }
        Ok(())
    }

    /// [`Map::remove`] of a field that is known to be there.
    pub(crate) fn remove_known(&mut self, store: &mut Store, field: &[u8]) -> Outcome {
        let State::Elements(elements) = self.state else {
            self.remove(store, field)?;
            return Ok(());
        };
        store.remove_element(&elements, &element_of(field))?;
        (self.has_changed_elements, self.has_lost_elements) = (true, true);
        count(store, &elements, -1);
        Ok(())
    }

    /// Whether the key's record is to be written.
    pub(crate) fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// Begins anew without fields, under a new number: those under the old one go when the map is saved.
    pub(crate) fn renew(&mut self, store: &mut Store) -> Outcome {
        self.clear();
        self.unpack(store)
    }

    /// Removes all fields.
    pub(crate) fn clear(&mut self) {
        self.state = State::Packed(Packed::new(self.of));
        (self.is_changed, self.has_order) = (true, false);
    }

    /// Notes that fields are left behind those that were removed.
    pub(super) fn note_some_left(&mut self) {
        self.has_lost_elements = false;
    }

    /// The number of fields.
    pub(crate) fn len(&self, store: &mut Store) -> Outcome<u64> {
        match &self.state {
            State::Packed(packed) => Ok(packed.iter().count() as u64 / 2),
            State::Elements(elements) => {
                let known = store.known_resident(elements).and_then(|known| known.count());
                if let Some(count) = known {
                    return Ok(count);
                }
                let mut count = 0;
                self.visit_elements(store, elements, 0, |_, _| {
                    check_ending(store)?;
                    count += 1;
                    Ok(ControlFlow::Continue(()))
                })?;
                let counted = match self.has_order {
                    true => Resident::Ends(OrderEnds::counted(count)),
                    false => Resident::Count(count),
                };
                match store.resident(elements, |_| Ok(counted))? {
                    Resident::Ends(ends) => ends.count = Some(count),
                    Resident::Count(_) => {}
                    _ => return Err(damaged(&self.key, "it is counted otherwise")),
                }
                Ok(count)
            }
        }
    }

    /// Whether it has more than so many fields, without a count of all.
    pub(super) fn has_more_than(&self, store: &Store, fields: usize) -> Outcome<bool> {
        let mut count = 0;
        self.visit(store, |_, _| {
            check_ending(store)?;
            count += 1;
            Ok(if count > fields { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok(count > fields)
    }

    pub(crate) fn is_empty(&self, store: &Store) -> Outcome<bool> {
        match &self.state {
            State::Packed(packed) => Ok(packed.is_empty()),
            State::Elements(_) if !self.has_lost_elements => Ok(false),
            State::Elements(elements) => {
                let mut is_empty = true;
                self.visit_elements(store, elements, 0, |_, _| {
                    is_empty = false;
                    Ok(ControlFlow::Break(()))
                })?;
                Ok(is_empty)
            }
        }
    }

    /// Whether it is a set of integers as Redis packs them.
    pub(crate) fn is_intset(&self) -> bool {
        match &self.state {
            State::Packed(packed) => intset::is_one(packed),
            State::Elements(_) => false,
        }
    }
}

/// The record of a collection whose elements lie under a number.
pub(crate) fn record_of(of: Type, id: u64) -> Vec<u8> {
    [&[of.tag(), IN_ELEMENTS][..], &id.to_be_bytes()].concat()
}

/// Whether a text is an integer as it is printed.
pub(crate) fn is_integer(text: &[u8]) -> bool {
    text.len() <= 20 && crate::number::parse_i64(text).is_some()
}

fn count(store: &mut Store, elements: &Elements, by: i64) {
    if let Some(Resident::Count(count)) = store.known_resident(elements) {
        *count = count.saturating_add_signed(by);
    }
}

fn pairs(packed: &Packed) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut entries = packed.iter();
    std::iter::from_fn(move || {
        let (_, field) = entries.next()?;
        let (_, value) = entries.next()?;
        Some((field, value))
    })
}

/// Where a field begins, and the place of its value.
fn find_pair(packed: &Packed, field: &[u8]) -> Option<(usize, Entry)> {
    let mut entries = packed.iter();
    while let Some((place, bytes)) = entries.next() {
        let (value, _) = entries.next()?;
        if bytes == field {
            return Some((place.start, value));
        }
    }
    None
}

/// Prefetches the records of fields of a map that was used recently.
pub(crate) fn prefetch<'a>(store: &Store, of: &RecentMap, fields: impl Iterator<Item = &'a [u8]>) {
    let mut elements = fields.filter(|field| field.len() <= FIELD_IN_KEY_MAX).map(element_of);
    if let Some(first) = elements.next() {
        store.prefetch_elements(of, std::iter::once(first).chain(elements));
    }
}

fn put_element(store: &mut Store, elements: &Elements, field: &[u8], value: &[u8]) -> Outcome {
    if field.len() <= FIELD_IN_KEY_MAX {
        return Ok(store.put_element(elements, &element_of(field), value)?);
    }
    Ok(store.put_element(elements, &element_of(field), &long_value(field, value))?)
}

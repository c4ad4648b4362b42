//! Lists: elements by their positions.
//!
//! ```text
//! small     record of the key: element │ element │ ..
//! larger    element: position u64  → element
//! ```
//!
//! The elements of a larger list have positions with gaps between them, which only their order matters of. An element at
//! either end gets one beyond the others, one in the middle gets one in a gap, and if there is none left there, all
//! elements around it get new ones (`room`). DRAM has the positions in order ([`Resident::Positions`]), 8 bytes and a
//! little more for each.
//!
//! Costs of a larger list: a push or a pop is one record; an insertion in the middle is one, too. When most elements go
//! at once, those that stay are written under a new number, and the others go with the old one (`removal`).

mod removal;
mod room;

use std::ops::ControlFlow;

use halite::Bytes;

use super::map::record_of;
use super::packed::{Entry, Packed};
use super::{damaged, find, listpack, tell};
use crate::counted_tree::{CountedTree, Numbers};
use crate::failure::Outcome;
use crate::store::{Elements, NewDeadline, Order, Resident, Store};
use crate::stored::{Type, collection_id};

/// The position of the first element of a list.
const MIDDLE: u64 = 1 << 63;

/// Between the positions of elements that follow each other.
const GAP: u64 = 1 << 16;

/// An end of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Left,
    Right,
}

/// A list, as a command has it.
#[derive(Debug)]
pub(crate) struct List {
    db: usize,
    key: Vec<u8>,
    state: State,
    was_there: bool,
    /// Whether the key's record is to be written.
    is_changed: bool,
    /// Whether elements were changed.
    has_changed_elements: bool,
    /// How many elements were removed.
    removed: usize,
    /// Elements were added, or others came in their places.
    has_grown: bool,
    /// The size was looked at for the elements that are added.
    is_prepared: bool,
}

#[derive(Debug)]
enum State {
    Packed(Inline),
    Elements(Elements),
}

/// A list that is one record.
#[derive(Debug)]
struct Inline {
    packed: Packed,
    len: usize,
    /// Bytes of its listpack in Redis.
    listpack_len: usize,
}

impl Inline {
    fn new() -> Self {
        Self { packed: Packed::new(Type::List), len: 0, listpack_len: listpack::EMPTY }
    }

    /// The list in a record whose lengths are right.
    fn of(packed: Packed) -> Self {
        let (mut len, mut listpack_len) = (0, listpack::EMPTY);
        for (_, bytes) in packed.iter() {
            len += 1;
            listpack_len += listpack::entry_len(bytes);
        }
        Self { packed, len, listpack_len }
    }

    fn insert(&mut self, at: usize, element: &[u8]) {
        match at == self.packed.end() {
            true => self.packed.push(element),
            false => self.packed.insert(at, &[element]),
        }
        self.len += 1;
        self.listpack_len += listpack::entry_len(element);
    }

    /// The place of the element with a number.
    fn place(&self, index: usize) -> Option<Entry> {
        self.packed.iter().nth(index).map(|(place, _)| place)
    }
}

impl List {
    /// The list at a key, if there is one. Another type is refused.
    pub(crate) fn find(store: &mut Store, db: usize, key: &[u8]) -> Outcome<Option<Self>> {
        let Some(stored) = find(store, db, key, Type::List)? else { return Ok(None) };
        let state = match Packed::of(stored) {
            Ok(packed) if packed.is_sound() => State::Packed(Inline::of(packed)),
            Ok(_) => return Err(damaged(key, "its entries do not end where they should")),
            Err(stored) => match collection_id(stored.bytes()) {
                Some(id) => State::Elements(store.elements(db, key, id)),
                None => return Err(damaged(key, "it has no number")),
            },
        };
        let mut list = Self::new(db, key);
        list.state = state;
        list.was_there = true;
        Ok(Some(list))
    }

    /// The list at a key, or a new one that is there once it is saved.
    pub(crate) fn find_or_new(store: &mut Store, db: usize, key: &[u8]) -> Outcome<Self> {
        Ok(Self::find(store, db, key)?.unwrap_or_else(|| Self::new(db, key)))
    }

    /// A list without elements, in the place of whatever the key has.
    pub(crate) fn new(db: usize, key: &[u8]) -> Self {
        Self {
            db,
            key: key.to_vec(),
            state: State::Packed(Inline::new()),
            was_there: false,
            is_changed: false,
            has_changed_elements: false,
            removed: 0,
            has_grown: false,
            is_prepared: false,
        }
    }

    /// Whether it is one record.
    pub(crate) fn is_packed(&self) -> bool {
        matches!(self.state, State::Packed(_))
    }

    /// The number of elements.
    pub(crate) fn len(&self, store: &mut Store) -> Outcome<usize> {
        match &self.state {
            State::Packed(inline) => Ok(inline.len),
            State::Elements(elements) => Ok(self.positions(store, elements)?.len()),
        }
    }

    fn positions<'s>(
        &self,
        store: &'s mut Store,
        elements: &Elements,
    ) -> Outcome<&'s mut CountedTree<Numbers>> {
        let of = *elements;
        let resident = store.resident(elements, |store| {
            let mut positions = CountedTree::default();
            for pair in store.scan(&of, &[], Order::Ascending)? {
                if let Ok(position) = <[u8; 8]>::try_from(&pair?.0[..]) {
                    positions.insert(u64::from_be_bytes(position));
                }
            }
            Ok(Resident::Positions(positions))
        })?;
        match resident {
            Resident::Positions(positions) => Ok(positions),
            _ => Err(damaged(&self.key, "it is no list")),
        }
    }

    /// The element with a number, counted from the left, from 0 on.
    pub(crate) fn get(&self, store: &mut Store, index: usize) -> Outcome<Option<Bytes>> {
        match &self.state {
            State::Packed(inline) => {
                Ok(inline.packed.iter().nth(index).map(|(_, bytes)| Bytes::from(bytes)))
            }
            State::Elements(elements) => match self.positions(store, elements)?.get(index) {
                Some(position) => self.element(store, elements, position).map(Some),
                None => Ok(None),
            },
        }
    }

    fn element(&self, store: &Store, elements: &Elements, position: u64) -> Outcome<Bytes> {
        let element = store.element(elements, &position.to_be_bytes())?;
        element.ok_or_else(|| damaged(&self.key, "an element is missing"))
    }

    /// Makes the list ready for elements that are added, or that replace others: if it becomes too large for one record,
    /// each element gets a record of its own.
    pub(crate) fn prepare<'a>(
        &mut self,
        store: &mut Store,
        added: impl IntoIterator<Item = &'a [u8]>,
    ) -> Outcome {
        self.is_prepared = true;
        let State::Packed(inline) = &self.state else { return Ok(()) };
        let (mut len, mut bytes) = (inline.len, inline.listpack_len);
        for element in added {
            len += 1;
            bytes += element.len();
        }
        match store.inline_limits.takes_list(len, bytes) {
            true => Ok(()),
            false => self.unpack(store),
        }
    }

    /// Adds an element at an end of the list. If it was not prepared for it, its size is looked at when it is saved.
    pub(crate) fn push(&mut self, store: &mut Store, end: End, element: &[u8]) -> Outcome {
        self.has_grown = true;
        match &mut self.state {
            State::Packed(inline) => {
                let at = match end {
                    End::Left => Packed::begin(),
                    End::Right => inline.packed.end(),
                };
                inline.insert(at, element);
                self.is_changed = true;
                Ok(())
            }
            State::Elements(elements) => {
                let elements = *elements;
                let positions = self.positions(store, &elements)?;
                let position = match end {
                    End::Left => positions.get(0).map_or(Some(MIDDLE), |at| at.checked_sub(GAP)),
                    End::Right => {
                        let last = positions.len().checked_sub(1);
                        let last = last.and_then(|last| positions.get(last));
                        last.map_or(Some(MIDDLE), |at| at.checked_add(GAP))
                    }
                };
                let Some(position) = position else {
                    self.renumber(store, &elements)?;
                    return self.push(store, end, element);
                };
                self.put_new(store, &elements, position, element)
            }
        }
    }

    /// Adds an element at a position that none has.
    fn put_new(
        &mut self,
        store: &mut Store,
        elements: &Elements,
        position: u64,
        element: &[u8],
    ) -> Outcome {
        store.put_element(elements, &position.to_be_bytes(), element)?;
        self.positions(store, elements)?.insert(position);
        self.has_changed_elements = true;
        Ok(())
    }

    /// Takes the element at an end out.
    pub(crate) fn pop(&mut self, store: &mut Store, end: End) -> Outcome<Option<Bytes>> {
        let Some(last) = self.len(store)?.checked_sub(1) else { return Ok(None) };
        let index = match end {
            End::Left => 0,
            End::Right => last,
        };
        let element = self.get(store, index)?;
        self.remove(store, index)?;
        Ok(element)
    }

    /// Removes the element with a number, which is there.
    pub(crate) fn remove(&mut self, store: &mut Store, index: usize) -> Outcome {
        match &mut self.state {
            State::Packed(inline) => {
                if let Some(place) = inline.place(index) {
                    inline.len -= 1;
                    inline.listpack_len -= listpack::entry_len(inline.packed.bytes(&place));
                    inline.packed.remove(place.start..place.end);
                    self.is_changed = true;
                }
            }
            State::Elements(elements) => {
                let elements = *elements;
                if let Some(position) = self.positions(store, &elements)?.get(index) {
                    store.remove_element(&elements, &position.to_be_bytes())?;
                    self.positions(store, &elements)?.remove_at(index);
                    self.has_changed_elements = true;
                }
            }
        }
        self.removed += 1;
        Ok(())
    }

    /// Replaces the element with a number, which is there; the list is prepared for the new one.
    pub(crate) fn set(&mut self, store: &mut Store, index: usize, element: &[u8]) -> Outcome {
        self.has_grown = true;
        match &mut self.state {
            State::Packed(inline) => {
                if let Some(place) = inline.place(index) {
                    inline.listpack_len -= listpack::entry_len(inline.packed.bytes(&place));
                    inline.listpack_len += listpack::entry_len(element);
                    inline.packed.replace(&place, element);
                    self.is_changed = true;
                }
            }
            State::Elements(elements) => {
                let elements = *elements;
                if let Some(position) = self.positions(store, &elements)?.get(index) {
                    store.put_element(&elements, &position.to_be_bytes(), element)?;
                    self.has_changed_elements = true;
                }
            }
        }
        // As a removed element does, one that is replaced by a shorter one may let the list fit into one record.
        self.removed += 1;
        Ok(())
    }

    /// Inserts an element before the one with a number, or behind the last one; the list is prepared for it.
    pub(crate) fn insert(&mut self, store: &mut Store, index: usize, element: &[u8]) -> Outcome {
        self.has_grown = true;
        match &mut self.state {
            State::Packed(inline) => {
                let at = inline.place(index).map_or(inline.packed.end(), |place| place.start);
                inline.insert(at, element);
                self.is_changed = true;
                Ok(())
            }
            State::Elements(elements) => {
                let elements = *elements;
                let positions = self.positions(store, &elements)?;
                if index == 0 {
                    return self.push(store, End::Left, element);
                }
                if index >= positions.len() {
                    return self.push(store, End::Right, element);
                }
                let (before, after) = (positions.get(index - 1), positions.get(index));
                let (before, after) = (before.unwrap_or(0), after.unwrap_or(u64::MAX));
                if after - before < 2 {
                    self.make_room(store, &elements, index)?;
                    return self.insert(store, index, element);
                }
                self.put_new(store, &elements, u64::midpoint(before, after), element)
            }
        }
    }

    /// Visits the elements from a number on, with their numbers, until `visit` breaks or fails.
    pub(crate) fn visit(
        &self,
        store: &mut Store,
        from: usize,
        mut visit: impl FnMut(usize, &[u8]) -> Outcome<ControlFlow<()>>,
    ) -> Outcome {
        match &self.state {
            State::Packed(inline) => {
                for (index, (_, bytes)) in inline.packed.iter().enumerate().skip(from) {
                    if visit(index, bytes)?.is_break() {
                        break;
                    }
                }
            }
            State::Elements(elements) => {
                let Some(first) = self.positions(store, elements)?.get(from) else {
                    return Ok(());
                };
                let scan = store.scan(elements, &first.to_be_bytes(), Order::Ascending)?;
                for (index, pair) in (from..).zip(scan) {
                    if visit(index, &pair?.1)?.is_break() {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Visits the elements from a number down to the first one, with their numbers, until `visit` breaks or fails.
    pub(crate) fn visit_back(
        &self,
        store: &mut Store,
        from: usize,
        mut visit: impl FnMut(usize, &[u8]) -> Outcome<ControlFlow<()>>,
    ) -> Outcome {
        match &self.state {
            State::Packed(inline) => {
                let entries: Vec<&[u8]> = inline.packed.iter().map(|(_, bytes)| bytes).collect();
                for (index, bytes) in entries.iter().enumerate().take(from + 1).rev() {
                    if visit(index, bytes)?.is_break() {
                        break;
                    }
                }
            }
            State::Elements(elements) => {
                let Some(last) = self.positions(store, elements)?.get(from) else {
                    return Ok(());
                };
                let scan = store.scan(elements, &last.to_be_bytes(), Order::Descending)?;
                for (index, pair) in (0..=from).rev().zip(scan) {
                    if visit(index, &pair?.1)?.is_break() {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes the list, and tells of events: what was changed is there now. A list without elements is no more.
    pub(crate) fn save(
        mut self,
        store: &mut Store,
        events: impl IntoIterator<Item = &'static str>,
    ) -> Outcome {
        let is_gone = self.write(store, NewDeadline::Keep)?;
        tell(store, Type::List, (self.db, &self.key), events, is_gone);
        Ok(())
    }

    /// [`List::save`] of a list that takes the place of whatever the key had. If it has no elements, there is no event but
    /// that the key is gone.
    pub(crate) fn save_new(mut self, store: &mut Store, event: &'static str) -> Outcome {
        self.is_changed = true;
        let is_gone = match self.len(store)? {
            0 if !store.remove(self.db, &self.key)? => return Ok(()),
            0 => true,
            _ => self.write(store, NewDeadline::Clear)?,
        };
        let event = (!is_gone).then_some(event);
        tell(store, Type::List, (self.db, &self.key), event, is_gone);
        Ok(())
    }

    /// Writes the list; returns whether its key is gone.
    fn write(&mut self, store: &mut Store, deadline: NewDeadline) -> Outcome<bool> {
        if !self.is_changed && !self.has_changed_elements {
            return Ok(false);
        }
        if self.len(store)? == 0 {
            return Ok(self.was_there && store.remove(self.db, &self.key)?);
        }
        self.pack_if_small(store)?;
        if let State::Packed(inline) = &self.state
            && !(self.is_prepared || self.removed > 0)
            && !store.inline_limits.takes_list(inline.len, inline.listpack_len)
        {
            self.unpack(store)?;
        }
        match &self.state {
            State::Packed(inline)
                if self.was_there && !self.has_grown && deadline == NewDeadline::Keep =>
            {
                store.put_shrunk(self.db, &self.key, inline.packed.stored())?;
            }
            State::Packed(inline) => {
                store.put_stored(self.db, &self.key, inline.packed.stored(), deadline)?;
            }
            State::Elements(_) if !self.is_changed => store.note_changed(self.db, &self.key),
            State::Elements(elements) => {
                let record = record_of(Type::List, elements.id);
                store.put_stored(self.db, &self.key, &record, deadline)?;
            }
        }
        Ok(false)
    }

    /// Gives each element a record of its own.
    fn unpack(&mut self, store: &mut Store) -> Outcome {
        let State::Packed(inline) = &self.state else { return Ok(()) };
        let elements = store.new_elements(self.db, &self.key)?;
        let mut positions = CountedTree::default();
        for ((_, bytes), nth) in inline.packed.iter().zip(0..) {
            let position = MIDDLE + nth * GAP;
            positions.insert(position);
            store.put_element(&elements, &position.to_be_bytes(), bytes)?;
        }
        store.resident(&elements, |_| Ok(Resident::Positions(positions)))?;
        self.state = State::Elements(elements);
        self.is_changed = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests;

//! Hashes: fields with values, of which each may have a deadline.
//!
//! ```text
//! value of a field    0 │ value                        it stays
//!                     1 │ deadline u64 │ value         it expires: milliseconds since 1970, big-endian
//! ```
//!
//! A hash is a map ([`Map`]) whose values have this form. A field that has expired is hidden at once. It is removed when a
//! command that asks for it finds it, and in the background: the store knows for each hash with deadlines the earliest one
//! ([`Store::field_deadline`]), and [`remove_due`] looks for hashes that are due. Which fields of a larger hash have
//! deadlines is known in DRAM, from the first use on. A hash without deadlines has none of that, and costs nothing more.

use std::ops::{ControlFlow, Range};

use halite::Bytes;

use super::map::{Map, Pair};
use super::{check_ending, damaged};
use crate::failure::{Failure, Outcome};
use crate::notifications::EventClass;
use crate::store::{FieldTimes, Store};
use crate::stored::Type;

/// Before a value that stays.
const STAYS: u8 = 0;

/// Before a deadline and a value.
const EXPIRES: u8 = 1;

/// Fields that a step in the background removes at most.
const REMOVED_MAX: usize = 256;

/// The value of a field.
#[derive(Debug)]
pub(crate) struct Field {
    stored: Bytes,
    value: Range<usize>,
    /// When it expires: milliseconds since 1970.
    pub(crate) deadline: Option<u64>,
}

impl Field {
    pub(crate) fn value(&self) -> &[u8] {
        &self.stored[self.value.clone()]
    }
}

/// A hash, as a command has it.
#[derive(Debug)]
pub(crate) struct Hash {
    map: Map,
    db: usize,
    key: Vec<u8>,
    /// When the first field expires, or a time before that, as the store knows it.
    known_deadline: Option<u64>,
    /// Whether deadlines of fields were changed.
    has_changed_deadlines: bool,
    /// Fields that a command asked for, and that have expired.
    lapsed: Vec<Vec<u8>>,
}

impl Hash {
    /// The hash at a key, if there is one. Another type is refused.
    pub(crate) fn find(store: &mut Store, db: usize, key: &[u8]) -> Outcome<Option<Self>> {
        let map = Map::find(store, db, key, Type::Hash)?;
        map.map(|map| Self::of(store, map, db, key)).transpose()
    }

    /// The hash at a key, or a new one that is there once it is saved.
    pub(crate) fn find_or_new(store: &mut Store, db: usize, key: &[u8]) -> Outcome<Self> {
        match Self::find(store, db, key)? {
            Some(hash) => Ok(hash),
            None => Self::new(store, db, key),
        }
    }

    /// A hash without fields, for a key that has no value.
    pub(crate) fn new(store: &Store, db: usize, key: &[u8]) -> Outcome<Self> {
        Self::of(store, Map::new(db, key, Type::Hash), db, key)
    }

    fn of(store: &Store, map: Map, db: usize, key: &[u8]) -> Outcome<Self> {
        Ok(Self {
            map,
            db,
            key: key.to_vec(),
            known_deadline: store.field_deadline(db, key)?,
            has_changed_deadlines: false,
            lapsed: Vec::new(),
        })
    }

    /// Whether it is one record.
    pub(crate) fn is_packed(&self) -> bool {
        self.map.is_packed()
    }

    /// Whether fields have deadlines, or had them before their last one was due.
    pub(crate) fn has_deadlines(&self) -> bool {
        self.known_deadline.is_some()
    }

    /// The number of fields, those included that have expired and are still to be removed, as in Redis.
    pub(crate) fn len(&self, store: &mut Store) -> Outcome<u64> {
        self.map.len(store)
    }

    /// A field, expired or not.
    fn entry(&self, store: &Store, field: &[u8]) -> Outcome<Option<Field>> {
        let Some(stored) = self.map.get(store, field)? else { return Ok(None) };
        let (deadline, value) = decode(&stored).ok_or_else(|| self.no_value())?;
        let value = stored.len() - value.len()..stored.len();
        Ok(Some(Field { stored, value, deadline }))
    }

    fn no_value(&self) -> Failure {
        damaged(&self.key, "a field has no value")
    }

    /// A field, unless it has expired. One that has is removed when the hash is saved or closed.
    pub(crate) fn get(&mut self, store: &Store, field: &[u8]) -> Outcome<Option<Field>> {
        let entry = self.entry(store, field)?;
        match entry {
            Some(entry) if is_due(store, entry.deadline) => {
                self.lapsed.push(field.to_vec());
                Ok(None)
            }
            entry => Ok(entry),
        }
    }

    /// Sets the value of a field, and when it expires; returns whether there was none, or an expired one.
    pub(crate) fn put(
        &mut self,
        store: &mut Store,
        field: &[u8],
        value: &[u8],
        deadline: Option<u64>,
    ) -> Outcome<bool> {
        let mut is_new = None;
        if self.expects_deadlines() || deadline.is_some() {
            let before = self.entry(store, field)?.map(|entry| entry.deadline);
            is_new = Some(before.is_none_or(|before| is_due(store, before)));
            store.expired_fields += u64::from(before.is_some() && is_new == Some(true));
            self.note_deadline(store, field, before.flatten(), deadline)?;
        }
        self.map.touch();
        let was_new = self.map.put(store, field, &encode(value, deadline))?;
        Ok(is_new.unwrap_or(was_new))
    }

    /// Removes a field; returns whether it was there, expired or not.
    pub(crate) fn remove(&mut self, store: &mut Store, field: &[u8]) -> Outcome<bool> {
        if self.expects_deadlines() {
            let before = self.entry(store, field)?.and_then(|entry| entry.deadline);
            self.note_deadline(store, field, before, None)?;
        }
        self.map.remove(store, field)
    }

    /// Whether fields may have deadlines.
    fn expects_deadlines(&self) -> bool {
        self.known_deadline.is_some() || self.has_changed_deadlines
    }

    /// Notes that the deadline of a field changes. It has not yet.
    fn note_deadline(
        &mut self,
        store: &mut Store,
        field: &[u8],
        before: Option<u64>,
        after: Option<u64>,
    ) -> Outcome {
        if before == after {
            return Ok(());
        }
        let had_deadlines = self.expects_deadlines();
        self.has_changed_deadlines = true;
        if let Some(times) = self.times(store, had_deadlines)? {
            if let Some(before) = before {
                times.remove(&(before, field.into()));
            }
            if let Some(after) = after {
                times.insert((after, field.into()));
            }
        }
        Ok(())
    }

    /// The fields with deadlines of a larger hash, which are looked for at the first use, if there are any.
    fn times<'s>(
        &self,
        store: &'s mut Store,
        has_deadlines: bool,
    ) -> Outcome<Option<&'s mut FieldTimes>> {
        let Some(elements) = self.map.elements() else { return Ok(None) };
        let load = |store: &Store| {
            let mut times = FieldTimes::new();
            if !has_deadlines {
                return Ok(times);
            }
            self.visit_all(store, |field, _, deadline| {
                times.extend(deadline.map(|deadline| (deadline, field.into())));
                Ok(ControlFlow::Continue(()))
            })?;
            Outcome::Ok(times)
        };
        store.field_times(&elements, load).map(Some)
    }

    /// Visits all fields with their values and deadlines, those that have not expired, until `visit` breaks or fails.
    pub(crate) fn visit(
        &self,
        store: &Store,
        mut visit: impl FnMut(&[u8], &[u8], Option<u64>) -> Outcome<ControlFlow<()>>,
    ) -> Outcome {
        self.visit_all(store, |field, value, deadline| match is_due(store, deadline) {
            true => Ok(ControlFlow::Continue(())),
            false => visit(field, value, deadline),
        })
    }

    fn visit_all(
        &self,
        store: &Store,
        mut visit: impl FnMut(&[u8], &[u8], Option<u64>) -> Outcome<ControlFlow<()>>,
    ) -> Outcome {
        self.map.visit(store, |field, stored| {
            let (deadline, value) = decode(stored).ok_or_else(|| self.no_value())?;
            visit(field, value, deadline)
        })
    }

    /// The number of fields that have not expired.
    pub(crate) fn live_len(&self, store: &mut Store) -> Outcome<u64> {
        if !is_due(store, self.known_deadline) {
            return self.len(store);
        }
        let mut len = 0;
        self.visit(store, |_, _, _| {
            len += 1;
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(len)
    }

    /// [`Map::scan`] of the fields that have not expired.
    pub(crate) fn scan(
        &self,
        store: &Store,
        cursor: u64,
        count: u64,
        mut visit: impl FnMut(&[u8], &[u8]) -> Outcome,
    ) -> Outcome<u64> {
        self.map.scan(store, cursor, count, |field, stored| {
            let (deadline, value) = decode(stored).ok_or_else(|| self.no_value())?;
            match is_due(store, deadline) {
                true => Ok(()),
                false => visit(field, value),
            }
        })
    }

    /// All fields with their values, those that have not expired, if others may have: while changes are paused.
    fn live(&self, store: &Store) -> Outcome<Option<Vec<Pair>>> {
        if !is_due(store, self.known_deadline) {
            return Ok(None);
        }
        let mut live = Vec::new();
        self.visit(store, |field, value, _| {
            check_ending(store)?;
            live.push((field.to_vec(), value.to_vec()));
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(Some(live))
    }

    /// A random field with its value, each as likely as any other.
    pub(crate) fn sample(
        &self,
        store: &mut Store,
        mut random: impl FnMut() -> u64,
    ) -> Outcome<Option<Pair>> {
        if let Some(mut live) = self.live(store)? {
            let nth = random().checked_rem(live.len() as u64);
            return Ok(nth.map(|nth| live.swap_remove(nth as usize)));
        }
        let sample = self.map.sample(store, random)?;
        sample.map(|pair| self.with_own_value(pair)).transpose()
    }

    fn with_own_value(&self, (field, mut value): Pair) -> Outcome<Pair> {
        let (_, own) = decode(&value).ok_or_else(|| self.no_value())?;
        value.drain(..value.len() - own.len());
        Ok((field, value))
    }

    /// [`Map::sample_distinct`] of the fields that have not expired.
    pub(crate) fn sample_distinct(
        &self,
        store: &mut Store,
        count: usize,
        mut random: impl FnMut() -> u64,
    ) -> Outcome<Vec<Pair>> {
        if let Some(mut live) = self.live(store)? {
            while live.len() > count {
                live.swap_remove((random() % live.len() as u64) as usize);
            }
            return Ok(live);
        }
        let drawn = self.map.sample_distinct(store, count, random)?;
        drawn.into_iter().map(|pair| self.with_own_value(pair)).collect()
    }

    /// [`Map::draw`] of the fields that have not expired, of which there is one.
    pub(crate) fn draw(
        &self,
        store: &mut Store,
        count: u64,
        mut random: impl FnMut() -> u64,
        mut visit: impl FnMut(&[u8], &[u8]) -> Outcome<ControlFlow<()>>,
    ) -> Outcome {
        if let Some(live) = self.live(store)? {
            for _ in 0..count {
                let Some(nth) = random().checked_rem(live.len() as u64) else { break };
                let (field, value) = &live[nth as usize];
                if visit(field, value)?.is_break() {
                    break;
                }
            }
            return Ok(());
        }
        self.map.draw(store, count, random, |field, stored| {
            let (_, value) = decode(stored).ok_or_else(|| self.no_value())?;
            visit(field, value)
        })
    }

    /// Removes fields that have expired, `count_max` at most; returns how many.
    pub(crate) fn remove_expired(&mut self, store: &mut Store, count_max: usize) -> Outcome<usize> {
        let expired = self.expired(store, count_max)?;
        for field in &expired {
            self.remove(store, field)?;
        }
        // The known deadline may have been too early.
        self.has_changed_deadlines = true;
        store.expired_fields += expired.len() as u64;
        if !expired.is_empty() {
            self.tell_expired(store);
        }
        Ok(expired.len())
    }

    /// Tells that fields have expired: once for all that a command, or a step in the background, has found.
    fn tell_expired(&self, store: &mut Store) {
        store.notify(EventClass::Hash, "hexpired", self.db, &self.key);
    }

    fn expired(&self, store: &mut Store, count_max: usize) -> Outcome<Vec<Box<[u8]>>> {
        let now_ms = store.now_ms;
        if let Some(times) = self.times(store, true)? {
            let due = times.iter().take_while(|(deadline, _)| *deadline <= now_ms);
            return Ok(due.take(count_max).map(|(_, field)| field.clone()).collect());
        }
        let mut expired = Vec::new();
        self.visit_all(store, |field, _, deadline| {
            if is_due(store, deadline) {
                expired.push(field.into());
            }
            Ok(match expired.len() < count_max {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            })
        })?;
        Ok(expired)
    }

    /// The earliest deadline of a field.
    fn first_deadline(&self, store: &mut Store) -> Outcome<Option<u64>> {
        if let Some(times) = self.times(store, true)? {
            return Ok(times.first().map(|(deadline, _)| *deadline));
        }
        let mut first = None;
        self.visit_all(store, |_, _, deadline| {
            first = first.into_iter().chain(deadline).min();
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(first)
    }

    /// Writes the hash, and tells of events: what was changed is there now. A hash without fields is no more.
    pub(crate) fn save(
        mut self,
        store: &mut Store,
        events: impl IntoIterator<Item = &'static str>,
    ) -> Outcome {
        self.remove_lapsed(store)?;
        let first = match self.has_changed_deadlines {
            true => self.first_deadline(store)?,
            false => self.known_deadline,
        };
        let Self { map, db, key, .. } = self;
        map.save(store, events)?;
        // Of a hash that is no more, the store has forgotten it.
        if self.has_changed_deadlines {
            store.set_field_deadline(db, &key, first)?;
        }
        Ok(())
    }

    fn remove_lapsed(&mut self, store: &mut Store) -> Outcome {
        if store.is_paused || self.lapsed.is_empty() {
            return Ok(());
        }
        // A field that was set since has expired before that nevertheless.
        self.tell_expired(store);
        for field in std::mem::take(&mut self.lapsed) {
            // It may have been set since.
            let entry = self.entry(store, &field)?;
            if entry.is_some_and(|entry| is_due(store, entry.deadline)) {
                self.remove(store, &field)?;
                store.expired_fields += 1;
            }
        }
        Ok(())
    }

    /// Ends a command that only read: expired fields that it has found are removed.
    pub(crate) fn close(self, store: &mut Store) -> Outcome {
        match self.lapsed.is_empty() || store.is_paused {
            true => Ok(()),
            false => apart(store, |store| self.save(store, None)),
        }
    }

    /// Removes all fields that have expired, for a command that only reads; returns the hash, if any field is left.
    pub(crate) fn without_expired(mut self, store: &mut Store) -> Outcome<Option<Self>> {
        if !is_due(store, self.known_deadline) {
            return Ok(Some(self));
        }
        if store.is_paused {
            return Ok((self.live_len(store)? > 0).then_some(self));
        }
        let (db, key) = (self.db, self.key.clone());
        apart(store, |store| {
            self.remove_expired(store, usize::MAX)?;
            self.save(store, None)
        })?;
        // If they cannot be removed now, they are hidden.
        match Self::find(store, db, &key)? {
            Some(hash) => Ok((hash.live_len(store)? > 0).then_some(hash)),
            None => Ok(None),
        }
    }
}

/// Does changes that no client has asked for: as a part of the transaction that has begun, or as one of their own. If that
/// fails, they are not done.
fn apart(store: &mut Store, change: impl FnOnce(&mut Store) -> Outcome) -> Outcome {
    if store.in_transaction() {
        return change(store);
    }
    store.begin();
    match change(store) {
        Ok(()) => {
            let _ = store.commit();
        }
        Err(_) => store.rollback(),
    }
    Ok(())
}

/// Removes fields that are due from some hashes of the parts here, outside of transactions; returns whether there may be
/// more. Fields that cannot be removed now are hidden from all clients, and are tried again.
pub(crate) fn remove_due(store: &mut Store, hashes_max: usize) -> bool {
    if store.is_paused {
        return false;
    }
    let due = store.hashes_due(hashes_max);
    let (is_all, mut has_more) = (due.len() < hashes_max, false);
    for (db, key) in due {
        store.begin();
        let removed = remove_due_of(store, db, &key).and_then(|count| {
            store.commit()?;
            Ok(count)
        });
        store.rollback();
        has_more |= removed.is_ok_and(|count| !is_all || count == REMOVED_MAX);
    }
    has_more
}

fn remove_due_of(store: &mut Store, db: usize, key: &[u8]) -> Outcome<usize> {
    let Ok(Some(mut hash)) = Hash::find(store, db, key) else {
        store.set_field_deadline(db, key, None)?;
        return Ok(0);
    };
    let count = hash.remove_expired(store, REMOVED_MAX)?;
    hash.save(store, None)?;
    Ok(count)
}

#[inline]
fn is_due(store: &Store, deadline: Option<u64>) -> bool {
    deadline.is_some_and(|deadline| deadline <= store.now_ms)
}

/// The form of a field's value.
pub(crate) fn encode(value: &[u8], deadline: Option<u64>) -> Vec<u8> {
    match deadline {
        None => [&[STAYS], value].concat(),
        Some(deadline) => [&[EXPIRES], &deadline.to_be_bytes()[..], value].concat(),
    }
}

/// The deadline and the value of a field.
#[inline]
pub(crate) fn decode(stored: &[u8]) -> Option<(Option<u64>, &[u8])> {
    match stored.split_first()? {
        (&STAYS, value) => Some((None, value)),
        (&EXPIRES, rest) => {
            let (deadline, value) = rest.split_first_chunk()?;
            Some((Some(u64::from_be_bytes(*deadline)), value))
        }
        _ => None,
    }
}

/// The value of a field without what is before it.
pub(super) fn own_value(stored: &[u8]) -> &[u8] {
    decode(stored).map_or(stored, |(_, value)| value)
}

#[cfg(test)]
mod tests;

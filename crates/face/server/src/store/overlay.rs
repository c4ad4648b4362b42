//! The uncommitted changes of a transaction.

use std::collections::BTreeMap;

use super::Result;
use super::by_collection::Collections;
use super::elements::Elements;
use super::undo::{Undo, Undos};

/// By key: the new values of elements; `None` of those that go.
pub(super) type ElementChanges = BTreeMap<Box<[u8]>, Option<Vec<u8>>>;

/// The state that a transaction leaves behind, as far as it differs from the store's.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct Overlay {
    /// By index of the database's key spaces.
    pub(super) databases: BTreeMap<usize, Changes>,
    /// By index of the database's key spaces.
    pub(super) elements: BTreeMap<usize, ElementChanges>,
    /// By index of the database's key spaces, and by key: when the first field of a hash expires.
    pub(super) field_deadlines: BTreeMap<usize, BTreeMap<Box<[u8]>, Option<u64>>>,
    /// Collections whose elements go.
    pub(super) dropped: Vec<Elements>,
    /// Collections of which something is known in DRAM that may come from the transaction.
    pub(super) touched: Collections,
    /// The order of the databases, if it changed.
    pub(super) order: Option<Vec<usize>>,
    /// The values that changes behind a savepoint have replaced, if there is one.
    pub(super) undo: Option<Undos>,
    /// Bytes that the changes take.
    pub(super) len: usize,
    /// The most bytes that they may take.
    len_max: usize,
    /// Whether there is any change but the removal of keys that have expired.
    pub(super) is_asked_for: bool,
}

/// The changes of a database: first the removal of all keys, if it was `cleared`, then those of single keys.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct Changes {
    pub(super) cleared: bool,
    pub(super) keys: BTreeMap<Box<[u8]>, Change>,
}

/// The new state of a key.
#[derive(Debug, Clone)]
pub(super) struct Change {
    pub(super) value: Value,
    /// When it expires: milliseconds since 1970.
    pub(super) deadline: Option<u64>,
    /// The value is what a removal of elements left of the stored one.
    pub(super) has_shrunk: bool,
}

/// The new state of a value.
#[derive(Debug, Clone)]
pub(super) enum Value {
    /// The stored value.
    Kept,
    /// In its stored form.
    Put(Vec<u8>),
    Removed,
}

/// Bytes that a change takes beside its key and its value, about.
const CHANGE_LEN: usize = 128;

impl Change {
    pub(super) fn len(&self, key: &[u8]) -> usize {
        let value_len = if let Value::Put(value) = &self.value { value.len() } else { 0 };
        CHANGE_LEN + key.len() + value_len
    }
}

impl Overlay {
    /// No change yet, of at most so many bytes.
    pub(super) fn new(len_max: usize) -> Self {
        Self { len_max, ..Self::default() }
    }

    pub(super) fn put(
        &mut self,
        place: usize,
        key: &[u8],
        value: &[u8],
        deadline: Option<u64>,
    ) -> Result<()> {
        self.check_room(place, key, value.len())?;
        self.is_asked_for = true;
        self.set(
            place,
            key,
            Change { value: Value::Put(value.to_vec()), deadline, has_shrunk: false },
        );
        Ok(())
    }

    pub(super) fn remove(&mut self, place: usize, key: &[u8]) -> Result<()> {
        self.check_room(place, key, 0)?;
        self.is_asked_for = true;
        self.expire(place, key);
        Ok(())
    }

    /// Whether a key was put that may take more room than its stored value.
    pub(super) fn has_grown(&self, place: usize, key: &[u8]) -> bool {
        let change = self.databases.get(&place).and_then(|changes| changes.keys.get(key));
        change.is_some_and(|change| matches!(change.value, Value::Put(_)) && !change.has_shrunk)
    }

    /// Notes that the value that was put is what a removal of elements left of the stored one.
    pub(super) fn note_shrunk(&mut self, place: usize, key: &[u8]) {
        if let Some(change) = self.change_mut(place, key)
            && !std::mem::replace(&mut change.has_shrunk, true)
        {
            self.note(|| Undo::Shrunk(place, key.into()));
        }
    }

    pub(super) fn change_mut(&mut self, place: usize, key: &[u8]) -> Option<&mut Change> {
        self.databases.get_mut(&place)?.keys.get_mut(key)
    }

    /// Removes a key that has expired.
    pub(super) fn expire(&mut self, place: usize, key: &[u8]) {
        let change = Change { value: Value::Removed, deadline: None, has_shrunk: false };
        self.set(place, key, change);
    }

    /// Sets the deadline of a key that has a value, here or in the store.
    pub(super) fn set_deadline(
        &mut self,
        place: usize,
        key: &[u8],
        deadline: Option<u64>,
    ) -> Result<()> {
        if let Some(change) = self.change_mut(place, key) {
            let before = std::mem::replace(&mut change.deadline, deadline);
            self.note(|| Undo::Deadline(place, key.into(), before));
        } else {
            self.check_room(place, key, 0)?;
            self.set(place, key, Change { value: Value::Kept, deadline, has_shrunk: false });
        }
        self.is_asked_for = true;
        Ok(())
    }

    /// Sets the value of an element, or removes it.
    pub(super) fn set_element(
        &mut self,
        place: usize,
        key: Vec<u8>,
        value: Option<Vec<u8>>,
    ) -> Result<()> {
        let changes = self.elements.entry(place).or_default();
        let len = |value: Option<&[u8]>| CHANGE_LEN + key.len() + value.map_or(0, <[u8]>::len);
        let before = changes.get(&key[..]).map_or(0, |value| len(value.as_deref()));
        let after = self.len - before + len(value.as_deref());
        check_len(after, self.undo.as_ref(), self.len_max)?;
        self.len = after;
        self.is_asked_for = true;
        let noted = self.undo.is_some().then(|| Box::from(&key[..]));
        let before = changes.insert(key.into(), value);
        if let Some(key) = noted {
            self.note(|| Undo::Element(place, key, before));
        }
        Ok(())
    }

    /// Sets when the first field of a hash expires.
    pub(super) fn set_field_deadline(
        &mut self,
        place: usize,
        key: &[u8],
        deadline: Option<u64>,
    ) -> Result<()> {
        let changes = self.field_deadlines.entry(place).or_default();
        let before = match changes.get_mut(key) {
            Some(known) => Some(std::mem::replace(known, deadline)),
            None => {
                let len = self.len + CHANGE_LEN + key.len();
                check_len(len, self.undo.as_ref(), self.len_max)?;
                self.len = len;
                changes.insert(key.into(), deadline)
            }
        };
        self.note(|| Undo::FieldDeadline(place, key.into(), before));
        Ok(())
    }

    /// Forgets changes of elements whose keys begin with `prefix`.
    pub(super) fn forget_elements(&mut self, place: usize, prefix: &[u8]) {
        let Some(changes) = self.elements.get_mut(&place) else { return };
        let of_prefix = changes.extract_if(.., |key, _| key.starts_with(prefix));
        for (key, value) in of_prefix {
            self.len -= CHANGE_LEN + key.len() + value.as_ref().map_or(0, Vec::len);
            if let Some(undos) = &mut self.undo {
                undos.push(Undo::Element(place, key, Some(value)));
            }
        }
    }

    pub(super) fn clear(&mut self, place: usize) {
        let is_clear = |changes: &Changes| changes.cleared && changes.keys.is_empty();
        let has_other = self.elements.get(&place).is_some_and(|changes| !changes.is_empty())
            || self.field_deadlines.contains_key(&place)
            || self.dropped.iter().any(|of| of.place == place);
        if self.databases.get(&place).is_some_and(is_clear) && !has_other {
            return;
        }
        self.is_asked_for = true;
        self.forget_elements(place, &[]);
        if self.undo.is_some() {
            let dropped = self.dropped.clone();
            self.note(|| Undo::Dropped(dropped));
        }
        self.dropped.retain(|of| of.place != place);
        let deadlines = self.field_deadlines.remove(&place);
        let keys = deadlines.iter().flat_map(BTreeMap::keys);
        self.len -= keys.map(|key| CHANGE_LEN + key.len()).sum::<usize>();
        self.note(|| Undo::FieldDeadlines(place, deadlines));
        let cleared = Changes { cleared: true, keys: BTreeMap::new() };
        let before = self.databases.insert(place, cleared);
        let keys = before.iter().flat_map(|changes| &changes.keys);
        self.len -= keys.map(|(key, change)| change.len(key)).sum::<usize>();
        self.note(|| Undo::Database(place, before));
    }

    pub(super) fn reorder(&mut self, order: Vec<usize>) {
        self.is_asked_for = true;
        let before = self.order.replace(order);
        self.note(|| Undo::Order(before));
    }

    /// Refuses a change of a key to a value of this length that there is no room for.
    fn check_room(&self, place: usize, key: &[u8], value_len: usize) -> Result<()> {
        let keys = self.databases.get(&place).map(|changes| &changes.keys);
        let before = keys.and_then(|keys| keys.get(key)).map_or(0, |change| change.len(key));
        let len = self.len - before + CHANGE_LEN + key.len() + value_len;
        check_len(len, self.undo.as_ref(), self.len_max)
    }

    fn set(&mut self, place: usize, key: &[u8], change: Change) {
        self.len += change.len(key);
        let keys = &mut self.databases.entry(place).or_default().keys;
        let before = match keys.get_mut(key) {
            Some(known) => Some(std::mem::replace(known, change)),
            None => keys.insert(key.into(), change),
        };
        self.len -= before.as_ref().map_or(0, |before| before.len(key));
        self.note(|| Undo::Key(place, key.into(), before));
    }
}

/// Refuses more bytes of changes than there may be, and more of what they have replaced.
fn check_len(len: usize, undos: Option<&Undos>, len_max: usize) -> Result<()> {
    let len = len.max(undos.map_or(0, |undos| undos.len));
    match len > len_max {
        true => Err(halite::Error::TransactionTooLarge { len: len as u64, limit: len_max as u64 }),
        false => Ok(()),
    }
}

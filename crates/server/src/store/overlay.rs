//! What a transaction has changed and not committed.

use std::collections::BTreeMap;

/// The state that a transaction leaves behind, as far as it differs from the store's.
#[derive(Debug, Default)]
pub(super) struct Overlay {
    /// By index of the database's key spaces.
    pub(super) databases: BTreeMap<usize, Changes>,
    /// The order of the databases, if it changed.
    pub(super) order: Option<Vec<usize>>,
    /// Whether there is any change but the removal of keys that have expired.
    pub(super) is_asked_for: bool,
}

/// What changed in a database: first everything was removed, if it was `cleared`, then the keys.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) cleared: bool,
    pub(super) keys: BTreeMap<Box<[u8]>, Change>,
}

/// What a key has become.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) value: Value,
    /// When it expires: milliseconds since 1970.
    pub(super) deadline: Option<u64>,
}

/// What a value has become.
#[derive(Debug)]
pub(super) enum Value {
    /// It is the store's.
    Kept,
    Put(Vec<u8>),
    Removed,
}

impl Overlay {
    pub(super) fn put(&mut self, place: usize, key: &[u8], value: &[u8], deadline: Option<u64>) {
        self.is_asked_for = true;
        self.set(place, key, Change { value: Value::Put(value.to_vec()), deadline });
    }

    pub(super) fn remove(&mut self, place: usize, key: &[u8]) {
        self.is_asked_for = true;
        self.expire(place, key);
    }

    /// Removes a key that has expired.
    pub(super) fn expire(&mut self, place: usize, key: &[u8]) {
        self.set(place, key, Change { value: Value::Removed, deadline: None });
    }

    /// Sets the deadline of a key that has a value, here or in the store.
    pub(super) fn set_deadline(&mut self, place: usize, key: &[u8], deadline: Option<u64>) {
        self.is_asked_for = true;
        let keys = &mut self.databases.entry(place).or_default().keys;
        match keys.get_mut(key) {
            Some(change) => change.deadline = deadline,
            None => {
                keys.insert(key.into(), Change { value: Value::Kept, deadline });
            }
        }
    }

    pub(super) fn clear(&mut self, place: usize) {
        self.is_asked_for = true;
        self.databases.insert(place, Changes { cleared: true, keys: BTreeMap::new() });
    }

    pub(super) fn reorder(&mut self, order: Vec<usize>) {
        self.is_asked_for = true;
        self.order = Some(order);
    }

    fn set(&mut self, place: usize, key: &[u8], change: Change) {
        let keys = &mut self.databases.entry(place).or_default().keys;
        match keys.get_mut(key) {
            Some(known) => *known = change,
            None => {
                keys.insert(key.into(), change);
            }
        }
    }
}

//! Clients that wait for keys: BLPOP and its like.
//!
//! A client whose command finds nothing waits for all of the command's keys, with a number that says since when. A change of
//! one of them puts the key on a list; behind the command that made the change, the event loop has those who wait for the
//! key try again, the longest waiting first, as long as the key has something for them.

use std::collections::{BTreeMap, HashMap};

use crate::stored::Type;

/// The values that a client waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Awaited {
    /// Their type.
    pub(crate) of: Type,
    /// Whether the wait ends, too, when a key has a value of another type, or none: that of XREADGROUP does, whose group is
    /// gone then.
    pub(crate) or_none: bool,
}

impl From<Type> for Awaited {
    fn from(of: Type) -> Self {
        Self { of, or_none: false }
    }
}

/// A client that waits for a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waiter {
    /// The number of the wait: who waits longer has a lower one.
    pub(crate) number: u64,
    /// The value that the client waits for.
    pub(crate) of: Awaited,
    /// The thread that serves its connection, and the connection's place there.
    pub(crate) thread: usize,
    pub(crate) place: usize,
    pub(crate) client_id: u64,
}

/// A key of a database.
pub(crate) type Key = (usize, Box<[u8]>);

/// The clients that wait for keys of a partition.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    by_key: HashMap<Key, BTreeMap<u64, Waiter>>,
    /// Keys with waiters that were changed, in that order.
    changed: Vec<Key>,
}

impl Waiters {
    pub(super) fn add(&mut self, key: Key, waiter: Waiter) {
        self.by_key.entry(key).or_default().insert(waiter.number, waiter);
    }

    pub(super) fn remove(&mut self, key: &Key, number: u64) {
        if let Some(waiters) = self.by_key.get_mut(key) {
            waiters.remove(&number);
            if waiters.is_empty() {
                self.by_key.remove(key);
            }
        }
    }

    /// Notes that a key was changed. Returns whether anybody waits for it.
    #[inline]
    pub(super) fn touch(&mut self, db: usize, key: &[u8]) -> bool {
        !self.by_key.is_empty() && self.touch_waited(db, key)
    }

    #[cold]
    fn touch_waited(&mut self, db: usize, key: &[u8]) -> bool {
        let key: Key = (db, key.into());
        let is_waited = self.by_key.contains_key(&key);
        if is_waited && !self.changed.contains(&key) {
            self.changed.push(key);
        }
        is_waited
    }

    /// All keys of databases may have changed.
    pub(super) fn touch_all(&mut self, db: usize) -> bool {
        let keys: Vec<Key> = self.by_key.keys().filter(|(of, _)| *of == db).cloned().collect();
        keys.into_iter().fold(false, |any, (db, key)| self.touch(db, &key) || any)
    }

    /// The keys that were changed since this was asked last.
    pub(super) fn take_changed(&mut self) -> Vec<Key> {
        std::mem::take(&mut self.changed)
    }

    /// The keys that clients wait for.
    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// The keys of which clients get to know that they are gone.
    pub(super) fn len_or_none(&self) -> usize {
        let keys = self.by_key.values();
        keys.filter(|waiters| waiters.values().any(|waiter| waiter.of.or_none)).count()
    }

    /// Whether keys with waiters were changed since that was asked.
    pub(super) fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// The client that waits longest for a key, of those that wait for less long than the one with this number.
    pub(super) fn after(&self, key: &Key, number: u64) -> Option<Waiter> {
        let waiters = self.by_key.get(key)?;
        waiters.range(number + 1..).next().map(|(_, waiter)| *waiter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_waiting_comes_first_and_changes_come_once() {
        let of = Awaited::from(Type::List);
        let waiter = |number| Waiter { number, of, thread: 0, place: 0, client_id: 7 };
        let key = |name: &[u8]| (0, Box::from(name));
        let mut waiters = Waiters::default();
        assert!(!waiters.touch(0, b"a"));
        for number in [5, 3, 9] {
            waiters.add(key(b"a"), waiter(number));
        }
        waiters.add(key(b"b"), waiter(4));
        assert!(waiters.touch(0, b"a") && waiters.touch(0, b"b") && waiters.touch(0, b"a"));
        assert!(!waiters.touch(1, b"a") && !waiters.touch(0, b"c"));
        assert_eq!(waiters.take_changed(), [key(b"a"), key(b"b")]);
        assert!(waiters.take_changed().is_empty());
        let mut order = Vec::new();
        let mut last = 0;
        while let Some(next) = waiters.after(&key(b"a"), last) {
            last = next.number;
            order.push(last);
        }
        assert_eq!(order, [3, 5, 9]);
        waiters.remove(&key(b"a"), 3);
        assert_eq!(waiters.after(&key(b"a"), 0), Some(waiter(5)));
        waiters.remove(&key(b"b"), 4);
        assert!(!waiters.touch(0, b"b"));
    }
}

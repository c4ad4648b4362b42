//! The keys that clients may have cached: those that a client has read which is told of changes.
//!
//! Each partition has its own, so that reads and changes of a key meet where the key is, without a lock. All of them
//! together are bounded (`tracking-table-max-keys`): beyond that, clients are told that keys have changed which have
//! not.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use fastrand::Rng;

use crate::random::generator;

/// The readers of keys, by key, of whichever database: as in Redis, a client that has read a key of one database is
/// told of a change of the key of that name in another one.
#[derive(Debug)]
pub(super) struct Readers {
    by_key: HashMap<Arc<[u8]>, Entry>,
    /// The keys, in no order, to choose one at random.
    keys: Vec<Arc<[u8]>>,
    random: Rng,
}

#[derive(Debug)]
struct Entry {
    /// The numbers of the clients, of which some may be gone.
    clients: BTreeSet<u64>,
    /// The index of the key in `keys`.
    at: usize,
}

/// How many keys and pairs of a key and a client are more, or less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Count {
    pub(super) keys: usize,
    pub(super) items: usize,
}

impl Readers {
    pub(super) fn new() -> Self {
        Self { by_key: HashMap::new(), keys: Vec::new(), random: generator() }
    }

    /// Notes that a client has read a key. Returns how much more there is.
    pub(super) fn add(&mut self, key: &[u8], client: u64) -> Count {
        if let Some(entry) = self.by_key.get_mut(key) {
            return Count { keys: 0, items: usize::from(entry.clients.insert(client)) };
        }
        let key: Arc<[u8]> = key.into();
        let entry = Entry { clients: BTreeSet::from([client]), at: self.keys.len() };
        self.keys.push(Arc::clone(&key));
        self.by_key.insert(key, entry);
        Count { keys: 1, items: 1 }
    }

    /// Forgets a key, and returns it with its readers.
    pub(super) fn remove(&mut self, key: &[u8]) -> Option<(Arc<[u8]>, BTreeSet<u64>)> {
        if self.by_key.is_empty() {
            return None;
        }
        let (key, entry) = self.by_key.remove_entry(key)?;
        self.keys.swap_remove(entry.at);
        if let Some(moved) = self.keys.get(entry.at)
            && let Some(moved) = self.by_key.get_mut(moved)
        {
            moved.at = entry.at;
        }
        Some((key, entry.clients))
    }

    /// A key at random.
    pub(super) fn any(&mut self) -> Option<Arc<[u8]>> {
        let at = self.random.usize(..self.keys.len().max(1));
        self.keys.get(at).cloned()
    }

    /// Forgets all keys. Returns how many there were.
    pub(super) fn clear(&mut self) -> Count {
        let items = self.by_key.values().map(|entry| entry.clients.len()).sum();
        let count = Count { keys: self.keys.len(), items };
        self.by_key = HashMap::new();
        self.keys = Vec::new();
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_its_readers_until_it_is_removed() {
        let mut readers = Readers::new();
        assert_eq!(readers.any(), None);
        assert_eq!(readers.add(b"a", 1), Count { keys: 1, items: 1 });
        assert_eq!(readers.add(b"a", 2), Count { keys: 0, items: 1 });
        assert_eq!(readers.add(b"a", 2), Count { keys: 0, items: 0 });
        readers.add(b"b", 3);
        readers.add(b"c", 4);
        let (key, clients) = readers.remove(b"a").unwrap();
        assert_eq!((&*key, clients), (&b"a"[..], BTreeSet::from([1, 2])));
        assert!(readers.remove(b"a").is_none());
        for _ in 0..2 {
            let key = readers.any().unwrap();
            assert!(readers.remove(&key).is_some());
        }
        assert_eq!((readers.any(), readers.clear()), (None, Count::default()));
        readers.add(b"a", 1);
        assert_eq!(readers.clear(), Count { keys: 1, items: 1 });
        assert!(readers.remove(b"a").is_none());
    }
}

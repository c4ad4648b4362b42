//! Keys that transactions depend on.

use std::collections::HashMap;

/// A watched key, as it was when the watch began.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) db: usize,
    pub(crate) key: Box<[u8]>,
    version: u64,
}

/// The watched keys of all databases. Each counts its changes while a client watches it.
#[derive(Debug)]
pub(super) struct Watches {
    databases: Vec<HashMap<Box<[u8]>, Watched>>,
    /// Watches that have not ended.
    count: usize,
}

#[derive(Debug, Default)]
struct Watched {
    watchers: usize,
    version: u64,
}

impl Watches {
    pub(super) fn new(databases: usize) -> Self {
        Self { databases: (0..databases).map(|_| HashMap::new()).collect(), count: 0 }
    }

    pub(super) fn add(&mut self, db: usize, key: &[u8]) -> Watch {
        let watched = self.databases[db].entry(key.into()).or_default();
        watched.watchers += 1;
        self.count += 1;
        Watch { db, key: key.into(), version: watched.version }
    }

    pub(super) fn remove(&mut self, watch: &Watch) {
        let keys = &mut self.databases[watch.db];
        if let Some(watched) = keys.get_mut(&watch.key) {
            self.count -= 1;
            watched.watchers -= 1;
            if watched.watchers == 0 {
                keys.remove(&watch.key);
            }
        }
    }

    #[inline]
    pub(super) fn touch(&mut self, db: usize, key: &[u8]) {
        if self.count == 0 {
            return;
        }
        if let Some(watched) = self.databases[db].get_mut(key) {
            watched.version += 1;
        }
    }

    pub(super) fn has_changed(&self, watch: &Watch) -> bool {
        let watched = self.databases[watch.db].get(&watch.key);
        watched.is_none_or(|watched| watched.version != watch.version)
    }

    /// The watched keys of a database.
    pub(super) fn keys(&self, db: usize) -> Vec<Box<[u8]>> {
        self.databases[db].keys().cloned().collect()
    }
}

//! The larger map that was used last: a guess at the one that requests to come will use, so that the records of their
//! fields are prefetched. The guess may be wrong by then, or the map gone; only prefetches depend on it.

use super::values::PREFETCHED_MAX;
use super::{Elements, Store};

/// The map that was used last.
#[derive(Debug, Default)]
pub(crate) struct RecentMap {
    db: usize,
    key: Vec<u8>,
    elements: Option<Elements>,
}

impl RecentMap {
    /// Whether it is the one at a key of its database.
    #[inline]
    pub(crate) fn is_at(&self, key: &[u8]) -> bool {
        self.key == key
    }
}

impl Store {
    /// The elements of the map at a key, by its number, which is used now.
    pub(crate) fn note_recent_map(&mut self, db: usize, key: &[u8], id: u64) -> Elements {
        let elements = self.elements(db, key, id);
        let recent = &mut self.recent_map;
        if recent.elements != Some(elements) {
            (recent.db, recent.elements) = (db, Some(elements));
            recent.key.clear();
            recent.key.extend_from_slice(key);
        }
        elements
    }

    /// The map of a database that was used last, if its part is still here.
    pub(crate) fn recent_map(&self, db: usize) -> Option<&RecentMap> {
        let elements = self.recent_map.elements?;
        (self.recent_map.db == db && self.parts[elements.partition].is_some())
            .then_some(&self.recent_map)
    }

    /// Prefetches the records of elements of a map.
    pub(crate) fn prefetch_elements(
        &self,
        of: &RecentMap,
        elements: impl Iterator<Item = Vec<u8>>,
    ) {
        let Some(map) = of.elements else { return };
        let records: Vec<_> = elements.map(|element| map.key(&element)).collect();
        let space = &self.databases[map.place].elements;
        for records in records.chunks(PREFETCHED_MAX) {
            let (mut keys, count) = ([&[][..]; PREFETCHED_MAX], records.len());
            keys.iter_mut().zip(records).for_each(|(key, record)| *key = record);
            space.prefetch(map.partition, &keys[..count]);
        }
    }
}

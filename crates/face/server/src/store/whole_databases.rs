//! Changes to all keys of a database: FLUSHDB, and SWAPDB, which exchanges the key spaces of two numbers.

use halite::Durability;

use super::database::Database;
use super::{Result, Store, order, walk};
use crate::partition_set::PartitionSet;

/// Keys that are counted before all are removed, where the engine has to count them: others wait for it.
const FLUSHED_COUNT_MAX: u64 = 10_000;

impl Store {
    /// Removes everything from some databases. All parts are here.
    pub(crate) fn flush(&mut self, dbs: std::ops::Range<usize>) -> Result<()> {
        for db in dbs.clone() {
            let place = self.place(db);
            self.touch_watched(db, |store, key| store.is_stored(store.spot_at(place, key), key))?;
            let all = PartitionSet::first(self.partitions());
            let mut looks = 0..FLUSHED_COUNT_MAX;
            let go_on = || looks.next().is_some();
            self.changes +=
                self.len_by(db, |values| walk::count(values, all, go_on).map(|(len, _)| len))?;
        }
        self.invalidate_all();
        for part in self.parts.iter_mut().flatten() {
            for db in dbs.clone() {
                self.has_ready |= part.waiters.touch_all(db);
            }
        }
        let places: Vec<_> = dbs.map(|db| self.place(db)).collect();
        for part in self.parts.iter_mut().flatten() {
            places.iter().for_each(|&place| part.encodings[place].clear());
        }
        if let Some(overlay) = &mut self.overlay {
            places.iter().for_each(|&place| overlay.clear(place));
            return Ok(());
        }
        let all = PartitionSet::first(self.partitions());
        let mut full = Vec::new();
        for place in places {
            let Database { values, expires, elements } = &self.databases[place];
            // The search ends at the first removed key that is still stored, without looking for others behind it.
            let is_empty =
                |space| Ok::<_, halite::Error>(walk::count(space, all, || false)? == (0, true));
            if !is_empty(values)? || !is_empty(expires)? || !is_empty(elements)? {
                full.push(place);
            }
        }
        if full.is_empty() {
            return Ok(());
        }
        full.iter().for_each(|&place| self.databases[place].batch_clear(&mut self.batch));
        self.commit_batch(false)?;
        for part in self.parts.iter_mut().flatten() {
            part.unsynced = true;
            full.iter().for_each(|&place| part.clear(place));
        }
        Ok(())
    }

    /// Exchanges two databases. All parts are here.
    pub(crate) fn swap(&mut self, a: usize, b: usize) -> Result<()> {
        let (place_a, place_b) = (self.place(a), self.place(b));
        // A key that has expired is gone already, whichever database it would come to.
        for (db, other) in [(a, b), (b, a)] {
            let parts = self.parts.iter().flatten();
            let watched: Vec<_> = parts.flat_map(|part| part.watches.keys(db)).collect();
            for key in watched {
                self.contains(db, &key)?;
                self.contains(other, &key)?;
            }
        }
        for db in [a, b] {
            self.touch_watched(db, |store, key| {
                let (a, b) = (store.spot_at(place_a, key), store.spot_at(place_b, key));
                Ok(store.is_stored(a, key)? || store.is_stored(b, key)?)
            })?;
        }
        for part in self.parts.iter_mut().flatten() {
            self.has_ready |= part.waiters.touch_all(a) | part.waiters.touch_all(b);
        }
        self.invalidate_all();
        let mut order = self.order_now().to_vec();
        order.swap(a, b);
        if let Some(overlay) = &mut self.overlay {
            overlay.reorder(order);
        } else {
            let record = order::encode(&order);
            self.opened().settings.put_with(order::KEY, record, Durability::Deferred)?;
            self.set_order(&order);
        }
        self.changes += 1;
        Ok(())
    }

    #[inline]
    pub(super) fn place(&self, db: usize) -> usize {
        self.order_now()[db]
    }

    fn order_now(&self) -> &[usize] {
        let changed = self.overlay.as_ref().and_then(|overlay| overlay.order.as_ref());
        changed.unwrap_or_else(|| {
            let any = self.parts.iter().flatten().next();
            &any.expect("a command runs where some part is").order
        })
    }

    /// Sets the order in all parts.
    pub(super) fn set_order(&mut self, order: &[usize]) {
        for part in self.parts.iter_mut().flatten() {
            part.order.copy_from_slice(order);
            // The record of the order is in one of the partitions.
            part.unsynced = true;
        }
    }

    /// Notes a change to the watched keys of a database for which `is_affected`.
    fn touch_watched(
        &mut self,
        db: usize,
        is_affected: impl Fn(&Self, &[u8]) -> Result<bool>,
    ) -> Result<()> {
        for number in self.here().iter() {
            for key in self.part(number).watches.keys(db) {
                if is_affected(self, &key)? {
                    self.part_mut(number).watches.touch(db, &key);
                }
            }
        }
        Ok(())
    }
}

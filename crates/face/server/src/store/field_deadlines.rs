//! When the first field of a hash expires, for each hash that has fields with deadlines.
//!
//! ```text
//! key space `db<N>:elements`: ROUTED  partition u8  u64::MAX  digest of the hash's key u128   → deadline u64, key
//! ```
//!
//! A hash keeps the deadlines of its fields with their values (`collection::hash`). What is here lets a partition find the
//! hashes with fields that are due: a record of each such hash, in its partition, and an index in DRAM
//! ([`Deadlines`](super::deadlines::Deadlines)), as of keys that expire. The deadline may be earlier than that of any field:
//! when it is due, the hash is looked at, and it becomes right. Should two keys have the same digest, one has no record, and
//! its expired fields are hidden all the same.
//!
//! Fields of larger hashes are also known in DRAM by their deadlines ([`FieldTimes`]), from the first use on.

use std::collections::BTreeSet;

use super::deadline_records::{Records, digest, record, split};
use super::elements::{EXPIRING, Elements};
use super::{Result, Spot, Store};
use crate::partition_set::PartitionSet;

/// The fields of a hash that have deadlines, in the order of these.
pub(crate) type FieldTimes = BTreeSet<(u64, Box<[u8]>)>;

/// A record that a transaction has changed: the partition, the place of the database, the place of the record, and the
/// deadline as it was and as it is.
pub(super) type Changed = (usize, usize, [u8; 16], Option<u64>, Option<u64>);

impl Store {
    /// When the first field of the hash at a key expires, or a time before that; `None`: its fields have no deadlines.
    #[inline]
    pub(crate) fn field_deadline(&self, db: usize, key: &[u8]) -> Result<Option<u64>> {
        self.field_deadline_at(self.spot(db, key), key)
    }

    #[inline]
    pub(super) fn field_deadline_at(&self, spot: Spot, key: &[u8]) -> Result<Option<u64>> {
        if let Some(overlay) = &self.overlay {
            let changed = overlay.field_deadlines.get(&spot.place).and_then(|of| of.get(key));
            if let Some(changed) = changed {
                return Ok(*changed);
            }
            if overlay.databases.get(&spot.place).is_some_and(|changes| changes.cleared) {
                return Ok(None);
            }
        }
        self.stored_field_deadline(spot, key)
    }

    fn stored_field_deadline(
        &self,
        Spot { partition, place }: Spot,
        key: &[u8],
    ) -> Result<Option<u64>> {
        match self.part(partition).field_deadlines[place].is_empty() {
            true => Ok(None),
            false => Records::of_fields(&self.databases[place], place, partition).get(key),
        }
    }

    /// Sets when the first field of the hash at a key expires, in a transaction.
    pub(crate) fn set_field_deadline(
        &mut self,
        db: usize,
        key: &[u8],
        deadline: Option<u64>,
    ) -> Result<()> {
        self.set_field_deadline_at(self.spot(db, key), key, deadline)
    }

    pub(super) fn set_field_deadline_at(
        &mut self,
        spot: Spot,
        key: &[u8],
        deadline: Option<u64>,
    ) -> Result<()> {
        if self.field_deadline_at(spot, key)? == deadline {
            return Ok(());
        }
        self.changes_of_elements().set_field_deadline(spot.place, key, deadline)
    }

    /// The number of hashes with fields that expire in the parts of `partitions`, which are here.
    pub(crate) fn expiring_hashes(&self, db: usize, partitions: PartitionSet) -> usize {
        let parts = partitions.iter().map(|number| self.part(number));
        parts.map(|part| part.field_deadlines[part.order[db]].len()).sum()
    }

    /// Some hashes of the parts here that may have fields which are due: their databases and keys.
    pub(crate) fn hashes_due(&mut self, count_max: usize) -> Vec<(usize, Vec<u8>)> {
        let mut due = Vec::new();
        for part in self.parts.iter_mut().flatten() {
            for (db, &place) in part.order.iter().enumerate() {
                let left = count_max.saturating_sub(due.len());
                let records = Records::of_fields(&self.databases[place], place, part.number);
                let deadlines = &mut part.field_deadlines[place];
                // Records that cannot be read are reported by the commands on their hashes.
                let found = deadlines.due(self.now_ms, left, &records).unwrap_or_default();
                // They stay due until their fields are gone.
                found.iter().for_each(|hash| deadlines.lower(&hash.at, hash.deadline));
                due.extend(found.into_iter().map(|hash| (db, hash.key.into_vec())));
            }
        }
        due
    }

    /// The fields of a larger hash that have deadlines, found by `load` if they are not known.
    pub(crate) fn field_times<E>(
        &mut self,
        of: &Elements,
        load: impl FnOnce(&Self) -> std::result::Result<FieldTimes, E>,
    ) -> std::result::Result<&mut FieldTimes, E> {
        self.touch_resident(of);
        if !self.part(of.partition).field_times.contains_key(of) {
            let times = load(self)?;
            self.part_mut(of.partition).field_times.insert(*of, times);
        }
        Ok(self.part_mut(of.partition).field_times.get_mut(of).expect("they are there"))
    }

    /// Adds to the batch what a transaction has changed, and returns it, for [`Store::note_field_deadlines`].
    pub(super) fn batch_field_deadlines(
        &mut self,
        overlay: &super::Overlay,
    ) -> Result<Vec<Changed>> {
        let mut all = Vec::new();
        for (&place, changes) in &overlay.field_deadlines {
            let cleared = overlay.databases.get(&place).is_some_and(|changes| changes.cleared);
            for (key, &deadline) in changes {
                let partition = self.partition_of(key);
                let is_empty = cleared || self.part(partition).field_deadlines[place].is_empty();
                let of = Elements { partition, place, id: EXPIRING };
                let (database, digest) = (&self.databases[place], digest(key));
                let (elements, at) = (&database.elements, of.key(&digest));
                let stored = if is_empty { None } else { elements.get(&at)? };
                let old =
                    match stored.as_deref().map(|record| split(database, record)).transpose()? {
                        Some((old, known)) if known == &key[..] => Some(old),
                        // It is another hash's.
                        Some(_) => continue,
                        None => None,
                    };
                if old == deadline {
                    continue;
                }
                all.push((partition, place, digest, old, deadline));
                match deadline {
                    Some(deadline) => self.batch.put(elements, at, record(deadline, key)),
                    None => self.batch.delete(elements, at),
                }
            }
        }
        Ok(all)
    }

    /// Notes what a transaction has changed: slices are divided by their records, which are as the whole transaction has
    /// left them.
    pub(super) fn note_field_deadlines(&mut self, changed: &[Changed]) {
        for (partition, place, digest, old, new) in changed {
            let part = self.parts[*partition].as_mut().expect("its part was here");
            part.unsynced = true;
            part.field_deadlines[*place].change(digest, *old, *new);
        }
        for (partition, place, ..) in changed {
            let part = self.parts[*partition].as_mut().expect("its part was here");
            part.field_deadlines[*place].settle(&Records::of_fields(
                &self.databases[*place],
                *place,
                *partition,
            ));
        }
    }
}

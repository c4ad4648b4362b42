//! When the first field of a hash expires, for each hash that has fields with deadlines.
//!
//! ```text
//! key space `db<N>:elements`: ROUTED  partition u8  u64::MAX  digest of the hash's key u128   → deadline u64, key
//! ```
//!
//! A hash keeps the deadlines of its fields with their values (`collection::hash`). What is here lets a partition find the
//! hashes with fields that are due: a record of each such hash, in its partition, and a copy in DRAM
//! ([`Deadlines`](super::deadlines::Deadlines)), as of keys that expire. The deadline may be earlier than that of any field:
//! when it is due, the hash is looked at, and it becomes right. Should two keys have the same digest, one has no record, and
//! its expired fields are hidden all the same.
//!
//! Fields of larger hashes are also known in DRAM by their deadlines ([`FieldTimes`]), from the first use on.

use std::collections::BTreeSet;
use std::ops::Bound;

use halite::{EngineError, KeyRange};
use xxhash_rust::xxh3::xxh3_128;

use super::database::Database;
use super::deadlines::Deadlines;
use super::elements::{EXPIRING, Elements};
use super::{Result, Spot, Store};
use crate::partition_set::PartitionSet;

/// The fields of a hash that have deadlines, in the order of these.
pub(crate) type FieldTimes = BTreeSet<(u64, Box<[u8]>)>;

/// The end of the key of a hash's record.
pub(super) fn digest(key: &[u8]) -> [u8; 16] {
    xxh3_128(key).to_be_bytes()
}

/// The value of a hash's record.
pub(super) fn record(deadline: u64, key: &[u8]) -> Vec<u8> {
    [&deadline.to_be_bytes(), key].concat()
}

/// The key of a hash, by the value of its record.
pub(super) fn key_of(record: &[u8]) -> Option<&[u8]> {
    record.get(8..)
}

/// Reads the records of a partition.
pub(super) fn read(
    database: &Database,
    place: usize,
    partition: usize,
    deadlines: &mut Deadlines,
) -> Result<()> {
    let prefix = Elements { partition, place, id: EXPIRING }.prefix();
    let range = KeyRange::prefix(&prefix);
    let end = range.end().map_or(Bound::Unbounded, Bound::Excluded);
    let records = (Bound::Included(&prefix[..]), end);
    for pair in database.elements.range_of_partition::<&[u8]>(partition, records)? {
        let (_, record) = pair?;
        let (deadline, key) = record.split_first_chunk().ok_or_else(|| EngineError::Damaged {
            what: format!("the deadline of a hash's field in {}", database.elements.name()),
            why: format!("it has {} bytes instead of 8 at least", record.len()),
        })?;
        deadlines.set(key, Some(u64::from_be_bytes(*deadline)));
    }
    Ok(())
}

impl Store {
    /// When the first field of the hash at a key expires, or a time before that; `None`: its fields have no deadlines.
    #[inline]
    pub(crate) fn field_deadline(&self, db: usize, key: &[u8]) -> Option<u64> {
        self.field_deadline_at(self.spot(db, key), key)
    }

    #[inline]
    pub(super) fn field_deadline_at(&self, spot: Spot, key: &[u8]) -> Option<u64> {
        if let Some(overlay) = &self.overlay {
            let changed = overlay.field_deadlines.get(&spot.place).and_then(|of| of.get(key));
            if let Some(changed) = changed {
                return *changed;
            }
            if overlay.databases.get(&spot.place).is_some_and(|changes| changes.cleared) {
                return None;
            }
        }
        self.part(spot.partition).field_deadlines[spot.place].get(key)
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
        if self.field_deadline_at(spot, key) == deadline {
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
    pub(crate) fn hashes_due(&self, count_max: usize) -> Vec<(usize, Vec<u8>)> {
        let mut due = Vec::new();
        for part in self.parts.iter().flatten() {
            for (db, &place) in part.order.iter().enumerate() {
                let keys = part.field_deadlines[place].due(self.now_ms, count_max - due.len());
                due.extend(keys.iter().map(|key| (db, key.to_vec())));
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

    /// Adds to the batch what a transaction has changed.
    pub(super) fn batch_field_deadlines(&mut self, overlay: &super::Overlay) {
        for (&place, changes) in &overlay.field_deadlines {
            let cleared = overlay.databases.get(&place).is_some_and(|changes| changes.cleared);
            for (key, &deadline) in changes {
                let partition = self.partition_of(key);
                let stored = || self.part(partition).field_deadlines[place].get(key);
                let old = if cleared { None } else { stored() };
                if old == deadline {
                    continue;
                }
                let of = Elements { partition, place, id: EXPIRING };
                let (elements, at) = (&self.databases[place].elements, of.key(&digest(key)));
                match deadline {
                    Some(deadline) => self.batch.put(elements, at, record(deadline, key)),
                    None => self.batch.delete(elements, at),
                }
            }
        }
    }
}

//! The stored deadlines of a database's keys in one partition, or of hashes with fields that expire.

use std::ops::Bound;

use halite::{Bytes, EngineError, KeyRange};
use xxhash_rust::xxh3::xxh3_128;

use super::Result;
use super::database::Database;
use super::elements::{EXPIRING, Elements};

/// The records with deadlines.
pub(super) enum Records<'a> {
    /// Of keys, each under the key.
    Keys { database: &'a Database, partition: usize },
    /// Of hashes, each under the digest of the key: when the first of its fields expires.
    Fields { database: &'a Database, of: Elements },
}

/// A record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry<'a> {
    /// Its place among the records.
    pub(super) at: &'a [u8],
    pub(super) key: &'a [u8],
    pub(super) deadline: u64,
}

impl<'a> Records<'a> {
    /// The deadlines of a partition's keys.
    pub(super) fn of_keys(database: &'a Database, partition: usize) -> Self {
        Self::Keys { database, partition }
    }

    /// The deadlines of a partition's hashes.
    pub(super) fn of_fields(database: &'a Database, place: usize, partition: usize) -> Self {
        Self::Fields { database, of: Elements { partition, place, id: EXPIRING } }
    }

    /// Whether the index of the records has an order.
    pub(super) fn have_order(&self) -> Result<bool> {
        let (space, partition) = match self {
            Self::Keys { database, partition } => (&database.expires, *partition),
            Self::Fields { database, of } => (&database.elements, of.partition),
        };
        Ok(space.visit_partition(partition, 0, 0, |_| ())?.is_none())
    }

    /// The deadline of a key.
    pub(super) fn get(&self, key: &[u8]) -> Result<Option<u64>> {
        match self {
            Self::Keys { database, .. } => {
                let record = database.expires.get(key)?;
                record.map(|record| deadline_of_key(database, key, &record)).transpose()
            }
            Self::Fields { database, of } => {
                let record = database.elements.get(of.key(&digest(key)))?;
                let Some(record) = record else { return Ok(None) };
                let (deadline, known) = split(database, &record)?;
                Ok(Some(deadline).filter(|_| known == key))
            }
        }
    }

    /// Visits the records from a place on, and before another one, in order, as long as `visit` returns true.
    pub(super) fn range(
        &self,
        start: &[u8],
        end: Option<&[u8]>,
        mut visit: impl FnMut(Entry<'_>) -> bool,
    ) -> Result<()> {
        match self {
            Self::Keys { database, partition } => {
                let end = end.map_or(Bound::Unbounded, Bound::Excluded);
                let range = (Bound::Included(start), end);
                for pair in database.expires.range_of_partition::<&[u8]>(*partition, range)? {
                    let (key, record) = pair?;
                    let deadline = deadline_of_key(database, &key, &record)?;
                    if !visit(Entry { at: &key, key: &key, deadline }) {
                        break;
                    }
                }
            }
            Self::Fields { database, of } => {
                let prefix = of.prefix();
                let all = KeyRange::prefix(&prefix);
                let (start, end) = (of.key(start), end.map(|end| of.key(end)));
                let end = end.as_deref().or(all.end()).map_or(Bound::Unbounded, Bound::Excluded);
                let range = (Bound::Included(&start[..]), end);
                let records = database.elements.range_of_partition::<&[u8]>(of.partition, range)?;
                for pair in records {
                    let (at, record) = pair?;
                    let (deadline, key) = split(database, &record)?;
                    if !visit(Entry { at: &at[prefix.len()..], key, deadline }) {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Visits at least `count` records from a position on, where the index has no order, and returns the next position: 0
    /// behind the last.
    pub(super) fn visit(
        &self,
        position: u64,
        count: usize,
        mut visit: impl FnMut(Entry<'_>),
    ) -> Result<u64> {
        // The keys are copied, as the walk must not wait for reads within it.
        let mut keys = Vec::new();
        match self {
            Self::Keys { database, partition } => {
                let note = |key: &[u8]| keys.push(Bytes::from(key));
                let next = database.expires.visit_partition(*partition, position, count, note)?;
                for key in &keys {
                    if let Some(record) = database.expires.get(key)? {
                        let deadline = deadline_of_key(database, key, &record)?;
                        visit(Entry { at: key, key, deadline });
                    }
                }
                Ok(next.unwrap_or(0))
            }
            Self::Fields { database, of } => {
                let prefix = of.prefix();
                let note = |key: &[u8]| {
                    if key.starts_with(&prefix) {
                        keys.push(Bytes::from(key));
                    }
                };
                let elements = &database.elements;
                let next = elements.visit_partition(of.partition, position, count, note)?;
                for at in &keys {
                    if let Some(record) = elements.get(at)? {
                        let (deadline, key) = split(database, &record)?;
                        visit(Entry { at: &at[prefix.len()..], key, deadline });
                    }
                }
                Ok(next.unwrap_or(0))
            }
        }
    }
}

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

/// The deadline and the key of a hash, by the value of its record.
pub(super) fn split<'a>(database: &Database, record: &'a [u8]) -> Result<(u64, &'a [u8])> {
    let (deadline, key) = record.split_first_chunk().ok_or_else(|| EngineError::Damaged {
        what: format!("the deadline of a hash's field in {}", database.elements.name()),
        why: format!("it has {} bytes instead of 8 at least", record.len()),
    })?;
    Ok((u64::from_be_bytes(*deadline), key))
}

fn deadline_of_key(database: &Database, key: &[u8], record: &[u8]) -> Result<u64> {
    let record = <[u8; 8]>::try_from(record).map_err(|_| EngineError::Damaged {
        what: format!("the deadline of `{}` in {}", key.escape_ascii(), database.expires.name()),
        why: format!("it has {} bytes instead of 8", record.len()),
    })?;
    Ok(u64::from_be_bytes(record))
}

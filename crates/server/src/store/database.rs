//! The key spaces of a database.

use halite::{KeyRange, KeySpace};

use super::Result;
use super::deadlines::Deadlines;

/// The key spaces of a database.
pub(super) struct Database {
    pub(super) values: KeySpace,
    pub(super) expires: KeySpace,
    pub(super) deadlines: Deadlines,
}

impl Database {
    /// Opens the key spaces of a database, and reads its deadlines.
    pub(super) fn open(db: &halite::Database, number: usize) -> Result<Self> {
        let values = db.key_space(&format!("db{number}"))?;
        let expires = db.key_space(&format!("db{number}:expires"))?;
        let mut deadlines = Deadlines::default();
        for pair in expires.iter()? {
            let (key, record) = pair?;
            let record = <[u8; 8]>::try_from(&record[..]).map_err(|_| halite::Error::Damaged {
                what: format!("the deadline of `{}` in {}", key.escape_ascii(), expires.name()),
                why: format!("it has {} bytes instead of 8", record.len()),
            })?;
            deadlines.set(&key, Some(u64::from_be_bytes(record)));
        }
        Ok(Self { values, expires, deadlines })
    }

    /// Adds to `batch` that a key expires at `deadline`, or does not.
    pub(super) fn batch_deadline(
        &self,
        batch: &mut halite::Batch,
        key: &[u8],
        deadline: Option<u64>,
    ) {
        match deadline {
            Some(at) => batch.put(&self.expires, key, at.to_be_bytes()),
            None => batch.delete(&self.expires, key),
        }
    }

    /// Adds to `batch` that everything is removed.
    pub(super) fn batch_clear(&self, batch: &mut halite::Batch) {
        batch.delete_range(&self.values, &KeyRange::all());
        batch.delete_range(&self.expires, &KeyRange::all());
    }
}

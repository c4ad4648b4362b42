//! The key spaces of a database.

use halite::{KeyRange, KeySpace};

use super::Result;

/// The key spaces of a database.
#[derive(Clone)]
pub(super) struct Database {
    pub(super) values: KeySpace,
    pub(super) expires: KeySpace,
    pub(super) elements: KeySpace,
}

impl Database {
    /// Opens the key spaces of a database.
    pub(super) fn open(db: &halite::Database, number: usize) -> Result<Self> {
        let [values, expires, elements] = Self::names(number);
        Ok(Self {
            values: db.key_space(&values)?,
            expires: db.key_space(&expires)?,
            elements: db.key_space(&elements)?,
        })
    }

    /// The names of the key spaces of a database.
    pub(super) fn names(number: usize) -> [String; 3] {
        [format!("db{number}"), format!("db{number}:expires"), format!("db{number}:elements")]
    }

    pub(super) fn spaces(&self) -> [KeySpace; 3] {
        [&self.values, &self.expires, &self.elements].map(KeySpace::clone)
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
        batch.delete_range(&self.elements, &KeyRange::all());
    }
}

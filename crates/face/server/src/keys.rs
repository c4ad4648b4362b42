//! The keys of a database as Redis' files have them, for programs that open it themselves.

use std::ops::Range;

use halite_rdb::Value;

use crate::Error;
use crate::failure::Failure;
use crate::partition_set::PartitionSet;
use crate::rdb::{self, Budget};
use crate::store::Store;

/// The keys of a Halite database that no server serves: values of all types go in and come out in the forms of
/// [`halite_rdb`], and lie as a server has them. No key expires here.
///
/// Nothing else may change the database meanwhile, since part of what is stored is known in memory.
pub struct Keys {
    store: Store,
    count: usize,
}

impl Keys {
    /// The keys of the databases with numbers below `count`, which are made if they are not there.
    ///
    /// # Errors
    /// [`Error::Untagged`], [`Error::NewerForm`], and the errors of the database.
    pub fn open(db: &halite::Database, count: usize) -> Result<Self, Error> {
        let known = crate::database_places(db)?.len();
        let store = Store::open(db.clone(), count.max(known))?;
        Ok(Self { store, count: count.max(known) })
    }

    /// The databases that are open.
    #[must_use]
    pub fn databases(&self) -> Range<usize> {
        0..self.count
    }

    /// Puts a value in the place of what a key of an open database has, and sets when it expires, in milliseconds since
    /// 1970. It is durable after [`Keys::sync`].
    ///
    /// # Errors
    /// [`Error::Value`] of a value that a key cannot have, and the errors of the database. The key has what it had then.
    pub fn put(
        &mut self,
        database: usize,
        key: &[u8],
        value: Value,
        expires_ms: Option<u64>,
    ) -> Result<(), Error> {
        if !rdb::can_be_put(&value) {
            let why = format!("it is a {} that cannot be stored", value.type_name());
            return Err(Error::Value { why });
        }
        self.store.begin();
        let put = rdb::put(&mut self.store, database, key, value, expires_ms);
        let put = put.and_then(|()| Ok(self.store.commit()?));
        self.store.rollback();
        // The DRAM state of one key after the other would grow to that of the whole database.
        self.store.forget_all_residents();
        Ok(put?)
    }

    /// The value of a key of an open database; `None` if there is none.
    ///
    /// # Errors
    /// [`Error::Value`] of a value that is damaged or of an unknown form, and the errors of the database.
    pub fn value(&mut self, database: usize, key: &[u8]) -> Result<Option<Value>, Error> {
        let mut budget = Budget::new(&self.store, usize::MAX);
        let value = rdb::read(&mut self.store, database, key, &mut budget);
        self.store.forget_all_residents();
        Ok(value?)
    }

    /// Whether a database has hashes with fields that expire.
    #[must_use]
    pub fn has_expiring_fields(&self, database: usize) -> bool {
        let all = PartitionSet::first(self.store.partitions());
        self.store.expiring_hashes(database, all) > 0
    }

    /// Makes all that was put durable.
    ///
    /// # Errors
    /// Those of the database.
    pub fn sync(&mut self) -> Result<(), Error> {
        Ok(self.store.sync_all()?)
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Store(error) => Self::Database(error),
            other => {
                let why = String::from_utf8_lossy(&other.text()).into_owned();
                Self::Value { why: why.strip_prefix("ERR ").unwrap_or(&why).to_owned() }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use halite_rdb::HashField;

    use super::*;

    #[test]
    fn values_of_all_types_come_back() {
        let db = halite::Database::builder().max_size(64 << 20).in_memory().unwrap();
        let mut keys = Keys::open(&db, 3).unwrap();
        let strings = |count: usize| (0..count).map(|number| number.to_string().into_bytes());
        let field = |name: Vec<u8>| HashField { value: name.clone(), name, expires_ms: Some(5) };
        for count in [1, 2000] {
            for value in [
                Value::String(b"some".to_vec()),
                Value::List(strings(count).collect()),
                Value::Set(strings(count).collect()),
                Value::SortedSet(strings(count).map(|member| (member, 1.5)).collect()),
                Value::Hash(strings(count).map(field).collect()),
            ] {
                keys.put(2, b"k", value.clone(), Some(7)).unwrap();
                let mut found = keys.value(2, b"k").unwrap().unwrap();
                let mut value = value;
                for value in [&mut found, &mut value] {
                    match value {
                        Value::Set(members) => members.sort(),
                        Value::SortedSet(members) => members.sort_by(|a, b| a.0.cmp(&b.0)),
                        Value::Hash(fields) => fields.sort_by(|a, b| a.name.cmp(&b.name)),
                        _ => {}
                    }
                }
                assert_eq!(found, value);
                let expires = matches!(value, Value::Hash(_));
                assert_eq!(keys.has_expiring_fields(2), expires);
            }
        }
        assert_eq!(keys.value(0, b"k").unwrap(), None);
        assert!(matches!(
            keys.put(0, b"k", Value::Set(Vec::new()), None),
            Err(Error::Value { .. })
        ));
        keys.sync().unwrap();
    }
}

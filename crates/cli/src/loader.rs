//! Bulk writes.

use std::collections::HashMap;
use std::rc::Rc;

use halite::{Batch, Database, Durability};

use crate::Result;
use crate::folder::{WriteSpace, in_database};
use crate::formats::Record;

/// A batch is committed when it has as many records, or as many bytes.
const BATCH_RECORDS: u64 = 1000;
const BATCH_BYTES: u64 = 1 << 20;

/// Bytes after which loaded records are made durable, so that a crash loses no more than this.
const SYNC_BYTES: u64 = 64 << 20;

/// Loads records: batches share their commits, and many batches share a sync.
pub(crate) struct Loader<'a> {
    db: &'a Database,
    default_space: Rc<str>,
    spaces: HashMap<Rc<str>, WriteSpace>,
    batch: Batch,
    batch_records: u64,
    batch_bytes: u64,
    unsynced_bytes: u64,
    /// Records and bytes of their keys and values that are committed.
    pub(crate) records: u64,
    pub(crate) bytes: u64,
}

impl<'a> Loader<'a> {
    /// A loader that puts records which name no key space into `space`.
    pub(crate) fn new(db: &'a Database, space: &str) -> Self {
        Self {
            db,
            default_space: space.into(),
            spaces: HashMap::new(),
            batch: db.batch(),
            batch_records: 0,
            batch_bytes: 0,
            unsynced_bytes: 0,
            records: 0,
            bytes: 0,
        }
    }

    pub(crate) fn add(&mut self, record: &Record) -> Result<()> {
        self.add_to_batch(record)?;
        if self.batch_records >= BATCH_RECORDS || self.batch_bytes >= BATCH_BYTES {
            self.commit()?;
            if self.unsynced_bytes >= SYNC_BYTES {
                self.sync()?;
            }
        }
        Ok(())
    }

    /// Counts a record of so many bytes that was put elsewhere.
    pub(crate) fn note(&mut self, bytes: u64) {
        self.records += 1;
        self.bytes += bytes;
    }

    /// Commits the remaining records and makes all of them durable.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.commit()?;
        self.sync()
    }

    fn add_to_batch(&mut self, record: &Record) -> Result<()> {
        let name = Rc::clone(record.space.as_ref().unwrap_or(&self.default_space));
        self.put(&name, &record.key, &record.value)?;
        self.batch_records += 1;
        self.batch_bytes += (record.key.len() + record.value.len()) as u64;
        Ok(())
    }

    fn put(&mut self, space: &Rc<str>, key: &[u8], value: &[u8]) -> Result<()> {
        if !self.spaces.contains_key(space) {
            self.spaces.insert(Rc::clone(space), WriteSpace::create(self.db, space)?);
        }
        let put = self.spaces[space].put(&mut self.batch, key, value);
        put.map_err(|error| in_database(self.db.path(), error))
    }

    fn commit(&mut self) -> Result<()> {
        let records = std::mem::take(&mut self.batch_records);
        let bytes = std::mem::take(&mut self.batch_bytes);
        self.batch
            .commit_and_clear(Durability::Deferred)
            .map_err(|error| in_database(self.db.path(), error))?;
        self.records += records;
        self.bytes += bytes;
        self.unsynced_bytes += bytes;
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.unsynced_bytes = 0;
        self.db.sync().map_err(|error| in_database(self.db.path(), error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(space: Option<&str>, key: u32, value_len: usize) -> Record {
        let key = key.to_string().into_bytes();
        Record { space: space.map(Rc::from), key, value: vec![7; value_len] }
    }

    #[test]
    fn records_go_to_the_key_space_they_name() {
        let folder = tempfile::tempdir().unwrap();
        let db = Database::open(folder.path().join("data")).unwrap();
        let mut loader = Loader::new(&db, "db0");
        (0..2500).try_for_each(|key| loader.add(&record(None, key, 3))).unwrap();
        loader.add(&record(Some("other"), 1, 2 << 20)).unwrap();
        assert_eq!(loader.records, 2501, "a batch that is full by its bytes is committed");
        loader.add(&record(Some("other"), 2, 0)).unwrap();
        assert_eq!(loader.records, 2501, "a batch that is not full is not");
        loader.finish().unwrap();
        assert_eq!(loader.records, 2502);
        assert_eq!(db.find_key_space("db0").unwrap().unwrap().len().unwrap(), 2500);
        assert_eq!(db.find_key_space("other").unwrap().unwrap().len().unwrap(), 2);
    }
}

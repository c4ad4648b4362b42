//! redb: a copy-on-write B-tree in Rust.

use std::path::Path;

use halite_bench::kv::{Memory, Pair, Session, Store, StoreResult};
use redb::{Database, Durability, ReadableDatabase, TableDefinition};

use crate::CACHE_BYTES;

const RECORDS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("records");

/// redb with a transaction for each put, and one for each get, which then reads the present.
pub(crate) struct Redb {
    open: Option<Database>,
    cache: usize,
}

impl Default for Redb {
    fn default() -> Self {
        Self { open: None, cache: CACHE_BYTES }
    }
}

impl Store for Redb {
    fn name(&self) -> &str {
        "redb"
    }

    fn durability(&self) -> String {
        "each put its own transaction with Durability::Immediate: fdatasync".to_owned()
    }

    fn open(&mut self, folder: &Path) -> StoreResult<()> {
        std::fs::create_dir_all(folder)?;
        let database =
            Database::builder().set_cache_size(self.cache).create(folder.join("redb"))?;
        let transaction = database.begin_write()?;
        transaction.open_table(RECORDS)?;
        transaction.commit()?;
        self.open = Some(database);
        Ok(())
    }

    fn close(&mut self) -> StoreResult<()> {
        self.open = None;
        Ok(())
    }

    /// redb has no buffer of writes: its cache has that memory, too.
    fn set_memory(&mut self, memory: Memory) {
        self.cache = (memory.cache + 2 * memory.write_buffer) as usize;
    }

    fn session(&self) -> StoreResult<Box<dyn Session + '_>> {
        Ok(Box::new(RedbSession(self.open.as_ref().ok_or("the store is closed")?)))
    }
}

struct RedbSession<'a>(&'a Database);

impl Session for RedbSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> StoreResult<()> {
        let mut transaction = self.0.begin_write()?;
        transaction.set_durability(Durability::Immediate)?;
        transaction.open_table(RECORDS)?.insert(key, value)?;
        Ok(transaction.commit()?)
    }

    fn put_all(&mut self, pairs: &[Pair]) -> StoreResult<()> {
        let mut transaction = self.0.begin_write()?;
        transaction.set_durability(Durability::Immediate)?;
        let mut records = transaction.open_table(RECORDS)?;
        for (key, value) in pairs {
            records.insert(&key[..], &value[..])?;
        }
        drop(records);
        Ok(transaction.commit()?)
    }

    fn get(&mut self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> StoreResult<()> {
        let records = self.0.begin_read()?.open_table(RECORDS)?;
        if let Some(value) = records.get(key)? {
            read(value.value());
        }
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> StoreResult<()> {
        let mut transaction = self.0.begin_write()?;
        transaction.set_durability(Durability::Immediate)?;
        transaction.open_table(RECORDS)?.remove(key)?;
        Ok(transaction.commit()?)
    }

    fn scan(
        &mut self,
        start: &[u8],
        limit: u64,
        read: &mut dyn FnMut(&[u8], &[u8]),
    ) -> StoreResult<()> {
        let records = self.0.begin_read()?.open_table(RECORDS)?;
        for pair in records.range(start..)?.take(limit as usize) {
            let (key, value) = pair?;
            read(key.value(), value.value());
        }
        Ok(())
    }
}

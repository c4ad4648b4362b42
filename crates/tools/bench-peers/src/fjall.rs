//! fjall: a log-structured merge tree in Rust.

use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use halite_bench::kv::{Memory, Pair, Session, Store, StoreResult};

use crate::CACHE_BYTES;

/// fjall, persisted after each put.
pub(crate) struct Fjall {
    open: Option<(Database, Keyspace)>,
    memory: Memory,
}

impl Default for Fjall {
    /// Returns as much memory as fjall takes for writes by itself, and as all peers have to cache.
    fn default() -> Self {
        let memory = Memory { write_buffer: 64 << 20, cache: CACHE_BYTES as u64 };
        Self { open: None, memory }
    }
}

impl Store for Fjall {
    fn name(&self) -> &str {
        "fjall"
    }

    fn durability(&self) -> String {
        "each put followed by persist(SyncData): fdatasync of the journal".to_owned()
    }

    fn open(&mut self, folder: &Path) -> StoreResult<()> {
        // Persisting is this adapter's business, so that an insert does not also flush by itself.
        let database = Database::builder(folder)
            .cache_size(self.memory.cache)
            .manual_journal_persist(true)
            .open()?;
        let buffer = self.memory.write_buffer;
        let options = || {
            let options = KeyspaceCreateOptions::default().manual_journal_persist(true);
            options.max_memtable_size(buffer)
        };
        let records = database.keyspace("records", options)?;
        self.open = Some((database, records));
        Ok(())
    }

    fn close(&mut self) -> StoreResult<()> {
        self.open = None;
        Ok(())
    }

    fn set_memory(&mut self, memory: Memory) {
        self.memory = memory;
    }

    fn session(&self) -> StoreResult<Box<dyn Session + '_>> {
        let (database, records) = self.open.as_ref().ok_or("the store is closed")?;
        Ok(Box::new(FjallSession { database, records }))
    }
}

struct FjallSession<'a> {
    database: &'a Database,
    records: &'a Keyspace,
}

impl Session for FjallSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> StoreResult<()> {
        self.records.insert(key, value)?;
        Ok(self.database.persist(PersistMode::SyncData)?)
    }

    fn put_all(&mut self, pairs: &[Pair]) -> StoreResult<()> {
        let mut batch = self.database.batch();
        for (key, value) in pairs {
            batch.insert(self.records, key.as_slice(), value.as_slice());
        }
        batch.commit()?;
        Ok(self.database.persist(PersistMode::SyncData)?)
    }

    fn get(&mut self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> StoreResult<()> {
        if let Some(value) = self.records.get(key)? {
            read(&value);
        }
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> StoreResult<()> {
        self.records.remove(key)?;
        Ok(self.database.persist(PersistMode::SyncData)?)
    }

    fn scan(
        &mut self,
        start: &[u8],
        limit: u64,
        read: &mut dyn FnMut(&[u8], &[u8]),
    ) -> StoreResult<()> {
        for pair in self.records.range(start..).take(limit as usize) {
            let (key, value) = pair.into_inner()?;
            read(&key, &value);
        }
        Ok(())
    }
}

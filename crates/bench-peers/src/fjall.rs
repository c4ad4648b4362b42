//! fjall: a log-structured merge tree in Rust.

use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use halite_bench::{Store, StoreResult};

use crate::CACHE_BYTES;

/// fjall, persisted after each put.
#[derive(Default)]
pub(crate) struct Fjall {
    open: Option<(Database, Keyspace)>,
}

impl Fjall {
    fn opened(&self) -> StoreResult<&(Database, Keyspace)> {
        self.open.as_ref().ok_or_else(|| "the store is closed".into())
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
            .cache_size(CACHE_BYTES as u64)
            .manual_journal_persist(true)
            .open()?;
        let options = || KeyspaceCreateOptions::default().manual_journal_persist(true);
        let records = database.keyspace("records", options)?;
        self.open = Some((database, records));
        Ok(())
    }

    fn close(&mut self) -> StoreResult<()> {
        self.open = None;
        Ok(())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> StoreResult<()> {
        let (database, records) = self.opened()?;
        records.insert(key, value)?;
        Ok(database.persist(PersistMode::SyncData)?)
    }

    fn get(&mut self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> StoreResult<()> {
        if let Some(value) = self.opened()?.1.get(key)? {
            read(&value);
        }
        Ok(())
    }

    fn scan(
        &mut self,
        start: &[u8],
        limit: u64,
        read: &mut dyn FnMut(&[u8], &[u8]),
    ) -> StoreResult<()> {
        for pair in self.opened()?.1.range(start..).take(limit as usize) {
            let (key, value) = pair.into_inner()?;
            read(&key, &value);
        }
        Ok(())
    }
}

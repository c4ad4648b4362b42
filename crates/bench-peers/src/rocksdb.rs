//! RocksDB: a log-structured merge tree.

use std::path::Path;

use halite_bench::{Store, StoreResult};
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, Direction, IteratorMode, Options, WriteOptions,
};

use crate::CACHE_BYTES;

/// RocksDB, its write-ahead log synced by each put.
pub(crate) struct RocksDb {
    open: Option<DB>,
    synced: WriteOptions,
}

impl Default for RocksDb {
    fn default() -> Self {
        let mut synced = WriteOptions::default();
        synced.set_sync(true);
        Self { open: None, synced }
    }
}

impl RocksDb {
    fn opened(&self) -> StoreResult<&DB> {
        self.open.as_ref().ok_or_else(|| "the store is closed".into())
    }
}

impl Store for RocksDb {
    fn name(&self) -> &str {
        "rocksdb"
    }

    fn durability(&self) -> String {
        "each put with WriteOptions::sync: fdatasync of the write-ahead log".to_owned()
    }

    fn open(&mut self, folder: &Path) -> StoreResult<()> {
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(&Cache::new_lru_cache(CACHE_BYTES)?);
        table.set_bloom_filter(10.0, false);
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_compression_type(DBCompressionType::None);
        options.set_block_based_table_factory(&table);
        self.open = Some(DB::open(&options, folder)?);
        Ok(())
    }

    fn close(&mut self) -> StoreResult<()> {
        self.open = None;
        Ok(())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> StoreResult<()> {
        Ok(self.opened()?.put_opt(key, value, &self.synced)?)
    }

    fn get(&mut self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> StoreResult<()> {
        if let Some(value) = self.opened()?.get_pinned(key)? {
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
        let from = IteratorMode::From(start, Direction::Forward);
        for pair in self.opened()?.iterator(from).take(limit as usize) {
            let (key, value) = pair?;
            read(&key, &value);
        }
        Ok(())
    }
}

//! RocksDB: a log-structured merge tree.

use std::path::Path;

use halite_bench::kv::{Memory, Pair, Session, Store, StoreResult};
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, Direction, IteratorMode, Options, WriteBatch,
    WriteOptions,
};

use crate::CACHE_BYTES;

/// RocksDB, its write-ahead log synced by each put.
pub(crate) struct RocksDb {
    open: Option<DB>,
    memory: Memory,
}

/// As much memory as RocksDB takes for writes by itself, and as all peers have to cache.
pub(crate) const MEMORY: Memory = Memory { write_buffer: 64 << 20, cache: CACHE_BYTES as u64 };

impl Default for RocksDb {
    fn default() -> Self {
        Self { open: None, memory: MEMORY }
    }
}

/// Opens it as it is measured, embedded or behind a server.
pub(crate) fn opened(folder: &Path, memory: Memory) -> Result<DB, rocksdb::Error> {
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&Cache::new_lru_cache(memory.cache as usize)?);
    table.set_bloom_filter(10.0, false);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_write_buffer_size(memory.write_buffer as usize);
    options.set_compression_type(DBCompressionType::None);
    options.set_block_based_table_factory(&table);
    DB::open(&options, folder)
}

impl Store for RocksDb {
    fn name(&self) -> &str {
        "rocksdb"
    }

    fn durability(&self) -> String {
        "each put with WriteOptions::sync: fdatasync of the write-ahead log".to_owned()
    }

    fn open(&mut self, folder: &Path) -> StoreResult<()> {
        self.open = Some(opened(folder, self.memory)?);
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
        let database = self.open.as_ref().ok_or("the store is closed")?;
        let mut synced = WriteOptions::default();
        synced.set_sync(true);
        Ok(Box::new(RocksDbSession { database, synced }))
    }
}

struct RocksDbSession<'a> {
    database: &'a DB,
    synced: WriteOptions,
}

impl Session for RocksDbSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> StoreResult<()> {
        Ok(self.database.put_opt(key, value, &self.synced)?)
    }

    fn put_all(&mut self, pairs: &[Pair]) -> StoreResult<()> {
        let mut batch = WriteBatch::default();
        pairs.iter().for_each(|(key, value)| batch.put(key, value));
        Ok(self.database.write_opt(batch, &self.synced)?)
    }

    fn get(&mut self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> StoreResult<()> {
        if let Some(value) = self.database.get_pinned(key)? {
            read(&value);
        }
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> StoreResult<()> {
        Ok(self.database.delete_opt(key, &self.synced)?)
    }

    fn scan(
        &mut self,
        start: &[u8],
        limit: u64,
        read: &mut dyn FnMut(&[u8], &[u8]),
    ) -> StoreResult<()> {
        let from = IteratorMode::From(start, Direction::Forward);
        for pair in self.database.iterator(from).take(limit as usize) {
            let (key, value) = pair?;
            read(&key, &value);
        }
        Ok(())
    }
}

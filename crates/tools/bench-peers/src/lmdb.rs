//! LMDB, by way of heed: a copy-on-write B+tree in a memory map.

use std::ops::Bound;
use std::path::Path;

use halite_bench::kv::{Pair, Session, Store, StoreResult};
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvOpenOptions};

/// Bytes of the map: address space, not memory.
const MAP_BYTES: usize = 64 << 30;

/// LMDB with a transaction for each put, and one for each get, which then reads the present.
#[derive(Default)]
pub(crate) struct Lmdb {
    open: Option<(Env, Database<'static, Bytes, Bytes>)>,
}

impl Store for Lmdb {
    fn name(&self) -> &str {
        "lmdb"
    }

    fn durability(&self) -> String {
        "each put its own transaction, committed with LMDB's default of fdatasync".to_owned()
    }

    fn open(&mut self, folder: &Path) -> StoreResult<()> {
        std::fs::create_dir_all(folder)?;
        #[expect(unsafe_code, reason = "a map of a file is only sound if nobody else changes it")]
        // SAFETY: the folder is this run's own; no other process or handle has it open.
        let env = unsafe { EnvOpenOptions::new().map_size(MAP_BYTES).open(folder)? };
        let transaction = env.write_txn()?;
        let records = env
            .create_databases_and_commit(transaction, |opener, transaction| {
                let created = opener.create_database::<Bytes, Bytes>(transaction, None);
                created.map(CommitOrAbort::<_, ()>::Commit)
            })?
            .unwrap_commit();
        self.open = Some((env, records));
        Ok(())
    }

    fn close(&mut self) -> StoreResult<()> {
        if let Some((env, _)) = self.open.take() {
            env.prepare_for_closing().wait();
        }
        Ok(())
    }

    fn session(&self) -> StoreResult<Box<dyn Session + '_>> {
        let (env, records) = self.open.as_ref().ok_or("the store is closed")?;
        Ok(Box::new(LmdbSession { env, records }))
    }
}

struct LmdbSession<'a> {
    env: &'a Env,
    records: &'a Database<'static, Bytes, Bytes>,
}

impl Session for LmdbSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> StoreResult<()> {
        let mut transaction = self.env.write_txn()?;
        self.records.put(&mut transaction, key, value)?;
        Ok(transaction.commit()?)
    }

    fn put_all(&mut self, pairs: &[Pair]) -> StoreResult<()> {
        let mut transaction = self.env.write_txn()?;
        for (key, value) in pairs {
            self.records.put(&mut transaction, key, value)?;
        }
        Ok(transaction.commit()?)
    }

    fn get(&mut self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> StoreResult<()> {
        let transaction = self.env.read_txn()?;
        if let Some(value) = self.records.get(&transaction, key)? {
            read(value);
        }
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> StoreResult<()> {
        let mut transaction = self.env.write_txn()?;
        self.records.delete(&mut transaction, key)?;
        Ok(transaction.commit()?)
    }

    fn scan(
        &mut self,
        start: &[u8],
        limit: u64,
        read: &mut dyn FnMut(&[u8], &[u8]),
    ) -> StoreResult<()> {
        let transaction = self.env.read_txn()?;
        let range = (Bound::Included(start), Bound::Unbounded);
        for pair in self.records.range(&transaction, &range)?.take(limit as usize) {
            let (key, value) = pair?;
            read(key, value);
        }
        Ok(())
    }
}

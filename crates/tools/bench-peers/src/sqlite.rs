//! `SQLite`, by way of rusqlite: a B-tree with a write-ahead log.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use halite_bench::kv::{Session, Store, StoreResult};
use rusqlite::{Connection, OptionalExtension, params};

use crate::CACHE_BYTES;

/// How long a writer waits for others.
const PATIENCE: Duration = Duration::from_secs(60);

/// `SQLite` with a connection for each thread, and a transaction for each put.
#[derive(Default)]
pub(crate) struct Sqlite {
    path: Option<PathBuf>,
    /// A connection that stays: `SQLite` copies the log into the table when the last one is closed.
    open: Option<Mutex<Connection>>,
}

impl Store for Sqlite {
    fn name(&self) -> &str {
        "sqlite"
    }

    fn durability(&self) -> String {
        "each put its own transaction, journal_mode=WAL and synchronous=FULL: fsync of the log"
            .to_owned()
    }

    fn open(&mut self, folder: &Path) -> StoreResult<()> {
        std::fs::create_dir_all(folder)?;
        let path = folder.join("sqlite");
        let connection = connect(&path)?;
        connection.execute_batch(
            "CREATE TABLE IF NOT EXISTS records (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID",
        )?;
        (self.path, self.open) = (Some(path), Some(connection.into()));
        Ok(())
    }

    fn close(&mut self) -> StoreResult<()> {
        self.path = None;
        if let Some(connection) = self.open.take() {
            let connection = connection.into_inner().map_err(|_| "a thread panicked")?;
            connection.close().map_err(|(_, error)| error)?;
        }
        Ok(())
    }

    fn session(&self) -> StoreResult<Box<dyn Session + '_>> {
        Ok(Box::new(SqliteSession(connect(self.path.as_ref().ok_or("the store is closed")?)?)))
    }
}

pub(crate) fn connect(path: &Path) -> StoreResult<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(PATIENCE)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    // A negative number is of KiB.
    connection.pragma_update(None, "cache_size", -((CACHE_BYTES >> 10) as i64))?;
    connection.pragma_update(None, "mmap_size", CACHE_BYTES as i64)?;
    Ok(connection)
}

struct SqliteSession(Connection);

impl Session for SqliteSession {
    fn put(&mut self, key: &[u8], value: &[u8]) -> StoreResult<()> {
        let mut statement =
            self.0.prepare_cached("INSERT OR REPLACE INTO records (key, value) VALUES (?1, ?2)")?;
        statement.execute(params![key, value])?;
        Ok(())
    }

    fn get(&mut self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> StoreResult<()> {
        let mut statement = self.0.prepare_cached("SELECT value FROM records WHERE key = ?1")?;
        let found = statement.query_row([key], |row| {
            read(row.get_ref(0)?.as_blob()?);
            Ok(())
        });
        found.optional()?;
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> StoreResult<()> {
        self.0.prepare_cached("DELETE FROM records WHERE key = ?1")?.execute([key])?;
        Ok(())
    }

    fn scan(
        &mut self,
        start: &[u8],
        limit: u64,
        read: &mut dyn FnMut(&[u8], &[u8]),
    ) -> StoreResult<()> {
        let mut statement = self.0.prepare_cached(
            "SELECT key, value FROM records WHERE key >= ?1 ORDER BY key LIMIT ?2",
        )?;
        let mut rows = statement.query(params![start, limit as i64])?;
        while let Some(row) = rows.next()? {
            read(row.get_ref(0)?.as_blob()?, row.get_ref(1)?.as_blob()?);
        }
        Ok(())
    }
}

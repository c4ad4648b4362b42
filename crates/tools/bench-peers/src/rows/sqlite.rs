//! Rows in `SQLite`.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use halite_contract::{Direction, Durability};
use halite_table::{KeyRange, TableSchema};
use halite_workload::store::keyed::{Keyed, Pairs, Tables, VisitPair};
use halite_workload::store::{Body, Ended, Homes, Outcome, Store};
use halite_workload::{Error, Result};
use rusqlite::{Connection, ErrorCode, OptionalExtension, params};

use super::failed;

/// `SQLite` with a connection for each thread that runs a transaction.
pub(crate) struct SqliteRows {
    path: PathBuf,
    tables: Tables,
    durability: Durability,
    idle: Mutex<Vec<Connection>>,
}

impl SqliteRows {
    /// The tables, created where they are missing.
    pub(crate) fn open(
        folder: &Path,
        schemas: &[TableSchema],
        durability: Durability,
    ) -> Result<Self> {
        let tables = Tables::new(schemas);
        let path = folder.join("sqlite");
        let connection = connect(&path, durability)?;
        for space in 0..tables.names().len() {
            let create = format!(
                "CREATE TABLE IF NOT EXISTS s{space} (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID"
            );
            connection.execute_batch(&create).map_err(failed)?;
        }
        Ok(Self { path, tables, durability, idle: Mutex::new(vec![connection]) })
    }

    fn run_once(
        &self,
        connection: &Connection,
        begin: &str,
        body: &mut Body<'_>,
    ) -> Result<Outcome> {
        connection.prepare_cached(begin).and_then(|mut begin| begin.execute([])).map_err(failed)?;
        let mut transaction = Keyed { tables: &self.tables, pairs: SqlitePairs(connection) };
        let done = body(&mut transaction);
        let end = if matches!(done, Ok(Outcome::Commit)) { "COMMIT" } else { "ROLLBACK" };
        let ended = connection.prepare_cached(end).and_then(|mut end| end.execute([]));
        let outcome = done?;
        ended.map_err(failed)?;
        Ok(outcome)
    }
}

fn connect(path: &Path, durability: Durability) -> Result<Connection> {
    let connection = crate::sqlite::connect(path).map_err(|error| Error::Store(error))?;
    if durability == Durability::Deferred {
        connection.pragma_update(None, "synchronous", "OFF").map_err(failed)?;
    }
    connection.set_prepared_statement_cache_capacity(256);
    Ok(connection)
}

/// Whether another writer was in the way of a transaction that began as a reader.
fn is_busy(error: &Error) -> bool {
    let Error::Store(error) = error else { return false };
    let code = error.downcast_ref::<rusqlite::Error>().and_then(rusqlite::Error::sqlite_error_code);
    code == Some(ErrorCode::DatabaseBusy)
}

impl Store for SqliteRows {
    fn run(&self, _homes: Homes<'_>, body: &mut Body<'_>) -> Result<Ended> {
        let idle = || self.idle.lock().unwrap_or_else(|held| held.into_inner());
        let connection = match idle().pop() {
            Some(connection) => connection,
            None => connect(&self.path, self.durability)?,
        };
        let mut retries = 0;
        let outcome = self.run_once(&connection, "BEGIN DEFERRED", body).or_else(|error| {
            if !is_busy(&error) {
                return Err(error);
            }
            retries = 1;
            self.run_once(&connection, "BEGIN IMMEDIATE", body)
        });
        idle().push(connection);
        Ok(Ended { outcome: outcome?, retries })
    }
}

struct SqlitePairs<'a>(&'a Connection);

impl Pairs for SqlitePairs<'_> {
    type Value = Vec<u8>;

    fn get(&self, space: usize, key: &[u8], _for_update: bool) -> Result<Option<Vec<u8>>> {
        let sql = format!("SELECT value FROM s{space} WHERE key = ?1");
        let mut statement = self.0.prepare_cached(&sql).map_err(failed)?;
        statement.query_row([key], |row| row.get(0)).optional().map_err(failed)
    }

    fn put(&mut self, space: usize, key: &[u8], value: &[u8]) -> Result<()> {
        let sql = format!("INSERT OR REPLACE INTO s{space} (key, value) VALUES (?1, ?2)");
        let mut statement = self.0.prepare_cached(&sql).map_err(failed)?;
        statement.execute(params![key, value]).map(drop).map_err(failed)
    }

    fn delete(&mut self, space: usize, key: &[u8]) -> Result<()> {
        let sql = format!("DELETE FROM s{space} WHERE key = ?1");
        let mut statement = self.0.prepare_cached(&sql).map_err(failed)?;
        statement.execute([key]).map(drop).map_err(failed)
    }

    fn scan(
        &self,
        space: usize,
        range: KeyRange,
        direction: Direction,
        visit: &mut VisitPair<'_>,
    ) -> Result<()> {
        let below = if range.to.is_some() { "AND key < ?2" } else { "AND ?2 IS NULL" };
        let order = if direction == Direction::Forward { "ASC" } else { "DESC" };
        let sql =
            format!("SELECT key, value FROM s{space} WHERE key >= ?1 {below} ORDER BY key {order}");
        let mut statement = self.0.prepare_cached(&sql).map_err(failed)?;
        let mut rows = statement.query(params![range.from, range.to]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let blob = |column| row.get_ref(column).map_err(failed)?.as_blob().map_err(failed);
            if visit(blob(0)?, blob(1)?)?.is_break() {
                break;
            }
        }
        Ok(())
    }
}

//! The tables of TPC-C in a database.

use std::path::Path;

use halite::Database;
use halite_workload::Error as Failure;
use halite_workload::store::{KvOptions, KvStore};
use halite_workload::tpcc::schema::{LOAD, schemas};

use crate::folder::in_database;
use crate::{Error, Result};

/// Threads that a load or a run can have.
pub(super) const THREADS_MAX: i64 = 4096;

/// The tables that are in a database.
pub(super) fn open(db: &Database) -> Result<KvStore> {
    let opened = KvStore::open(db, schemas(), KvOptions::default());
    opened.map_err(|error| in_tables(db.path(), error))
}

/// The tables in a database, created where they are missing. Key spaces that have the name of a table and are not of
/// TPC-C are left alone.
pub(super) fn create(db: &Database) -> Result<KvStore> {
    let failed = |error| in_database(db.path(), error);
    let find = |name: &str| db.find_key_space(name).map_err(failed);
    if find(schemas()[LOAD].name())?.is_none() {
        for table in schemas() {
            if let Some(space) = find(table.name())?
                && !space.is_empty().map_err(failed)?
            {
                let name = space.name();
                let why = format!(
                    "the key space `{name}` has records that are not of TPC-C; name another database"
                );
                return Err(Error::input(db.path().display(), why));
            }
        }
    }
    let created = KvStore::create(db, schemas(), KvOptions::default());
    created.map_err(|error| in_tables(db.path(), error))
}

/// An error of the workload on the database in `path`.
pub(super) fn in_tables(path: &Path, error: Failure) -> Error {
    match error {
        Failure::Store(source) => match source.downcast::<halite::Error>() {
            Ok(source) => in_database(path, *source),
            Err(source) => Error::input(path.display(), source),
        },
        other => Error::input(path.display(), other),
    }
}

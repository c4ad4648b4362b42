//! The tables of TPC-C: those of a testbed, or the key spaces of a database of another engine.
//!
//! A folder has one or the other, as its pool says. In a store of the testbed a warehouse is in the partition of its number,
//! and each partition has a copy of ITEM.

use std::path::Path;
use std::sync::Arc;

use halite::{Database, Domain, Durability, Partitioning, make_folder};
use halite_table::{Error as TableError, Kind, TableSchema, Testbed};
use halite_workload::Error as Failure;
use halite_workload::store::{KvOptions, KvStore, Store, TestbedStore};
use halite_workload::tpcc::schema::{LOAD, schemas};

use crate::commands::table::{in_store, options};
use crate::engine::EngineArgs;
use crate::folder::{self, check_exists, check_folder, in_database};
use crate::{Error, Result};

/// Threads that a load or a run can have.
pub(super) const THREADS_MAX: i64 = 4096;

/// The tables of TPC-C in an open store.
pub(super) struct Tables {
    pub(super) store: Box<dyn Store>,
    /// The name of the engine that keeps them.
    pub(super) engine: String,
    pub(super) domain: Domain,
    /// The partitions of a store of the testbed.
    pub(super) partitions: Option<usize>,
}

impl Tables {
    /// The tables that are in a folder's store; nothing is written.
    pub(super) fn open(path: &Path) -> Result<Self> {
        check_exists(path)?;
        match testbed(path, None, None, false)? {
            Some(testbed) => Self::of_testbed(path, testbed, TestbedStore::open),
            None => {
                let db = folder::open(path)?;
                Self::of_database(&db, KvStore::open(&db, schemas(), KvOptions::default()))
            }
        }
    }

    /// The tables in a folder's store, made where they are missing, as the store is. What has the name of a table and is
    /// not of TPC-C is left alone.
    pub(super) fn create(
        path: &Path,
        engine: &EngineArgs,
        partitions: Option<usize>,
    ) -> Result<Self> {
        check_folder(path)?;
        let is_new = !Database::exists(path);
        let kind = engine.method();
        if let Some(kind) = kind {
            engine.check_levels(kind.engine())?;
            if is_new {
                make_folder(path).map_err(|error| in_database(path, error))?;
            }
        }
        let may_be_testbed = if engine.is_named() { kind.is_some() } else { !is_new };
        let found = match may_be_testbed {
            true => testbed(path, kind, partitions, is_new)?,
            false => None,
        };
        if let Some(testbed) = found {
            engine.check_levels(testbed.kind().engine())?;
            check_testbed(path, &testbed)?;
            return Self::of_testbed(path, testbed, TestbedStore::create);
        }
        if partitions.is_some() {
            let why = "--partitions: only a store of an engine table:METHOD has them; leave it out, or give --engine";
            return Err(Error::Usage(why.to_owned()));
        }
        let db = engine.open_or_create(Database::builder(), path, None)?;
        check_database(&db)?;
        Self::of_database(&db, KvStore::create(&db, schemas(), KvOptions::default()))
    }

    fn of_testbed(
        path: &Path,
        testbed: Testbed,
        open: impl FnOnce(
            Arc<Testbed>,
            &[TableSchema],
            Durability,
        ) -> halite_workload::Result<TestbedStore>,
    ) -> Result<Self> {
        let (engine, domain) = (testbed.kind().engine().to_owned(), testbed.pool().domain());
        let partitions = Some(testbed.partitions());
        let opened = open(Arc::new(testbed), schemas(), Durability::Immediate);
        let store = Box::new(opened.map_err(|error| in_tables(path, error))?);
        Ok(Self { store, engine, domain, partitions })
    }

    fn of_database(db: &Database, opened: halite_workload::Result<KvStore>) -> Result<Self> {
        let store = Box::new(opened.map_err(|error| in_tables(db.path(), error))?);
        Ok(Self {
            store,
            engine: db.engine_name().to_owned(),
            domain: db.domain(),
            partitions: None,
        })
    }
}

/// The testbed in a folder, or a new one of a method; `None` if another engine made what is there.
fn testbed(
    path: &Path,
    kind: Option<Kind>,
    partitions: Option<usize>,
    create: bool,
) -> Result<Option<Testbed>> {
    let mut options = options(path, create);
    options.partitioning = partitions.map(Partitioning::Hash);
    match Testbed::open(kind, &options) {
        Ok(testbed) => Ok(Some(testbed)),
        // The database says what is wrong, if something is.
        Err(TableError::OtherMethod { .. } | TableError::NoStore { .. }) if kind.is_none() => {
            Ok(None)
        }
        Err(error) => Err(in_store(path, error)),
    }
}

/// Refuses a testbed with a table that has the name of one of TPC-C and is another.
fn check_testbed(path: &Path, testbed: &Testbed) -> Result<()> {
    let catalog = testbed.catalog();
    let is_other = |schema: &&TableSchema| {
        catalog.table(schema.name()).is_ok_and(|table| **table.schema() != **schema)
    };
    match schemas().iter().find(is_other) {
        None => Ok(()),
        Some(schema) => {
            let name = schema.name();
            let why = format!("the table `{name}` is not that of TPC-C; name another store");
            Err(Error::input(path.display(), why))
        }
    }
}

/// Refuses a database with a key space that has the name of a table of TPC-C, and other records.
fn check_database(db: &Database) -> Result<()> {
    let failed = |error| in_database(db.path(), error);
    let find = |name: &str| db.find_key_space(name).map_err(failed);
    if find(schemas()[LOAD].name())?.is_some() {
        return Ok(());
    }
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
    Ok(())
}

/// An error of the workload on the store in `path`.
pub(super) fn in_tables(path: &Path, error: Failure) -> Error {
    match error {
        Failure::Rows(source) => in_store(path, source),
        Failure::Store(source) => match source.downcast::<halite::Error>() {
            Ok(source) => in_database(path, *source),
            Err(source) => Error::input(path.display(), source),
        },
        other => Error::input(path.display(), other),
    }
}

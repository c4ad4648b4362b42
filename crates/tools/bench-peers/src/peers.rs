//! The peers that this program is built with.

use std::path::Path;

use halite_bench::kv::Store;
use halite_bench::lsm::index;
use halite_bench::{Contender, Error, Params, Peers, Result, RunOptions};
use halite_contract::Durability;
use halite_table::TableSchema;
use halite_workload::store::Store as RowStore;

use crate::rows::{LmdbRows, SqliteRows};

/// All of them.
pub(crate) struct BuiltIn;

const NAMES: &[&str] = &[
    "congee",
    "crossbeam-skiplist",
    "fjall",
    "lmdb",
    "raw-buffered",
    "raw-direct",
    "redb",
    #[cfg(feature = "rocksdb")]
    "rocksdb",
    "sqlite",
    #[cfg(feature = "pmdk")]
    "libpmemlog",
    #[cfg(feature = "pmdk")]
    "libpmemblk",
    #[cfg(feature = "pmdk")]
    "libpmemobj",
];

impl Peers for BuiltIn {
    fn names(&self) -> &[&str] {
        NAMES
    }

    fn store(&self, name: &str) -> Option<Box<dyn Store>> {
        Some(match name {
            "crossbeam-skiplist" => Box::new(crate::skiplist::Skiplist::default()),
            "fjall" => Box::new(crate::fjall::Fjall::default()),
            "lmdb" => Box::new(crate::lmdb::Lmdb::default()),
            "raw-buffered" => Box::new(crate::raw::Raw::new(false)),
            "raw-direct" => Box::new(crate::raw::Raw::new(true)),
            "redb" => Box::new(crate::redb::Redb::default()),
            #[cfg(feature = "rocksdb")]
            "rocksdb" => Box::new(crate::rocksdb::RocksDb::default()),
            "sqlite" => Box::new(crate::sqlite::Sqlite::default()),
            _ => return None,
        })
    }

    fn rows(
        &self,
        name: &str,
        schemas: &[TableSchema],
        folder: &Path,
        durability: Durability,
    ) -> Option<Result<Box<dyn RowStore>>> {
        let opened = match name {
            "lmdb" => LmdbRows::open(folder, schemas, durability).map(|store| Box::new(store) as _),
            "sqlite" => {
                SqliteRows::open(folder, schemas, durability).map(|store| Box::new(store) as _)
            }
            _ => return None,
        };
        Some(opened.map_err(|error| Error::Store {
            store: name.to_owned(),
            action: "open",
            source: error.into(),
        }))
    }

    fn contenders(
        &self,
        experiment: &str,
        params: &Params,
        options: &RunOptions,
    ) -> Result<Vec<Contender<'_>>> {
        if experiment == index::NAME {
            return Ok(crate::indexes::contenders(params));
        }
        Ok(of_libraries(experiment, params, options))
    }
}

#[cfg(feature = "pmdk")]
use crate::pmdk::contenders as of_libraries;

#[cfg(not(feature = "pmdk"))]
fn of_libraries(_: &str, _: &Params, _: &RunOptions) -> Vec<Contender<'static>> {
    Vec::new()
}

//! The peers that this program is built with.

use halite_bench::kv::Store;
use halite_bench::{Contender, Params, Peers, Result, RunOptions};

/// All of them.
pub(crate) struct BuiltIn;

const NAMES: &[&str] = &[
    "fjall",
    "lmdb",
    "redb",
    #[cfg(feature = "rocksdb")]
    "rocksdb",
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
            "fjall" => Box::new(crate::fjall::Fjall::default()),
            "lmdb" => Box::new(crate::lmdb::Lmdb::default()),
            "redb" => Box::new(crate::redb::Redb::default()),
            #[cfg(feature = "rocksdb")]
            "rocksdb" => Box::new(crate::rocksdb::RocksDb::default()),
            _ => return None,
        })
    }

    #[cfg(feature = "pmdk")]
    fn contenders(
        &self,
        experiment: &str,
        params: &Params,
        options: &RunOptions,
    ) -> Result<Vec<Contender<'_>>> {
        Ok(crate::pmdk::contenders(experiment, params, options))
    }

    #[cfg(not(feature = "pmdk"))]
    fn contenders(&self, _: &str, _: &Params, _: &RunOptions) -> Result<Vec<Contender<'_>>> {
        Ok(Vec::new())
    }
}

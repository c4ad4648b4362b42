//! Options that every engine understands.

use std::path::PathBuf;

use halite_pmem::PoolOptions;

/// How an engine opens or creates its store.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// The pool's file.
    pub pool: PathBuf,
    /// How the pool is created, opened and grown.
    pub pool_options: PoolOptions,
    /// Whether to create the store if it does not exist.
    pub create: bool,
}

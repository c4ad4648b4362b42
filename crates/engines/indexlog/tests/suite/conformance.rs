//! The contract of every engine, kept by this one.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use halite_contract::conformance::Factory;
use halite_contract::{Engine, EngineOptions, Partitioning, Result};
use halite_indexlog::{IndexKind, IndexLog, IndexLogOptions};
use halite_pmem::PoolOptions;

/// Partitions, an index, and the bytes of the change log to retain.
struct IndexLogs(fn() -> Partitioning, IndexKind, Option<u64>);

thread_local! {
    /// The pool that was opened last.
    static POOL: RefCell<PathBuf> = RefCell::default();
}

impl Factory for IndexLogs {
    fn open(&self, folder: &Path, pool_bytes_max: u64) -> Result<Arc<dyn Engine>> {
        let pool = folder.join("pool");
        POOL.replace(pool.clone());
        let mut pool_options = PoolOptions::default();
        pool_options.size_max = pool_bytes_max;
        let partitioning = Some(self.0());
        let (index, change_log) = (self.1, self.2);
        // A store that is accessed while it recovers has to behave like any other.
        let on_demand = change_log.is_some() || index == IndexKind::Hash;
        let options = EngineOptions {
            pool_options,
            partitioning,
            change_log,
            on_demand,
            own: IndexLogOptions { index, ..IndexLogOptions::default() }.into(),
            ..EngineOptions::new(pool)
        };
        Ok(Arc::new(IndexLog::open(&options)?))
    }

    /// Leaves the pool's file as it is now, as a killed process does.
    fn crash(&self, engine: Arc<dyn Engine>) {
        POOL.with_borrow(|pool| {
            let image = pool.with_extension("image");
            fs::copy(pool, &image).expect("room for an image");
            drop(engine);
            fs::rename(&image, pool).expect("the image takes the pool's place");
        });
    }
}

const ORDERED: IndexKind = IndexKind::Ordered { key_bytes: 8 };

mod one_partition {
    halite_contract::conformance!(super::IndexLogs(
        || super::Partitioning::Hash(1),
        super::ORDERED,
        None
    ));
}

mod by_hash {
    halite_contract::conformance!(super::IndexLogs(
        || super::Partitioning::Hash(3),
        super::ORDERED,
        None
    ));
}

/// Stores without a file.
struct InMemory;

impl Factory for InMemory {
    fn open(&self, _: &Path, pool_bytes_max: u64) -> Result<Arc<dyn Engine>> {
        let mut pool_options = PoolOptions::default();
        pool_options.size_max = pool_bytes_max;
        pool_options.in_memory = true;
        let partitioning = Some(Partitioning::Hash(2));
        let options = EngineOptions { pool_options, partitioning, ..EngineOptions::new("memory") };
        Ok(Arc::new(IndexLog::open(&options)?))
    }
}

mod in_memory {
    halite_contract::conformance!(super::InMemory; contract, space);
}

mod by_range {
    // Bounds among the keys that the suite uses most.
    halite_contract::conformance!(super::IndexLogs(
        || super::Partitioning::Ranges([&b"a"[..], b"b", b"k"].map(<[u8]>::to_vec).to_vec()),
        super::ORDERED,
        None
    ));
}

mod with_a_hash_index {
    use super::IndexKind;

    halite_contract::conformance!(super::IndexLogs(
        || super::Partitioning::Hash(2),
        IndexKind::Hash,
        None
    ));
}

mod with_two_bytes_of_a_key {
    use super::IndexKind;

    halite_contract::conformance!(super::IndexLogs(
        || super::Partitioning::Hash(1),
        IndexKind::Ordered { key_bytes: 2 },
        None
    ); contract);
}

mod with_change_log {
    halite_contract::conformance!(super::IndexLogs(
        || super::Partitioning::Hash(1),
        super::ORDERED,
        Some(1 << 20)
    ));
}

mod partitions_with_change_log {
    halite_contract::conformance!(super::IndexLogs(
        || super::Partitioning::Hash(2),
        super::ORDERED,
        Some(0)
    ));
}

//! The engine of one's own has the guarantees of each engine, by one line.

use std::path::Path;
use std::sync::Arc;

use halite_contract::conformance::Factory;
use halite_contract::{Engine, EngineOptions, Result};
use halite_own_engine::Toy;

struct Toys;

impl Factory for Toys {
    fn open(&self, folder: &Path, pool_bytes_max: u64) -> Result<Arc<dyn Engine>> {
        let mut options = EngineOptions::new(folder.join("pool"));
        options.pool_options.size_max = pool_bytes_max;
        Ok(Arc::new(Toy::open(&options)?))
    }
}

halite_contract::conformance!(Toys);

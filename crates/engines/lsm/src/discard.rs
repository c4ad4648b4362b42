//! Removes the files beside the pool of a store that is given up.

use halite_alloc::Segments;
use halite_contract::{EngineOptions, Result};

use crate::failure::from_levels;
use crate::layout;
use crate::levels;
use crate::open::disk;

/// Removes the levels and the log of the store in the pool that `options` name.
pub(crate) fn discard_levels(options: &EngineOptions) -> Result<()> {
    let options = &EngineOptions { create: false, ..options.clone() };
    // A process that has the store open holds the pool's lock.
    let home = Segments::open(&options.pool, &options.pool_options)?;
    layout::check(&home, options)?;
    let (disk, store_id) = (disk(options)?, u128::from_le_bytes(home.uuid()));
    levels::discard(&disk, store_id, || Ok(halite_wal::remove(&disk)?)).map_err(from_levels)
}

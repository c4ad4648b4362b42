//! The parts that all open runs of a pool share.

use std::sync::Arc;

use halite_cache::BlockCache;
use halite_codec::Seed;

use super::directories::Directories;
use crate::heat::Heat;
use crate::storage::Extents;

/// The storage of runs, as their readers see it.
pub(crate) struct RunStore {
    pub(crate) extents: Arc<dyn Extents>,
    /// Parts in DRAM, checked and decompressed.
    pub(crate) cache: Arc<BlockCache>,
    /// The directories in DRAM.
    pub(crate) directories: Directories,
    /// The seed of the pool.
    pub(crate) seed: Seed,
    /// How often runs and large values are used, if migration is on.
    pub(crate) heat: Option<Heat>,
}

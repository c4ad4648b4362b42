//! The pool that says what a store is: its roots and devices.
//!
//! ```text
//! root engine:betree   version of the formats
//! root betree:classes  1: the pool has data, as class 0; 2: the folder alone has it; if the folder has no other hint
//! root betree:generation  the newest superblock that was durable
//! root betree:session  the session that wrote it
//! root betree:made     1 when the store was made: until then, its files are made anew
//! root betree:clean    1 if the store was closed, and not opened since
//! root betree:repaired the generation whose log a repair has cut: its superblock knows of a later end
//! device 0             class 0, where the pool has data
//! device 1             the log, where the pool has data
//! ```

use halite_alloc::Segments;
use halite_codec::Seed;
use halite_contract::{EngineOptions, Result, other_engine};
use halite_wal::Identity;

/// The engine's name.
pub(crate) const NAME: &str = "betree";

/// The root that says which engine a pool belongs to; its value is the version of the formats.
const ROOT: &str = "engine:betree";

const VERSION: u64 = 2;

/// Whether the pool has data.
pub(crate) const CLASSES: &str = "betree:classes";

/// Whether the store was made.
pub(crate) const MADE: &str = "betree:made";

/// Whether the store was closed, and not opened since.
pub(crate) const CLEAN: &str = "betree:clean";

/// The newest superblock that was durable.
pub(crate) const GENERATION: &str = "betree:generation";

/// The generation whose log ends where its whole batches do, though its superblock may know of more: a repair has given
/// up the rest.
pub(crate) const REPAIRED: &str = "betree:repaired";

/// The largest sequence: they have 56 bits.
const SEQUENCE_MAX: u64 = (1 << 56) - 1;

/// Refuses a pool of another engine, or of another version.
pub(crate) fn check(home: &Segments, options: &EngineOptions) -> Result<()> {
    match home.root(ROOT) {
        Some(VERSION) => Ok(()),
        Some(found) => Err(halite_alloc::Error::FutureVersion {
            path: options.pool.clone(),
            found: u32::try_from(found).unwrap_or(u32::MAX),
            supported: VERSION as u32,
        }
        .into()),
        None => Err(other_engine(NAME, home)),
    }
}

/// Notes, durably, that a new pool is this engine's.
pub(crate) fn claim(home: &Segments, has_pool_class: bool) -> Result<()> {
    home.set_root(CLASSES, if has_pool_class { 1 } else { 2 })?;
    Ok(home.set_root(ROOT, VERSION)?)
}

/// The number of the pool.
pub(crate) fn pool_id(home: &Segments) -> u128 {
    u128::from_le_bytes(home.uuid())
}

/// Which log is the store's.
pub(crate) fn identity_of_log(home: &Segments) -> Identity {
    Identity { store_id: pool_id(home), sequence_max: SEQUENCE_MAX }
}

/// The seed of the pool's checksums.
pub(crate) fn seed_of_pool(home: &Segments) -> Seed {
    Seed::of_store(pool_id(home))
}

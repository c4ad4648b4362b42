//! Caches of blocks: a first tier in DRAM, and a second one behind it.
//!
//! A reader asks the [`BlockCache`] for the block at a [`Place`]. If DRAM does not have it, the cache looks it up in the
//! second tier, if there is one; if neither has it, the reader reads it, and the cache takes it in. Blocks that DRAM
//! evicts for it are offered to the second tier, and a block that is found there again and again comes back to DRAM.
//!
//! The second tier is a trait, [`SecondTier`]: look up, offer, forget. [`ZoneCache`] is one, in the zones that a pool of
//! persistent memory has free. It also holds rows, which an engine puts in and looks up by itself, or nothing but rows, in
//! a pool that has no other use.
//!
//! | a get finds the block | locks | copies of the block | calls by a vtable |
//! |---|---|---|---|
//! | in DRAM | a shard's, shared | none | none |
//! | in the second tier | the same, and the tier's: [`ZoneCache`] has none | one | one |
//! | nowhere | a shard's, exclusive | none, beside reading it | one to look it up, one to ask whether blocks are taken, one for each block that is evicted |
#![forbid(unsafe_code)]

mod block_cache;
mod error;
mod second_tier;
mod zone_cache;

pub use block_cache::BlockCache;
pub use error::{Error, Result};
pub use second_tier::{Found, Place, SecondTier, Ticket};
pub use zone_cache::{Kind, ZoneCache};

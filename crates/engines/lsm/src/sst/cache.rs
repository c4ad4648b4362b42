//! Blocks in memory: checked, decompressed, shared.
//!
//! `quick_cache` has shards with locks of their own and an eviction policy (S3-FIFO) that a scan does not wash out,
//! runs no threads, and lets one reader fetch a block that several miss. `moka` was the alternative; it evicts in
//! maintenance that its callers may outrun.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use halite_codec::{Plain, Seed};
use halite_sim::locks;
use quick_cache::sync::{Cache, GuardResult, PlaceholderGuard};
use quick_cache::{DefaultHashBuilder, Lifecycle, OptionsBuilder, Weighter};
use smallvec::SmallVec;

use super::Result;
use crate::zone_cache::{Found, Kind, ZoneCache};

/// A table's number, and an offset in it.
type Place = (u64, u64);

/// Hashes of blocks differ from those of rows.
const SECOND_SEED: Seed = Seed::new(u64::MAX);

/// Bytes of an entry of the cache beside the block.
const OVERHEAD: usize = 64;

#[derive(Clone)]
struct Bytes;

impl Weighter<Place, Plain> for Bytes {
    fn weight(&self, _: &Place, block: &Plain) -> u64 {
        (block.held_bytes() + OVERHEAD) as u64
    }
}

/// Blocks that had to go for another.
type Evicted = SmallVec<[(Place, Plain); 2]>;

/// Makes the cache return the blocks that it evicts, so that they are handled without its locks.
#[derive(Clone, Default)]
struct Tell;

impl Lifecycle<Place, Plain> for Tell {
    type RequestState = Evicted;

    fn on_evict(&self, evicted: &mut Evicted, key: Place, block: Plain) {
        evicted.push((key, block));
    }
}

type Guard<'a> = PlaceholderGuard<'a, Place, Plain, Bytes, DefaultHashBuilder, Tell>;

/// A block in the second cache.
fn in_second(second: &ZoneCache, place: Place) -> Option<Found<Plain>> {
    let (place, hash) = item_of(place);
    second.get(Kind::Block, hash, |item| item.strip_prefix(&place[..]).map(Plain::from))
}

fn to_second(second: &ZoneCache, place: Place, block: &Plain) {
    let (place, hash) = item_of(place);
    second.warm_up(hash, &[&place, block]);
}

/// The start of a block's item in the second cache, and its hash.
fn item_of((number, offset): Place) -> ([u8; 16], u64) {
    let mut item = [0; 16];
    item[..8].copy_from_slice(&number.to_le_bytes());
    item[8..].copy_from_slice(&offset.to_le_bytes());
    (item, SECOND_SEED.checksum(&item))
}

/// A cache of blocks for the tables of one store.
pub struct BlockCache {
    blocks: Cache<Place, Plain, Bytes, DefaultHashBuilder, Tell>,
    /// The cache in which blocks are sought before they are read, and to which they move from here while there is
    /// room.
    second: OnceLock<Arc<ZoneCache>>,
    reads: AtomicU64,
}

impl BlockCache {
    /// A cache of at most `bytes`, whose blocks are about `block_bytes` long.
    #[must_use]
    pub fn new(bytes: u64, block_bytes: usize) -> Self {
        let items = bytes / (block_bytes + OVERHEAD) as u64;
        // A shard has room for filters and other blocks that are longer than most.
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let shards = ((bytes >> 20) as usize).clamp(1, 4 * threads);
        let options = OptionsBuilder::new()
            .shards(shards)
            .estimated_items_capacity(items as usize)
            .weight_capacity(bytes)
            .build()
            .expect("both capacities are set");
        let blocks = Cache::with_options(options, Bytes, DefaultHashBuilder::default(), Tell);
        Self { blocks, second: OnceLock::new(), reads: AtomicU64::new(0) }
    }

    /// Lets blocks be sought in another cache before they are read, and moved there when they are evicted.
    pub(crate) fn set_second(&self, second: &Arc<ZoneCache>) {
        let _ = self.second.set(Arc::clone(second));
    }

    /// The block of a table at an offset, which `read` reads if it is not here.
    pub(crate) fn get(
        &self,
        number: u64,
        offset: u64,
        read: impl FnOnce() -> Result<Plain>,
    ) -> Result<Plain> {
        let key = (number, offset);
        // A thread that finds that another reads the block waits for that one, which may be simulated on the same
        // thread.
        if let Some(block) = self.blocks.get(&key) {
            return Ok(block);
        }
        if let Some(found) = self.second.get().and_then(|second| in_second(second, key)) {
            if found.was_read {
                // The block is asked for again and again: from now on without a copy.
                self.insert(None, key, &found.item);
            }
            return Ok(found.item);
        }
        let mut guard = None;
        if !locks::is_scheduled() {
            match self.blocks.get_value_or_guard(&key, None) {
                GuardResult::Value(block) => return Ok(block),
                GuardResult::Guard(alone) => guard = Some(alone),
                GuardResult::Timeout => {}
            }
        }
        self.reads.fetch_add(1, Ordering::Relaxed);
        let block = read()?;
        self.insert(guard, key, &block);
        Ok(block)
    }

    /// Takes a block in, by the guard of the thread that alone has read it, and moves evicted ones on.
    fn insert(&self, guard: Option<Guard<'_>>, key: Place, block: &Plain) {
        let mut evicted = Evicted::default();
        match guard {
            // Unless it was removed meanwhile.
            Some(guard) => drop(guard.insert_with_lifecycle(block.clone(), &mut evicted)),
            None => self.blocks.insert_with_lifecycle(key, block.clone(), &mut evicted),
        }
        if let Some(second) = self.second.get().filter(|second| !second.is_warm()) {
            evicted.into_iter().for_each(|(key, block)| to_second(second, key, &block));
        }
    }

    /// How many blocks had to be read.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Bytes that it holds.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.blocks.weight()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_stays_within_its_size_and_reads_a_block_once() {
        let cache = BlockCache::new(1 << 20, 4096);
        for number in 0..2000 {
            cache.get(number, 7, || Ok(Plain::from(&[1; 4096][..]))).unwrap();
        }
        assert_eq!(cache.reads(), 2000);
        assert!(cache.used_bytes() <= 1 << 20);
        cache.get(1999, 7, || panic!("it is here")).unwrap();
        cache.get(1999, 8, || Ok(Plain::from(&[][..]))).unwrap();
        assert_eq!(cache.reads(), 2001);
    }
}

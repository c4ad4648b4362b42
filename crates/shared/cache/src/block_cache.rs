//! Blocks in memory: checked, decompressed, shared.
//!
//! `quick_cache` has shards with locks of their own and an eviction policy (S3-FIFO) that a scan does not wash out,
//! runs no threads, and lets one reader fetch a block that several miss. `moka` was the alternative; it evicts in
//! maintenance that its callers may outrun.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use halite_codec::Plain;
use halite_sim::locks;
use quick_cache::sync::{Cache, GuardResult, PlaceholderGuard};
use quick_cache::{DefaultHashBuilder, Lifecycle, OptionsBuilder, Weighter};
use smallvec::SmallVec;

use crate::second_tier::{Place, SecondTier};

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

/// A cache of blocks for the files of one store.
pub struct BlockCache {
    blocks: Cache<Place, Plain, Bytes, DefaultHashBuilder, Tell>,
    /// The tier in which blocks are sought before they are read, and to which they move from here while it accepts them.
    second: OnceLock<Arc<dyn SecondTier>>,
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

    /// Lets blocks be sought in a second tier before they are read, and moved there when they are evicted. The first
    /// tier that is set stays.
    pub fn set_second(&self, second: Arc<dyn SecondTier>) {
        let _ = self.second.set(second);
    }

    /// The block at a place, which `read` reads if it is not here.
    ///
    /// # Errors
    /// The error of `read`.
    pub fn get<E>(
        &self,
        place: Place,
        read: impl FnOnce() -> Result<Plain, E>,
    ) -> Result<Plain, E> {
        // A thread that finds that another reads the block waits for that one, which may be simulated on the same
        // thread.
        if let Some(block) = self.blocks.get(&place) {
            return Ok(block);
        }
        if let Some(found) = self.second.get().and_then(|second| second.look_up(place)) {
            if found.was_read {
                // The block is asked for again and again: from now on without a copy.
                self.insert(None, place, &found.item);
            }
            return Ok(found.item);
        }
        let mut guard = None;
        if !locks::is_scheduled() {
            match self.blocks.get_value_or_guard(&place, None) {
                GuardResult::Value(block) => return Ok(block),
                GuardResult::Guard(alone) => guard = Some(alone),
                GuardResult::Timeout => {}
            }
        }
        self.reads.fetch_add(1, Ordering::Relaxed);
        let block = read()?;
        self.insert(guard, place, &block);
        Ok(block)
    }

    /// Whether it has the block at a place, not counting the second tier. It may have lost it when this returns.
    #[must_use]
    pub fn has(&self, place: Place) -> bool {
        self.blocks.peek(&place).is_some()
    }

    /// Takes a block in, by the guard of the thread that alone has read it, and moves evicted ones on.
    fn insert(&self, guard: Option<Guard<'_>>, place: Place, block: &Plain) {
        // A block that is forgotten from now on is not taken by the second tier.
        let accepted = self.second.get().and_then(|second| Some((second, second.accepts()?)));
        let mut evicted = Evicted::default();
        match guard {
            // Unless it was removed meanwhile.
            Some(guard) => drop(guard.insert_with_lifecycle(block.clone(), &mut evicted)),
            None => self.blocks.insert_with_lifecycle(place, block.clone(), &mut evicted),
        }
        if let Some((second, ticket)) = accepted {
            evicted.into_iter().for_each(|(place, block)| second.offer(place, &block, ticket));
        }
    }

    /// Forgets the block at a place, in both tiers, before another one is written there. The caller lets no thread get
    /// this block meanwhile; other threads may get others.
    pub fn forget(&self, place: Place) {
        // First here: a thread that evicts the block from here has its ticket by then.
        self.blocks.remove(&place);
        if let Some(second) = self.second.get() {
            second.forget(place);
        }
    }

    /// Lets it hold at most `bytes` from now on. Blocks that have to go do so at once, and not to the second tier.
    pub fn set_capacity(&self, bytes: u64) {
        let shards = self.blocks.num_shards() as u64;
        self.blocks.set_capacity(bytes / shards * shards);
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
    use std::collections::{HashMap, HashSet};
    use std::convert::Infallible;

    use parking_lot::Mutex;

    use super::*;
    use crate::{Found, Ticket};

    type Read = Result<Plain, Infallible>;

    fn place(file: u64, offset: u64) -> Place {
        Place { file, offset }
    }

    #[test]
    fn the_cache_stays_within_its_size_and_reads_a_block_once() {
        let cache = BlockCache::new(1 << 20, 4096);
        for file in 0..2000 {
            cache.get(place(file, 7), || Read::Ok(Plain::from(&[1; 4096][..]))).unwrap();
        }
        assert_eq!(cache.reads(), 2000);
        assert!(cache.used_bytes() <= 1 << 20);
        let panics = || -> Read { panic!("it is here") };
        cache.get(place(1999, 7), panics).unwrap();
        cache.get(place(1999, 8), || Read::Ok(Plain::from(&[][..]))).unwrap();
        assert_eq!(cache.reads(), 2001);
    }

    /// A second tier that has what it was offered.
    #[derive(Default)]
    struct Second(Mutex<(HashMap<Place, Plain>, HashSet<Place>)>);

    impl SecondTier for Second {
        fn look_up(&self, place: Place) -> Option<Found<Plain>> {
            let (blocks, read) = &mut *self.0.lock();
            let item = blocks.get(&place)?.clone();
            Some(Found { item, was_read: !read.insert(place) })
        }

        fn accepts(&self) -> Option<Ticket> {
            Some(Ticket(7))
        }

        fn offer(&self, place: Place, block: &Plain, ticket: Ticket) {
            assert_eq!(ticket.0, 7);
            self.0.lock().0.insert(place, block.clone());
        }

        fn forget(&self, place: Place) {
            self.0.lock().0.remove(&place);
        }
    }

    #[test]
    fn evicted_blocks_are_found_in_the_second_tier_until_they_are_forgotten() {
        let (cache, second) = (BlockCache::new(1 << 20, 4096), Arc::new(Second::default()));
        let tier: Arc<dyn SecondTier> = second.clone();
        cache.set_second(tier);
        let get = |file: u64| {
            let block =
                cache.get(place(file, 0), || Read::Ok(Plain::from(&[file as u8; 4096][..])));
            assert_eq!(block.unwrap()[..], [file as u8; 4096]);
        };
        (0..2000).for_each(get);
        assert!(second.0.lock().0.len() > 1000, "they were offered");
        (0..2000).for_each(get);
        assert_eq!(cache.reads(), 2000, "each is in one of the tiers");
        (0..3).for_each(|_| get(5));
        second.0.lock().0.remove(&place(5, 0));
        get(5);
        assert_eq!(cache.reads(), 2000, "it came back to the first tier");
        (0..2000).for_each(|file| cache.forget(place(file, 0)));
        assert_eq!((cache.used_bytes(), second.0.lock().0.len()), (0, 0));
        (0..2000).for_each(get);
        assert_eq!(cache.reads(), 4000);
    }
}

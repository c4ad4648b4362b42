//! A cache of byte strings in zones that the pool has free: volatile (Yan §3.4.3), and given back as room is wanted.
//!
//! An item is appended to the newest zone, and found by a set-associative table of words in DRAM: each points to a
//! line of a zone, and has some bits of the item's hash. A get reads a set, one line of DRAM, and the item. Where the
//! pool has no more zones to spare, the oldest zone goes, and those of its items that were read since are appended
//! again, up to half a zone of them (FIFO with reinsertion, the CLOCK of logs).
//!
//! As long as there is room, whole blocks are taken, so that the cache is soon full: [`ZoneCache::warm_up`]. Then
//! rows take their place ([`ZoneCache::insert`]), which hold only the pairs that were sought. A cache that takes
//! [rows only](ZoneCache::of_rows) has these from the beginning. A thread that would wait for another that appends does
//! not insert.
//!
//! A cached item must be true for as long as it is found, or be removed. A thread that removes changed items begins
//! with [`ZoneCache::begin_removals`]: an item that was read before, and is not cached yet, is not taken any more
//! ([`Ticket`]).

mod table;
mod zone;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use halite_alloc::{Device, SEGMENT, ScratchPool};
use halite_codec::{Plain, Seed};
use halite_pmem::LINE;
use halite_sim::locks::{self, Mutex};
use smallvec::SmallVec;

use crate::second_tier::{Found, Place, SecondTier, Ticket};
use crate::{Error, Result};
use table::{READ, Table, Word};
use zone::{Numbered, lines};

/// Bytes of a zone.
const ZONE: u64 = SEGMENT;

/// Zones for which a table is made at least.
const ZONES_MIN: u64 = 16;

/// How many times as large the next table is.
const GROWTH: u64 = 4;

/// Bytes of zones for which the table has a word, at least half of one: of blocks and rows, and of rows only.
const BYTES_PER_WORD: u64 = 512;
const BYTES_PER_ROW: u64 = 128;

/// Items that are fetched together: about as many as a core has cache misses under way.
const GROUP: usize = 16;

/// The longest item.
const ITEM_MAX: usize = 64 << 10;

/// Bytes of an old zone that may be appended again.
const REINSERTED_MAX: u64 = ZONE / 2;

/// The seed of the hashes of blocks, which differ from those of rows.
const BLOCKS: Seed = Seed::new(u64::MAX);

/// The kind of an item: a search for one kind finds no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// A block of a file, behind its place: as the [`SecondTier`] of a cache of blocks.
    Block = 1,
    /// A pair of key and value in the form of the engine that caches it.
    Row = 2,
}

/// A cache in a pool's free zones.
pub struct ZoneCache {
    memory: ScratchPool,
    /// Free zones that are left to other uses.
    others: u64,
    table: ArcSwap<Table>,
    bytes_per_word: u64,
    /// Held by the thread that appends.
    numbers: Mutex<Numbers>,
    /// How many zones there are.
    count: AtomicU64,
    removals: AtomicU64,
    takes_blocks: bool,
    /// Whether rows are taken: there was no room for another block once, or none is taken. From then on, an old item
    /// goes for a new one.
    is_warm: AtomicBool,
}

/// The zones that there are, the oldest first.
struct Numbers {
    there: VecDeque<u32>,
    last: u32,
    /// How many there may be.
    most: usize,
}

fn is_short(parts: &[&[u8]]) -> bool {
    parts.iter().map(|part| part.len()).sum::<usize>() <= ITEM_MAX
}

impl ZoneCache {
    /// A cache in the segments of `device`, which nothing else uses, of a pool that has so many bytes now. It leaves
    /// `spare` bytes free to others.
    ///
    /// # Errors
    /// [`Error::NoMemory`] if there is no memory for its table; [`Error::Alloc`].
    pub fn new(device: &Device, pool_bytes: u64, spare: u64) -> Result<Self> {
        Self::with(device, pool_bytes, spare.div_ceil(ZONE), true)
    }

    /// A cache of rows only, in all free segments of a pool, of so many bytes, that has no other use.
    ///
    /// # Errors
    /// As [`ZoneCache::new`].
    pub fn of_rows(device: &Device, pool_bytes: u64) -> Result<Self> {
        Self::with(device, pool_bytes, 0, false)
    }

    fn with(device: &Device, pool_bytes: u64, others: u64, takes_blocks: bool) -> Result<Self> {
        let bytes_per_word = if takes_blocks { BYTES_PER_WORD } else { BYTES_PER_ROW };
        let table = Table::new((pool_bytes / ZONE).max(ZONES_MIN), bytes_per_word);
        Ok(Self {
            memory: ScratchPool::new(device)?,
            others,
            table: ArcSwap::from_pointee(table.ok_or(Error::NoMemory { pool_bytes })?),
            bytes_per_word,
            numbers: Mutex::new(Numbers { there: VecDeque::new(), last: 0, most: usize::MAX }),
            count: AtomicU64::new(0),
            removals: AtomicU64::new(0),
            takes_blocks,
            is_warm: AtomicBool::new(!takes_blocks),
        })
    }

    /// To be had before the item that is to be cached is read.
    #[inline]
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        Ticket(self.removals.load(Ordering::Acquire))
    }

    /// The result of `read` for an item of this kind and hash; `read` returns `None` for another one's.
    #[inline]
    pub fn get<T>(
        &self,
        kind: Kind,
        hash: u64,
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> Option<Found<T>> {
        let table = self.table.load();
        for way in table.set(hash) {
            let word = Word(way.load(Ordering::Acquire));
            if !word.is_of(hash) {
                continue;
            }
            locks::point();
            let zone = table.slot(word.number()).load();
            let Some(zone) = zone.as_ref().filter(|zone| zone.number == word.number()) else {
                continue;
            };
            if let Some(item) = zone.item(word.line())
                && (item.hash, item.kind) == (hash, kind as u32)
                && let Some(found) = read(item.bytes)
            {
                let was_read = word.was_read();
                if !was_read {
                    let (now, read) = (word.0, word.0 | READ);
                    let _ = way.compare_exchange(now, read, Ordering::Relaxed, Ordering::Relaxed);
                }
                return Some(Found { item: found, was_read });
            }
        }
        None
    }

    /// Has the processor fetch the items with these hashes, which are about to be sought. The cache misses of several
    /// are waited for together.
    pub fn prefetch(&self, hashes: &[u64]) {
        let table = self.table.load();
        for group in hashes.chunks(GROUP) {
            // No load of a set waits for another.
            let places: SmallVec<[Word; GROUP]> =
                group.iter().flat_map(|hash| table.places(*hash)).collect();
            for place in places {
                if let Some(zone) = &*table.slot(place.number()).load() {
                    zone.prefetch(place.line());
                }
            }
        }
    }

    /// Caches a row, `parts` one after the other, once the zones were filled by [`ZoneCache::warm_up`], if no
    /// removals began since the ticket. Another item with the same hash is not found any more.
    pub fn insert(&self, hash: u64, ticket: Ticket, parts: &[&[u8]]) {
        if !is_short(parts) || !self.is_warm() {
            return;
        }
        let Some(mut numbers) = self.numbers.try_lock() else { return };
        if self.removals.load(Ordering::Acquire) == ticket.0 {
            let has_room =
                |numbers: &mut Numbers| self.begin_zone(numbers) || self.begin_zone_again(numbers);
            self.append(&mut numbers, (Kind::Row, hash), parts, has_room);
        }
    }

    /// Caches a block as long as no item has to go for it, if no removals began since the ticket: the neighbours of
    /// sought rows, before there is anything better.
    pub fn warm_up(&self, hash: u64, ticket: Ticket, parts: &[&[u8]]) {
        if !is_short(parts) || self.is_warm() {
            return;
        }
        let Some(mut numbers) = self.numbers.try_lock() else { return };
        if self.removals.load(Ordering::Acquire) != ticket.0 {
            return;
        }
        let has_room = |numbers: &mut Numbers| {
            let has_begun = self.begin_zone(numbers);
            self.is_warm.store(!has_begun, Ordering::Relaxed);
            has_begun
        };
        self.append(&mut numbers, (Kind::Block, hash), parts, has_room);
    }

    /// Whether it takes rows.
    #[inline]
    #[must_use]
    pub fn is_warm(&self) -> bool {
        self.is_warm.load(Ordering::Relaxed)
    }

    /// From now on, items that were read before are not taken. Those that were taken before can be removed.
    pub fn begin_removals(&self) {
        let _appending = self.numbers.lock();
        self.removals.fetch_add(1, Ordering::AcqRel);
    }

    /// Removes the items with this hash, and perhaps others.
    pub fn remove(&self, hash: u64) {
        self.table.load().remove(hash);
    }

    /// Gives the oldest zone back to the pool, which has it when no reader uses it any more, and takes no more zones
    /// than are left, until [`ZoneCache::grow`]. Returns whether there was one. Words that point there stay, and find
    /// nothing.
    pub fn give_back(&self) -> bool {
        let mut numbers = self.numbers.lock();
        let oldest = self.take_oldest(&mut numbers);
        if oldest.is_some() {
            numbers.most = numbers.there.len();
        }
        oldest.is_some()
    }

    /// Takes the zones that the pool can spare again.
    pub fn grow(&self) {
        let mut numbers = self.numbers.lock();
        numbers.most = usize::MAX;
        if numbers.there.is_empty() {
            self.begin_again();
        }
    }

    /// Bytes of the pool that it takes.
    #[must_use]
    pub fn pool_bytes(&self) -> u64 {
        self.count.load(Ordering::Relaxed) * ZONE
    }

    /// Bytes of DRAM of the table that leads to its items.
    #[must_use]
    pub fn table_bytes(&self) -> u64 {
        self.table.load().bytes()
    }

    fn take_oldest(&self, numbers: &mut Numbers) -> Option<Arc<Numbered>> {
        let oldest = numbers.there.pop_front()?;
        self.count.store(numbers.there.len() as u64, Ordering::Relaxed);
        self.table.load().slot(oldest).swap(None)
    }

    fn append_to_last(
        &self,
        numbers: &Numbers,
        kind: u32,
        hash: u64,
        parts: &[&[u8]],
    ) -> Option<Word> {
        let table = self.table.load();
        let last = table.slot(*numbers.there.back()?).load();
        last.as_ref()?.append(kind, hash, parts)
    }

    /// Appends an item and lets it be found; `has_room` begins another zone, if it can.
    fn append(
        &self,
        numbers: &mut Numbers,
        (kind, hash): (Kind, u64),
        parts: &[&[u8]],
        has_room: impl FnOnce(&mut Numbers) -> bool,
    ) {
        let word = self.append_to_last(numbers, kind as u32, hash, parts).or_else(|| {
            let has_room = has_room(numbers);
            if has_room { self.append_to_last(numbers, kind as u32, hash, parts) } else { None }
        });
        if let Some(word) = word {
            self.table.load().enter(hash, word, numbers.there[0]);
        }
    }

    /// Begins a zone that the pool can spare, if there is one.
    fn begin_zone(&self, numbers: &mut Numbers) -> bool {
        if numbers.there.len() >= numbers.most {
            return false;
        }
        if numbers.there.len() as u64 >= self.table.load().zones.len() as u64 {
            self.enlarge(numbers);
        }
        let number = numbers.last.wrapping_add(1);
        let table = self.table.load();
        let slot = table.slot(number);
        if slot.load().is_some() {
            return false;
        }
        // A pool that cannot give one has no room.
        let Ok(Some(zone)) = self.memory.get_spare(self.others) else { return false };
        slot.store(Some(Arc::new(Numbered { number, zone })));
        numbers.there.push_back(number);
        numbers.last = number;
        self.count.store(numbers.there.len() as u64, Ordering::Relaxed);
        true
    }

    /// Takes a larger table, if there is memory for it. Nothing is in it: words of the old one may be about to be
    /// removed.
    fn enlarge(&self, numbers: &mut Numbers) {
        let zones = self.table.load().zones.len() as u64 * GROWTH;
        let Some(table) = Table::new(zones, self.bytes_per_word) else { return };
        self.table.store(Arc::new(table));
        numbers.there.clear();
        self.count.store(0, Ordering::Relaxed);
        self.begin_again();
    }

    /// Takes blocks again, if it takes any.
    fn begin_again(&self) {
        self.is_warm.store(!self.takes_blocks, Ordering::Relaxed);
    }

    /// Begins a zone in place of the oldest, with those of its items that were read.
    fn begin_zone_again(&self, numbers: &mut Numbers) -> bool {
        let Some(oldest) = self.take_oldest(numbers) else { return false };
        let table = self.table.load();
        let mut kept = Vec::new();
        let mut kept_lines = 0;
        for (line, item) in oldest.items() {
            let word = Word::new(item.hash, oldest.number, line);
            if kept_lines < REINSERTED_MAX / LINE && table.was_read(item.hash, word) {
                kept_lines += lines(item.bytes.len());
                kept.push((item.hash, item.kind, word, item.bytes.to_vec()));
            } else {
                table.replace(item.hash, word, Word::NONE);
            }
        }
        drop(oldest);
        let has_begun = self.begin_zone(numbers);
        for (hash, kind, word, bytes) in kept {
            let again =
                if has_begun { self.append_to_last(numbers, kind, hash, &[&bytes]) } else { None };
            // Not, if it was removed meanwhile.
            table.replace(hash, word, again.unwrap_or(Word::NONE));
        }
        has_begun
    }
}

/// The start of a block's item, and its hash.
fn item_of(place: Place) -> ([u8; 16], u64) {
    let mut item = [0; 16];
    item[..8].copy_from_slice(&place.file.to_le_bytes());
    item[8..].copy_from_slice(&place.offset.to_le_bytes());
    (item, BLOCKS.checksum(&item))
}

impl SecondTier for ZoneCache {
    fn look_up(&self, place: Place) -> Option<Found<Plain>> {
        let (place, hash) = item_of(place);
        self.get(Kind::Block, hash, |item| item.strip_prefix(&place[..]).map(Plain::from))
    }

    fn accepts(&self) -> Option<Ticket> {
        (!self.is_warm()).then(|| self.ticket())
    }

    fn offer(&self, place: Place, block: &Plain, ticket: Ticket) {
        let (place, hash) = item_of(place);
        self.warm_up(hash, ticket, &[&place, block]);
    }

    fn forget(&self, place: Place) {
        self.begin_removals();
        self.remove(item_of(place).1);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::thread;

    use halite_alloc::Segments;
    use halite_pmem::PoolOptions;

    use super::*;

    /// A pool in memory of so many zones, one of which the pool needs, and a cache that leaves one to others.
    fn cache(zones: u64) -> (Arc<Segments>, ZoneCache) {
        let mut options = PoolOptions::default();
        options.in_memory = true;
        (options.size_initial, options.size_max) = (zones * ZONE, zones * ZONE);
        let segments = Segments::create(Path::new("cache"), &options).unwrap();
        let cache = ZoneCache::new(&segments.device(2), zones * ZONE, ZONE).unwrap();
        (segments, cache)
    }

    /// The content of an item of a hash: some lines that follow from it.
    fn bytes(hash: u64) -> Vec<u8> {
        hash.to_le_bytes().repeat(40 + hash as usize % 50)
    }

    fn hash(number: u64) -> u64 {
        number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn get(cache: &ZoneCache, hash: u64) -> bool {
        let found = cache
            .get(Kind::Row, hash, |item| Some(item.to_vec()))
            .or_else(|| cache.get(Kind::Block, hash, |item| Some(item.to_vec())));
        found.inspect(|found| assert_eq!(found.item, bytes(hash))).is_some()
    }

    fn insert(cache: &ZoneCache, hash: u64) {
        cache.is_warm.store(true, Ordering::Relaxed);
        let bytes = bytes(hash);
        let (first, rest) = bytes.split_at(7);
        cache.insert(hash, cache.ticket(), &[first, rest]);
    }

    #[test]
    fn items_are_found_until_they_are_removed_or_replaced() {
        let (_segments, cache) = cache(8);
        assert!(!get(&cache, hash(1)));
        (1..1000).for_each(|number| insert(&cache, hash(number)));
        assert!((1..1000).all(|number| get(&cache, hash(number))));
        cache.insert(hash(7), cache.ticket(), &[b"other"]);
        let len = |kind| Some(cache.get(kind, hash(7), |item| Some(item.len()))?.item);
        assert_eq!((len(Kind::Row), len(Kind::Block)), (Some(5), None));
        assert!(cache.get(Kind::Row, hash(7), |_| None::<()>).is_none(), "it is another's");
        cache.remove(hash(7));
        cache.remove(hash(8));
        assert!(!get(&cache, hash(7)) && !get(&cache, hash(8)) && get(&cache, hash(9)));
        let long = vec![0; ITEM_MAX + 1];
        cache.insert(hash(10), cache.ticket(), &[&long]);
        assert!(get(&cache, hash(10)), "what is too long is not taken");
    }

    #[test]
    fn what_was_read_before_removals_began_is_not_taken() {
        let (_segments, cache) = cache(8);
        insert(&cache, hash(2));
        let ticket = cache.ticket();
        cache.begin_removals();
        cache.insert(hash(1), ticket, &[&bytes(hash(1))]);
        assert!(!get(&cache, hash(1)));
        insert(&cache, hash(1));
        assert!(get(&cache, hash(1)));
    }

    #[test]
    fn what_is_read_stays_and_the_rest_goes_in_its_order() {
        let (segments, cache) = cache(8);
        let (read, all) = (0..1000, 0..60_000);
        for number in all.clone() {
            insert(&cache, hash(number));
            get(&cache, hash(number % read.end));
        }
        assert_eq!(segments.available(), 1, "the rest of the pool is the cache's");
        let kept = |numbers: std::ops::Range<u64>| {
            numbers.filter(|&number| get(&cache, hash(number))).count() as u64
        };
        assert!(kept(read.clone()) > read.end * 9 / 10);
        assert_eq!(kept(read.end..20_000), 0);
        assert!(kept(59_000..all.end) > 900);
    }

    #[test]
    fn zones_that_are_given_back_are_free_and_nothing_in_them_is_found() {
        let (segments, cache) = cache(8);
        let available = segments.available();
        (0..20_000).for_each(|number| insert(&cache, hash(number)));
        let zones = cache.pool_bytes() / ZONE;
        assert!(zones > 2 && segments.available() == available - zones);
        for left in (0..zones).rev() {
            assert!(cache.give_back());
            assert_eq!(segments.available(), available - left);
        }
        assert!(!cache.give_back());
        assert!((0..20_000).all(|number| !get(&cache, hash(number))));
        insert(&cache, hash(1));
        assert!(!get(&cache, hash(1)), "others want the room");
        cache.grow();
        (0..100).for_each(|number| insert(&cache, hash(number)));
        assert!((0..100).all(|number| get(&cache, hash(number))));
    }

    #[test]
    fn blocks_are_taken_while_there_is_room_and_rows_from_then_on() {
        let (segments, cache) = cache(8);
        let row = |number| {
            cache.insert(hash(number), cache.ticket(), &[&bytes(hash(number))]);
            get(&cache, hash(number))
        };
        let block = |number| {
            cache.warm_up(hash(number), cache.ticket(), &[&bytes(hash(number))]);
            get(&cache, hash(number))
        };
        assert!(block(1) && !row(2));
        let first = (3..100_000).find(|&number| !block(number) && cache.is_warm());
        assert!(first.is_some_and(|first| first > 10_000) && segments.available() == 1);
        assert!(row(2) && !block(100_000));
        cache.give_back();
        cache.grow();
        assert!(row(100_001) && !block(100_000), "it does not begin again");
    }

    #[test]
    fn a_cache_of_rows_takes_no_blocks_and_all_of_its_pool() {
        let mut options = PoolOptions::default();
        options.in_memory = true;
        (options.size_initial, options.size_max) = (8 * ZONE, 8 * ZONE);
        let segments = Segments::create(Path::new("rows"), &options).unwrap();
        let cache = ZoneCache::of_rows(&segments.device(0), 8 * ZONE).unwrap();
        cache.warm_up(hash(1), cache.ticket(), &[&bytes(hash(1))]);
        assert!(!get(&cache, hash(1)) && cache.accepts().is_none());
        let row = |number: u64| vec![number as u8; 100];
        let insert = |number| cache.insert(hash(number), cache.ticket(), &[&row(number)]);
        let found = |number: u64| {
            let item = cache.get(Kind::Row, hash(number), |item| Some(item.to_vec()))?.item;
            assert_eq!(item, row(number));
            Some(item)
        };
        // Seven zones have room for 114,688 rows of two lines.
        (0..110_000).for_each(insert);
        cache.prefetch(&(0..110_000).map(hash).collect::<Vec<_>>());
        assert_eq!((segments.free(), cache.pool_bytes()), (0, 7 * ZONE));
        let kept = (0..110_000).filter_map(found).count();
        assert!(kept > 95_000, "{kept} of 110,000 are found");
        (110_000..300_000).for_each(insert);
        assert!((299_000..300_000).filter_map(found).count() > 900);
    }

    #[test]
    fn a_table_that_is_too_small_gives_way_to_a_larger_one() {
        let (segments, _) = cache(24);
        let cache = ZoneCache::new(&segments.device(2), 0, ZONE).unwrap();
        (0..200_000).for_each(|number| insert(&cache, hash(number)));
        assert_eq!(cache.pool_bytes(), 22 * ZONE);
        assert!((199_900..200_000).filter(|&number| get(&cache, hash(number))).count() > 90);
        assert_eq!(segments.free(), 1);
    }

    #[test]
    fn a_pool_without_room_caches_nothing() {
        let (segments, cache) = cache(2);
        cache.warm_up(hash(2), cache.ticket(), &[&bytes(hash(2))]);
        assert!(!get(&cache, hash(2)) && cache.is_warm());
        insert(&cache, hash(1));
        assert!(!get(&cache, hash(1)));
        assert_eq!((cache.pool_bytes(), segments.available()), (0, 1));
    }

    #[test]
    fn threads_find_what_they_seek_or_nothing() {
        let (_segments, cache) = cache(8);
        thread::scope(|scope| {
            for first in 0..4 {
                let cache = &cache;
                scope.spawn(move || {
                    for step in 0..40_000_u64 {
                        let number = hash(step * 4 + first) % 30_000;
                        match step % 64 {
                            0 if first == 0 => drop(cache.give_back()),
                            32 if first == 0 => cache.grow(),
                            1 => cache.begin_removals(),
                            2..8 => cache.remove(hash(number)),
                            _ if get(cache, hash(number)) => {}
                            _ => insert(cache, hash(number)),
                        }
                    }
                });
            }
        });
    }

    #[test]
    fn a_block_is_found_until_it_is_forgotten_and_one_evicted_before_that_is_not_taken() {
        let (_segments, cache) = cache(8);
        let (there, other) = (Place { file: 3, offset: 9 }, Place { file: 3, offset: 8 });
        let block = Plain::from(&bytes(7)[..]);
        let ticket = cache.accepts().expect("there is room");
        cache.offer(there, &block, ticket);
        let found = |place| cache.look_up(place).map(|found| (found.item.to_vec(), found.was_read));
        assert_eq!(found(there), Some((bytes(7), false)));
        assert_eq!((found(there), found(other)), (Some((bytes(7), true)), None));
        cache.forget(there);
        assert_eq!(found(there), None);
        cache.offer(there, &block, ticket);
        assert_eq!(found(there), None, "it was evicted before");
        cache.offer(there, &block, cache.accepts().expect("there is room"));
        assert_eq!(found(there), Some((bytes(7), false)));
    }
}

//! A cache of byte strings in zones that the pool has free: volatile (Yan §3.4.3), and given back as room is wanted.
//!
//! An item is appended to the newest zone, and found by a set-associative table of words in DRAM: each leads to a
//! line of a zone, and has some bits of the item's hash. A get reads a set, one line of DRAM, and the item. Where the
//! pool has no more zones to spare, the oldest goes, and those of its items that were read since are appended again
//! (FIFO with reinsertion, the CLOCK of logs).
//!
//! ```text
//! word:  number of the zone 32 (never used twice) | line in it 15 | read since 1 | of the hash 16       0: none
//! item:  hash u64 | len u32 | 0 u32 | bytes, up to the end of a line
//! ```
//!
//! As long as there is room, whole blocks are taken, so that the cache is soon full: [`ZoneCache::warm_up`]. Then rows take
//! their place ([`ZoneCache::insert`]), which hold what was sought and nothing else.
//!
//! What is here must be true for as long as it is found, or be removed. Who removes what changed begins with
//! [`ZoneCache::begin_removals`]: what was read before, and is not here yet, is not taken any more ([`Ticket`]).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use halite_alloc::{Device, ScratchPool, ScratchZone};
use halite_engine::Result;
use halite_pmem::LINE;
use halite_pmem::locks::{self, Mutex};
use zerocopy::FromZeros;

use crate::address::ZONE;

/// Words of a set: a line.
const WAYS: usize = 8;

/// Where items of the same lower bits of their hashes are.
type Set = [AtomicU64; WAYS];

/// Bytes of the pool for which the table has a word.
const BYTES_PER_WORD: u64 = 512;

/// Sets that a table has at most: 512 MiB, for 32 GiB of the pool. What is not used of it takes no memory.
const SETS_MAX: u64 = 1 << 23;

/// Zones at most: 256 GiB.
const ZONES_MAX: u64 = 1 << 17;

/// Bytes before an item's own.
const HEAD: usize = 16;

/// The longest item.
pub(crate) const ITEM_MAX: usize = 64 << 10;

/// Bytes of an old zone that may be appended again.
const REINSERTED_MAX: u64 = ZONE / 2;

/// When something was read that is to be cached.
#[derive(Clone, Copy)]
pub(crate) struct Ticket(u64);

/// A cache in a pool's free zones.
pub(crate) struct ZoneCache {
    memory: ScratchPool,
    /// Free zones that are left to others.
    others: u64,
    sets: Box<[Set]>,
    /// Zones by number, as many as the pool can have.
    zones: Box<[ArcSwapOption<Numbered>]>,
    /// Held by who appends.
    numbers: Mutex<Numbers>,
    removals: AtomicU64,
    /// Whether there was no room once: from then on, something goes for what comes.
    is_warm: AtomicBool,
}

/// The zones that there are, the oldest first.
struct Numbers {
    there: VecDeque<u32>,
    last: u32,
    /// How many there may be.
    most: usize,
}

struct Numbered {
    number: u32,
    zone: ScratchZone,
}

impl Numbered {
    /// The item at a line: its hash, and its bytes.
    #[inline]
    fn item(&self, line: u64) -> Option<(u64, &[u8])> {
        let len = |head: &[u8]| {
            HEAD as u64 + u64::from(u32::from_le_bytes(head[8..12].try_into().expect("4 bytes")))
        };
        let item = self.zone.appender().published().read_sized(line * LINE, HEAD as u64, len)?;
        let (head, bytes) = item.split_at(HEAD);
        Some((u64::from_le_bytes(head[..8].try_into().expect("8 bytes")), bytes))
    }

    /// All items: hash, line, bytes.
    fn items(&self) -> impl Iterator<Item = (u64, u64, &[u8])> {
        let mut line = 0;
        std::iter::from_fn(move || {
            let (hash, bytes) = self.item(line)?;
            let at = line;
            line += lines(bytes.len());
            Some((hash, at, bytes))
        })
    }
}

fn is_short(parts: &[&[u8]]) -> bool {
    parts.iter().map(|part| part.len()).sum::<usize>() <= ITEM_MAX
}

/// Lines of an item of so many bytes.
fn lines(len: usize) -> u64 {
    ((HEAD + len) as u64).div_ceil(LINE)
}

/// Where an item is: a word of the table.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Word(u64);

const READ: u64 = 1 << 16;

impl Word {
    const NONE: Self = Self(0);

    fn new(hash: u64, number: u32, line: u64) -> Self {
        Self(u64::from(number) << 32 | line << 17 | hash >> 48)
    }

    fn is_of(self, hash: u64) -> bool {
        self.0 != 0 && self.0 & 0xffff == hash >> 48
    }

    fn number(self) -> u32 {
        (self.0 >> 32) as u32
    }

    fn line(self) -> u64 {
        self.0 >> 17 & 0x7fff
    }

    fn was_read(self) -> bool {
        self.0 & READ != 0
    }

    fn unread(self) -> Self {
        Self(self.0 & !READ)
    }
}

impl ZoneCache {
    /// A cache in the segments of `device`, which nothing else uses, of a pool of so many bytes at most. It leaves
    /// `spare` bytes to others.
    pub(crate) fn new(device: &Device, pool_bytes: u64, spare: u64) -> Result<Self> {
        let sets = (pool_bytes / BYTES_PER_WORD / WAYS as u64).next_power_of_two();
        let sets = sets.clamp(1, SETS_MAX);
        let zones = (pool_bytes / ZONE).clamp(1, ZONES_MAX);
        Ok(Self {
            memory: ScratchPool::new(device)?,
            others: spare.div_ceil(ZONE),
            sets: Set::new_vec_zeroed(sets as usize).expect("a table fits").into_boxed_slice(),
            zones: (0..zones).map(|_| ArcSwapOption::empty()).collect(),
            numbers: Mutex::new(Numbers { there: VecDeque::new(), last: 0, most: usize::MAX }),
            is_warm: AtomicBool::new(false),
            removals: AtomicU64::new(0),
        })
    }

    /// To be had before what is to be cached is read.
    #[inline]
    pub(crate) fn ticket(&self) -> Ticket {
        Ticket(self.removals.load(Ordering::Acquire))
    }

    /// What `read` makes of an item of this hash; it returns `None` of another one's.
    #[inline]
    pub(crate) fn get<T>(&self, hash: u64, read: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
        for way in self.set(hash) {
            let word = Word(way.load(Ordering::Acquire));
            if !word.is_of(hash) {
                continue;
            }
            locks::point();
            let zone = self.slot(word.number()).load();
            let Some(zone) = zone.as_ref().filter(|zone| zone.number == word.number()) else {
                continue;
            };
            if let Some((of, bytes)) = zone.item(word.line())
                && of == hash
                && let Some(found) = read(bytes)
            {
                if !word.was_read() {
                    let (now, read) = (word.0, word.0 | READ);
                    let _ = way.compare_exchange(now, read, Ordering::Relaxed, Ordering::Relaxed);
                }
                return Some(found);
            }
        }
        None
    }

    /// Caches `parts`, one after the other, once what is there was filled by [`ZoneCache::warm_up`], if nothing was
    /// removed since the ticket. What has the same hash is not found any more.
    pub(crate) fn insert(&self, hash: u64, ticket: Ticket, parts: &[&[u8]]) {
        if !is_short(parts) || !self.is_warm() {
            return;
        }
        let mut numbers = self.numbers.lock();
        if self.removals.load(Ordering::Acquire) == ticket.0
            && let Some(word) = self.append(&mut numbers, hash, parts)
        {
            self.enter(hash, word, numbers.there[0]);
        }
    }

    /// Caches what is never removed, as long as nothing has to go for it: what is next to what is sought, before there
    /// is anything better.
    pub(crate) fn warm_up(&self, hash: u64, parts: &[&[u8]]) {
        if !is_short(parts) || self.is_warm() {
            return;
        }
        let mut numbers = self.numbers.lock();
        let word = self.append_to_last(&numbers, hash, parts).or_else(|| {
            if !self.begin_zone(&mut numbers) {
                self.is_warm.store(true, Ordering::Relaxed);
            }
            self.append_to_last(&numbers, hash, parts)
        });
        if let Some(word) = word {
            self.enter(hash, word, numbers.there[0]);
        }
    }

    /// Whether it was full once.
    #[inline]
    pub(crate) fn is_warm(&self) -> bool {
        self.is_warm.load(Ordering::Relaxed)
    }

    /// From now on, what was read before is not taken. What was taken before can be removed.
    pub(crate) fn begin_removals(&self) {
        let _appending = self.numbers.lock();
        self.removals.fetch_add(1, Ordering::AcqRel);
    }

    /// Removes what has this hash, and perhaps others.
    pub(crate) fn remove(&self, hash: u64) {
        for way in self.set(hash) {
            let is_of = |word: u64| Word(word).is_of(hash).then_some(0);
            let _ = way.fetch_update(Ordering::AcqRel, Ordering::Relaxed, is_of);
        }
    }

    /// Gives the oldest zone back to the pool, which has it when nobody reads there any more, and takes no more than are
    /// left, until [`ZoneCache::grow`]. Returns whether there was one. Words that lead there stay, and lead to nothing.
    pub(crate) fn give_back(&self) -> bool {
        let mut numbers = self.numbers.lock();
        let oldest = self.take_oldest(&mut numbers);
        numbers.most = numbers.there.len();
        oldest.is_some()
    }

    /// Takes what the pool can spare again.
    pub(crate) fn grow(&self) {
        self.numbers.lock().most = usize::MAX;
    }

    /// Bytes of the pool that it takes.
    pub(crate) fn pool_bytes(&self) -> u64 {
        self.numbers.lock().there.len() as u64 * ZONE
    }

    #[inline]
    fn set(&self, hash: u64) -> &Set {
        &self.sets[hash as usize & (self.sets.len() - 1)]
    }

    #[inline]
    fn slot(&self, number: u32) -> &ArcSwapOption<Numbered> {
        &self.zones[number as usize % self.zones.len()]
    }

    fn take_oldest(&self, numbers: &mut Numbers) -> Option<Arc<Numbered>> {
        let oldest = numbers.there.pop_front()?;
        self.slot(oldest).swap(None)
    }

    fn append(&self, numbers: &mut Numbers, hash: u64, parts: &[&[u8]]) -> Option<Word> {
        self.append_to_last(numbers, hash, parts).or_else(|| {
            self.add_zone(numbers);
            self.append_to_last(numbers, hash, parts)
        })
    }

    /// Appends an item to the newest zone, if it fits.
    fn append_to_last(&self, numbers: &Numbers, hash: u64, parts: &[&[u8]]) -> Option<Word> {
        let zone = self.slot(*numbers.there.back()?).load();
        let zone = zone.as_ref()?;
        let len = parts.iter().map(|part| part.len()).sum();
        let mut grant = zone.zone.appender().grant(lines(len) * LINE)?;
        let line = grant.at() / LINE;
        let mut head = [0; HEAD];
        head[..8].copy_from_slice(&hash.to_le_bytes());
        head[8..12].copy_from_slice(&(len as u32).to_le_bytes());
        let mut at = 0;
        for part in [&head[..]].iter().chain(parts) {
            grant.write(at, part);
            at += part.len() as u64;
        }
        grant.reveal();
        Some(Word::new(hash, zone.number, line))
    }

    /// Begins a zone: one that the pool can spare, or in place of the oldest, with those of its items that were read.
    fn add_zone(&self, numbers: &mut Numbers) {
        if self.begin_zone(numbers) {
            return;
        }
        let Some(oldest) = self.take_oldest(numbers) else { return };
        let mut kept = Vec::new();
        let mut kept_lines = 0;
        for (hash, line, bytes) in oldest.items() {
            let word = Word::new(hash, oldest.number, line);
            if kept_lines < REINSERTED_MAX / LINE && self.was_read(hash, word) {
                kept_lines += lines(bytes.len());
                kept.push((hash, word, bytes.to_vec()));
            } else {
                self.replace(hash, word, Word::NONE);
            }
        }
        drop(oldest);
        let has_room = self.begin_zone(numbers);
        for (hash, word, bytes) in kept {
            let again = if has_room { self.append_to_last(numbers, hash, &[&bytes]) } else { None };
            // Not, if it was removed meanwhile.
            self.replace(hash, word, again.unwrap_or(Word::NONE));
        }
    }

    /// Begins a zone that the pool can spare, if there is one.
    fn begin_zone(&self, numbers: &mut Numbers) -> bool {
        let number = numbers.last.wrapping_add(1);
        if numbers.there.len() >= numbers.most || self.slot(number).load().is_some() {
            return false;
        }
        // A pool that cannot give one has no room.
        let Ok(Some(zone)) = self.memory.get_spare(self.others) else { return false };
        self.slot(number).store(Some(Arc::new(Numbered { number, zone })));
        numbers.there.push_back(number);
        numbers.last = number;
        true
    }

    /// Lets a word be found: in place of that of the same hash, of none, of one whose zone is gone, or of one that was
    /// not read.
    fn enter(&self, hash: u64, word: Word, oldest: u32) {
        let set = self.set(hash);
        let value = |way: &AtomicU64| {
            let there = Word(way.load(Ordering::Relaxed));
            let is_gone =
                word.number().wrapping_sub(there.number()) > word.number().wrapping_sub(oldest);
            match there {
                Word::NONE => 1,
                _ if there.is_of(hash) && self.hash_of(there) == Some(hash) => 0,
                _ if is_gone => 2,
                _ if !there.was_read() => 3,
                _ => 4,
            }
        };
        let first = word.line() as usize % WAYS;
        let ways = (first..first + WAYS).map(|way| &set[way % WAYS]);
        let way = ways.min_by_key(|way| value(way)).expect("a set has ways");
        way.store(word.0, Ordering::Release);
    }

    /// The whole hash of the item that a word leads to.
    fn hash_of(&self, word: Word) -> Option<u64> {
        let zone = self.slot(word.number()).load();
        let zone = zone.as_ref().filter(|zone| zone.number == word.number())?;
        Some(zone.item(word.line())?.0)
    }

    /// Whether the item of a word is found, and was read.
    fn was_read(&self, hash: u64, word: Word) -> bool {
        self.set(hash).iter().any(|way| way.load(Ordering::Relaxed) == word.0 | READ)
    }

    /// Lets another word take the place of one, if it is there.
    fn replace(&self, hash: u64, word: Word, other: Word) {
        for way in self.set(hash) {
            let is_it = |now: u64| (Word(now).unread() == word).then_some(other.0);
            let _ = way.fetch_update(Ordering::AcqRel, Ordering::Relaxed, is_it);
        }
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

    /// What an item of a hash holds: some lines that follow from it.
    fn bytes(hash: u64) -> Vec<u8> {
        hash.to_le_bytes().repeat(40 + hash as usize % 50)
    }

    fn hash(number: u64) -> u64 {
        number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn get(cache: &ZoneCache, hash: u64) -> bool {
        let found = cache.get(hash, |item| Some(item.to_vec()));
        found.inspect(|found| assert_eq!(*found, bytes(hash))).is_some()
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
        assert_eq!(cache.get(hash(7), |item| Some(item.len())), Some(5));
        assert_eq!(cache.get(hash(7), |_| None::<()>), None, "it is another's");
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
            cache.warm_up(hash(number), &[&bytes(hash(number))]);
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
    fn a_pool_without_room_caches_nothing() {
        let (segments, cache) = cache(2);
        cache.warm_up(hash(2), &[&bytes(hash(2))]);
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
}

//! The table that points to items: set-associative, without locks.
//!
//! ```text
//! word:  number of the zone 32, never used twice | line in it 15 | read since 1 | of the hash 16       0: none
//! ```

use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use halite_alloc::SEGMENT;
use zerocopy::FromZeros;

use super::zone::Numbered;

/// Words of a set: a line.
const WAYS: usize = 8;

/// The words of items whose hashes have the same lower bits.
type Set = [AtomicU64; WAYS];

/// Sets that a table has at most: 512 MiB.
const SETS_MAX: u64 = 1 << 23;

/// The words that point to items. A pool that grew gets a larger table, and the cache begins again.
pub(super) struct Table {
    sets: Box<[Set]>,
    /// Zones by number.
    pub(super) zones: Box<[ArcSwapOption<Numbered>]>,
}

impl Table {
    /// For so many zones, with a word for about so many bytes of them; `None` if there is no memory for it.
    pub(super) fn new(zones: u64, bytes_per_word: u64) -> Option<Self> {
        let sets = (zones * SEGMENT / bytes_per_word / WAYS as u64).next_power_of_two();
        let sets = Set::new_vec_zeroed(sets.min(SETS_MAX) as usize).ok()?.into_boxed_slice();
        Some(Self { sets, zones: (0..zones).map(|_| ArcSwapOption::empty()).collect() })
    }

    /// Bytes of its words.
    pub(super) fn bytes(&self) -> u64 {
        size_of_val(&*self.sets) as u64
    }

    #[inline]
    pub(super) fn set(&self, hash: u64) -> &Set {
        &self.sets[hash as usize & (self.sets.len() - 1)]
    }

    /// The zones and lines of the items that may have this hash.
    #[inline]
    pub(super) fn places(&self, hash: u64) -> impl Iterator<Item = Word> {
        let words = self.set(hash).iter().map(|way| Word(way.load(Ordering::Relaxed)));
        words.filter(move |word| word.is_of(hash))
    }

    #[inline]
    pub(super) fn slot(&self, number: u32) -> &ArcSwapOption<Numbered> {
        &self.zones[number as usize % self.zones.len()]
    }

    /// Lets a word be found: in place of that of the same hash, of none, of one whose zone is gone, or of one that was
    /// not read.
    pub(super) fn enter(&self, hash: u64, word: Word, oldest: u32) {
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

    /// The whole hash of the item that a word points to.
    pub(super) fn hash_of(&self, word: Word) -> Option<u64> {
        let zone = self.slot(word.number()).load();
        let zone = zone.as_ref().filter(|zone| zone.number == word.number())?;
        Some(zone.item(word.line())?.hash)
    }

    /// Removes the words with this hash, and perhaps others.
    pub(super) fn remove(&self, hash: u64) {
        for way in self.set(hash) {
            let is_of = |word: u64| Word(word).is_of(hash).then_some(0);
            let _ = way.fetch_update(Ordering::AcqRel, Ordering::Relaxed, is_of);
        }
    }

    /// Whether the item of a word is found, and was read.
    pub(super) fn was_read(&self, hash: u64, word: Word) -> bool {
        self.set(hash).iter().any(|way| way.load(Ordering::Relaxed) == word.0 | READ)
    }

    /// Lets another word take the place of one, if it is there.
    pub(super) fn replace(&self, hash: u64, word: Word, other: Word) {
        for way in self.set(hash) {
            let is_it = |now: u64| (Word(now).unread() == word).then_some(other.0);
            let _ = way.fetch_update(Ordering::AcqRel, Ordering::Relaxed, is_it);
        }
    }
}

/// The place of an item: a word of the table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Word(pub(super) u64);

pub(super) const READ: u64 = 1 << 16;

impl Word {
    pub(super) const NONE: Self = Self(0);

    pub(super) fn new(hash: u64, number: u32, line: u64) -> Self {
        Self(u64::from(number) << 32 | line << 17 | hash >> 48)
    }

    #[inline]
    pub(super) fn is_of(self, hash: u64) -> bool {
        self.0 != 0 && self.0 & 0xffff == hash >> 48
    }

    #[inline]
    pub(super) fn number(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline]
    pub(super) fn line(self) -> u64 {
        self.0 >> 17 & 0x7fff
    }

    #[inline]
    pub(super) fn was_read(self) -> bool {
        self.0 & READ != 0
    }

    pub(super) fn unread(self) -> Self {
        Self(self.0 & !READ)
    }
}

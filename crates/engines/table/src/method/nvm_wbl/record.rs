//! The log: one record of timestamps, written behind the versions that it covers.
//!
//! ```text
//!  covered u64 | limit u64 | gaps u64 | check u64 | (from u64, to u64) x 30
//! ```
//!
//! All transactions up to `covered` are durable, but for those of gaps, and none above `limit` has begun. Both are
//! timestamps of 48 bits with a check of 16. The check of the gaps is over their number and bounds.
//!
//! A crash leaves versions of transactions between the two at most. Opening makes that interval a *gap*, from which
//! no reader takes a version, and goes on behind it: by one publication, whatever was in flight. A gap is forgotten when no
//! version of it is left (`sweep.rs`).

use std::sync::Arc;

use halite_alloc::heap::{AnyPtr, Heap, NvPtr, Publication, Tag, Tagged};
use halite_sim::planted;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::method::catalog_slot::owner;
use crate::method::house::HOUSE;
use crate::{Error, Result};

/// Timestamps that a record lets transactions take.
pub(super) const LEASE: u64 = 1 << 12;

/// Gaps that the record has room for.
pub(super) const GAPS_MAX: usize = 30;

/// The root that leads to the record.
const RECORD: &str = "commits";

const COVERED_AT: u64 = 0;
const LIMIT_AT: u64 = 8;
const GAPS_AT: u64 = 16;
const LEN: u64 = GAPS_AT + 16 + 16 * GAPS_MAX as u64;

/// Bits of a check that stands in a word with a timestamp.
const CHECK_BITS: u32 = 16;

/// The slot of the record.
#[derive(Debug)]
enum Record {}

impl Tagged for Record {
    const TAG: Tag = Tag::new(30);
}

/// Timestamps of transactions that a crash has ended: those above the first one, up to the second.
pub(super) type Gap = (u64, u64);

/// The record, as it is on the medium.
pub(super) struct Commits {
    slot: NvPtr<Record>,
    salt: u64,
    pub(super) covered: u64,
    pub(super) limit: u64,
    pub(super) gaps: Arc<[Gap]>,
}

/// The versions that a reader sees: those up to a timestamp, and none of gaps.
#[derive(Debug, Clone)]
pub(super) struct Sight {
    pub(super) until: u64,
    gaps: Arc<[Gap]>,
}

impl Sight {
    pub(super) fn sees(&self, timestamp: u64) -> bool {
        let is_its = |&(from, to): &Gap| from < timestamp && timestamp <= to;
        let is_in_gap =
            planted!("table.nvm-wbl-gap-not-skipped", false, self.gaps.iter().any(is_its));
        timestamp <= self.until && !is_in_gap
    }
}

impl Commits {
    /// Writes the record of a partition without transactions, which is there once the publication has happened.
    pub(super) fn create(heap: &mut Heap, publication: &mut Publication) -> Result<()> {
        let slot = heap.reserve::<Record>(owner(HOUSE), LEN)?;
        let mut bytes = vec![0; LEN as usize];
        for (at, word) in Self::at(heap, slot).words() {
            bytes[at as usize..][..8].copy_from_slice(&word.to_le_bytes());
        }
        heap.write(slot, 0, &bytes)?;
        publication.activate(slot);
        publication.set_root(RECORD, slot.word());
        Ok(())
    }

    fn at(heap: &Heap, slot: NvPtr<Record>) -> Self {
        Self { slot, salt: heap.salt(), covered: 0, limit: 0, gaps: Arc::from([]) }
    }

    /// Whether there is a record.
    pub(super) fn is_there(heap: &Heap) -> bool {
        heap.root(RECORD).is_some()
    }

    /// Reads the record. What a crash may have left is a gap then, which is not stored yet.
    pub(super) fn read(heap: &Heap) -> Result<Self> {
        let mut read = Self::at(heap, NvPtr::from_word(heap.root(RECORD).unwrap_or(0)));
        let bytes = heap.read_at(read.slot, 0, LEN)?;
        let words: Vec<u64> =
            bytes.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word)).collect();
        let damaged = || Error::damaged("the record of commits", "it does not have its check");
        let seed = read.seed();
        read.covered = opened(words[0], &[COVERED_AT], seed).ok_or_else(damaged)?;
        read.limit = opened(words[1], &[LIMIT_AT], seed).ok_or_else(damaged)?;
        let count = usize::try_from(words[2]).ok().filter(|&count| count <= GAPS_MAX);
        let (pairs, _) = words[4..].as_chunks::<2>();
        let mut gaps: Vec<Gap> = count
            .map(|count| pairs[..count].iter().map(|&[from, to]| (from, to)).collect())
            .filter(|gaps: &Vec<Gap>| words[3] == gaps_check(gaps, seed))
            .ok_or_else(damaged)?;
        if read.covered > read.limit || read.limit >> (64 - CHECK_BITS - 1) != 0 {
            return Err(Error::damaged("the record of commits", "its timestamps cannot be"));
        }
        if read.covered < read.limit {
            planted!("table.nvm-wbl-former-gap-forgotten", gaps.clear());
            match gaps.last_mut() {
                Some((_, to)) if *to == read.covered => *to = read.limit,
                _ => gaps.push((read.covered, read.limit)),
            }
            read.covered = read.limit;
        }
        read.gaps = gaps.into();
        Ok(read)
    }

    /// Whether the record has room for its gaps.
    pub(super) fn has_room(&self) -> bool {
        self.gaps.len() <= GAPS_MAX
    }

    /// Lets transactions begin, with all gaps stored.
    pub(super) fn begin(&mut self, heap: &mut Heap) -> Result<()> {
        self.limit = self.covered + LEASE;
        self.store_all(heap)
    }

    /// Says that no transaction has begun that is not covered: opening finds no gap then.
    pub(super) fn end(&mut self, heap: &mut Heap) -> Result<()> {
        self.limit = self.covered;
        self.store_all(heap)
    }

    /// Forgets all gaps, of which no version is left.
    pub(super) fn forget_gaps(&mut self, heap: &mut Heap) -> Result<()> {
        self.gaps = Arc::from([]);
        self.store_all(heap)
    }

    fn store_all(&self, heap: &mut Heap) -> Result<()> {
        let mut publication = Publication::new();
        self.words().into_iter().for_each(|(at, word)| publication.store(self.slot, at, word));
        Ok(heap.publish(&mut publication)?)
    }

    /// Has a publication cover all transactions up to a timestamp.
    pub(super) fn cover(&self, timestamp: u64, publication: &mut Publication) {
        let seed = self.seed();
        for (at, timestamp) in [(COVERED_AT, timestamp), (LIMIT_AT, timestamp + LEASE)] {
            publication.store(self.slot, at, sealed(timestamp, &[at], seed));
        }
    }

    /// Takes note that such a publication has happened.
    pub(super) fn covered(&mut self, timestamp: u64) {
        (self.covered, self.limit) = (timestamp, timestamp + LEASE);
    }

    /// The versions that the record covers, to be read.
    pub(super) fn sight(&self) -> Sight {
        Sight { until: self.covered, gaps: Arc::clone(&self.gaps) }
    }

    /// Whether a version was left by a crash.
    pub(super) fn is_lost(&self, timestamp: u64) -> bool {
        timestamp != 0 && timestamp <= self.covered && !self.sight().sees(timestamp)
    }

    /// Its slot, for a check of what is reachable.
    pub(super) fn slot(&self) -> AnyPtr {
        self.slot.any()
    }

    fn seed(&self) -> u64 {
        self.salt ^ self.slot.word()
    }

    /// The words of the record, and their places.
    fn words(&self) -> Vec<(u64, u64)> {
        let seed = self.seed();
        let mut words = vec![
            (COVERED_AT, sealed(self.covered, &[COVERED_AT], seed)),
            (LIMIT_AT, sealed(self.limit, &[LIMIT_AT], seed)),
            (GAPS_AT, self.gaps.len() as u64),
            (GAPS_AT + 8, gaps_check(&self.gaps, seed)),
        ];
        let bounds = self.gaps.iter().flat_map(|&(from, to)| [from, to]);
        words.extend((GAPS_AT + 16..).step_by(8).zip(bounds));
        words
    }
}

/// A timestamp with a check over it and some other words.
pub(super) fn sealed(timestamp: u64, with: &[u64], seed: u64) -> u64 {
    let words = std::iter::once(&timestamp).chain(with);
    let bytes: Vec<u8> = words.flat_map(|word| word.to_le_bytes()).collect();
    timestamp << CHECK_BITS | xxh3_64_with_seed(&bytes, seed) & ((1 << CHECK_BITS) - 1)
}

/// The timestamp of a word that has its check.
pub(super) fn opened(word: u64, with: &[u64], seed: u64) -> Option<u64> {
    let timestamp = word >> CHECK_BITS;
    (sealed(timestamp, with, seed) == word).then_some(timestamp)
}

fn gaps_check(gaps: &[Gap], seed: u64) -> u64 {
    let words = gaps.iter().flat_map(|&(from, to)| [from, to]);
    let words = std::iter::once(gaps.len() as u64).chain(words);
    let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    xxh3_64_with_seed(&bytes, seed)
}

#[cfg(test)]
impl Commits {
    /// Whether each changed byte of the record, as far as it has some, is an error.
    pub(super) fn damage_is_named(heap: &mut Heap) -> bool {
        let slot = NvPtr::<Record>::from_word(heap.root(RECORD).unwrap_or(0));
        (0..GAPS_AT + 16).all(|at| {
            let before = heap.read_at(slot, at, 1).unwrap()[0];
            heap.write(slot, at, &[before ^ 4]).unwrap();
            let is_named = matches!(Self::read(heap), Err(Error::Damaged { .. }));
            heap.write(slot, at, &[before]).unwrap();
            is_named
        })
    }
}

//! The hash index, for point operations only (Lersch §5.6.2).
//!
//! ```text
//! hash of a key (SipHash-1-3, keyed)
//! | prefix          | line         | ...
//!   |                 |
//!   v                 v
//! directory         segment: 24 to 100 lines of 64 B
//! | segment | ... | | 6 entries, 6 tags | 6 entries, 6 tags | ...
//! ```
//!
//! A lookup finds its segment by the first bits of the hash, its line by the next, and in the line the
//! entries with its tag, 16 bits of the hash ([`segment`]). Full keys decide which of them is the key.
//!
//! The index grows by linear hashing (Litwin): whenever segments have more than 256 entries on average,
//! one of them, the next in turn, is split. Segments differ in load by a factor of two then, and in
//! length with it: each adds an eighth of its lines when it is nine tenths full. So no insert moves
//! more than one or two segments' entries, a few microseconds, and memory follows the number of keys.
//!
//! Neither reads a key: the bits that a split needs are in the tags. Each time a segment's prefix gets
//! longer, it implies one more bit of the tags. At every fifth split of a segment its keys are read and
//! hashed, and its tags begin behind the prefix again.
//!
//! # Costs
//!
//! A slot takes 64 / 6 = 10.7 bytes, lines are 85 % full on average, and a segment has 100 bytes beside
//! its lines: 13 bytes a record. After most keys were removed, segments are joined again.
//!
//! | operation | cache misses | full keys read |
//! |---|---|---|
//! | `get_candidate` | the line, and the segment's place where those are not cached (above 10^7 keys); every second lookup goes on to the line behind | 0.02 |
//! | `get`, `modify`, `remove`, `insert` of a key that is there | the same, and those of the key | 1.02 |
//! | `insert` of a new key | the same | 0.2, of which most are prefetched |
//! | `scan` | a line a step | none |
//!
//! The first write after a snapshot copies the directory's upper level, which has one reference for 256
//! segments. Writes copy the parts of the lower level that are still shared, 256 segments at a time, and
//! the lines of their segment.
//!
//! The reads are measured at 10^6 keys. Beyond the key's own they are 0.002 where tags are whole, and up to
//! 0.06 where the prefix implies 4 of their bits.
mod cursor;
mod segment;

use std::sync::Arc;

pub use cursor::HashCursor;

use siphasher::sip::SipHasher13;

use crate::FullKeys;
use crate::prefetch;
use segment::{Place, Segment};

/// Entries a segment, on average, when the index grows by one.
const SEGMENT_LEN: u64 = 256;

/// Entries a segment, on average, when the index shrinks by one.
const SEGMENT_LEN_MIN: u64 = SEGMENT_LEN / 4;

/// Bits of a tag that the segment's prefix may imply before the tags are made anew.
const CONSUMED_MAX: u8 = 4;

/// Segments in a chunk, the unit in which a shared index copies its directory when it is changed.
const CHUNK_LEN: usize = 256;

type Chunk = Arc<Vec<Segment>>;

/// An unordered map from byte strings to 8-byte entries that keeps 16 bits of each key's hash, and
/// reads the full keys through the entries to compare them. Cloned in constant time.
#[derive(Clone)]
pub struct HashIndex {
    /// SipHash-1-3 (Aumasson and Bernstein) under a key, so that a user who chooses keys and does not know it
    /// cannot choose collisions.
    hasher: SipHasher13,
    len: u64,
    /// Linear hashing: there are `2^depth + split` segments, those before `split` are split already.
    depth: u8,
    split: usize,
    chunks: Arc<Vec<Chunk>>,
}

impl HashIndex {
    /// An empty index. Without `seed`, a user cannot make keys whose hashes collide.
    #[must_use]
    pub fn new(seed: [u64; 2]) -> Self {
        let chunks = Arc::new(vec![Arc::new(vec![Segment::new(0, 0, 0, &[])])]);
        let hasher = SipHasher13::new_with_keys(seed[0], seed[1]);
        Self { hasher, len: 0, depth: 0, split: 0, chunks }
    }

    /// The number of keys.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn segment_count(&self) -> usize {
        (1 << self.depth) + self.split
    }

    /// The number of the segment of a hash. Segments are numbered by their prefix, bits reversed, so
    /// that a new one comes behind all others.
    #[inline]
    fn number_of(&self, hash: u64) -> usize {
        let reversed = hash.reverse_bits() as usize;
        let number = reversed & ((1 << self.depth) - 1);
        if number < self.split { reversed & ((2 << self.depth) - 1) } else { number }
    }

    #[inline]
    fn segment(&self, number: usize) -> &Segment {
        &self.chunks[number / CHUNK_LEN][number % CHUNK_LEN]
    }

    #[inline]
    fn segment_mut(&mut self, number: usize) -> &mut Segment {
        let chunk = &mut Arc::make_mut(&mut self.chunks)[number / CHUNK_LEN];
        &mut Arc::make_mut(chunk)[number % CHUNK_LEN]
    }

    /// Brings the parts of the index that an operation with `key` will touch into the cache, for a caller
    /// that has other work to do first.
    pub fn prepare(&self, key: &[u8]) {
        let hash = self.hasher.hash(key);
        self.segment(self.number_of(hash)).prefetch(hash);
    }

    /// Asks for the full keys that an operation with `key` will read, once the index's part has been
    /// [prepared](Self::prepare).
    pub fn prepare_compare<F: FullKeys>(&self, key: &[u8], keys: &F) {
        let hash = self.hasher.hash(key);
        let candidates = self.segment(self.number_of(hash)).candidates(hash);
        candidates.for_each(|(_, entry)| keys.prefetch(entry));
    }

    /// Asks for the parts of the index that operations with these keys will touch, and calls `found` with
    /// the entries that may be theirs, so that it can ask for the records behind them. The cache misses of
    /// all are waited for together.
    pub fn prefetch(&self, keys: &[&[u8]], found: impl Fn(u64)) {
        for keys in keys.chunks(prefetch::GROUP) {
            let mut sought = [None; prefetch::GROUP];
            for (place, key) in sought.iter_mut().zip(keys) {
                let hash = self.hasher.hash(key);
                let segment = self.segment(self.number_of(hash));
                segment.prefetch(hash);
                *place = Some((segment, hash));
            }
            for (segment, hash) in sought.into_iter().flatten() {
                segment.candidates(hash).for_each(|(_, entry)| found(entry));
            }
        }
    }

    /// The entry of `key`. Reads one full key, of the entry that it finds; rarely more.
    ///
    /// # Errors
    /// A full key cannot be read.
    pub fn get<F: FullKeys>(&self, key: &[u8], keys: &F) -> Result<Option<u64>, F::Error> {
        let hash = self.hasher.hash(key);
        let found = find(self.segment(self.number_of(hash)), hash, key, keys)?;
        Ok(found.map(|(_, entry)| entry))
    }

    /// The entry of `key`, or of another key, if `key` is not there: the caller compares. Full keys
    /// are read only to decide between several entries.
    ///
    /// # Errors
    /// A full key cannot be read.
    pub fn get_candidate<F: FullKeys>(
        &self,
        key: &[u8],
        keys: &F,
    ) -> Result<Option<u64>, F::Error> {
        let hash = self.hasher.hash(key);
        let segment = self.segment(self.number_of(hash));
        let mut candidates = segment.candidates(hash);
        match (candidates.next(), candidates.next()) {
            (Some(_), Some(_)) => Ok(find(segment, hash, key, keys)?.map(|(_, entry)| entry)),
            (first, _) => Ok(first.map(|(_, entry)| entry)),
        }
    }

    /// Sets the entry of `key` and returns the old one.
    ///
    /// # Errors
    /// A full key cannot be read.
    pub fn insert<F: FullKeys>(
        &mut self,
        key: &[u8],
        entry: u64,
        keys: &F,
    ) -> Result<Option<u64>, F::Error> {
        self.insert_with(key, |_| entry, keys)
    }

    /// Replaces the entry of `key` by the one that `entry` makes of the old one, and returns the old one.
    ///
    /// # Errors
    /// A full key cannot be read. `entry` was not called.
    pub fn insert_with<F: FullKeys>(
        &mut self,
        key: &[u8],
        entry: impl FnOnce(Option<u64>) -> u64,
        keys: &F,
    ) -> Result<Option<u64>, F::Error> {
        let hash = self.hasher.hash(key);
        let number = self.number_of(hash);
        if let Some((place, old)) = find(self.segment(number), hash, key, keys)? {
            self.segment_mut(number).set(place, entry(Some(old)));
            return Ok(Some(old));
        }
        self.segment_mut(number).insert(hash, entry(None));
        self.len += 1;
        if self.len > self.segment_count() as u64 * SEGMENT_LEN {
            self.grow(keys);
        }
        Ok(None)
    }

    /// Changes the entry of `key`, which the caller knows to be there, in place. Returns whether an entry
    /// may be the key's. Full keys are read only to decide between several entries. The changed entry must
    /// still lead to the same key.
    ///
    /// # Errors
    /// A full key cannot be read. `change` was not called.
    pub fn modify_present<F: FullKeys>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut u64),
        keys: &F,
    ) -> Result<bool, F::Error> {
        let hash = self.hasher.hash(key);
        let number = self.number_of(hash);
        let found = {
            let segment = self.segment(number);
            let mut candidates = segment.candidates(hash);
            match (candidates.next(), candidates.next()) {
                (Some(_), Some(_)) => find(segment, hash, key, keys)?,
                (only, _) => only,
            }
        };
        let Some((place, mut entry)) = found else { return Ok(false) };
        debug_assert!(
            keys.with_key(entry, |full| full == key).unwrap_or(true),
            "what is changed is the key's entry"
        );
        change(&mut entry);
        self.segment_mut(number).set(place, entry);
        Ok(true)
    }

    /// Removes `key` and returns its entry.
    ///
    /// # Errors
    /// A full key cannot be read.
    pub fn remove<F: FullKeys>(&mut self, key: &[u8], keys: &F) -> Result<Option<u64>, F::Error> {
        let hash = self.hasher.hash(key);
        let number = self.number_of(hash);
        let Some((place, _)) = find(self.segment(number), hash, key, keys)? else {
            return Ok(None);
        };
        let old = self.segment_mut(number).remove(place);
        self.len -= 1;
        if self.len < self.segment_count() as u64 * SEGMENT_LEN_MIN && self.segment_count() > 1 {
            self.shrink();
        }
        Ok(Some(old))
    }

    /// Removes all keys.
    pub fn clear(&mut self) {
        let (low, high) = self.hasher.keys();
        *self = Self::new([low, high]);
    }

    /// Splits the next segment in turn. Its keys are read only every few times, when its tags have few bits
    /// left that its prefix does not imply. If they cannot be read, it is split by the remaining bits, if
    /// any.
    fn grow<F: FullKeys>(&mut self, keys: &F) {
        let old = self.segment(self.split);
        let (prefix, depth) = (old.prefix(), old.depth());
        let (mut base, mut can_split, mut entries) = (old.base(), old.can_split(), old.entries());
        if depth + 1 - base > CONSUMED_MAX {
            entries.iter().for_each(|(_, entry)| keys.prefetch(*entry));
            let with_hash = |&(_, entry): &(u64, u64)| {
                Ok((keys.with_key(entry, |key| self.hasher.hash(key))?, entry))
            };
            let hashed: Result<Vec<_>, F::Error> = entries.iter().map(with_hash).collect();
            if let Ok(hashed) = hashed {
                (base, can_split, entries) = (depth + 1, true, hashed);
            }
        }
        if !can_split {
            return;
        }
        let bit = 1 << (63 - depth);
        let (right, left): (Vec<_>, Vec<_>) = entries.iter().partition(|(hash, _)| hash & bit != 0);
        *self.segment_mut(self.split) = Segment::new(prefix, depth + 1, base, &left);
        let chunks = Arc::make_mut(&mut self.chunks);
        if chunks.last().is_none_or(|chunk| chunk.len() == CHUNK_LEN) {
            chunks.push(Arc::new(Vec::new()));
        }
        if let Some(chunk) = chunks.last_mut() {
            Arc::make_mut(chunk).push(Segment::new(prefix | bit, depth + 1, base, &right));
        }
        self.split += 1;
        if self.split == 1 << self.depth {
            (self.depth, self.split) = (self.depth + 1, 0);
        }
    }

    /// Joins the last segment with the one that it was split from.
    fn shrink(&mut self) {
        let chunks = Arc::make_mut(&mut self.chunks);
        let right = chunks.last_mut().and_then(|chunk| Arc::make_mut(chunk).pop());
        let Some(right) = right else { return };
        if chunks.last().is_some_and(|chunk| chunk.is_empty()) {
            chunks.pop();
        }
        if self.split == 0 {
            (self.depth, self.split) = (self.depth - 1, 1 << (self.depth - 1));
        }
        self.split -= 1;
        let left = self.segment(self.split);
        let base = left.base().min(right.base()).min(self.depth);
        let entries = [left.entries(), right.entries()].concat();
        let joined = Segment::new(left.prefix(), self.depth, base, &entries);
        *self.segment_mut(self.split) = joined;
    }

    /// Visits some entries and returns where to go on, or 0 when all were visited. A walk begins with 0.
    /// Even if the index changes between the steps, a key that is there during the whole walk is visited at
    /// least once.
    pub fn scan(&self, position: u64, mut visit: impl FnMut(u64)) -> u64 {
        let segment = self.segment(self.number_of(position));
        segment.visit_line(position, &mut visit).unwrap_or_else(|| {
            // The next prefix; behind the last, 0.
            let last = segment.prefix() | u64::MAX.checked_shr(segment.depth().into()).unwrap_or(0);
            last.wrapping_add(1)
        })
    }

    /// All entries of the current state, in no order.
    #[must_use]
    pub fn iter(&self) -> HashCursor {
        HashCursor::new(self.clone())
    }

    /// An entry chosen by `random`; those of sparse places come up more often.
    #[must_use]
    pub fn sample(&self, random: u64) -> Option<u64> {
        let count = self.segment_count();
        let (start, random) = ((random % count as u64) as usize, random / count as u64);
        (start..count).chain(0..start).find_map(|number| self.segment(number).sample(random))
    }

    /// Bytes that the index takes on the heap, shared parts included. Visits every segment.
    #[must_use]
    pub fn heap_len(&self) -> usize {
        let of_chunk = |chunk: &Chunk| {
            let lines = chunk.iter().map(Segment::heap_len);
            chunk.capacity() * size_of::<Segment>() + lines.sum::<usize>()
        };
        self.chunks.iter().map(of_chunk).sum::<usize>()
            + self.chunks.capacity() * size_of::<Chunk>()
    }
}

/// The place and the entry of `key` in its segment.
fn find<F: FullKeys>(
    segment: &Segment,
    hash: u64,
    key: &[u8],
    keys: &F,
) -> Result<Option<(Place, u64)>, F::Error> {
    for (place, entry) in segment.candidates(hash) {
        if keys.with_key(entry, |full| full == key)? {
            return Ok(Some((place, entry)));
        }
    }
    Ok(None)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Keys that are their entries, and of which none can be read while the index grows.
    struct Numbers {
        are_readable: bool,
    }

    impl FullKeys for Numbers {
        type Error = ();

        fn with_key<R>(&self, entry: u64, read: impl FnOnce(&[u8]) -> R) -> Result<R, ()> {
            if self.are_readable { Ok(read(&entry.to_be_bytes())) } else { Err(()) }
        }
    }

    #[test]
    fn an_index_does_not_outgrow_the_hashes_that_it_knows() {
        let keys = Numbers { are_readable: true };
        let mut index = HashIndex::new([1, 2]);
        for number in 0..200_u64 {
            index.insert(&number.to_be_bytes(), number, &keys).unwrap();
        }
        for _ in 0..70_000 {
            index.grow(&Numbers { are_readable: false });
        }
        // Tags have 16 bits. Segments without keys can be split further.
        let stopped_at = index.segment_count();
        assert!((1 << 16..(1 << 16) + 4096).contains(&stopped_at), "{stopped_at} segments");
        for number in 0..200_u64 {
            assert_eq!(index.get(&number.to_be_bytes(), &keys), Ok(Some(number)));
        }
        index.grow(&keys);
        assert_eq!(index.segment_count(), stopped_at + 1, "it goes on when keys can be read");
        while index.segment_count() > 1 {
            index.shrink();
        }
        for number in 0..200_u64 {
            assert_eq!(index.get(&number.to_be_bytes(), &keys), Ok(Some(number)));
        }
        assert_eq!(index.iter().count(), 200);
    }
}

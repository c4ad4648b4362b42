//! Rows that gets read from the levels ([`ZoneCache`]): in free zones of persistent memory, or else in DRAM, in a pool of
//! their own.
//!
//! A row is the newest version of a key that the levels have, and a put. It is found when memory has no version; so
//! it must be removed before a newer version leaves memory. The rows of flushed keys are removed when the levels have
//! their newer versions, and before the frozen index leaves the view ([`Rows::flushed`]). A row of a read that began
//! before that, and may have missed the flush, is not taken any more. Rows have no checksum of their own, like data
//! in DRAM: their bytes were checked when they were read from the disk.
//!
//! ```text
//! row:  tree u32 | epoch of the tree u64 | sequence u64 | key len u32 | key | value
//! ```

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use halite_cache::{Kind, SecondTier, Ticket, ZoneCache};
use halite_contract::Bytes;
use halite_index::Direction;
use smallvec::SmallVec;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::layer::Layer;
use crate::version::{Stored, Version};

/// Bytes before a row's key.
const HEAD: usize = 24;

/// Rows of all trees.
pub(crate) struct Rows {
    cache: Arc<ZoneCache>,
    place: Place,
    /// How often all rows of a tree were forgotten at once.
    epochs: Box<[AtomicU64]>,
}

/// Where rows lie.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// In zones that the memtables' pool has free, which has them back when it wants their room.
    FreeZones,
    /// In a pool of their own.
    Dram,
}

/// A row that is sought.
pub(crate) struct Sought<'a> {
    key: &'a [u8],
    /// The start of its row: its tree, and how often that forgot all of its rows.
    start: [u8; 12],
    hash: u64,
    ticket: Ticket,
}

impl Rows {
    /// Rows of so many trees, none yet.
    pub(crate) fn new(cache: ZoneCache, place: Place, trees: usize) -> Self {
        let epochs = (0..trees).map(|_| AtomicU64::new(0)).collect();
        Self { cache: Arc::new(cache), place, epochs }
    }

    /// The cache that they lie in, for the blocks of the levels, too.
    pub(crate) fn second_tier(&self) -> Arc<dyn SecondTier> {
        Arc::clone(&self.cache) as Arc<dyn SecondTier>
    }

    /// A row that is sought: here, and, if it is not, in the levels from now on.
    #[inline]
    pub(crate) fn seek<'a>(&self, tree: usize, key: &'a [u8]) -> Sought<'a> {
        let ticket = self.cache.ticket();
        let (start, hash) = self.start(tree, key);
        Sought { key, start, hash, ticket }
    }

    /// Has the processor fetch the rows of these keys, which are about to be sought.
    pub(crate) fn prefetch(&self, tree: usize, keys: &[&[u8]]) {
        let hashes: SmallVec<[u64; 16]> = keys.iter().map(|key| self.start(tree, key).1).collect();
        self.cache.prefetch(&hashes);
    }

    /// The row, if it is not above `at`.
    #[inline]
    pub(crate) fn get(&self, sought: &Sought<'_>, at: u64) -> Option<Version> {
        let found = self.cache.get(Kind::Row, sought.hash, |row| {
            let (head, rest) = row.split_first_chunk::<HEAD>()?;
            let sequence = u64::from_le_bytes(head[12..20].try_into().expect("8 bytes"));
            let key_len = u32::from_le_bytes(head[20..].try_into().expect("4 bytes"));
            let (key, value) = rest.split_at_checked(key_len as usize)?;
            (head[..12] == sought.start && key == sought.key && sequence <= at)
                .then(|| Version { sequence, value: Stored::Bytes(Bytes::from(value)) })
        });
        Some(found?.item)
    }

    /// Takes the row of a version that was the levels' newest.
    pub(crate) fn insert(&self, sought: &Sought<'_>, sequence: u64, value: &[u8]) {
        let mut head = [0; HEAD];
        head[..12].copy_from_slice(&sought.start);
        head[12..20].copy_from_slice(&sequence.to_le_bytes());
        head[20..].copy_from_slice(&(sought.key.len() as u32).to_le_bytes());
        self.cache.insert(sought.hash, sought.ticket, &[&head, sought.key, value]);
    }

    /// Removes the rows of a tree whose keys were flushed, as the levels have newer versions; all rows of it, if
    /// ranges were removed.
    pub(crate) fn flushed(&self, tree: usize, flushed: &impl Layer) {
        self.cache.begin_removals();
        if !flushed.deletes().is_empty() {
            self.epochs[tree].fetch_add(1, Ordering::AcqRel);
            return;
        }
        let all = Bound::Unbounded;
        let index = flushed.index();
        let mut cursor = index.cursor_of_versions(all, all, Direction::Ascending);
        while let Some(entry) = cursor.next(index, flushed) {
            self.cache.remove(self.start(tree, flushed.key(entry)).1);
        }
    }

    /// See [`ZoneCache::grow`].
    pub(crate) fn grow(&self) {
        self.cache.grow();
    }

    /// See [`ZoneCache::give_back`]. Those in a pool of their own keep it.
    pub(crate) fn give_back(&self) -> bool {
        self.place == Place::FreeZones && self.cache.give_back()
    }

    /// Bytes that rows take of the memtables' pool.
    pub(crate) fn pool_bytes(&self) -> u64 {
        if self.place == Place::FreeZones { self.cache.pool_bytes() } else { 0 }
    }

    /// Bytes that rows take in a pool of their own, and the table that leads to them, once there are some.
    pub(crate) fn volatile_bytes(&self) -> u64 {
        let bytes = self.cached_bytes();
        let is_there = self.place == Place::Dram && bytes > 0;
        if is_there { bytes + self.cache.table_bytes() } else { 0 }
    }

    /// Bytes of what is cached here, wherever it lies.
    pub(crate) fn cached_bytes(&self) -> u64 {
        self.cache.pool_bytes()
    }

    /// The start of a key's row, and its hash.
    #[inline]
    fn start(&self, tree: usize, key: &[u8]) -> ([u8; 12], u64) {
        let epoch = self.epochs[tree].load(Ordering::Acquire);
        let mut start = [0; 12];
        start[..4].copy_from_slice(&(tree as u32).to_le_bytes());
        start[4..].copy_from_slice(&epoch.to_le_bytes());
        (start, xxh3_64_with_seed(key, (tree as u64) << 40 ^ epoch))
    }
}

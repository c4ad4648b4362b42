//! The adaptive radix tree: an ordered index that any number of threads read and write at once.
//!
//! It is the index of Yan et al. (§3.1) above the records of a memtable and of the global index: an ART
//! (Leis et al. 2013) under optimistic lock coupling (Leis et al. 2016), with epoch-based reclamation. It
//! stores no keys: they are read from the records that entries lead to.
//!
//! ```text
//!   keys  cat, cattle, cow, dog                          anchor: the lock of the root's slot
//!                                                           │
//!              level 0, window ""                        ┌──▼────────┐
//!              c and d differ                            │ c    d    │  Four            node.rs
//!                                                        └─┼────┼────┘
//!              level 1, window "c"                 ┌───────▼─┐  └──► entry of dog
//!                                                  │ a   o   │  Four                  word.rs
//!                                                  └─┼───┼───┘
//!              level 3, window "cat"       ┌─────────▼──┐└──► entry of cow
//!              ends here, or t follows     │ t      end │  Four
//!                                          └─┼───────┼──┘
//!              entry of cattle ◄─────────────┘       └──► | room, len | oldest | ... | newest |
//!                                                          versions of cat        versions.rs
//! ```
//!
//! A lookup goes from node to node by the byte at each node's level, and skips the bytes that all keys
//! below have in common. A node keeps the last 16 of these bytes, its window, which never changes: a node
//! that is put above another leaves it unchanged. Earlier common bytes are skipped without a comparison
//! (path compression that is optimistic beyond the window): a lookup compares the whole key once, with the
//! record it found, and an insert that has to know them reads the key of any record below. So a prefix of
//! any length costs no space, nodes have a fixed length, and a Four fits a line.
//!
//! A key may be a prefix of others: it ends at a node, and is in its terminal slot, before all others.
//!
//! A reader notes a node's [version](lock), reads the slot, and checks that the version is still the same.
//! A writer locks the one node that it changes, or that and the one above if the node is replaced by a
//! larger one. To put a node above another, only the slot above both is locked. A replaced node is marked,
//! so that an operation that stands on it begins anew, and its memory goes back to the [arena](arena) when
//! [no pinned thread](reclaim) can reach it any more. Keys never leave the tree, so nodes only grow.
//!
//! # Costs
//!
//! | operation | cache misses |
//! |---|---|
//! | `get`, `newest` | one a level that is not cached (a node of 48 slots: two, in turn), and the record |
//! | `get` of a version that is not the newest | and `log2` of the key's versions, with their records |
//! | `insert` of a new key | as a lookup; the record with which it shares a slot, if it does |
//! | `insert` of a version | as a lookup of the newest, and the array |
//! | a cursor | a lookup for every 128 keys, then the nodes; of records those at its bounds, and if it has a version to be at most, every newest, asked for ahead |
//! | [`bulk_load`](RadixTree::bulk_load) | few: keys are divided by ranges; each is sorted and built in cache |
//! | `split_keys` | every node, and a record a key that it returns |
//!
//! `n` random keys over `a` letters have about `log_a(n)` levels, of which the upper ones are cached: at
//! 10^6 keys 3 of bytes and 6 of decimal digits. They take 25 and 38 bytes a key. Nodes lie in large pages.
//! A lookup prefetches a node's slots with its header, guessing that the node skips no bytes, and a walk
//! prefetches the nodes that it will come to.
mod arena;
mod bulk_load;
mod cursor;
mod insert;
mod leaf;
mod lock;
#[cfg(all(test, loom))]
mod loom_tests;
mod node;
mod path;
mod reclaim;
mod sought;
mod split;
mod versions;
mod walk;
mod word;

use std::sync::Arc;

use halite_pmem::Scratch;

use crate::prefetch;
use crate::sync::{AtomicU64, Ordering, spin_loop, yield_now};
use arena::Arena;
pub use bulk_load::{BulkLoad, Loader};
pub use cursor::{Direction, RadixCursor};
use lock::{Restart, VersionLock};
use reclaim::Pin;
use sought::Sought;
use word::{Child, Leaf};

/// The records that the entries of a [`RadixTree`] lead to.
///
/// An entry must lead to the same key and version as long as the tree has it, and until all operations have
/// ended that began when it had. Only the tree's order relies on them: wrong keys or versions cannot make
/// it panic or read out of bounds.
pub trait Records {
    /// The key of an entry.
    fn key(&self, entry: u64) -> &[u8];

    /// The version of an entry: the greater, the newer. No two of one key are alike.
    fn version(&self, entry: u64) -> u64;

    /// Compares the versions of two entries of one key. For records whose entries tell which is newer, there is no
    /// need to read them.
    fn cmp_versions(&self, one: u64, other: u64) -> std::cmp::Ordering {
        self.version(one).cmp(&self.version(other))
    }

    /// Asks for the record of an entry, which a cursor will yield soon.
    fn prefetch(&self, _entry: u64) {}
}

impl<R: Records> Records for &R {
    fn key(&self, entry: u64) -> &[u8] {
        R::key(self, entry)
    }

    fn version(&self, entry: u64) -> u64 {
        R::version(self, entry)
    }

    fn cmp_versions(&self, one: u64, other: u64) -> std::cmp::Ordering {
        R::cmp_versions(self, one, other)
    }

    fn prefetch(&self, entry: u64) {
        R::prefetch(self, entry);
    }
}

/// As long as a thread holds this, its operations on trees begin without a fence. Memory that is taken out
/// of trees meanwhile is not reused, so threads should hold it for a short time only.
#[must_use = "it does something as long as it lives"]
pub struct Pinned {
    _pin: Pin,
}

/// An ordered map from byte strings to versions, each an 8-byte entry, that threads share.
pub struct RadixTree {
    /// Guards `root`, as a node's lock its slots.
    anchor: VersionLock,
    root: AtomicU64,
    arena: Arc<Arena>,
}

/// The type of `needed` for an insert that purges nothing.
type NoPurge = fn(u64, u64) -> bool;

impl RadixTree {
    /// An empty tree.
    #[must_use]
    pub fn new() -> Self {
        Self::with_arena(Arena::new(None))
    }

    /// An empty tree whose nodes and arrays of versions lie in volatile memory from `memory`. It is asked
    /// for a number of bytes, a power of two from 64 KiB to 2 MiB, aligned to a line. If it returns none,
    /// or less, the tree uses DRAM; so do arrays that are longer than every class of slots. A pool stays
    /// open as long as the tree.
    ///
    /// It is called under a lock of the tree, and must not call it.
    #[must_use]
    pub fn with_memory(memory: impl Fn(usize) -> Option<Scratch> + Send + Sync + 'static) -> Self {
        Self::with_arena(Arena::new(Some(Box::new(memory))))
    }

    fn with_arena(arena: Arena) -> Self {
        Self { anchor: VersionLock::new(), root: AtomicU64::new(0), arena: Arc::new(arena) }
    }

    /// Lets this thread's operations on trees begin without a fence, for a while.
    pub fn pin() -> Pinned {
        Pinned { _pin: Pin::new() }
    }

    /// Adds a version of a key. The versions of a key may come in any order, and from several threads.
    /// Adding an existing version changes nothing.
    ///
    /// # Panics
    /// `entry` is zero, not a multiple of 8, or not below 2^56, or the key has 16 MiB or more.
    pub fn insert(&self, records: &impl Records, key: &[u8], entry: u64) {
        self.insert_with(records, key, entry, None::<&NoPurge>);
    }

    /// Adds a version of a key as [`insert`](Self::insert) does. If it was not there, drops the versions of
    /// the key that `needed(older, newer)` does not need: it is given two versions that follow each other.
    /// The newest is kept. Returns how many were dropped, including the added one if it was.
    ///
    /// Readers of keys nearby wait for `needed`, and it must not call the tree.
    ///
    /// # Panics
    /// As [`insert`](Self::insert).
    pub fn insert_purging(
        &self,
        records: &impl Records,
        key: &[u8],
        entry: u64,
        needed: impl Fn(u64, u64) -> bool,
    ) -> usize {
        self.insert_with(records, key, entry, Some(&needed))
    }

    fn insert_with(
        &self,
        records: &impl Records,
        key: &[u8],
        entry: u64,
        needed: Option<&impl Fn(u64, u64) -> bool>,
    ) -> usize {
        check(key, entry);
        let sought = Sought::new(key);
        let pin = Pin::new();
        until_done(|| self.try_insert(&pin, records, &sought, entry, needed))
    }

    /// The newest entry of `key` whose version is at most `at`.
    #[must_use]
    pub fn get(&self, records: &impl Records, key: &[u8], at: u64) -> Option<u64> {
        self.find(records, key, |leaf| leaf.newest_up_to(at, records))
    }

    /// The entry that [`get`](Self::get) would return. Where `get` returns none, this may return the entry
    /// of another key, or one whose version is above `at`: for a caller that reads the record anyway, and
    /// can tell.
    #[must_use]
    pub fn candidate(&self, records: &impl Records, key: &[u8], at: u64) -> Option<u64> {
        let sought = Sought::new(key);
        let pin = Pin::new();
        until_done(|| {
            self.try_find(&pin, &sought, &|leaf| match leaf {
                Leaf::One(entry) => Some(entry),
                several => several.newest_up_to(at, records),
            })
        })
    }

    /// The newest entry of `key`, of any version.
    #[must_use]
    pub fn newest(&self, records: &impl Records, key: &[u8]) -> Option<u64> {
        self.find(records, key, |leaf| Some(leaf.newest()))
    }

    /// Brings the nodes that lookups and inserts of these keys will read into the cache, newest records
    /// included. The cache misses of several keys are waited for together.
    pub fn prefetch(&self, records: &impl Records, keys: &[&[u8]]) {
        let _pin = Pin::new();
        for group in keys.chunks(prefetch::GROUP) {
            let root = self.root.load(Ordering::Acquire);
            let mut words = [root; prefetch::GROUP];
            let mut goes_on = true;
            while goes_on {
                goes_on = false;
                for (key, word) in group.iter().zip(&mut words) {
                    let byte = |level: usize| key.get(level).copied();
                    // SAFETY: the word was loaded from a slot, after pinning.
                    let child = unsafe { Child::of(*word) };
                    *word = 0;
                    let Child::Node(node) = child else {
                        if let Child::Leaf(leaf) = child {
                            records.prefetch(leaf.newest());
                        }
                        continue;
                    };
                    // The node may be changing; then this prefetches a line that is not needed.
                    let level = node.level();
                    let Some(slot) = node.find(byte(level)) else { continue };
                    *word = slot.load(Ordering::Acquire);
                    word::prefetch_line(*word);
                    // SAFETY: as above.
                    if let Child::Node(next) = unsafe { Child::of(*word) } {
                        next.prefetch(byte(level + 1).unwrap_or_default());
                    }
                    goes_on |= *word != 0;
                }
            }
        }
    }

    /// The number of keys. Keys that other threads insert at this time may not be counted yet.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.arena.keys()
    }

    /// Whether there is no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of nodes and arrays of versions.
    #[must_use]
    pub fn memory_len(&self) -> u64 {
        self.arena.used_len()
    }

    fn find(
        &self,
        records: &impl Records,
        key: &[u8],
        choose: impl Fn(Leaf) -> Option<u64>,
    ) -> Option<u64> {
        let sought = Sought::new(key);
        let pin = Pin::new();
        let found = until_done(|| self.try_find(&pin, &sought, &choose))?;
        (records.key(found) == key).then_some(found)
    }

    /// The entry that `choose` takes from the only leaf that may be the key's.
    #[inline]
    fn try_find(
        &self,
        _pin: &Pin,
        sought: &Sought,
        choose: &impl Fn(Leaf) -> Option<u64>,
    ) -> Result<Option<u64>, Restart> {
        let (mut parent, mut slot) = (&self.anchor, &self.root);
        let mut seen = parent.read()?;
        let mut next_level = 0;
        loop {
            // SAFETY: the word was loaded from a slot, after pinning.
            let child = unsafe { Child::of(slot.load(Ordering::Acquire)) };
            match child {
                Child::Nothing => return parent.validate(seen).map(|()| None),
                Child::Leaf(leaf) => {
                    let chosen = choose(leaf);
                    return parent.validate(seen).map(|()| chosen);
                }
                Child::Node(node) => {
                    node.prefetch(sought.byte(next_level).unwrap_or_default());
                    parent.validate(seen)?;
                    let version = node.lock().read()?;
                    let level = node.level();
                    if sought.key.len() < level || sought.window(level) != node.window() {
                        return Ok(None);
                    }
                    let Some(next) = node.find(sought.byte(level)) else {
                        return node.lock().validate(version).map(|()| None);
                    };
                    (parent, slot, seen, next_level) = (node.lock(), next, version, level + 1);
                }
            }
        }
    }
}

impl Default for RadixTree {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for RadixTree {
    fn drop(&mut self) {
        // SAFETY: the tree has no other user any more.
        unsafe { self.arena.close() };
    }
}

/// Makes sure that a node has a place for an entry and its key.
fn check(key: &[u8], entry: u64) {
    assert!(
        entry != 0 && entry.is_multiple_of(8) && entry >> 56 == 0,
        "entry {entry:#x} is not a multiple of 8 between 8 and 2^56"
    );
    assert!(key.len() <= node::LEVEL_MAX, "a key of {} B has no place in a node", key.len());
}

/// Repeats an attempt until no node that it read has changed meanwhile.
#[inline]
fn until_done<T>(mut attempt: impl FnMut() -> Result<T, Restart>) -> T {
    loop {
        match attempt() {
            Ok(done) => return done,
            Err(Restart) if cfg!(loom) => yield_now(),
            Err(Restart) => spin_loop(),
        }
    }
}

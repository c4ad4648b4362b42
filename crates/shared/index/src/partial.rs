//! The partial-key B+tree (Lersch §5.6.2).
//!
//! ```text
//!                  separators: bytes, the shortest that do             inner    keys.rs
//!                  children                                                     partial/inner.rs
//!                /            |             \
//!   from user31            from user3107            from user32 up to user4
//!   | skip 6 |             | skip 5 |               | skip 4 |       leaves    partial/leaf.rs
//!   | 0014 0377 0659 |     | 1073 1121 1948 |       | 3210 3210 3977 |         heads of k bytes
//!   | e0   e1   e2   |     | e3   e4   e5   |       | e6   e7   e8   |         entries
//! ```
//!
//! A lookup finds the leaf by separators, which are whole, and the entries there that have its head. If it
//! has to know which of them is its key, or whether one is, it reads full keys through the entries, in a
//! binary search.
//!
//! A full leaf first shares its load with the neighbour that has more room, and only two full ones become
//! three (Knuth's B*-tree). That fills leaves to 83 % on average where splits alone fill 69 %. No entry's
//! key is read for that ([`arrange`]). When too many heads in a leaf are equal, its keys are read, once,
//! and the leaf skips more of their first bytes ([`leaf`]).
//!
//! # Costs
//!
//! With leaves that are filled to `f`, a record takes `1024 / (c f) + 0.9` bytes, where a leaf has room
//! for `c = 992 / (8 + k)` entries: 124, 99, 82 and 62 at `k` of 0, 2, 4 and 8. At random keys of
//! `user` and 20 digits `f` is 0.83, and stays there while a tree grows.
//!
//! | operation | cache misses | full keys read (k = 8; 4) |
//! |---|---|---|
//! | `get_candidate` | the leaf, its lines at once, and inner nodes that are not cached | 0.05; 0.16 |
//! | `get`, `modify`, `insert` of a key that is there | the same, and those of the key | 1.05; 1.16 |
//! | `insert` of a new key | the same; one in 15 has those of its neighbours | 0.02; 1.4 |
//! | `find_entries`, `modify_entry` | those of `get_candidate` | none |
//! | `remove` | that of `get`; below half full, one in 4 has those of its neighbours | 1.05; 1.16 |
//! | `remove_range` | as `range` | as `get` for each bound |
//! | `range` | two walks; then one leaf in `c f` entries | as `get` for each bound, then none |
//!
//! The reads are measured, at 10^6 such keys. At k = 4 nearly all of an insert's are those of leaves that
//! begin to skip more bytes of their keys, and are prefetched. Keys that have more than `k` bytes in common
//! with many others in their leaf, but not with all, cost the most: of 16 fields a user, a search reads one
//! key more on average. With `t` equal heads it is `log2(t)`, and never more than `log2(c)`. Without
//! partial keys (k = 0) every search reads that many.
mod arrange;
mod build;
mod cursor;
mod image;
mod inner;
mod leaf;
mod remove_range;

pub use cursor::PartialKeyCursor;
pub use image::{Fate, Ghosts, LeafImages, TreeReader};

use crate::FullKeys;
use crate::node_ref::NodeRef;
use crate::prefetch;
use inner::{Child, Inner};
pub(crate) use leaf::Leaf;

/// How many bytes of a key an entry keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PartialLen {
    /// None: every comparison in a leaf reads a full key.
    Zero,
    /// Two.
    Two,
    /// Four.
    Four,
    /// Eight.
    #[default]
    Eight,
}

impl PartialLen {
    /// All lengths, ascending.
    pub const ALL: [Self; 4] = [Self::Zero, Self::Two, Self::Four, Self::Eight];

    /// Returns the length in bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Zero => 0,
            Self::Two => 2,
            Self::Four => 4,
            Self::Eight => 8,
        }
    }

    /// The part of a head of 8 bytes that is kept.
    const fn truncate(self, head: u64) -> u64 {
        match self {
            Self::Zero => 0,
            _ => head & u64::MAX << (64 - 8 * self.bytes()),
        }
    }
}

/// An ordered map from byte strings to 8-byte entries that keeps a few bytes of each key, and reads
/// the full keys through the entries when those do not decide. Cloned in constant time.
#[derive(Clone)]
pub struct PartialKeyTree {
    root: NodeRef<Inner>,
    len: u64,
    partial: PartialLen,
}

impl PartialKeyTree {
    /// An empty tree whose entries keep so many bytes of their keys.
    #[must_use]
    pub fn new(partial: PartialLen) -> Self {
        let leaf = Child::Leaf(NodeRef::new(Leaf::new(partial, &[], 0)));
        Self { root: NodeRef::new(Inner::new([].into(), None, leaf)), len: 0, partial }
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

    /// How many bytes of a key an entry keeps.
    #[must_use]
    pub fn partial_len(&self) -> PartialLen {
        self.partial
    }

    /// The entry of `key`. Reads one full key, of the entry that it finds; rarely more.
    ///
    /// # Errors
    /// A full key cannot be read.
    pub fn get<F: FullKeys>(&self, key: &[u8], keys: &F) -> Result<Option<u64>, F::Error> {
        let leaf = self.find(key);
        Ok(leaf.search(key, keys)?.ok().map(|at| leaf.entry(at)))
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
        let leaf = self.find(key);
        let candidates = leaf.candidates(key);
        match candidates.len() {
            0 => Ok(None),
            1 => Ok(Some(leaf.entry(candidates.start))),
            _ => Ok(leaf.search(key, keys)?.ok().map(|at| leaf.entry(at))),
        }
    }

    /// Brings the parts of the tree that an operation with `key` will touch into the cache, for a caller
    /// that has other work to do first.
    pub fn prepare(&self, key: &[u8]) {
        self.find(key);
    }

    /// Asks for the full keys that an operation with `key` will read, once the tree's part has been
    /// [prepared](Self::prepare).
    pub fn prepare_compare<F: FullKeys>(&self, key: &[u8], keys: &F) {
        let leaf = self.find(key);
        let candidates = leaf.candidates(key);
        // The first that a binary search compares.
        if !candidates.is_empty() {
            keys.prefetch(leaf.entry(candidates.start.midpoint(candidates.end)));
        }
    }

    /// Asks for the parts of the tree that operations with these keys will touch, and calls `found` with
    /// the entries that may be theirs, so that it can ask for the records behind them. The cache misses of
    /// all are waited for together.
    pub fn prefetch(&self, keys: &[&[u8]], found: impl Fn(u64)) {
        for keys in keys.chunks(prefetch::GROUP) {
            let mut leaves = [None; prefetch::GROUP];
            for (leaf, key) in leaves.iter_mut().zip(keys) {
                let sought = self.leaf_of(key);
                sought.prefetch_heads();
                *leaf = Some(sought);
            }
            let mut places = [None; prefetch::GROUP];
            for ((place, leaf), key) in
                places.iter_mut().zip(leaves.into_iter().flatten()).zip(keys)
            {
                let candidates = leaf.candidates(key);
                if !candidates.is_empty() {
                    // The first that a binary search compares.
                    let at = candidates.start.midpoint(candidates.end);
                    leaf.prefetch_entry(at);
                    *place = Some((leaf, at));
                }
            }
            places.into_iter().flatten().for_each(|(leaf, at)| found(leaf.entry(at)));
        }
    }

    /// The leaf that has `key`, if any has; it is prefetched, not read.
    #[inline]
    fn find(&self, key: &[u8]) -> &Leaf {
        let leaf = self.leaf_of(key);
        leaf.prefetch();
        leaf
    }

    /// The leaf that has `key`, if any has.
    #[inline]
    fn leaf_of(&self, key: &[u8]) -> &NodeRef<Leaf> {
        let mut inner = &self.root;
        loop {
            match &inner.children()[inner.child_of(key)] {
                Child::Leaf(leaf) => return leaf,
                child @ Child::Inner(inside) => {
                    child.prefetch();
                    inner = inside;
                }
            }
        }
    }

    /// Returns the leaf of a key, to be changed.
    #[inline]
    fn find_mut(&mut self, key: &[u8]) -> &mut NodeRef<Leaf> {
        let mut inner = &mut self.root;
        loop {
            let child = inner.make_mut().child_mut(key);
            child.prefetch();
            match child {
                Child::Leaf(leaf) => return leaf,
                Child::Inner(child) => inner = child,
            }
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
        let (old, split) = Inner::insert(&mut self.root, key, entry, keys)?;
        if let Some(split) = split {
            let mut root = Inner::new([].into(), None, Child::Inner(self.root.clone()));
            root.push(split);
            self.root = NodeRef::new(root);
        }
        self.len += u64::from(old.is_none());
        Ok(old)
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
        let leaf = self.find_mut(key);
        let candidates = leaf.candidates(key);
        let at = match candidates.len() {
            0 => return Ok(false),
            1 => candidates.start,
            _ => match leaf.search(key, keys)? {
                Ok(at) => at,
                Err(_) => return Ok(false),
            },
        };
        debug_assert!(
            keys.with_key(leaf.entry(at), |full| full == key).unwrap_or(true),
            "what is changed is the key's entry"
        );
        let mut entry = leaf.entry(at);
        change(&mut entry);
        leaf.make_mut().set_entry(at, entry);
        Ok(true)
    }

    /// Returns for each of `keys` the entry that `is` accepts, given the key's place among them, out of the
    /// entries that may be the key's. Reads no full key: for a caller that recognises its entry. The cache
    /// misses of all are waited for together.
    #[must_use]
    pub fn find_entries(
        &self,
        keys: &[&[u8]],
        is: impl Fn(usize, u64) -> bool,
    ) -> Vec<Option<u64>> {
        let leaves: Vec<_> = keys
            .iter()
            .map(|key| {
                let leaf = self.leaf_of(key);
                leaf.prefetch_heads();
                leaf
            })
            .collect();
        let candidates: Vec<_> = leaves
            .iter()
            .zip(keys)
            .map(|(leaf, key)| {
                let candidates = leaf.candidates(key);
                leaf.prefetch_entry(candidates.start);
                candidates
            })
            .collect();
        let found = leaves.iter().zip(candidates).enumerate();
        let found = found.map(|(at, (leaf, mut candidates))| {
            let entry = candidates.find(|&candidate| is(at, leaf.entry(candidate)))?;
            Some(leaf.entry(entry))
        });
        found.collect()
    }

    /// Changes the entry of `key` that `is` accepts, as [`Self::find_entries`] does; returns whether there
    /// is one. Reads no full key. The changed entry must still lead to the same key.
    pub fn modify_entry(
        &mut self,
        key: &[u8],
        is: impl Fn(u64) -> bool,
        change: impl FnOnce(&mut u64),
    ) -> bool {
        let leaf = self.find_mut(key);
        let Some(at) = leaf.candidates(key).find(|&at| is(leaf.entry(at))) else { return false };
        let mut entry = leaf.entry(at);
        change(&mut entry);
        leaf.make_mut().set_entry(at, entry);
        true
    }

    /// Removes `key` and returns its entry.
    ///
    /// # Errors
    /// A full key cannot be read.
    pub fn remove<F: FullKeys>(&mut self, key: &[u8], keys: &F) -> Result<Option<u64>, F::Error> {
        // Shared nodes are not copied for a key that is not there.
        let Ok(place) = self.find(key).search(key, keys)? else { return Ok(None) };
        let old = Inner::remove(&mut self.root, key, place, keys);
        self.len -= 1;
        self.lower();
        Ok(Some(old))
    }

    /// Removes roots that have one child.
    fn lower(&mut self) {
        while let [Child::Inner(child)] = self.root.children() {
            self.root = child.clone();
        }
    }

    /// The entries of the current state from `start` up to, not including, `end`, ascending.
    ///
    /// # Errors
    /// A full key cannot be read.
    pub fn range<F: FullKeys>(
        &self,
        start: &[u8],
        end: Option<&[u8]>,
        keys: &F,
    ) -> Result<PartialKeyCursor, F::Error> {
        PartialKeyCursor::ascending(&self.root, start, end, keys)
    }

    /// Returns the same entries as [`Self::range`], descending.
    ///
    /// # Errors
    /// A full key cannot be read.
    pub fn range_rev<F: FullKeys>(
        &self,
        start: &[u8],
        end: Option<&[u8]>,
        keys: &F,
    ) -> Result<PartialKeyCursor, F::Error> {
        PartialKeyCursor::descending(&self.root, start, end, keys)
    }

    /// All entries of the current state, ascending. Reads no key.
    #[must_use]
    pub fn iter(&self) -> PartialKeyCursor {
        PartialKeyCursor::all(&self.root)
    }

    /// An entry chosen by `random`: one child a level, so entries of sparse nodes come up more often.
    #[must_use]
    pub fn sample(&self, mut random: u64) -> Option<u64> {
        let mut choose = |len: usize| {
            let chosen = random % len as u64;
            // Each level takes fresh bits: a step of splitmix64.
            random = (random ^ random >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ random >> 27;
            chosen as usize
        };
        let mut inner = &self.root;
        loop {
            match &inner.children()[choose(inner.children().len())] {
                // An empty leaf, which could join neither neighbour: any entry will do.
                Child::Leaf(leaf) if leaf.len() == 0 => return self.iter().next(),
                Child::Leaf(leaf) => return Some(leaf.entry(choose(leaf.len()))),
                Child::Inner(child) => inner = child,
            }
        }
    }

    /// Bytes that the tree takes on the heap, shared nodes included. Visits every node.
    #[must_use]
    pub fn heap_len(&self) -> usize {
        inner::heap_len(&self.root)
    }
}

//! The sorted entries of one leaf, each with a part of its key.
//!
//! ```text
//! 0        8     10      11    12     16       32
//! | count | len | k     |     | skip | guard  | heads: k bytes each | entries: 8 bytes each |
//! ```
//!
//! The keys of a leaf have their first `skip` bytes in common, which are not stored with the entries
//! (prefix truncation). The `k` bytes behind them are its *head*, padded with zeros and compared as a
//! big-endian number (a poor man's normalized key). Different heads decide how two keys compare; equal ones
//! decide nothing.
//!
//! The common prefix of the leaf's fences in the inner nodes is a prefix of every key that a search brings
//! here. If `skip` goes beyond that, the bytes between are the *guard*: a search compares them, and a key
//! that differs in them goes before or behind all entries.

use std::mem::offset_of;
use std::ops::Range;

use super::PartialLen;
use crate::keys::common_prefix;
use crate::node_ref::{NodeRef, Pooled};
use crate::prefetch;
use crate::slabs::Slabs;
use crate::{FullKeys, SortedKey};

/// Bytes of a leaf with its count.
const LEAF_LEN: usize = 1024;

const BYTES: usize = LEAF_LEN - 32;

#[derive(Clone)]
#[repr(C)]
pub(crate) struct Leaf {
    len: u16,
    partial: PartialLen,
    skip: u32,
    guard: Box<[u8]>,
    bytes: [u8; BYTES],
}

// Loom's counts are longer.
#[cfg(not(loom))]
const _: () = assert!(NodeRef::<Leaf>::SLOT_LEN == LEAF_LEN);

impl Pooled for Leaf {
    fn slabs() -> &'static Slabs {
        static SLABS: Slabs = Slabs::new(NodeRef::<Leaf>::SLOT_LEN);
        &SLABS
    }
}

/// Entries that a leaf has room for.
pub(crate) const fn capacity(partial: PartialLen) -> usize {
    BYTES / (8 + partial.bytes())
}

impl Leaf {
    /// A leaf for keys that begin with `prefix`, of which the fences guarantee `base` bytes.
    pub(crate) fn new(partial: PartialLen, prefix: &[u8], base: usize) -> Self {
        Self {
            len: 0,
            partial,
            skip: prefix.len() as u32,
            guard: prefix.get(base..).unwrap_or_default().into(),
            bytes: [0; BYTES],
        }
    }

    /// A leaf whose keys have `skip` bytes in common, the last of them `guard`; without entries.
    pub(crate) fn restore(partial: PartialLen, skip: usize, guard: Box<[u8]>) -> Self {
        Self { skip: skip as u32, guard, ..Self::new(partial, &[], 0) }
    }

    /// Adds an entry behind the others, with the bytes of a head that is not less than theirs.
    pub(crate) fn push(&mut self, head: &[u8], entry: u64) {
        let at = self.len();
        self.bytes[at * head.len()..][..head.len()].copy_from_slice(head);
        self.len += 1;
        self.set_entry(at, entry);
    }

    pub(crate) fn len(&self) -> usize {
        self.len.into()
    }

    pub(crate) fn partial(&self) -> PartialLen {
        self.partial
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len() == capacity(self.partial)
    }

    /// Whether the leaf, which has lost an entry, should look for a neighbour to join. Every fourth
    /// loss, because the neighbours are cache misses.
    pub(crate) fn is_sparse(&self) -> bool {
        self.len() < capacity(self.partial) / 2 && self.len().is_multiple_of(4)
    }

    /// Bytes of the keys that heads leave out.
    pub(crate) fn skip(&self) -> usize {
        self.skip as usize
    }

    /// The bytes in front of the heads, behind those that the fences guarantee.
    pub(crate) fn guard(&self) -> &[u8] {
        &self.guard
    }

    /// How many bytes in front of the guard the fences guarantee.
    pub(crate) fn base(&self) -> usize {
        self.skip() - self.guard.len()
    }

    /// Prefetches exactly the lines that [`Self::candidates`] reads, for many leaves at once.
    #[inline]
    pub(crate) fn prefetch_heads(&self) {
        prefetch::lines(std::ptr::from_ref(self).cast(), offset_of!(Self, bytes) + BYTES / 2);
    }

    /// Asks for the line of the entry at `at`.
    #[inline]
    pub(crate) fn prefetch_entry(&self, at: usize) {
        if let Some(entry) = self.bytes.get(Self::entries_at(self.partial) + 8 * at..) {
            prefetch::lines(entry.as_ptr(), 1);
        }
    }

    const fn entries_at(partial: PartialLen) -> usize {
        BYTES - 8 * capacity(partial)
    }

    #[inline]
    pub(crate) fn entry(&self, at: usize) -> u64 {
        assert!(at < self.len());
        let start = Self::entries_at(self.partial) + 8 * at;
        u64::from_ne_bytes(self.bytes[start..][..8].try_into().unwrap_or_default())
    }

    #[inline]
    pub(crate) fn set_entry(&mut self, at: usize, entry: u64) {
        assert!(at < self.len());
        let start = Self::entries_at(self.partial) + 8 * at;
        self.bytes[start..][..8].copy_from_slice(&entry.to_ne_bytes());
    }

    /// The head at `at`, its first byte the number's highest.
    pub(crate) fn head(&self, at: usize) -> u64 {
        let k = self.partial.bytes();
        first_8(&self.bytes[at * k..][..k])
    }

    /// The heads, each as long as the entries' parts of their keys.
    pub(crate) fn heads(&self) -> &[u8] {
        &self.bytes[..self.len() * self.partial.bytes()]
    }

    fn set_head(&mut self, at: usize, head: u64) {
        let k = self.partial.bytes();
        self.bytes[at * k..][..k].copy_from_slice(&head.to_be_bytes()[..k]);
    }

    /// The head of a key in this leaf.
    fn head_of(&self, key: &[u8]) -> u64 {
        self.partial.truncate(first_8(key.get(self.skip()..).unwrap_or_default()))
    }

    /// The entries that may be `key`: only their full keys can decide between them. If there are none, the
    /// place where it would go.
    #[inline]
    pub(crate) fn candidates(&self, key: &[u8]) -> Range<usize> {
        if !self.guard.is_empty() {
            let rest = key.get(self.base()..).unwrap_or_default();
            if !rest.starts_with(&self.guard) {
                let at = if *rest < *self.guard { 0 } else { self.len() };
                return at..at;
            }
        }
        match self.partial {
            PartialLen::Zero => 0..self.len(),
            PartialLen::Two => self.with_head::<2>(self.head_of(key)),
            PartialLen::Four => self.with_head::<4>(self.head_of(key)),
            PartialLen::Eight => self.with_head::<8>(self.head_of(key)),
        }
    }

    #[inline]
    fn with_head<const K: usize>(&self, head: u64) -> Range<usize> {
        let (heads, _) = self.bytes[..self.len() * K].as_chunks::<K>();
        // The search has no branches on the keys, which a processor could not predict.
        let (mut first, mut len) = (0, heads.len());
        while len > 1 {
            let half = len / 2;
            first += usize::from(first_8(&heads[first + half - 1]) < head) * half;
            len -= half;
        }
        first += usize::from(len == 1 && first_8(&heads[first]) < head);
        let same = heads[first..].iter().take_while(|&found| first_8(found) == head).count();
        first..first + same
    }

    /// The place of `key`, or where it would go.
    #[inline]
    pub(crate) fn search<F: FullKeys>(
        &self,
        key: &[u8],
        keys: &F,
    ) -> Result<Result<usize, usize>, F::Error> {
        let Range { mut start, mut end } = self.candidates(key);
        while start < end {
            let middle = start.midpoint(end);
            match keys.with_key(self.entry(middle), |full| full.cmp(key))? {
                std::cmp::Ordering::Less => start = middle + 1,
                std::cmp::Ordering::Equal => return Ok(Ok(middle)),
                std::cmp::Ordering::Greater => end = middle,
            }
        }
        Ok(Err(start))
    }

    /// Adds an entry at the place of its key; there is room.
    pub(crate) fn insert(&mut self, at: usize, key: &[u8], entry: u64) {
        self.widen_for(key);
        let head = self.head_of(key);
        self.insert_head(at, head, entry);
    }

    /// Inserts an entry whose head fits the leaf.
    pub(crate) fn insert_head(&mut self, at: usize, head: u64, entry: u64) {
        assert!(!self.is_full(), "room is made before a full leaf is added to");
        let (len, k, entries) = (self.len(), self.partial.bytes(), Self::entries_at(self.partial));
        self.bytes.copy_within(at * k..len * k, (at + 1) * k);
        self.bytes.copy_within(entries + 8 * at..entries + 8 * len, entries + 8 * (at + 1));
        self.len += 1;
        self.set_head(at, head);
        self.set_entry(at, entry);
    }

    pub(crate) fn remove(&mut self, at: usize) -> u64 {
        let old = self.entry(at);
        let (len, k, entries) = (self.len(), self.partial.bytes(), Self::entries_at(self.partial));
        self.bytes.copy_within((at + 1) * k..len * k, at * k);
        self.bytes.copy_within(entries + 8 * (at + 1)..entries + 8 * len, entries + 8 * at);
        self.len -= 1;
        old
    }

    /// Shortens the guard to the bytes that `key` begins with.
    fn widen_for(&mut self, key: &[u8]) {
        let rest = key.get(self.base()..).unwrap_or_default();
        let common = common_prefix(rest, &self.guard);
        if common == self.guard.len() {
            return;
        }
        let moved = self.guard[common..].to_vec();
        for at in 0..self.len() {
            let head = self.partial.truncate(prepend(&moved, self.head(at)));
            self.set_head(at, head);
        }
        self.skip -= moved.len() as u32;
        self.guard = self.guard[..common].into();
    }

    /// Whether so many heads are equal that longer prefixes should be looked for. Counts them only when the
    /// number of entries is a power of two, and returns false otherwise.
    pub(crate) fn asks_to_refine(&self) -> bool {
        self.len >= 4 && self.len.is_power_of_two() && self.is_ambiguous()
    }

    /// Whether more than an eighth of the heads equal the head before them. False without partial keys,
    /// where a longer prefix would not help.
    fn is_ambiguous(&self) -> bool {
        let same = (1..self.len()).filter(|&at| self.head(at - 1) == self.head(at)).count();
        self.partial != PartialLen::Zero && same * 8 > self.len()
    }

    /// Skips more bytes of the keys if heads are too often equal: the `base` bytes that the fences have in
    /// common, or if these are skipped already, those that the keys have in common. Reads all keys if that
    /// helps. If a key cannot be read, the leaf stays unchanged: this is for speed only.
    pub(crate) fn refine<F: FullKeys>(&mut self, base: usize, keys: &F) {
        if self.is_ambiguous() {
            let _ = self.try_refine(base, keys);
        }
    }

    fn try_refine<F: FullKeys>(&mut self, base: usize, keys: &F) -> Result<(), F::Error> {
        let (first, last) = (self.entry(0), self.entry(self.len() - 1));
        keys.prefetch(last);
        let prefix = keys.with_key(first, <[u8]>::to_vec)?;
        let skip = if base > self.skip() {
            base
        } else {
            keys.with_key(last, |last| common_prefix(&prefix, last))?
        };
        if skip <= self.skip() || skip > prefix.len() {
            return Ok(());
        }
        (0..self.len()).for_each(|at| keys.prefetch(self.entry(at)));
        let mut refined = Self::new(self.partial, &prefix[..skip], base.min(skip));
        for at in 0..self.len() {
            let entry = self.entry(at);
            let head = keys.with_key(entry, |key| refined.head_of(key))?;
            refined.insert_head(at, head, entry);
        }
        *self = refined;
        Ok(())
    }

    /// A leaf with these entries, whose keys ascend, between fences that have `base` bytes in common.
    pub(crate) fn build<K: SortedKey>(
        partial: PartialLen,
        entries: &[(K, u64)],
        base: usize,
    ) -> Self {
        let Some(((first, _), (last, _))) = entries.first().zip(entries.last()) else {
            return Self::new(partial, &[], 0);
        };
        let (first, last) = (first.start(), last.start());
        let with_prefix = |len: usize| {
            let mut leaf = Self::new(partial, &first[..len], base);
            for (at, (key, entry)) in entries.iter().enumerate() {
                let is_known = key.start().len() >= len + partial.bytes();
                let head = leaf.head_of(if is_known { key.start() } else { key.whole() });
                leaf.insert_head(at, head, *entry);
            }
            leaf
        };
        let leaf = with_prefix(base);
        if leaf.is_ambiguous() { with_prefix(common_prefix(first, last)) } else { leaf }
    }

    /// Bytes on the heap.
    pub(crate) fn heap_len(&self) -> usize {
        self.guard.len()
    }
}

/// The first 8 bytes as a number, padded with zeros.
#[inline]
pub(crate) fn first_8(bytes: &[u8]) -> u64 {
    if let Some(bytes) = bytes.first_chunk() {
        return u64::from_be_bytes(*bytes);
    }
    let mut padded = [0; 8];
    padded[..bytes.len()].copy_from_slice(bytes);
    u64::from_be_bytes(padded)
}

/// The first 8 bytes of `bytes` followed by the bytes of `head`.
pub(crate) fn prepend(bytes: &[u8], head: u64) -> u64 {
    match bytes.len() {
        0 => head,
        len @ 1..8 => first_8(bytes) | head >> (8 * len),
        _ => first_8(bytes),
    }
}

//! What is sorted: an entry and the beginning of its key.

use std::cmp::Ordering::{self, Equal};

use crate::radix::Records;
use crate::radix::sought::{Sought, WINDOW, common_len};

/// Bytes of a key that are kept beside its entry. Only keys that have them in common are read.
pub(super) const HEAD: usize = WINDOW;

/// An entry and the beginning of its key.
#[derive(Clone, Copy, Default)]
pub(super) struct Item {
    /// Big-endian, with zeros behind the key's end. In halves, so that an item takes 24 bytes.
    head: [u64; 2],
    /// In the top byte the key's length, if it is not above [`HEAD`], else one more than that.
    entry: u64,
}

const ENTRY: u64 = (1 << 56) - 1;

impl Item {
    #[inline]
    pub(super) fn new(key: &[u8], entry: u64) -> Self {
        let head = head_of(key);
        let len = key.len().min(HEAD + 1) as u64;
        Self { head: [(head >> 64) as u64, head as u64], entry: entry | len << 56 }
    }

    #[inline]
    pub(super) fn entry(&self) -> u64 {
        self.entry & ENTRY
    }

    /// The key's length up to one more than [`HEAD`].
    #[inline]
    pub(super) fn len(&self) -> usize {
        (self.entry >> 56) as usize
    }

    #[inline]
    pub(super) fn is_long(&self) -> bool {
        self.len() > HEAD
    }

    #[inline]
    pub(super) fn head(&self) -> u128 {
        u128::from(self.head[0]) << 64 | u128::from(self.head[1])
    }

    #[inline]
    pub(super) fn cmp(&self, other: &Self, records: &impl Records) -> Ordering {
        let (head, others) = (self.head(), other.head());
        if head != others { head.cmp(&others) } else { self.cmp_behind(other, records) }
    }

    /// Compares keys whose heads are equal.
    #[cold]
    fn cmp_behind(&self, other: &Self, records: &impl Records) -> Ordering {
        self.len().cmp(&other.len()).then_with(|| match self.is_long() {
            true => records.key(self.entry()).cmp(records.key(other.entry())),
            false => Equal,
        })
    }

    /// How many bytes two keys have in common.
    #[inline]
    pub(super) fn common(&self, other: &Self, records: &impl Records) -> usize {
        let bytes = (self.head() ^ other.head()).leading_zeros() as usize / 8;
        let common = bytes.min(self.len()).min(other.len());
        if common == HEAD && self.is_long() && other.is_long() {
            return common_len(records.key(self.entry()), records.key(other.entry()));
        }
        common
    }

    #[inline]
    pub(super) fn byte(&self, level: usize, records: &impl Records) -> Option<u8> {
        if level < HEAD {
            return (level < self.len()).then(|| (self.head() >> (120 - level * 8)) as u8);
        }
        // A key that is no longer than its head ends there.
        self.is_long().then(|| records.key(self.entry()).get(level).copied()).flatten()
    }

    /// The first bytes of the key; it has no fewer.
    pub(super) fn prefix(&self, len: usize, records: &impl Records) -> Box<[u8]> {
        let (head, key) = (self.head().to_be_bytes(), records.key(self.entry()));
        head.get(..len).or(key.get(..len)).unwrap_or(key).into()
    }

    /// As [`Sought::window`].
    #[inline]
    pub(super) fn window(&self, level: usize, records: &impl Records) -> u128 {
        if level > HEAD {
            return Sought::new(records.key(self.entry())).window(level);
        }
        Sought::new(&self.head().to_be_bytes()).window(level)
    }
}

/// The first bytes of a key, as a number in whose order keys are.
#[inline]
pub(super) fn head_of(key: &[u8]) -> u128 {
    Sought::new(key).window(HEAD).swap_bytes()
}

//! The items that are sorted: an entry and the beginning of its key.

use std::cmp::Ordering::{self, Equal};

use crate::radix::Records;
use crate::radix::sought::{Sought, WINDOW, common_len};

/// Bytes of a key that are kept beside its entry. Only keys that have them in common are read.
pub(super) const HEAD: usize = WINDOW;

/// An entry and the beginning of its key: the head, big-endian, with zeros behind the key's end, in halves; then the
/// entry, with the key's length in the top byte, if that is not above [`HEAD`], else one more.
#[derive(Clone, Copy, Default)]
pub(super) struct Item([u64; 3]);

const ENTRY: u64 = (1 << 56) - 1;

impl Item {
    #[inline]
    pub(super) fn new(key: &[u8], entry: u64) -> Self {
        let head = head_of(key);
        let len = key.len().min(HEAD + 1) as u64;
        Self([(head >> 64) as u64, head as u64, entry | len << 56])
    }

    #[inline]
    pub(super) fn entry(&self) -> u64 {
        self.0[2] & ENTRY
    }

    /// The key's length up to one more than [`HEAD`].
    #[inline]
    pub(super) fn len(&self) -> usize {
        (self.0[2] >> 56) as usize
    }

    #[inline]
    pub(super) fn is_long(&self) -> bool {
        self.len() > HEAD
    }

    #[inline]
    pub(super) fn head(&self) -> u128 {
        u128::from(self.0[0]) << 64 | u128::from(self.0[1])
    }

    /// Compares keys.
    #[inline]
    pub(super) fn cmp_key(&self, other: &Self, records: &impl Records) -> Ordering {
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

    /// Compares keys, then versions.
    #[inline]
    pub(super) fn cmp(&self, other: &Self, records: &impl Records) -> Ordering {
        let versions = || records.cmp_versions(self.entry(), other.entry());
        self.cmp_key(other, records).then_with(versions)
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

    /// Does as [`Sought::window`].
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

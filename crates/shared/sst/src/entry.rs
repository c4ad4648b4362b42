//! Versions of keys, and their order.

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Deref, Range};

use halite_codec::Plain;

/// An entry whose value is the key's value.
pub const PUT: u8 = 1;

/// A tombstone: from its sequence number on, the key has no value.
pub const DELETE: u8 = 2;

/// A tombstone of all keys from the entry's key up to, and without, the entry's value.
pub const RANGE_DELETE: u8 = 3;

/// An entry whose value is a reference to the file that has the key's value ([`crate::ValueRef`]).
pub const PUT_FILE: u8 = 4;

/// The largest sequence number: they have 56 bits, so that a kind fits into the same word.
pub const SEQUENCE_MAX: u64 = (1 << 56) - 1;

/// One version of a key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The key.
    pub key: &'a [u8],
    /// When it was written: at most [`SEQUENCE_MAX`], and no two entries of a key have the same.
    pub sequence: u64,
    /// Its kind: [`PUT`], [`PUT_FILE`], [`DELETE`], or one that only the engine knows.
    pub kind: u8,
    /// The value.
    pub value: &'a [u8],
}

impl Entry<'_> {
    /// Where the entry stands in the order of all.
    #[inline]
    pub(crate) fn order(&self, key: &[u8], sequence: u64) -> Ordering {
        order((self.key, self.sequence), (key, sequence))
    }
}

impl fmt::Debug for Entry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, len) = (self.key.escape_ascii(), self.value.len());
        write!(f, "{key}@{} kind {} value of {len} bytes", self.sequence, self.kind)
    }
}

/// The order of versions: by key, and of a key the newest first.
#[inline]
#[must_use]
pub fn order(a: (&[u8], u64), b: (&[u8], u64)) -> Ordering {
    a.0.cmp(b.0).then(b.1.cmp(&a.1))
}

/// Sequence and kind as one word, as it is stored.
#[inline]
pub(crate) fn pack(sequence: u64, kind: u8) -> u64 {
    sequence << 8 | u64::from(kind)
}

/// Sequence and kind of a stored word.
#[inline]
pub(crate) fn unpack(word: u64) -> (u64, u8) {
    (word >> 8, word as u8)
}

/// A value within a block, which it keeps in memory.
#[derive(Clone)]
pub struct Value {
    pub(crate) block: Plain,
    pub(crate) range: Range<usize>,
}

impl Value {
    /// No byte.
    #[must_use]
    pub fn empty() -> Self {
        Self { block: Plain::from(&[][..]), range: 0..0 }
    }
}

impl Deref for Value {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.block[self.range.clone()]
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}

/// The result of a get.
#[derive(Clone, Debug)]
pub struct Found {
    /// The version's sequence number.
    pub sequence: u64,
    /// The version's kind.
    pub kind: u8,
    /// The version's value.
    pub value: Value,
}

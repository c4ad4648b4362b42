//! A leaf of the non-volatile tree: entries in any order, and a word that says which of them are there.
//!
//! ```text
//!  entry 0 | entry 1 | ...  -->  free  <--  ... key | key | present u64
//!
//!  entry:    value u64 | tag u16 | check u16 | key at u16 | key len u16
//!  present:  a bit an entry, 48 | check u16
//! ```
//!
//! An entry is written where its bit of `present` is zero, and its key where no key is of those that are there. Neither
//! is seen before the word is stored, so that one word of 8 bytes adds and removes any number of a leaf's entries at
//! once. An entry that replaces one of the same key shares its key's bytes.
//!
//! The tag is a part of the key's hash: a lookup compares it first. The check of an entry is over that hash, the value, and
//! where the key is; the check of `present` over its bits, seeded with the leaf's pointer. A key longer than an eighth of
//! the leaf lies in a slot of its own, to which the 8 bytes in its place point; the highest bit of its length says so.
//!
//! A leaf has at most 48 entries, and so at most 2 KiB; the nodes above it may be longer.

use halite_alloc::heap::NvPtr;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::node::{Damage, LongKey, number, short};

/// Bytes of an entry, without its key.
pub(super) const ENTRY: usize = 16;

/// Bytes of the word behind the keys.
const WORD: usize = 8;

/// Entries of a leaf at most: the bits of its word.
pub(super) const ENTRIES_MAX: usize = 48;

/// The longest leaf, in bytes.
const LEN_MAX: usize = 2048;

/// The bits of the word that are entries.
const BITS: u64 = (1 << ENTRIES_MAX) - 1;

/// The bit of a length that says that the key lies elsewhere.
const LONG: u16 = 1 << 15;

/// Bytes in the place of a key that lies elsewhere.
pub(super) const REFERENCE: usize = 8;

/// The length of the leaves of a tree with nodes of so many bytes.
pub(super) const fn leaf_len(node_len: usize) -> usize {
    if node_len < LEN_MAX { node_len } else { LEN_MAX }
}

/// Bytes of a leaf for entries and keys.
pub(super) const fn room(leaf_len: usize) -> usize {
    leaf_len - WORD
}

/// Where the word of a leaf is.
pub(super) const fn present_at(leaf_len: usize) -> u64 {
    room(leaf_len) as u64
}

/// The longest key that a leaf of so many bytes has in itself.
pub(super) const fn key_max(leaf_len: usize) -> usize {
    leaf_len / 8
}

/// The hash of a key, by which entries are told apart and damage is noticed.
pub(super) fn hash(key: &[u8], salt: u64) -> u64 {
    xxh3_64_with_seed(key, salt)
}

/// The word that says that the entries of some bits are there.
pub(super) fn present(bits: u64, seed: u64) -> u64 {
    let start = (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as u16;
    u64::from(chain(start, &[bits as u16, (bits >> 16) as u16, (bits >> 32) as u16])) << ENTRIES_MAX
        | bits
}

/// The number of entries that a word says are there.
pub(super) fn count(word: u64) -> u32 {
    (word & BITS).count_ones()
}

/// The check of some numbers: it is another one if one of them is.
fn chain(start: u16, numbers: &[u16]) -> u16 {
    numbers.iter().fold(start, |sum, number| (sum ^ number).wrapping_mul(0x9e3b).rotate_left(7))
}

/// A leaf that is read. Its bytes are untrusted.
#[derive(Clone, Copy)]
pub(super) struct Leaf<'a> {
    bytes: &'a [u8],
    bits: u64,
}

/// An entry that is there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry<'a> {
    pub(super) place: usize,
    pub(super) value: u64,
    pub(super) key: Key<'a>,
    /// Where the key is, and how long it is there.
    pub(super) key_at: usize,
    tag: u16,
    check: u16,
    key_len: u16,
}

/// The key of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key<'a> {
    Here(&'a [u8]),
    /// In a slot of its own, with this length.
    Elsewhere(NvPtr<LongKey>, usize),
}

impl Key<'_> {
    /// Bytes that a leaf has in the key's place.
    pub(super) fn stored_len(&self) -> usize {
        match self {
            Self::Here(key) => key.len(),
            Self::Elsewhere(..) => REFERENCE,
        }
    }

    /// The bytes that a leaf has in the key's place.
    pub(super) fn stored(&self) -> Vec<u8> {
        match self {
            Self::Here(key) => key.to_vec(),
            Self::Elsewhere(pointer, _) => pointer.word().to_le_bytes().to_vec(),
        }
    }

    /// The field for the key's length.
    fn len_field(&self) -> u16 {
        match self {
            Self::Here(key) => key.len() as u16,
            Self::Elsewhere(_, len) => *len as u16 | LONG,
        }
    }
}

/// The check of an entry.
fn check(hash: u64, value: u64, key_at: u16, key_len: u16) -> u16 {
    let [high, middle, low, last] = [48, 32, 16, 0].map(|shift| (value >> shift) as u16);
    chain((hash >> 16) as u16, &[key_at, key_len, high, middle, low, last])
}

/// The bytes of an entry.
pub(super) fn encode(hash: u64, value: u64, key_at: usize, key: &Key<'_>) -> [u8; ENTRY] {
    let (key_at, key_len) = (key_at as u16, key.len_field());
    let mut bytes = [0; ENTRY];
    bytes[..8].copy_from_slice(&value.to_le_bytes());
    bytes[8..10].copy_from_slice(&(hash as u16).to_le_bytes());
    bytes[10..12].copy_from_slice(&check(hash, value, key_at, key_len).to_le_bytes());
    bytes[12..14].copy_from_slice(&key_at.to_le_bytes());
    bytes[14..].copy_from_slice(&key_len.to_le_bytes());
    bytes
}

impl<'a> Leaf<'a> {
    /// Reads the leaf in a slot.
    pub(super) fn read(slot: &'a [u8], leaf_len: usize, seed: u64) -> Result<Self, Damage> {
        let Some(bytes) = slot.get(..leaf_len) else {
            return Err(Damage("its slot is shorter than a leaf"));
        };
        let word = number(bytes, room(leaf_len));
        let bits = word & BITS;
        if present(bits, seed) != word {
            return Err(Damage("the word of its entries does not have its check"));
        }
        // The last place ends before the word.
        if (64 - bits.leading_zeros() as usize) * ENTRY > room(leaf_len) {
            return Err(Damage("it has entries behind its end"));
        }
        Ok(Self { bytes, bits })
    }

    /// Which entries are there.
    pub(super) fn bits(self) -> u64 {
        self.bits
    }

    /// Its bytes.
    pub(super) fn len(self) -> usize {
        self.bytes.len()
    }

    fn places(self) -> impl Iterator<Item = usize> {
        let mut left = self.bits;
        std::iter::from_fn(move || {
            (left != 0).then(|| {
                let place = left.trailing_zeros() as usize;
                left &= left - 1;
                place
            })
        })
    }

    fn entry(self, place: usize) -> Result<Entry<'a>, Damage> {
        let bytes = &self.bytes[place * ENTRY..(place + 1) * ENTRY];
        let (key_at, key_len) = (usize::from(short(bytes, 12)), short(bytes, 14));
        let (is_long, len) = (key_len & LONG != 0, usize::from(key_len & !LONG));
        let stored = if is_long { REFERENCE } else { len };
        let Some(key) = self.bytes[..room(self.len())].get(key_at..key_at + stored) else {
            return Err(Damage("a key lies behind its end"));
        };
        let key = match is_long {
            true => Key::Elsewhere(NvPtr::from_word(number(key, 0)), len),
            false => Key::Here(key),
        };
        let (value, tag, check) = (number(bytes, 0), short(bytes, 8), short(bytes, 10));
        Ok(Entry { place, value, key, key_at, tag, check, key_len })
    }

    /// The entries that are there, in the order of their places.
    pub(super) fn entries(self) -> impl Iterator<Item = Result<Entry<'a>, Damage>> {
        self.places().map(move |place| self.entry(place))
    }

    /// The entries whose tag is that of a hash.
    pub(super) fn tagged(self, hash: u64) -> impl Iterator<Item = Result<Entry<'a>, Damage>> {
        let is_tagged = move |&place: &usize| short(self.bytes, place * ENTRY + 8) == hash as u16;
        self.places().filter(is_tagged).map(move |place| self.entry(place))
    }
}

impl Entry<'_> {
    /// Checks the entry, whose key has this hash.
    pub(super) fn check(&self, hash: u64) -> Result<(), Damage> {
        let is = self.tag == hash as u16
            && self.check == check(hash, self.value, self.key_at as u16, self.key_len);
        if is { Ok(()) } else { Err(Damage("an entry does not have its check")) }
    }
}

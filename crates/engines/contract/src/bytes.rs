//! Bytes read from a store.

use std::fmt;
use std::ops::{Deref, Range};

use halite_pmem::Pinned;

/// A key or a value read from a store: pinned in place in the pool, or owned. Short owned ones take no
/// space on the heap.
///
/// A pinned one costs no copy. It keeps its block from being reused, so hold it only as long as it is read;
/// `to_vec` makes a copy that holds no block.
#[derive(Clone)]
pub struct Bytes(Repr);

#[derive(Clone)]
enum Repr {
    Pinned(Pinned),
    Owned(Box<[u8]>),
    Short { len: u8, bytes: [u8; SHORT] },
}

/// Bytes that fit in place of the other variants' pointers. With them, a `Bytes` takes 40.
const SHORT: usize = 38;

impl Bytes {
    /// The part of these bytes in `range`, without a copy where they are pinned.
    ///
    /// # Panics
    /// If `range` reaches beyond them.
    #[must_use]
    pub fn slice(self, range: Range<usize>) -> Self {
        match self.0 {
            Repr::Pinned(pinned) => Self(Repr::Pinned(pinned.slice(range))),
            Repr::Owned(owned) => Self::from(&owned[range]),
            Repr::Short { len, bytes } => Self::from(&bytes[..usize::from(len)][range]),
        }
    }

    /// Whether the bytes are read in place, and so keep space of the pool.
    #[must_use]
    pub fn is_pinned(&self) -> bool {
        matches!(self.0, Repr::Pinned(_))
    }
}

impl Default for Bytes {
    /// No bytes.
    fn default() -> Self {
        Self(Repr::Short { len: 0, bytes: [0; SHORT] })
    }
}

impl Deref for Bytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Repr::Pinned(pinned) => pinned,
            Repr::Owned(owned) => owned,
            Repr::Short { len, bytes } => &bytes[..usize::from(*len)],
        }
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl From<Pinned> for Bytes {
    fn from(pinned: Pinned) -> Self {
        Self(Repr::Pinned(pinned))
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(owned: Vec<u8>) -> Self {
        Self(Repr::Owned(owned.into()))
    }
}

impl From<&[u8]> for Bytes {
    #[inline]
    fn from(bytes: &[u8]) -> Self {
        if bytes.len() > SHORT {
            return Self(Repr::Owned(bytes.into()));
        }
        let mut short = [0; SHORT];
        short[..bytes.len()].copy_from_slice(bytes);
        Self(Repr::Short { len: bytes.len() as u8, bytes: short })
    }
}

impl PartialEq for Bytes {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Bytes {}

impl PartialEq<[u8]> for Bytes {
    fn eq(&self, other: &[u8]) -> bool {
        **self == *other
    }
}

impl PartialEq<&[u8]> for Bytes {
    fn eq(&self, other: &&[u8]) -> bool {
        **self == **other
    }
}

impl<const N: usize> PartialEq<&[u8; N]> for Bytes {
    fn eq(&self, other: &&[u8; N]) -> bool {
        **self == other[..]
    }
}

impl PartialEq<Vec<u8>> for Bytes {
    fn eq(&self, other: &Vec<u8>) -> bool {
        **self == other[..]
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_bytes_are_alike() {
        assert_eq!(size_of::<Bytes>(), 40);
        let all: Vec<u8> = (0..2 * SHORT as u8).collect();
        for len in 0..=all.len() {
            let (copied, taken) = (Bytes::from(&all[..len]), Bytes::from(all[..len].to_vec()));
            assert_eq!(copied, all[..len]);
            assert_eq!(copied, taken);
            assert_eq!(copied.clone().slice(len / 3..len), all[len / 3..len]);
            assert!(!copied.is_pinned());
        }
    }
}

//! Bytes read from a store.

use std::fmt;
use std::ops::{Deref, Range};

use halite_pmem::Pinned;

/// A key or a value read from a store: pinned where it lies in the pool, or owned.
///
/// A pinned one costs no copy. It keeps the block it lies in from being reused, so hold it as long
/// as it is read and no longer; `to_vec` makes a copy that holds nothing.
#[derive(Clone)]
pub struct Bytes(Repr);

#[derive(Clone)]
enum Repr {
    Pinned(Pinned),
    Owned(Box<[u8]>),
}

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
        }
    }

    /// Whether the bytes are read in place, and so hold on to space of the pool.
    #[must_use]
    pub fn is_pinned(&self) -> bool {
        matches!(self.0, Repr::Pinned(_))
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Repr::Pinned(pinned) => pinned,
            Repr::Owned(owned) => owned,
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
    fn from(bytes: &[u8]) -> Self {
        Self(Repr::Owned(bytes.into()))
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

//! The owners of a heap's space.

use std::fmt;

/// An owner of slots, such as a table or an index: all its space is freed together when it is dropped. Its number is
/// below 2^20, and is not used again by another owner before its space is reclaimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(u32);

impl Owner {
    /// Bits of a number.
    pub(super) const BITS: u32 = 20;

    /// The owner of the named roots, which is no other's number.
    pub(super) const ROOTS: Self = Self((1 << Self::BITS) - 1);

    /// The owner with a number, if it may be one: it is below 2^20 - 1.
    #[must_use]
    pub fn new(number: u32) -> Option<Self> {
        (number < Self::ROOTS.0).then_some(Self(number))
    }

    /// The number.
    #[must_use]
    pub fn number(self) -> u32 {
        self.0
    }

    /// The owner of some stored bits.
    pub(super) fn stored(bits: u64) -> Self {
        Self((bits & ((1 << Self::BITS) - 1)) as u32)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::ROOTS { f.write_str("the roots") } else { write!(f, "owner {}", self.0) }
    }
}

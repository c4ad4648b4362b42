//! Non-volatile pointers: they are valid after a restart, and each use of one is checked.
//!
//! ```text
//! bits 63..58  57..46        45..40  39..0
//!      zero    generation    tag     place, in 8 bytes
//! ```
//!
//! A word that is zero is null. The generation counts the lives of the slot, so that a pointer to a slot that was freed
//! is told from one to the slot's next life, until the count of 12 bits comes round.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::num::NonZeroU8;

const PLACE_BITS: u32 = 40;
const TAG_BITS: u32 = 6;

/// Bits of a generation.
pub(super) const GENERATION_BITS: u32 = 12;

/// The highest generation, which zero follows.
pub(super) const GENERATION_MAX: u16 = (1 << GENERATION_BITS) - 1;

/// The segments that a pointer can lead to.
pub(super) const SEGMENTS_MAX: u32 = ((8 << PLACE_BITS) / crate::SEGMENT) as u32;

/// The type of a slot's contents, which its pointers have, too: 1 to 63. The heap itself uses 63.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(NonZeroU8);

impl Tag {
    /// The tag of named roots.
    pub(super) const ROOT: Self = match NonZeroU8::new(63) {
        Some(number) => Self(number),
        None => unreachable!(),
    };

    /// The tag with a number.
    ///
    /// # Panics
    /// If it is not 1 to 62.
    #[must_use]
    pub const fn new(number: u8) -> Self {
        match NonZeroU8::new(number) {
            Some(number) if number.get() < Self::ROOT.0.get() => Self(number),
            _ => panic!("tags are 1 to 62"),
        }
    }

    /// The number.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0.get()
    }

    /// The tag of some stored bits; zero has none.
    pub(super) fn stored(bits: u64) -> Option<Self> {
        NonZeroU8::new((bits & ((1 << TAG_BITS) - 1)) as u8).map(Self)
    }
}

/// A type whose values slots hold.
pub trait Tagged {
    /// Its tag.
    const TAG: Tag;
}

/// The type of a pointer to a slot of any type.
#[derive(Debug)]
pub enum Any {}

/// A pointer to a slot of any type.
pub type AnyPtr = NvPtr<Any>;

/// A non-volatile pointer to a slot with a `T`.
pub struct NvPtr<T>(u64, PhantomData<fn() -> T>);

impl<T> NvPtr<T> {
    /// The pointer that leads nowhere.
    pub const NULL: Self = Self(0, PhantomData);

    /// The pointer in a stored word, which may be any: it is checked when it is used.
    #[must_use]
    pub fn from_word(word: u64) -> Self {
        Self(word, PhantomData)
    }

    /// The word to be stored.
    #[must_use]
    pub fn word(self) -> u64 {
        self.0
    }

    /// Whether it leads nowhere.
    #[must_use]
    pub fn is_null(self) -> bool {
        self.0 == 0
    }

    /// The same pointer, without its type.
    #[must_use]
    pub fn any(self) -> AnyPtr {
        NvPtr::from_word(self.0)
    }

    pub(super) fn new(place: u64, tag: Tag, generation: u16) -> Self {
        debug_assert!(place.is_multiple_of(8) && place / 8 < 1 << PLACE_BITS);
        let high = u64::from(generation) << TAG_BITS | u64::from(tag.number());
        Self((high << PLACE_BITS) | (place / 8), PhantomData)
    }

    /// The place of the slot, in bytes.
    pub(super) fn place(self) -> u64 {
        (self.0 & ((1 << PLACE_BITS) - 1)) * 8
    }

    pub(super) fn tag(self) -> Option<Tag> {
        Tag::stored(self.0 >> PLACE_BITS)
    }

    pub(super) fn generation(self) -> u16 {
        (self.0 >> (PLACE_BITS + TAG_BITS)) as u16 & GENERATION_MAX
    }

    /// Whether bits are set that no pointer has.
    pub(super) fn has_foreign_bits(self) -> bool {
        self.0 >> (PLACE_BITS + TAG_BITS + GENERATION_BITS) != 0
    }
}

// Derived, these would ask for the same of `T`.
impl<T> Clone for NvPtr<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for NvPtr<T> {}

impl<T> PartialEq for NvPtr<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<T> Eq for NvPtr<T> {}

impl<T> PartialOrd for NvPtr<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for NvPtr<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

impl<T> Hash for NvPtr<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl<T> fmt::Debug for NvPtr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NvPtr({:#x})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_returns_what_it_was_made_of() {
        for (place, tag, generation) in [(8, 1, 0), (SEGMENTS_MAX as u64 * (2 << 20) - 8, 62, 4095)]
        {
            let pointer = AnyPtr::new(place, Tag::new(tag), generation);
            let again = AnyPtr::from_word(pointer.word());
            assert_eq!(again.place(), place);
            assert_eq!((again.tag(), again.generation()), (Some(Tag::new(tag)), generation));
            assert!(!again.is_null() && !again.has_foreign_bits());
        }
        assert!(AnyPtr::NULL.is_null() && AnyPtr::NULL.tag().is_none());
        assert!(AnyPtr::from_word(1 << 63).has_foreign_bits());
    }
}

//! A value as it is stored: a tag, and behind it the form of the tag's type.
//!
//! The tag is one byte:
//!
//! ```text
//! bits 7, 6   10, with which no UTF-8 text begins: a value that was written without a tag is noticed
//! bits 5, 4   the version of the form: 1 of a string, 2 of a collection; a higher one is a newer Halite's
//! bits 3-0    the type: 0 a string, 1 a list, 2 a set, 3 a sorted set, 4 a hash, 5 a stream
//! ```
//!
//! Behind the tag of a string are its bytes, and behind that of a collection its form (`crate::collection`): all of it, if
//! it is small, or the number under which its elements lie. So a command knows from the one record that it reads whether
//! the value is of its type. The bytes behind other tags are not read: such a value can be replaced, removed, and given a
//! deadline, and a command that has to know its content is refused with the reason ([`Unreadable`]).
//!
//! The values of version 2 may be more than their record, which `note` tells of a database: to remove only the record, as
//! the first version would, leaves the rest behind.

use std::ops::Deref;

use halite::Bytes;

/// Bytes in front of a value's content.
pub(crate) const TAG_LEN: usize = 1;

/// The longest string, in bytes, as in Redis: 512 MiB.
pub const STRING_LEN_MAX: usize = 512 << 20;

const _: () = assert!(STRING_LEN_MAX + TAG_LEN <= halite::VALUE_LEN_MAX);

/// The highest version of a form.
pub(super) const VERSION: u8 = 2;

/// The tag of a string.
pub(crate) const STRING_TAG: u8 = MARK | 1 << VERSION_SHIFT;

const MARK: u8 = 0b1000_0000;
const MARK_MASK: u8 = 0b1100_0000;
const VERSION_SHIFT: u8 = 4;
const VERSION_MASK: u8 = 0b0011_0000;
const TYPE_MASK: u8 = 0b0000_1111;

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Type {
    String,
    List,
    Set,
    SortedSet,
    Hash,
    Stream,
}

impl Type {
    /// The collections, in the order of their numbers, which begin at 1.
    const COLLECTIONS: [Self; 5] =
        [Self::List, Self::Set, Self::SortedSet, Self::Hash, Self::Stream];

    /// The name that TYPE replies.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::List => "list",
            Self::Set => "set",
            Self::SortedSet => "zset",
            Self::Hash => "hash",
            Self::Stream => "stream",
        }
    }

    /// The tag of a value.
    pub(crate) fn tag(self) -> u8 {
        match Self::COLLECTIONS.iter().position(|known| *known == self) {
            Some(number) => MARK | 2 << VERSION_SHIFT | (number as u8 + 1),
            None => STRING_TAG,
        }
    }
}

/// Why a stored value cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unreadable {
    /// Its tag has a higher version.
    #[error(
        "it was written by a newer version of Halite, in form {version}; this one reads form {VERSION}"
    )]
    Newer {
        /// The version of its form.
        version: u8,
    },
    /// It is a collection, and a string is asked for.
    #[error("it is a {name}, and no string")]
    NoString {
        /// The name of its type.
        name: &'static str,
    },
    /// Its tag has an unknown type.
    #[error("it is of type {number}, which this version of Halite does not know")]
    UnknownType {
        /// The number of the type.
        number: u8,
    },
    /// It does not begin with a tag.
    #[error("it has no tag: no server wrote it")]
    NoTag,
}

/// The type that the tag of a stored value names.
#[inline]
fn type_of(stored: &[u8]) -> Result<Type, Unreadable> {
    match stored.first() {
        Some(&STRING_TAG) => Ok(Type::String),
        Some(&tag) => type_of_tag(tag),
        None => Err(Unreadable::NoTag),
    }
}

/// The type of a tag that is not a string's.
fn type_of_tag(tag: u8) -> Result<Type, Unreadable> {
    if let Some(known) = Type::COLLECTIONS.into_iter().find(|known| known.tag() == tag) {
        return Ok(known);
    }
    let version = (tag & VERSION_MASK) >> VERSION_SHIFT;
    Err(match tag & MARK_MASK {
        MARK if version > VERSION => Unreadable::Newer { version },
        MARK if version > 0 => Unreadable::UnknownType { number: tag & TYPE_MASK },
        _ => Unreadable::NoTag,
    })
}

/// In the form of a collection: all of it is behind this byte.
pub(crate) const INLINE: u8 = 0;

/// In the form of a collection: behind this byte is the number under which its elements lie, 8 bytes, big-endian, and
/// then what else its type keeps.
pub(crate) const IN_ELEMENTS: u8 = 1;

/// In the form of a sorted set, behind the number of its elements: the records of its order lie there, too.
pub(crate) const WITH_ORDER: u8 = 1;

/// Whether the elements of a stored map have its order, too; `None`: its form is unknown.
pub(crate) fn has_order(stored: &[u8]) -> Option<bool> {
    const BEHIND_NUMBER: usize = TAG_LEN + 1 + 8;
    match stored.get(BEHIND_NUMBER..)? {
        [] => Some(false),
        [WITH_ORDER] if type_of(stored) == Ok(Type::SortedSet) => Some(true),
        _ => None,
    }
}

/// The number under which the elements of a stored collection lie, if they are not in its record.
#[inline]
pub(crate) fn collection_id(stored: &[u8]) -> Option<u64> {
    let (&[tag, IN_ELEMENTS], rest) = stored.split_first_chunk()? else { return None };
    let id = rest.first_chunk().filter(|_| tag != STRING_TAG)?;
    type_of_tag(tag).ok().map(|_| u64::from_be_bytes(*id))
}

/// The stored form of a string.
#[must_use]
pub fn tagged(string: &[u8]) -> Vec<u8> {
    [&[STRING_TAG], string].concat()
}

/// The string in its stored form.
///
/// # Errors
/// [`Unreadable`] if the stored value is none of a string.
pub fn untagged(stored: &[u8]) -> Result<&[u8], Unreadable> {
    match type_of(stored)? {
        Type::String => Ok(&stored[TAG_LEN..]),
        other => Err(Unreadable::NoString { name: other.name() }),
    }
}

/// A value as the store has it, tag included.
#[derive(Debug)]
pub(crate) struct Stored(Bytes);

impl Stored {
    pub(crate) fn value_type(&self) -> Result<Type, Unreadable> {
        type_of(&self.0)
    }

    /// The value as a string. No byte is copied.
    #[inline]
    pub(crate) fn into_string(self) -> Result<StringValue, Unreadable> {
        match self.value_type()? {
            Type::String => Ok(StringValue(self.0)),
            other => Err(Unreadable::NoString { name: other.name() }),
        }
    }

    /// The bytes behind the tag.
    pub(crate) fn form(&self) -> &[u8] {
        self.0.get(TAG_LEN..).unwrap_or_default()
    }

    /// The stored bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<Bytes> for Stored {
    fn from(bytes: Bytes) -> Self {
        Self(bytes)
    }
}

/// The value of a string, read where it is stored.
#[derive(Debug)]
pub(crate) struct StringValue(
    /// With its tag.
    Bytes,
);

impl Deref for StringValue {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.0[TAG_LEN..]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_string_comes_back(string: Vec<u8>) {
            let stored = tagged(&string);
            prop_assert_eq!(stored.len(), string.len() + TAG_LEN);
            prop_assert_eq!(untagged(&stored), Ok(&string[..]));
            let stored = Stored::from(Bytes::from(stored));
            prop_assert_eq!(stored.value_type(), Ok(Type::String));
            prop_assert_eq!(&*stored.into_string().unwrap(), &string[..]);
        }

        #[test]
        fn any_bytes_are_a_string_or_refused(bytes: Vec<u8>) {
            let stored = Stored::from(Bytes::from(bytes.clone()));
            match untagged(&bytes) {
                Ok(string) => prop_assert_eq!(tagged(string), bytes),
                Err(why) => prop_assert_eq!(stored.into_string().map(|_| ()), Err(why)),
            }
        }

        #[test]
        fn no_text_without_a_tag_is_taken_for_a_value(text: String) {
            prop_assert_eq!(untagged(text.as_bytes()), Err(Unreadable::NoTag));
        }
    }

    #[test]
    fn every_tag_is_told_apart() {
        for tag in 0..=u8::MAX {
            let read = untagged(&[tag, 7]).map(<[u8]>::to_vec);
            let expected = match tag {
                0x90 => Ok(vec![7]),
                0x91..=0x9f => Err(Unreadable::UnknownType { number: tag - 0x90 }),
                0xa1..=0xa5 => {
                    let name = ["list", "set", "zset", "hash", "stream"][usize::from(tag - 0xa1)];
                    Err(Unreadable::NoString { name })
                }
                0xa0..=0xaf => Err(Unreadable::UnknownType { number: tag - 0xa0 }),
                0xb0..=0xbf => Err(Unreadable::Newer { version: 3 }),
                _ => Err(Unreadable::NoTag),
            };
            assert_eq!(read, expected, "{tag:#x}");
        }
    }
}

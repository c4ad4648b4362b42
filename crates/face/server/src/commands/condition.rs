//! On which value of a key SET writes, and DELEX removes: on any or none, on an equal one, or on one with a digest.

use crate::call::is;
use crate::failure::{Outcome, SYNTAX};
use crate::resp::ArgsIter;

use super::digest;

/// A condition on the value that a key has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition<'a> {
    /// There is none.
    Absent,
    /// There is one.
    Present,
    /// It is these bytes.
    Equal(&'a [u8]),
    /// It is not these bytes, or there is none.
    Different(&'a [u8]),
    /// Its digest is this one.
    SameDigest(&'a [u8]),
    /// Its digest is not this one, or there is none.
    OtherDigest(&'a [u8]),
}

impl<'a> Condition<'a> {
    /// The condition that a word names, with the word behind it if it takes one; `None`: the word names none.
    pub(super) fn read(word: &[u8], words: &mut ArgsIter<'a>) -> Outcome<Option<Self>> {
        let compares: fn(&'a [u8]) -> Self = match () {
            () if is(word, "NX") => return Ok(Some(Self::Absent)),
            () if is(word, "XX") => return Ok(Some(Self::Present)),
            () => match Self::comparison(word) {
                Some(compares) => compares,
                None => return Ok(None),
            },
        };
        Ok(Some(compares(words.next().ok_or(SYNTAX)?)))
    }

    /// The comparison that a word names.
    pub(super) fn comparison(word: &[u8]) -> Option<fn(&'a [u8]) -> Self> {
        match () {
            () if is(word, "IFEQ") => Some(Self::Equal),
            () if is(word, "IFNE") => Some(Self::Different),
            () if is(word, "IFDEQ") => Some(Self::SameDigest),
            () if is(word, "IFDNE") => Some(Self::OtherDigest),
            () => None,
        }
    }

    /// Whether a value of any type meets it, or none.
    pub(super) fn is_about_existence(self) -> bool {
        matches!(self, Self::Absent | Self::Present)
    }

    /// Whether the value of a key, or its absence, meets it.
    pub(super) fn holds(self, value: Option<&[u8]>) -> Outcome<bool> {
        let Some(value) = value else {
            return Ok(matches!(self, Self::Absent | Self::Different(_) | Self::OtherDigest(_)));
        };
        Ok(match self {
            Self::Absent => false,
            Self::Present => true,
            Self::Equal(other) => value == other,
            Self::Different(other) => value != other,
            Self::SameDigest(digest) => digest::parse(digest)? == digest::of(value),
            Self::OtherDigest(digest) => digest::parse(digest)? != digest::of(value),
        })
    }
}

//! Arrays of bytes into which Redis packs small collections.
//!
//! Each form has its file, which begins with its layout. A form is an iterator of [`Item`]s: it checks each length
//! before it follows it, and at the end, that the array is whole; a defect is its last item. Only listpacks and
//! sets of integers are written today.

mod intset;
mod listpack;
mod ziplist;
mod zipmap;

pub(crate) use intset::{Intset, intset};
pub(crate) use listpack::{Builder, Listpack};
pub(crate) use ziplist::Ziplist;
pub(crate) use zipmap::Zipmap;

use std::borrow::Cow;

use crate::decimal;
use crate::error::{Defect, defect};

/// An item of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Item<'a> {
    Bytes(&'a [u8]),
    /// A string that is stored as an integer.
    Integer(i64),
}

impl<'a> Item<'a> {
    pub(crate) fn into_vec(self) -> Vec<u8> {
        self.text().into_owned()
    }

    /// The string.
    pub(crate) fn text(self) -> Cow<'a, [u8]> {
        match self {
            Self::Bytes(bytes) => Cow::Borrowed(bytes),
            Self::Integer(number) => Cow::Owned(decimal::integer(number)),
        }
    }

    /// The integer that the item is, or is the text of.
    pub(crate) fn integer(self) -> Result<i64, Defect> {
        let number = match self {
            Self::Bytes(bytes) => decimal::parse_i64(bytes),
            Self::Integer(number) => Some(number),
        };
        number.ok_or(Defect::new("it has a string in the place of an integer"))
    }

    /// The score that the item is, or is the text of.
    pub(crate) fn score(self) -> Result<f64, Defect> {
        let number = match self {
            Self::Bytes(bytes) => decimal::parse_score(bytes),
            Self::Integer(number) => Some(number as f64),
        };
        number.ok_or(Defect::new("a score is no number"))
    }
}

/// The first `len` bytes, and the rest.
fn split(bytes: &[u8], len: usize) -> Result<(&[u8], &[u8]), Defect> {
    bytes.split_at_checked(len).ok_or(Defect::new("it ends in the middle of an item"))
}

/// The first `N` bytes, and the rest.
fn split_array<const N: usize>(bytes: &[u8]) -> Result<([u8; N], &[u8]), Defect> {
    let split = bytes.split_first_chunk();
    split.map_or_else(
        || defect("it ends in the middle of an item"),
        |(head, rest)| Ok((*head, rest)),
    )
}

/// The integer of the bytes, the lowest first; they are eight at most.
fn little_endian(bytes: &[u8]) -> i64 {
    let negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
    let mut all = [if negative { 0xff } else { 0 }; 8];
    all[..bytes.len()].copy_from_slice(bytes);
    i64::from_le_bytes(all)
}

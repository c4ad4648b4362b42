//! The bytes of tuples and of long values, which are untrusted until they had their checks.

use std::ops::Range;

use halite_alloc::heap::{Heap, NvPtr};

use super::{LongValue, Tuple, Tuples};
use crate::{Error, Result};

/// Bytes before those that a check is about.
pub(super) const HEAD: usize = 8;

/// Bytes of the word of a tail.
const TAIL_WORD: usize = 8;

/// The places that seed the checks of tuples and tails; the others are columns.
pub(super) const FIXED_PLACE: u64 = u64::MAX;
pub(super) const IMAGE_PLACE: u64 = u64::MAX - 1;
pub(super) const TAIL_PLACE: u64 = u64::MAX - 2;

/// In a cell: the value is in the tail. No pointer has this bit.
const IN_TAIL: u64 = 1 << 63;

/// The bytes of a tuple, checked.
#[derive(Clone, Copy)]
pub(super) enum Stored<'h> {
    /// The word that leads to the tail, or zero; and the fixed part.
    Fixed {
        tail: u64,
        fixed: &'h [u8],
    },
    Image(&'h [u8]),
}

/// The place of a long value.
pub(super) enum Cell {
    /// A slot of its own.
    Own(NvPtr<LongValue>),
    InTail(Range<usize>),
}

/// The cell of a value in the tail.
pub(super) fn in_tail(offset: usize, len: usize) -> u64 {
    IN_TAIL | (len as u64) << 32 | offset as u64
}

impl Cell {
    pub(super) fn of(word: u64) -> Self {
        if word & IN_TAIL == 0 {
            return Self::Own(NvPtr::from_word(word));
        }
        let (offset, len) = (word as u32 as usize, ((word & !IN_TAIL) >> 32) as usize);
        Self::InTail(offset..offset + len)
    }
}

impl Tuples<'_> {
    /// Whether tuples have the word of a tail.
    fn has_tails(self) -> bool {
        self.schema.layout().long().len() > 1
    }

    /// Where the fixed part of a tuple begins.
    pub(super) fn fixed_at(self) -> usize {
        if self.has_tails() { HEAD + TAIL_WORD } else { HEAD }
    }

    /// The bytes of a tuple.
    pub(super) fn stored<'h>(self, heap: &'h Heap, tuple: NvPtr<Tuple>) -> Result<Stored<'h>> {
        let fixed_len = self.schema.layout().fixed_len();
        let checked_len = self.fixed_at() - HEAD + fixed_len;
        heap.prefetch(tuple, (HEAD + checked_len) as u64);
        let damaged = || self.damaged("a tuple", "it does not have its check");
        let bytes = heap.read_proven(tuple, |slot| {
            let (check, image_len, rest) = head_of(slot).ok_or_else(damaged)?;
            let is = match image_len {
                0 => rest.get(..checked_len).map(|bytes| self.check(FIXED_PLACE, bytes)),
                len => rest.get(..len).map(|bytes| self.check(IMAGE_PLACE, bytes)),
            };
            if is == Some(check) { Ok(()) } else { Err(damaged()) }
        })?;
        let stored = head_of(bytes).and_then(|(_, image_len, rest)| {
            if image_len > 0 {
                return rest.get(..image_len).map(Stored::Image);
            }
            let (tail, fixed) = rest.get(..checked_len)?.split_at(checked_len - fixed_len);
            let tail = tail.first_chunk().map_or(0, |&word| u64::from_le_bytes(word));
            Some(Stored::Fixed { tail, fixed })
        });
        stored.ok_or_else(damaged)
    }

    /// The bytes of a long value, or of a tail.
    pub(super) fn long(self, heap: &Heap, place: u64, slot: NvPtr<LongValue>) -> Result<&[u8]> {
        let damaged = || self.damaged("a long value", "it does not have its check");
        let bytes = heap.read_proven(slot, |slot| {
            let (check, long) = long_of(slot).ok_or_else(damaged)?;
            if check == self.check(place, long) { Ok(()) } else { Err(damaged()) }
        })?;
        long_of(bytes).map(|(_, long)| long).ok_or_else(damaged)
    }

    /// The bytes of the tail that a word leads to: none if it is zero.
    pub(super) fn tail(self, heap: &Heap, word: u64) -> Result<&[u8]> {
        match word {
            0 => Ok(&[]),
            _ => self.long(heap, TAIL_PLACE, NvPtr::from_word(word)),
        }
    }

    pub(super) fn out_of_tail(self) -> Error {
        self.damaged("a tuple", "a value lies behind the end of its tail")
    }
}

/// The check of a tuple, the length of its image, and what follows.
fn head_of(slot: &[u8]) -> Option<(u32, usize, &[u8])> {
    let (check, rest) = slot.split_first_chunk::<4>()?;
    let (image_len, rest) = rest.split_first_chunk::<4>()?;
    Some((u32::from_le_bytes(*check), u32::from_le_bytes(*image_len) as usize, rest))
}

/// The check and the bytes of a long value.
fn long_of(slot: &[u8]) -> Option<(u32, &[u8])> {
    let (len, rest) = slot.split_first_chunk::<4>()?;
    let (check, rest) = rest.split_first_chunk::<4>()?;
    Some((u32::from_le_bytes(*check), rest.get(..u32::from_le_bytes(*len) as usize)?))
}

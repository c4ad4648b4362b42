//! The parts of a write, one for each chunk.

use std::borrow::Cow;
use std::io::IoSlice;

use super::limits::CHUNK_LEN;
use crate::message::UpsertBuilder;

/// The part of a write that is in one chunk.
pub(super) struct Piece<'a> {
    pub(super) chunk: u32,
    /// The offset of its first byte in the chunk.
    pub(super) from: usize,
    pub(super) bytes: Cow<'a, [u8]>,
}

/// The message that brings a piece into its chunk.
pub(super) enum Change<'a> {
    /// The chunk's value is the piece.
    Insert(&'a [u8]),
    /// The piece overwrites a range of the value: the payload of an upsert.
    Upsert(Vec<u8>),
}

impl Piece<'_> {
    /// The offset behind it in the object.
    pub(super) fn end(&self) -> u64 {
        u64::from(self.chunk) * CHUNK_LEN as u64 + (self.from + self.bytes.len()) as u64
    }

    /// Whether it is all of its chunk.
    pub(super) fn is_whole(&self) -> bool {
        self.bytes.len() == CHUNK_LEN
    }

    /// The message. `ends_object`: no byte of the object is behind the piece.
    pub(super) fn change(&self, ends_object: bool) -> Change<'_> {
        match self.is_whole() || self.from == 0 && ends_object {
            true => Change::Insert(&self.bytes),
            false => Change::Upsert(overwrite(self.from, &self.bytes)),
        }
    }
}

/// The upsert that overwrites a range.
pub(super) fn overwrite(offset: usize, bytes: &[u8]) -> Vec<u8> {
    let mut upsert = UpsertBuilder::default();
    upsert.overwrite(offset, bytes);
    upsert.finish()
}

/// The pieces of the bytes of slices, one behind the other from an offset on. A piece is copied only if more than one
/// slice has bytes of it.
pub(super) struct Pieces<'a> {
    slices: &'a [IoSlice<'a>],
    /// Bytes of the first slice that are done.
    done: usize,
    offset: u64,
}

impl<'a> Pieces<'a> {
    pub(super) fn new(offset: u64, slices: &'a [IoSlice<'a>]) -> Self {
        Self { slices, done: 0, offset }
    }

    /// The next bytes of one slice, at most `len`. Empty only at the end.
    fn take(&mut self, len: usize) -> &'a [u8] {
        while let [slice, rest @ ..] = self.slices {
            if self.done < slice.len() {
                let slice: &'a [u8] = slice;
                let left = &slice[self.done..];
                let taken = &left[..left.len().min(len)];
                self.done += taken.len();
                return taken;
            }
            (self.slices, self.done) = (rest, 0);
        }
        &[]
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        let chunk = (self.offset / CHUNK_LEN as u64) as u32;
        let from = (self.offset % CHUNK_LEN as u64) as usize;
        let mut bytes = Cow::Borrowed(self.take(CHUNK_LEN - from));
        if bytes.is_empty() {
            return None;
        }
        while let more = self.take(CHUNK_LEN - from - bytes.len())
            && !more.is_empty()
        {
            bytes.to_mut().extend_from_slice(more);
        }
        self.offset += bytes.len() as u64;
        Some(Piece { chunk, from, bytes })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pieces_are_the_bytes_of_the_slices_cut_at_chunks(
            offset in 0_u64..300_000,
            lens in prop::collection::vec(prop_oneof![0_usize..9, 0_usize..200_000], 0..5),
        ) {
            let all: Vec<u8> = (0..lens.iter().sum::<usize>()).map(|n| (n % 251) as u8).collect();
            let (mut rest, mut slices) = (&all[..], Vec::new());
            for len in lens {
                let (slice, behind) = rest.split_at(len);
                slices.push(IoSlice::new(slice));
                rest = behind;
            }
            let mut at = offset;
            for piece in Pieces::new(offset, &slices) {
                prop_assert_eq!(u64::from(piece.chunk) * CHUNK_LEN as u64 + piece.from as u64, at);
                prop_assert!(!piece.bytes.is_empty() && piece.from + piece.bytes.len() <= CHUNK_LEN);
                let (start, end) = ((at - offset) as usize, (piece.end() - offset) as usize);
                prop_assert_eq!(&*piece.bytes, &all[start..end]);
                at = piece.end();
                prop_assert!(at.is_multiple_of(CHUNK_LEN as u64) || end == all.len());
            }
            prop_assert_eq!(at, offset + all.len() as u64);
        }
    }
}

//! References to values that lie in extents of their own.
//!
//! ```text
//! entered u64 | len varint | birth varint | pieces varint | pieces x ( address u64 | blocks varint | checksum u64 )
//! ```
//!
//! Each piece has the bytes of a whole extent; the last one has the rest. A piece's checksum is of its
//! bytes without the zeros behind them.
//!
//! The epoch of `birth` seeds the checksums: the value was written in it, before its commit. Snapshots that were made
//! between that and the flush of the commit do not have the value, so they are compared with `entered`, which the first
//! run that has the reference sets. It lies first, where it is set without decoding the rest.

use halite_codec::{Reader, put_varint};
use halite_vdev::BLOCK;

use super::Parsed;
use crate::storage::{Address, EXTENT_BYTES_MAX, Extent};

/// The fewest bytes of an encoded piece.
const PIECE_LEN_MIN: usize = 8 + 1 + 8;

/// The epoch of a value to which no tree has led yet. Epochs begin with 1.
pub(crate) const NOT_ENTERED: u64 = 0;

/// In the place of the epoch: the value is another dataset's. The first run that has the reference copies it.
const ELSEWHERE: u64 = u64::MAX;

/// An extent of a large value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) extent: Extent,
    /// Of the piece's bytes.
    pub(crate) checksum: u64,
}

/// A value that lies in extents of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LargeValue {
    /// The epoch in which a tree came to lead to it; [`NOT_ENTERED`] in the log and in memtables.
    pub(crate) entered: u64,
    /// Bytes of the value.
    pub(crate) len: u64,
    /// The generation in which its extents were written.
    pub(crate) birth: u64,
    /// The extents, in the order of the bytes.
    pub(crate) pieces: Vec<Piece>,
}

impl LargeValue {
    /// Appends the reference.
    pub(crate) fn encode(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.entered.to_le_bytes());
        put_varint(to, self.len);
        put_varint(to, self.birth);
        put_varint(to, self.pieces.len() as u64);
        for piece in &self.pieces {
            put_extent(to, piece.extent);
            to.extend_from_slice(&piece.checksum.to_le_bytes());
        }
    }

    /// Reads a reference, and checks that its pieces have room for the value.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Parsed<Self> {
        let (entered, len, birth) = (reader.u64()?, reader.varint()?, reader.varint()?);
        let count = reader.varint()?;
        if count > (reader.0.len() / PIECE_LEN_MIN) as u64 {
            return Err("a large value has more pieces than there are");
        }
        let mut pieces = Vec::with_capacity(count as usize);
        for _ in 0..count {
            pieces.push(Piece { extent: read_extent(reader)?, checksum: reader.u64()? });
        }
        let room: u64 = pieces.iter().map(|piece: &Piece| byte_len(piece.extent) as u64).sum();
        match len <= room {
            true => Ok(Self { entered, len, birth, pieces }),
            false => Err("a large value is longer than its pieces"),
        }
    }

    /// The reference that is all of `bytes`.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Parsed<Self> {
        let mut reader = Reader(bytes);
        let large = Self::decode(&mut reader)?;
        match reader.is_empty() {
            true => Ok(large),
            false => Err("bytes follow the reference to a large value"),
        }
    }
}

/// The payload with a reference first, as a run of an epoch has it. `None`: a run had it before.
pub(crate) fn enter(payload: &[u8], epoch: u64) -> Option<Vec<u8>> {
    let (entered, rest) = payload.split_first_chunk()?;
    (u64::from_le_bytes(*entered) == NOT_ENTERED).then(|| [&epoch.to_le_bytes(), rest].concat())
}

/// The payload with a reference first, as that of a value that another dataset has.
pub(crate) fn elsewhere(payload: &[u8]) -> Vec<u8> {
    let rest = payload.get(size_of::<u64>()..).unwrap_or_default();
    [&ELSEWHERE.to_le_bytes(), rest].concat()
}

/// Whether a payload refers to a value that another dataset has.
pub(crate) fn is_elsewhere(payload: &[u8]) -> bool {
    payload.starts_with(&ELSEWHERE.to_le_bytes())
}

/// Bytes of an extent.
pub(crate) fn byte_len(extent: Extent) -> usize {
    extent.blocks as usize * BLOCK
}

/// Appends an extent: its address as 8 bytes, its blocks as a varint.
pub(crate) fn put_extent(to: &mut Vec<u8>, extent: Extent) {
    to.extend_from_slice(&extent.address.to_bits().to_le_bytes());
    put_varint(to, u64::from(extent.blocks));
}

/// Reads an extent, and checks its length.
pub(crate) fn read_extent(reader: &mut Reader<'_>) -> Parsed<Extent> {
    let address = Address::from_bits(reader.u64()?);
    let extent = Extent { address, blocks: reader.varint_u32()? };
    match (1..=(EXTENT_BYTES_MAX / BLOCK) as u32).contains(&extent.blocks) {
        true => Ok(extent),
        false => Err("an extent has a length that none has"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_reference_comes_back_and_damaged_ones_are_parsed_without_panic(
            pieces in prop::collection::vec((any::<u64>(), 1_u32..=256, any::<u64>()), 0..5),
            [birth, entered] in any::<[u64; 2]>(),
            flip in any::<(prop::sample::Index, u8)>(),
        ) {
            let piece = |&(bits, blocks, checksum): &(u64, u32, u64)| Piece {
                extent: Extent { address: Address::from_bits(bits), blocks }, checksum,
            };
            let pieces: Vec<Piece> = pieces.iter().map(piece).collect();
            let len = pieces.iter().map(|piece| byte_len(piece.extent) as u64).sum();
            let large = LargeValue { entered, len, birth, pieces };
            let mut bytes = Vec::new();
            large.encode(&mut bytes);
            prop_assert_eq!(LargeValue::of_bytes(&bytes), Ok(large.clone()));
            let in_run = LargeValue { entered: 9, ..large.clone() };
            let fresh = LargeValue { entered: NOT_ENTERED, ..large.clone() };
            let (mut expected, mut payload) = (Vec::new(), Vec::new());
            in_run.encode(&mut expected);
            fresh.encode(&mut payload);
            prop_assert_eq!(enter(&payload, 9), Some(expected.clone()));
            prop_assert_eq!(enter(&expected, 10), None);
            let longer = LargeValue { len: len + 1, ..large };
            let mut damaged = Vec::new();
            longer.encode(&mut damaged);
            prop_assert!(LargeValue::of_bytes(&damaged).is_err());
            for cut in 0..bytes.len() {
                prop_assert!(LargeValue::of_bytes(&bytes[..cut]).is_err());
            }
            let at = flip.0.index(bytes.len());
            bytes[at] = flip.1;
            let _ = LargeValue::of_bytes(&bytes);
        }
    }
}

//! The records that a checkpoint leaves behind: the superblock on every leaf device, and the root record that it points to.
//!
//! ```text
//! superblock (a label's payload):
//!   version u8 | applied u64 | epoch u64 | log first u64 | log end u64, u64
//!   root record: len varint | extents varint, each address u64, blocks varint, and checksum u64
//!   pool: the description of the devices (`pool_record`)
//!
//! root record:
//!   root tree: 0, or 1 and the pointer to its root
//!   bitmaps varint, each: class u8 | vdev varint | segment varint | len varint | checksum u64 |
//!     birth varint | address u64 | blocks varint
//! ```
//!
//! The root record is the root of the root tree: it has the pointer to that tree's nodes, which lead to the roots of
//! all datasets and snapshots, and the pointers to the bitmaps of all segments. A checkpoint writes it anew, as
//! the last of its extents, when it is known which blocks all of them take.

use halite_codec::{Reader, Seed, put_varint};

use crate::message::{Parsed, byte_len, put_extent, read_extent};
use crate::storage::Extent;
use crate::store::pool_record::PoolRecord;
use crate::tree::pointer::{NodePointer, seed_of};

/// The version of the stored formats.
pub(crate) const VERSION: u8 = 1;

/// The most extents of a root record: it has the bitmaps of more than a PiB then.
const ROOT_EXTENTS_MAX: u64 = 64;

/// A superblock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Superblock {
    /// The sequence up to which the trees have everything.
    pub(crate) applied: u64,
    /// The epoch that begins behind the checkpoint: births up to then are below.
    pub(crate) epoch: u64,
    /// The first file, or segment, of the log that is needed.
    pub(crate) log_first: u64,
    /// The file, or segment, in which the log ended, and how long that was, all of it durable.
    pub(crate) log_end: (u64, u64),
    pub(crate) root: RootPointer,
    pub(crate) pool: PoolRecord,
}

/// The place of a root record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RootPointer {
    pub(crate) pieces: Vec<RootPiece>,
    pub(crate) len: u64,
}

/// The part of a root record in one extent, which it fills but for the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RootPiece {
    pub(crate) extent: Extent,
    /// Of the piece's bytes.
    pub(crate) checksum: u64,
}

/// The place of the bitmap of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BitmapPointer {
    pub(crate) class: u8,
    pub(crate) vdev: u16,
    pub(crate) segment: u64,
    pub(crate) extent: Extent,
    pub(crate) len: u32,
    pub(crate) checksum: u64,
    /// The epoch in which it was written.
    pub(crate) birth: u64,
}

/// A root record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RootRecord {
    /// The root of the root tree, if that has anything.
    pub(crate) tree: Option<NodePointer>,
    pub(crate) bitmaps: Vec<BitmapPointer>,
}

impl Superblock {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut to = vec![VERSION];
        let (end, end_len) = self.log_end;
        for number in [self.applied, self.epoch, self.log_first, end, end_len] {
            to.extend_from_slice(&number.to_le_bytes());
        }
        put_varint(&mut to, self.root.len);
        put_varint(&mut to, self.root.pieces.len() as u64);
        for piece in &self.root.pieces {
            put_extent(&mut to, piece.extent);
            to.extend_from_slice(&piece.checksum.to_le_bytes());
        }
        self.pool.encode(&mut to);
        to
    }

    pub(crate) fn decode(bytes: &[u8]) -> Parsed<Self> {
        let mut from = Reader(bytes);
        if from.u8()? != VERSION {
            return Err("it is of another version of the engine's formats");
        }
        let (applied, epoch, log_first) = (from.u64()?, from.u64()?, from.u64()?);
        let log_end = (from.u64()?, from.u64()?);
        let (len, count) = (from.varint()?, from.varint()?);
        if count > ROOT_EXTENTS_MAX {
            return Err("the root record has too many extents");
        }
        let mut pieces = Vec::with_capacity(count as usize);
        for _ in 0..count {
            pieces.push(RootPiece { extent: read_extent(&mut from)?, checksum: from.u64()? });
        }
        if len > pieces.iter().map(|piece| byte_len(piece.extent) as u64).sum() {
            return Err("the root record is longer than its extents");
        }
        let (root, pool) = (RootPointer { pieces, len }, PoolRecord::decode(&mut from)?);
        match from.is_empty() {
            true => Ok(Self { applied, epoch, log_first, log_end, root, pool }),
            false => Err("the superblock is followed by other bytes"),
        }
    }
}

impl RootRecord {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut to = Vec::new();
        match &self.tree {
            None => to.push(0),
            Some(pointer) => {
                to.push(1);
                pointer.encode(&mut to);
            }
        }
        put_varint(&mut to, self.bitmaps.len() as u64);
        for bitmap in &self.bitmaps {
            to.push(bitmap.class);
            put_varint(&mut to, u64::from(bitmap.vdev));
            put_varint(&mut to, bitmap.segment);
            put_varint(&mut to, u64::from(bitmap.len));
            to.extend_from_slice(&bitmap.checksum.to_le_bytes());
            put_varint(&mut to, bitmap.birth);
            put_extent(&mut to, bitmap.extent);
        }
        to
    }

    /// The most bytes that a record of so many bitmaps takes.
    pub(crate) fn len_max(bitmaps: usize) -> usize {
        const POINTER: usize = 1 + 8 + 5 + 5 + 8 + 10;
        const BITMAP: usize = 1 + 3 + 10 + 5 + 8 + 10 + 8 + 5;
        POINTER + 10 + bitmaps * BITMAP
    }

    pub(crate) fn decode(bytes: &[u8]) -> Parsed<Self> {
        /// The fewest bytes of a bitmap's pointer.
        const BITMAP_MIN: u64 = 1 + 1 + 1 + 1 + 8 + 1 + 8 + 1;
        let mut from = Reader(bytes);
        let tree = match from.u8()? {
            0 => None,
            1 => Some(NodePointer::decode(&mut from)?),
            _ => return Err("the root tree is neither there nor absent"),
        };
        let count = from.varint()?;
        if count > bytes.len() as u64 / BITMAP_MIN {
            return Err("it has more bitmaps than there are");
        }
        let mut bitmaps = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let (class, vdev, segment) = (from.u8()?, from.varint()?, from.varint()?);
            let (len, checksum, birth) = (from.varint_u32()?, from.u64()?, from.varint()?);
            let vdev = u16::try_from(vdev).map_err(|_| "a bitmap is of no vdev")?;
            let extent = read_extent(&mut from)?;
            if len as usize > byte_len(extent) {
                return Err("a bitmap is longer than its extent");
            }
            bitmaps.push(BitmapPointer { class, vdev, segment, extent, len, checksum, birth });
        }
        match from.is_empty() {
            true => Ok(Self { tree, bitmaps }),
            false => Err("the root record is followed by other bytes"),
        }
    }
}

impl RootPointer {
    /// The record's extents.
    pub(crate) fn extents(&self) -> impl Iterator<Item = Extent> + '_ {
        self.pieces.iter().map(|piece| piece.extent)
    }

    /// The pieces, with the bytes of the record that each has.
    pub(crate) fn lens(&self) -> impl Iterator<Item = (RootPiece, usize)> + '_ {
        let mut left = self.len;
        self.pieces.iter().map(move |piece| {
            let len = (byte_len(piece.extent) as u64).min(left);
            left -= len;
            (*piece, len as usize)
        })
    }
}

impl RootPiece {
    /// The seed of the checksum of a piece in an extent.
    pub(crate) fn seed(pool: Seed, extent: Extent, epoch: u64) -> Seed {
        seed_of(pool, extent.address, epoch)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::storage::Address;

    fn extent() -> impl Strategy<Value = Extent> {
        let extent = |(bits, blocks)| Extent { address: Address::from_bits(bits), blocks };
        (any::<u64>(), 8_u32..=256).prop_map(extent)
    }

    fn bitmap() -> impl Strategy<Value = BitmapPointer> {
        let fields =
            (any::<u8>(), any::<u16>(), any::<u64>(), extent(), 0..=32_768_u32, any::<[u64; 2]>());
        fields.prop_map(|(class, vdev, segment, extent, len, [checksum, birth])| BitmapPointer {
            class,
            vdev,
            segment,
            extent,
            len,
            checksum,
            birth,
        })
    }

    proptest! {
        #[test]
        fn records_come_back_and_damaged_ones_are_parsed_without_panic(
            bitmaps in prop::collection::vec(bitmap(), 0..5),
            extents in prop::collection::vec(extent(), 1..4),
            numbers in any::<[u64; 5]>(),
            flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        ) {
            let [applied, epoch, log_first, checksum, birth] = numbers;
            let pointer = NodePointer { extent: extents[0], len: 4096, checksum, birth };
            let tree = (checksum % 2 == 0).then_some(pointer);
            let record = RootRecord { tree, bitmaps };
            let piece = |extent: &Extent| RootPiece { extent: *extent, checksum };
            let root = RootPointer { pieces: extents.iter().map(piece).collect(), len: 4096 };
            let pool = PoolRecord::new("mirror file:a file:b".parse().unwrap(), &mut || checksum);
            let log_end = (checksum, birth);
            let superblock = Superblock { applied, epoch, log_first, log_end, root, pool };
            let (mut one, mut other) = (record.encode(), superblock.encode());
            prop_assert!(one.len() <= RootRecord::len_max(record.bitmaps.len()));
            prop_assert_eq!(RootRecord::decode(&one), Ok(record));
            prop_assert_eq!(Superblock::decode(&other), Ok(superblock));
            for cut in 0..one.len() {
                prop_assert!(RootRecord::decode(&one[..cut]).is_err());
            }
            for (at, byte) in flips {
                let (a, b) = (at.index(one.len()), at.index(other.len()));
                (one[a], other[b]) = (byte, byte);
            }
            let _ = (RootRecord::decode(&one), Superblock::decode(&other));
        }
    }
}

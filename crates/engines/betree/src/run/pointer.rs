//! The reference to a run, which the parent of the run keeps.
//!
//! ```text
//! extents varint: their number, doubled; and 1, if they are written in steps: then base varint
//! extents x ( address u64 | blocks varint )
//! directory: extent varint | at varint | len varint | a checksum u64 for each extent from there to the last
//! birth | epochs from there to that in which it entered | messages | deleted ranges | bytes | large bytes    varints
//! ```
//!
//! The base is where the run begins in its first extent. A run that begins behind another one, of which that extent is, does
//! not own it: an extent is owned by the run that begins at its start, or has it as a later one, and was born with that.
//! The space behind the last run of an extent that is written in steps is never looked at. So a node, by the pointers
//! that it has, says up to where the extents of its buffers are valid.
//!
//! A run that was moved has other extents and the old checksums, of its birth: only `entered` tells which snapshots have
//! the extents.
//!
//! All checksums of a run have seeds of the pool, the run's birth, and the number of the extent and the offset in it.
//! The extent's address is no part of the seed: parts that share an extent with the directory are checked by sums in
//! it, which it needs before the extent has an address. A misplaced extent fails nevertheless, because no checksum lies
//! in what it checks: bytes pass only if they are the bytes that were written.

use halite_codec::{Reader, Seed, put_varint};
use smallvec::SmallVec;

use crate::message::{Parsed, byte_len, put_extent, read_extent};
use crate::storage::Extent;

/// The fewest bytes of an encoded extent.
const EXTENT_LEN_MIN: usize = 8 + 1;

/// Bytes of which each step is a multiple: a line.
pub(super) const STEP: usize = 64;

/// A run: its extents, its directory's place and checksums, and its sums.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunPointer {
    pub(crate) extents: SmallVec<[Extent; 2]>,
    /// Where the run begins in its first extent, if its extents are written in steps.
    pub(crate) base: Option<u32>,
    /// The extent in which the directory begins; it goes on to the end of the last one.
    pub(crate) directory_extent: u32,
    /// The directory's offset there.
    pub(crate) directory_at: u32,
    /// Bytes of the directory.
    pub(crate) directory_len: u64,
    /// The checksums of the directory's bytes in each of its extents.
    pub(crate) directory_checksums: SmallVec<[u64; 1]>,
    /// The generation in which the run was written.
    pub(crate) birth: u64,
    /// The epoch in which a tree came to lead to it at these extents: later than its birth if it was moved.
    pub(crate) entered: u64,
    /// Messages in the run.
    pub(crate) messages: u64,
    /// Deleted ranges in the run.
    pub(crate) deleted_ranges: u32,
    /// Bytes of the keys and payloads, as they are without compression.
    pub(crate) bytes: u64,
    /// Bytes of the large values that its messages refer to.
    pub(crate) large_bytes: u64,
}

/// The directory's bytes in one extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DirectoryPiece {
    /// The number of the extent in the run.
    pub(crate) extent: usize,
    pub(crate) at: usize,
    pub(crate) len: usize,
    pub(crate) checksum: u64,
}

/// The seed of the checksum of bytes at an offset of a run's extent.
pub(crate) fn seed_at(pool: Seed, birth: u64, extent: usize, at: usize) -> Seed {
    pool.at(birth).numbered((extent as u64) << 32 | at as u64)
}

impl RunPointer {
    /// The extents that are the run's own.
    pub(crate) fn own_extents(&self) -> &[Extent] {
        &self.extents[usize::from(self.begins_behind_another())..]
    }

    /// Whether its first extent is another run's.
    pub(crate) fn begins_behind_another(&self) -> bool {
        self.base.is_some_and(|base| base > 0)
    }

    /// The last extent, if others may be appended to it, and where the run ends there.
    pub(crate) fn tail(&self) -> Option<(Extent, usize)> {
        self.base?;
        let last = self.directory_pieces().last()?;
        Some((self.extents[last.extent], (last.at + last.len).next_multiple_of(STEP)))
    }

    /// The extents' bytes of the directory.
    pub(crate) fn directory_pieces(&self) -> impl Iterator<Item = DirectoryPiece> + '_ {
        let mut left = self.directory_len;
        let first = self.directory_extent as usize;
        let extents = self.extents.iter().enumerate().skip(first).zip(&self.directory_checksums);
        extents.map(move |((number, &extent), &checksum)| {
            let at = if number == first { self.directory_at as usize } else { 0 };
            let len = (byte_len(extent).saturating_sub(at) as u64).min(left) as usize;
            left -= len as u64;
            DirectoryPiece { extent: number, at, len, checksum }
        })
    }

    /// Bytes of its extents.
    #[cfg(test)]
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.extents.iter().map(|extent| crate::message::byte_len(*extent) as u64).sum()
    }

    /// Appends the reference.
    pub(crate) fn encode(&self, to: &mut Vec<u8>) {
        put_varint(to, (self.extents.len() as u64) << 1 | u64::from(self.base.is_some()));
        self.base.iter().for_each(|&base| put_varint(to, u64::from(base)));
        self.extents.iter().for_each(|&extent| put_extent(to, extent));
        put_varint(to, u64::from(self.directory_extent));
        put_varint(to, u64::from(self.directory_at));
        put_varint(to, self.directory_len);
        self.directory_checksums.iter().for_each(|sum| to.extend_from_slice(&sum.to_le_bytes()));
        put_varint(to, self.birth);
        put_varint(to, self.entered - self.birth);
        put_varint(to, self.messages);
        put_varint(to, u64::from(self.deleted_ranges));
        put_varint(to, self.bytes);
        put_varint(to, self.large_bytes);
    }

    /// Reads a reference, and checks that its directory is in its extents, in each of those from the first to the last.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Parsed<Self> {
        let word = reader.varint()?;
        let count = word >> 1;
        let base = if word & 1 == 1 { Some(reader.varint_u32()?) } else { None };
        if count > (reader.0.len() / EXTENT_LEN_MIN) as u64 {
            return Err("a run has more extents than there are");
        }
        let mut extents = SmallVec::with_capacity(count as usize);
        for _ in 0..count {
            extents.push(read_extent(reader)?);
        }
        let (directory_extent, directory_at) = (reader.varint_u32()?, reader.varint_u32()?);
        let directory_len = reader.varint()?;
        let mut directory_checksums = SmallVec::new();
        for _ in u64::from(directory_extent)..count {
            directory_checksums.push(reader.u64()?);
        }
        let (birth, since) = (reader.varint()?, reader.varint()?);
        let entered = birth.checked_add(since).ok_or("a run entered a tree in no epoch")?;
        let pointer = Self {
            extents,
            base,
            directory_extent,
            directory_at,
            directory_len,
            directory_checksums,
            birth,
            entered,
            messages: reader.varint()?,
            deleted_ranges: reader.varint_u32()?,
            bytes: reader.varint()?,
            large_bytes: reader.varint()?,
        };
        let mut left = pointer.directory_len;
        for piece in pointer.directory_pieces() {
            if piece.len == 0 {
                return Err("a run's directory does not reach its last extent");
            }
            left -= piece.len as u64;
        }
        match left == 0 && !pointer.directory_checksums.is_empty() {
            true => Ok(pointer),
            false => Err("a run's directory is longer than its extents"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::storage::Address;

    proptest! {
        #[test]
        fn a_pointer_comes_back_and_damaged_ones_are_parsed_without_panic(
            blocks in prop::collection::vec((any::<u64>(), 1_u32..=256), 1..6),
            directory in any::<prop::sample::Index>(),
            (at, short) in (0_u32..4096, 0_u64..4096),
            numbers in any::<[u32; 5]>(),
            flip in any::<(prop::sample::Index, u8)>(),
            noise in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            let directory = directory.index(blocks.len());
            let extent = |&(bits, blocks): &(u64, u32)| Extent { address: Address::from_bits(bits), blocks };
            let extents: SmallVec<[Extent; 2]> = blocks.iter().map(extent).collect();
            let room: u64 = extents[directory..].iter().map(|&extent| byte_len(extent) as u64).sum();
            let len = room - u64::from(at) - short;
            let pointer = RunPointer {
                extents,
                base: numbers[0].is_multiple_of(2).then_some(numbers[1]),
                directory_extent: directory as u32,
                directory_at: at,
                directory_len: len,
                directory_checksums: (directory..blocks.len()).map(|n| n as u64 * 1234567).collect(),
                birth: numbers[0].into(),
                entered: u64::from(numbers[0]) + u64::from(numbers[1] % 3),
                messages: u64::MAX - u64::from(numbers[1]),
                deleted_ranges: numbers[2],
                bytes: numbers[3].into(),
                large_bytes: numbers[4].into(),
            };
            let mut bytes = Vec::new();
            pointer.encode(&mut bytes);
            if len > 0 && (blocks.len() > directory + 1 || at + short as u32 <= 4096 * blocks[directory].1) {
                let mut reader = Reader(&bytes);
                prop_assert_eq!(RunPointer::decode(&mut reader), Ok(pointer.clone()));
                prop_assert!(reader.is_empty());
                prop_assert_eq!(pointer.directory_pieces().map(|piece| piece.len as u64).sum::<u64>(), len);
            }
            for cut in 0..bytes.len() {
                prop_assert!(RunPointer::decode(&mut Reader(&bytes[..cut])).is_err());
            }
            let at = flip.0.index(bytes.len());
            bytes[at] = flip.1;
            for bytes in [bytes, noise] {
                if let Ok(pointer) = RunPointer::decode(&mut Reader(&bytes)) {
                    prop_assert!(pointer.directory_len <= pointer.stored_bytes());
                }
            }
        }
    }
}

//! The directory of a run, by which parts are found: read when a run is first used, and kept as long as there is memory
//! (`directories`).
//!
//! ```text
//! parts varint | parts x ( separator, len before it | extent | at | stored len | plain len
//!                          | compression u8 | entries | checksum u64 )
//! ranges varint | ranges x ( start, len before it | end: 0, or its len + 1 and the end )
//! filter, len before it: empty if there is none
//! ```
//!
//! Numbers are varints. A part's separator is not below the part's last key, and below the first key of the next part:
//! the shortest such key, so that directories of long keys stay small. That of the last part is its last key. The
//! checksum is that of the stored bytes of the part. The filter (`halite_sst::Filter`, 9 bits a key) has the keys that
//! have messages; those of ranges are not in it.

use halite_codec::{Compression, Reader, put_bytes, put_varint};
use halite_sst::Filter;

use super::deleted_ranges::{DeletedRange, DeletedRanges};
use super::part::common_prefix;
use super::pointer::RunPointer;
use crate::message::{Parsed, byte_len};
use crate::storage::EXTENT_BYTES_MAX;

/// The fewest bytes of an encoded part.
const PART_LEN_MIN: usize = 7 + 8;

/// The fewest bytes of an encoded range.
const RANGE_LEN_MIN: usize = 2;

/// Where a part is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PartPlace {
    /// The number of the extent in the run, and the offset in it.
    pub(crate) extent: u32,
    pub(crate) at: u32,
    pub(crate) stored_len: u32,
    pub(crate) plain_len: u32,
    pub(crate) compression: Compression,
    pub(crate) entries: u32,
    pub(crate) checksum: u64,
}

impl PartPlace {
    /// The offset behind the part.
    pub(crate) fn end(&self) -> usize {
        self.at as usize + self.stored_len as usize
    }
}

/// The shortest key that is not below `last` and below `next`, which is above `last`.
pub(crate) fn separator<'a>(last: &'a [u8], next: &'a [u8], scratch: &'a mut Vec<u8>) -> &'a [u8] {
    let common = common_prefix(last, next);
    if common + 1 < next.len() && common < last.len() {
        return &next[..=common];
    }
    match last.get(common) {
        // The next key has this byte and ends: a byte between the two stands for the rest.
        Some(&byte) if common + 1 < last.len() && byte + 1 < next[common] => {
            scratch.clear();
            scratch.extend_from_slice(&last[..common]);
            scratch.push(byte + 1);
            scratch
        }
        _ => last,
    }
}

/// Encodes a directory.
#[derive(Debug, Default)]
pub(crate) struct DirectoryBuilder {
    parts: u64,
    bytes: Vec<u8>,
}

impl DirectoryBuilder {
    /// Adds the next part.
    pub(crate) fn add(&mut self, separator: &[u8], place: &PartPlace) {
        self.parts += 1;
        put_bytes(&mut self.bytes, separator);
        for number in [place.extent, place.at, place.stored_len, place.plain_len] {
            put_varint(&mut self.bytes, u64::from(number));
        }
        self.bytes.push(place.compression.code());
        put_varint(&mut self.bytes, u64::from(place.entries));
        self.bytes.extend_from_slice(&place.checksum.to_le_bytes());
    }

    /// The directory's bytes.
    pub(crate) fn finish(self, ranges: &[DeletedRange], filter: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.bytes.len() + filter.len() + 32);
        put_varint(&mut bytes, self.parts);
        bytes.extend_from_slice(&self.bytes);
        put_varint(&mut bytes, ranges.len() as u64);
        for range in ranges {
            put_bytes(&mut bytes, &range.start);
            put_varint(&mut bytes, range.end.as_ref().map_or(0, |end| end.len() as u64 + 1));
            bytes.extend_from_slice(range.end.as_deref().unwrap_or_default());
        }
        put_bytes(&mut bytes, filter);
        bytes
    }
}

/// A run's directory in memory.
pub(crate) struct Directory {
    pub(crate) parts: Vec<PartPlace>,
    /// The separators, one behind the other, and where each ends.
    separators: Vec<u8>,
    separator_ends: Vec<u32>,
    pub(crate) ranges: DeletedRanges,
    filter: Option<Filter>,
    held_bytes: u64,
}

impl Directory {
    /// Reads the directory of a run. Its parts are in the run's extents and have the run's messages.
    pub(crate) fn decode(bytes: &[u8], of: &RunPointer) -> Parsed<Self> {
        let mut reader = Reader(bytes);
        let count = reader.varint()?;
        if count > (reader.0.len() / PART_LEN_MIN) as u64 {
            return Err("it has more parts than there are");
        }
        let mut parts = Vec::with_capacity(count as usize);
        let (mut separators, mut separator_ends) = (Vec::new(), Vec::with_capacity(count as usize));
        let (mut last, mut messages): (Option<&[u8]>, u64) = (None, 0);
        for _ in 0..count {
            let separator = reader.bytes()?;
            if last.is_some_and(|last| last >= separator) {
                return Err("its parts are not in order");
            }
            last = Some(separator);
            separators.extend_from_slice(separator);
            separator_ends.push(u32::try_from(separators.len()).map_err(|_| "it is too long")?);
            let place = read_place(&mut reader, of)?;
            messages += u64::from(place.entries);
            parts.push(place);
        }
        if messages != of.messages {
            return Err("it has other messages than the run");
        }
        let ranges = read_ranges(&mut reader)?;
        if ranges.len() as u64 != u64::from(of.deleted_ranges) {
            return Err("it has other deleted ranges than the run");
        }
        let filter_bytes = reader.bytes()?;
        if !reader.is_empty() {
            return Err("bytes follow it");
        }
        let filter = match filter_bytes {
            [] => None,
            bytes => Some(Filter::from_bytes(bytes)?),
        };
        separators.shrink_to_fit();
        let of_parts = count as usize * (size_of::<PartPlace>() + size_of::<u32>());
        let of_ranges = ranges.len() * size_of::<DeletedRange>() + range_bytes(&ranges);
        let held = size_of::<Self>() + of_parts + separators.len() + of_ranges + filter_bytes.len();
        let held_bytes = held as u64;
        Ok(Self { parts, separators, separator_ends, ranges, filter, held_bytes })
    }

    /// Bytes of memory that it takes.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// Whether there may be a message of the key with this hash.
    #[inline]
    pub(crate) fn may_have(&self, key_hash: u64) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.may_have(key_hash))
    }

    /// The number of the part that has a key, if any has it.
    #[inline]
    pub(crate) fn part_of(&self, key: &[u8]) -> Option<usize> {
        let (mut below, mut above) = (0, self.parts.len());
        while below < above {
            let middle = below.midpoint(above);
            if self.separator(middle) < key { below = middle + 1 } else { above = middle }
        }
        Some(below).filter(|&number| number < self.parts.len())
    }

    fn separator(&self, number: usize) -> &[u8] {
        let start = number.checked_sub(1).map_or(0, |before| self.separator_ends[before]);
        &self.separators[start as usize..self.separator_ends[number] as usize]
    }
}

/// Bytes of the keys of ranges.
fn range_bytes(ranges: &[DeletedRange]) -> usize {
    ranges
        .iter()
        .map(|range| range.start.len() + range.end.as_ref().map_or(0, |end| end.len()))
        .sum()
}

fn read_place(reader: &mut Reader<'_>, of: &RunPointer) -> Parsed<PartPlace> {
    let place = PartPlace {
        extent: reader.varint_u32()?,
        at: reader.varint_u32()?,
        stored_len: reader.varint_u32()?,
        plain_len: reader.varint_u32()?,
        compression: Compression::of_code(reader.u8()?)?,
        entries: reader.varint_u32()?,
        checksum: reader.u64()?,
    };
    let room = of.extents.get(place.extent as usize).map_or(0, |&extent| byte_len(extent));
    if place.stored_len == 0 || place.end() > room {
        return Err("a part is not in the run's extents");
    }
    let is_plain = place.compression == Compression::None;
    let is_as_long = place.plain_len == place.stored_len;
    if place.plain_len as usize > EXTENT_BYTES_MAX || is_plain && !is_as_long {
        return Err("a part has a length that none has");
    }
    Ok(place)
}

fn read_ranges(reader: &mut Reader<'_>) -> Parsed<DeletedRanges> {
    let count = reader.varint()?;
    if count > (reader.0.len() / RANGE_LEN_MIN) as u64 {
        return Err("it has more deleted ranges than there are");
    }
    let mut ranges: Vec<DeletedRange> = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let start = reader.bytes()?;
        let end = match reader.varint()? {
            0 => None,
            len => Some(reader.take(usize::try_from(len - 1).map_err(|_| "a key is too long")?)?),
        };
        let follows =
            ranges.last().is_none_or(|last| last.end.as_deref().is_some_and(|end| end < start));
        if !follows || end.is_some_and(|end| end <= start) {
            return Err("its deleted ranges are not in order");
        }
        ranges.push(DeletedRange { start: start.into(), end: end.map(Into::into) });
    }
    Ok(DeletedRanges::new(ranges))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use smallvec::smallvec;

    use super::*;
    use crate::storage::{Address, Extent};

    fn pointer(messages: u64, deleted_ranges: u32) -> RunPointer {
        RunPointer {
            extents: smallvec![Extent { address: Address::new(0, 0, 5), blocks: 2 }; 3],
            base: None,
            directory_extent: 2,
            directory_at: 0,
            directory_len: 1,
            directory_checksums: smallvec![0],
            birth: 1,
            entered: 1,
            messages,
            deleted_ranges,
            bytes: 0,
            large_bytes: 0,
        }
    }

    proptest! {
        #[test]
        fn a_separator_parts_two_keys_and_is_no_longer_than_either(
            mut keys in prop::collection::vec(prop::collection::vec(prop::sample::select(vec![0, 1, 7, 255]), 0..6), 2),
        ) {
            keys.sort_unstable();
            prop_assume!(keys[0] != keys[1]);
            let mut scratch = Vec::new();
            let found = separator(&keys[0], &keys[1], &mut scratch);
            prop_assert!(keys[0].as_slice() <= found && found < keys[1].as_slice());
            prop_assert!(found.len() <= keys[0].len());
        }

        #[test]
        fn a_directory_comes_back_and_damaged_ones_are_parsed_without_panic(
            keys in prop::collection::btree_set(prop::collection::vec(any::<u8>(), 0..5), 0..20),
            (filtered, open) in any::<(bool, bool)>(),
            flips in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 1..4),
            noise in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            let mut builder = DirectoryBuilder::default();
            let place = |number: usize| PartPlace {
                extent: number as u32 % 3,
                at: number as u32,
                stored_len: 100,
                plain_len: 100 + number as u32 % 2 * 70,
                compression: if number.is_multiple_of(2) { Compression::None } else { Compression::Lz4 },
                entries: 1 + number as u32,
                checksum: number as u64 * 999,
            };
            keys.iter().enumerate().for_each(|(number, key)| builder.add(key, &place(number)));
            let mut hashes: Vec<u64> = keys.iter().map(|key| halite_sst::hash_key(key)).collect();
            let filter = if filtered { Filter::build(&mut hashes).unwrap() } else { Vec::new() };
            let mut ranges: Vec<DeletedRange> = keys.iter().collect::<Vec<_>>().chunks_exact(2)
                .map(|two| DeletedRange { start: two[0][..].into(), end: Some(two[1][..].into()) })
                .collect();
            if open && let Some(last) = ranges.last_mut() {
                last.end = None;
            }
            let mut bytes = builder.finish(&ranges, &filter);
            let messages = (1..=keys.len() as u64).sum();
            let of = pointer(messages, ranges.len() as u32);
            let directory = Directory::decode(&bytes, &of).unwrap();
            prop_assert_eq!(&directory.ranges[..], &ranges[..]);
            prop_assert_eq!(&directory.parts, &(0..keys.len()).map(place).collect::<Vec<_>>());
            for (number, key) in keys.iter().enumerate() {
                prop_assert_eq!(directory.part_of(key), Some(number));
                prop_assert!(directory.may_have(halite_sst::hash_key(key)));
            }
            prop_assert_eq!(directory.part_of(&[255; 6]), None);
            prop_assert!(Directory::decode(&bytes, &pointer(messages + 1, ranges.len() as u32)).is_err());
            prop_assert!(Directory::decode(&bytes, &pointer(messages, ranges.len() as u32 + 1)).is_err());
            for cut in 0..bytes.len() {
                prop_assert!(Directory::decode(&bytes[..cut], &of).is_err());
            }
            for (at, byte) in flips {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            let _ = Directory::decode(&bytes, &of);
            let _ = Directory::decode(&noise, &of);
        }
    }
}

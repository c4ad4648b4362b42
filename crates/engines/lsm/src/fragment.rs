//! A fragment: the records of a batch in one zone.
//!
//! ```text
//!  0  check      u64  xxh3 of the rest of the header, seeded
//!  8  sequence   u64  of the first record of the whole batch
//! 16  records    u32  of the whole batch, in all trees
//! 20  len        u32  bytes of records that follow
//! 24  fragments  u16  of the whole batch
//! 26  number     u16  of this one among them
//! 28  keys       u32  check of the heads and keys of the records that follow
//! 32  records, then zeros up to the line's end
//! ```
//!
//! It begins with a line. The next one begins at the next line, or, if it did not fit, with the memtable's next
//! zone; then the rest of this one begins with a header without records, fragments or sequence, the mark of
//! the end ([`Header::END`]). So a zone that is not the last ends with its last line or with that mark.
//!
//! The check of keys lets recovery believe a batch that was durable without reading its values, each of which has a
//! check of its own in its record.

use halite_codec::{Reader, check_front, put_front};
use halite_sst::SEQUENCE_MAX;

use crate::record::{Record, Seed};

/// Bytes before the records.
pub(crate) const HEADER: usize = 32;

/// Bytes of records that a fragment holds at the most, so that little of a zone is left over; a longer record
/// there is not.
pub(crate) const PAYLOAD_MAX: usize = 256 << 10;

/// The fields of a fragment's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) sequence: u64,
    pub(crate) records: u32,
    pub(crate) len: u32,
    pub(crate) fragments: u16,
    pub(crate) number: u16,
    /// The check of the keys of all records ([`check_of_keys`]).
    pub(crate) keys: u32,
}

impl Header {
    /// The mark of a zone's end.
    pub(crate) const END: Self =
        Self { sequence: 0, records: 0, len: 0, fragments: 0, number: 0, keys: 0 };

    pub(crate) fn encode(&self, seed: Seed) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.records.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.len.to_le_bytes());
        bytes[24..26].copy_from_slice(&self.fragments.to_le_bytes());
        bytes[26..28].copy_from_slice(&self.number.to_le_bytes());
        bytes[28..].copy_from_slice(&self.keys.to_le_bytes());
        put_front(&mut bytes, seed.of_checks());
        bytes
    }

    /// The header at the start of `bytes`, if it is one of this memtable.
    pub(crate) fn decode(bytes: &[u8], seed: Seed) -> Option<Self> {
        let fields = check_front(bytes.get(..HEADER)?, seed.of_checks()).ok()?;
        let header = Self::read(&mut Reader(fields)).expect("a header has all fields");
        let is_sane = header.number < header.fragments
            && header.records > 0
            && header.sequence <= SEQUENCE_MAX - u64::from(header.records);
        (is_sane || header == Self::END).then_some(header)
    }

    fn read(fields: &mut Reader<'_>) -> halite_codec::Result<Self> {
        Ok(Self {
            sequence: fields.u64()?,
            records: fields.u32()?,
            len: fields.u32()?,
            fragments: fields.u16()?,
            number: fields.u16()?,
            keys: fields.u32()?,
        })
    }

    /// The sequence of the last record of the whole batch.
    pub(crate) fn last(&self) -> u64 {
        self.sequence + u64::from(self.records) - 1
    }

    /// Whether a record has a sequence of the batch.
    fn has(&self, record: &Record<'_>) -> bool {
        (self.sequence..=self.last()).contains(&record.sequence())
    }

    /// Bytes that the fragment takes.
    pub(crate) fn padded(&self) -> u64 {
        padded(self.len as usize)
    }
}

/// Bytes that a fragment with so many bytes of records takes: whole lines.
pub(crate) fn padded(len: usize) -> u64 {
    ((HEADER + len) as u64).next_multiple_of(halite_pmem::LINE)
}

/// The records of a fragment's payload, with where each begins in it; ends before one that is not whole.
pub(crate) fn records(payload: &[u8]) -> impl Iterator<Item = (usize, Record<'_>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let record = Record::read(payload.get(at..)?)?;
        let start = at;
        at += record.len();
        Some((start, record))
    })
}

/// The check of the keys of a fragment that has this record behind others whose check is `before`; 0 of none.
pub(crate) fn check_of_keys(before: u32, record: &Record<'_>) -> u32 {
    (halite_codec::Seed::new(before.into()).checksum(record.head_and_key()) >> 32) as u32
}

/// Shows each record of a payload, with where it begins there. Returns whether their heads and keys are as they
/// were written; values are not looked at.
pub(crate) fn has_its_keys<'a>(
    header: &Header,
    payload: &'a [u8],
    mut show: impl FnMut(usize, Record<'a>),
) -> bool {
    let (mut keys, mut end, mut are_of_batch) = (0, 0, true);
    for (at, record) in records(payload) {
        keys = check_of_keys(keys, &record);
        end = at + record.len();
        are_of_batch &= header.has(&record);
        show(at, record);
    }
    are_of_batch && keys == header.keys && end == payload.len()
}

/// Whether a payload is made of whole records with sequences of the batch, up to its end.
pub(crate) fn is_whole(header: &Header, payload: &[u8], seed: Seed) -> bool {
    let mut end = 0;
    for (at, record) in records(payload) {
        if !record.is_whole(seed) || !header.has(&record) {
            return false;
        }
        end = at + record.len();
    }
    end == payload.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{self, Kind};

    #[test]
    fn a_header_comes_back_and_every_changed_bit_shows() {
        let seed = Seed::new(1, 2);
        let header = Header { sequence: 77, records: 3, len: 96, fragments: 2, number: 1, keys: 5 };
        let bytes = header.encode(seed);
        assert_eq!(Header::decode(&bytes, seed), Some(header));
        assert_eq!(Header::decode(&bytes, Seed::new(1, 3)), None);
        for bit in 0..HEADER * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::decode(&damaged, seed), None, "bit {bit}");
        }
        assert_eq!(header.padded(), 128);
    }

    #[test]
    fn a_payload_is_whole_up_to_its_end() {
        let seed = Seed::new(1, 2);
        let mut payload = Vec::new();
        for number in 0..3 {
            let from = payload.len();
            record::encode(&mut payload, number, Kind::Put, [b"a", b"b"], [b"c", b""]);
            record::complete(&mut payload[from..], 10, seed);
        }
        let len = payload.len() as u32;
        let keys = records(&payload).fold(0, |keys, (_, record)| check_of_keys(keys, &record));
        let header = Header { sequence: 10, records: 3, len, fragments: 1, number: 0, keys };
        assert!(is_whole(&header, &payload, seed));
        for bit in 0..payload.len() * 8 {
            let mut damaged = payload.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            // Each record has 20 bytes, a key of 2 and a value of 1, and 1 that pads it.
            let in_value = bit / 8 % 24 >= 22;
            assert_eq!(has_its_keys(&header, &damaged, |_, _| {}), in_value, "bit {bit}");
        }
        assert!(!has_its_keys(&header, &payload[..payload.len() - 8], |_, _| {}));
        assert!(!is_whole(&Header { sequence: 11, ..header }, &payload, seed));
        assert!(!is_whole(&header, &payload[..payload.len() - 8], seed));
        assert_eq!(records(&payload).count(), 3);
    }
}

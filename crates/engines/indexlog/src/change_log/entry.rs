//! The stored form of an entry of the change log: a frame (`blocks/src/log/frame.rs`), whose payload is
//!
//! ```text
//! head (32 bytes)                       then of every operation
//! opening before logged durable first   len   record
//!    4      4      8       8      8      4    len bytes, as a record's payload (`record`)
//! ```
//!
//! A batch is one entry, or, if it does not fit the rest of a segment, one in each of several segments. Its
//! operations have the same numbers and content as their records: so a large value is in neither, but in blocks that
//! both refer to (Lersch Fig. 5.10).
//!
//! Entries start at lines. The checksum is seeded with the partition's salt, the segment's number, which no segment
//! has twice, and the place. Entries that a crash left behind the end cannot follow those that are written later: an
//! entry says in which opening of the store it was written, and in which the one before it was.

use halite_blocks::log::frame;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::record::{BATCH_ALIGN, Draft, Record, SEQ_MAX};

/// The head of an entry, before its operations.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Head {
    /// A random number of the opening of the store in which the entry was written.
    pub(crate) opening: U32,
    /// The same number of the entry before: of its opening.
    pub(crate) before: U32,
    /// Everything up to this number was durable in the change log when the entry was written.
    pub(crate) logged: U64,
    /// The records up to this number were durable then.
    pub(crate) durable: U64,
    /// The number of the first operation of the batch.
    pub(crate) first: U64,
}

/// Bytes of the length before the payload of an operation.
const LEN: usize = size_of::<U32>();

/// Bytes of an entry besides its operations.
pub(crate) const HEAD_LEN: u64 = (frame::HEADER_LEN + size_of::<Head>()) as u64;

/// Bytes that an operation takes in an entry.
pub(crate) fn len_of(draft: &Draft<'_>) -> u64 {
    LEN as u64 + draft.payload_len()
}

/// The seed of the checksums of a segment's entries.
pub(crate) fn seed(salt: u64, segment: u32) -> u64 {
    frame::seed(!salt, segment.into())
}

/// Begins an entry in `out`, which is empty.
pub(crate) fn begin(out: &mut Vec<u8>, head: &Head) {
    debug_assert!(out.is_empty());
    out.extend_from_slice(&[0; frame::HEADER_LEN]);
    out.extend_from_slice(head.as_bytes());
}

/// Adds an operation.
pub(crate) fn add(out: &mut Vec<u8>, draft: &Draft<'_>) {
    out.extend_from_slice(U32::from(draft.payload_len() as u32).as_bytes());
    draft.encode_payload(out);
}

/// Completes an entry for its place, and pads it to where the next one may start.
pub(crate) fn end(out: &mut Vec<u8>, seed: u64, at: u64) {
    frame::seal(out, frame::place(seed, at));
    out.resize(out.len().next_multiple_of(BATCH_ALIGN as usize), 0);
}

/// The bytes that an entry at `at` of a segment would have; none where it would not fit.
pub(crate) fn bytes_at(segment: &[u8], at: u64) -> &[u8] {
    let bytes = segment.get(at as usize..).unwrap_or_default();
    match frame::len(bytes) {
        0 => &[],
        len => &bytes[..frame::HEADER_LEN + len as usize],
    }
}

/// The head of the entry that the bytes begin with, if it were whole.
pub(crate) fn head_of(bytes: &[u8]) -> Option<Head> {
    Some(Head::read_from_prefix(bytes.get(frame::HEADER_LEN..)?).ok()?.0)
}

/// An entry whose checksum is right.
pub(crate) struct Entry<'a> {
    pub(crate) head: Head,
    pub(crate) records: Vec<Record<'a>>,
    /// Where the next one may start.
    pub(crate) next_at: u64,
}

impl<'a> Entry<'a> {
    /// Reads the entry at `at` of a segment; none if there is none.
    pub(crate) fn read(segment: &'a [u8], at: u64, seed: u64) -> Option<Self> {
        Self::read_at(segment.get(at as usize..)?, at, seed)
    }

    /// Reads the entry from the bytes of the segment from `at` on.
    pub(crate) fn read_at(bytes: &'a [u8], at: u64, seed: u64) -> Option<Self> {
        let payload = frame::read(bytes, frame::place(seed, at)).ok()?;
        let (head, mut rest) = Head::read_from_prefix(payload).ok()?;
        let mut records: Vec<Record<'a>> = Vec::new();
        while !rest.is_empty() {
            let (len, behind) = U32::read_from_prefix(rest).ok()?;
            let (payload, behind) = behind.split_at_checked(len.get() as usize)?;
            let record = Record::of_payload(payload).ok()?;
            if records.last().is_some_and(|last| last.seq() + 1 != record.seq()) {
                return None;
            }
            records.push(record);
            rest = behind;
        }
        let first = records.first()?.seq();
        let end = at + (frame::HEADER_LEN + payload.len()) as u64;
        let next_at = end.next_multiple_of(BATCH_ALIGN);
        (head.first.get() <= first).then_some(Self { head, records, next_at })
    }

    /// The number of its first operation.
    pub(crate) fn first(&self) -> u64 {
        self.records[0].seq()
    }

    /// The number of its last operation.
    pub(crate) fn last(&self) -> u64 {
        self.records[self.records.len() - 1].seq()
    }

    /// Whether its numbers can be those of an entry: sums of them do not wrap, and its batch has a number before it.
    pub(crate) fn has_numbers(&self) -> bool {
        let stated = self.head.logged.get().max(self.head.durable.get());
        self.head.first.get() > 0 && stated <= SEQ_MAX
    }

    /// Whether a batch begins with it.
    pub(crate) fn begins_batch(&self) -> bool {
        self.head.first.get() == self.first()
    }

    /// Whether a batch ends with it.
    pub(crate) fn ends_batch(&self) -> bool {
        self.records[self.records.len() - 1].header.remaining.get() == 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::record::Kind;

    proptest! {
        #[test]
        fn an_entry_reads_back_and_every_flipped_bit_is_seen(
            pairs in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..5),
            bit in any::<prop::sample::Index>(),
        ) {
            let (opening, before, first) = (3.into(), 2.into(), 7.into());
            let head = Head { opening, before, logged: 6.into(), durable: 5.into(), first };
            let mut bytes = Vec::new();
            begin(&mut bytes, &head);
            for (seq, value) in (7..).zip(&pairs) {
                let draft = Draft {
                    kind: Kind::Put, seq, lag: 0, remaining: 6 + pairs.len() as u32 - seq as u32,
                    space: 1, key: b"key", value: Some(value), pieces: &[],
                };
                add(&mut bytes, &draft);
            }
            let whole = bytes.len();
            end(&mut bytes, 9, 0);
            let entry = Entry::read(&bytes, 0, 9).unwrap();
            prop_assert_eq!((entry.first(), entry.last()), (7, 6 + pairs.len() as u64));
            prop_assert!(entry.begins_batch() && entry.ends_batch());
            prop_assert_eq!(entry.next_at, bytes.len() as u64);
            let values: Vec<_> = entry.records.iter().filter_map(Record::inline_value).collect();
            prop_assert_eq!(values, pairs);
            prop_assert!(Entry::read(&bytes, 0, 8).is_none());
            let bit = bit.index(whole * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Entry::read(&bytes, 0, 9).is_none());
        }

        #[test]
        fn numbers_that_would_wrap_are_seen(first in 0..3_u64, logged in any::<u64>(), durable in any::<u64>()) {
            let (opening, before) = (3.into(), 2.into());
            let head = Head { opening, before, logged: logged.into(), durable: durable.into(), first: first.into() };
            let mut bytes = Vec::new();
            begin(&mut bytes, &head);
            let draft = Draft {
                kind: Kind::Delete, seq: 3, lag: 0, remaining: 0, space: 1, key: b"key", value: None, pieces: &[],
            };
            add(&mut bytes, &draft);
            end(&mut bytes, 9, 0);
            let entry = Entry::read(&bytes, 0, 9).unwrap();
            prop_assert_eq!(entry.has_numbers(), first > 0 && logged <= SEQ_MAX && durable <= SEQ_MAX);
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(Entry::read(&bytes, 0, 1).is_none());
        }
    }
}

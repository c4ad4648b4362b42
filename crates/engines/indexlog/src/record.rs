//! The stored form of a record: a frame of a log (`blocks/src/log/frame.rs`), whose payload is
//!
//! ```text
//! header (24 bytes)                        key       then, if inline   or else
//! seq kind flags lag space key_len         key_len   value             value_len, pieces × {window,
//!  8   1    1     2    4      4            bytes                       len and unit, checksum}: 4 + 16 × n bytes
//! remaining
//!     4
//! ```
//!
//! All numbers are little-endian. The bytes that the frame's length leaves behind the key are the value, or refer to
//! its pieces. Records start at multiples of [`ALIGN`], the first record behind the end of a batch at a multiple of a
//! line, so that an append never rewrites a line that is already durable (van Renen §3.3.2).
//!
//! The frame's checksum is seeded with the pool's salt, the block's number, its incarnation, and the offset at which
//! the record starts. So a block need not be zeroed before it is reused, and one fence makes a record durable.

pub(crate) mod op;
pub(crate) mod walk;

use halite_blocks::log::frame::{self, Torn};
use halite_contract::{Damage, KEY_LEN_MAX, VALUE_LEN_MAX};
use halite_sim::planted;
use xxhash_rust::xxh3::xxh3_64_with_seed;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::space::split::{UNITS, UNITS_MIN, piece_space, pieces};
use crate::{ALIGN, BLOCK};

/// A batch starts at a multiple of this, in bytes: a line.
pub(crate) const BATCH_ALIGN: u64 = halite_pmem::LINE;

/// The longest value that is inline, in bytes: 2 KiB, and what a caller may put before them. A longer one is stored
/// apart (Lersch §5.6), and rarely moves (`collection/compact.rs`).
pub(crate) const INLINE_LEN_MAX: usize = (2 << 10) + 64;

/// The most pieces that a value may be scattered over: with the longest key they still fill a block.
pub(crate) const PIECES_MAX: usize =
    (BLOCK as usize - KEY_LEN_MAX - FIXED - size_of::<U32>()) / size_of::<Piece>() - 1;

/// Bytes before the key.
const FIXED: usize = frame::HEADER_LEN + size_of::<Header>();

/// The fixed part of a record, behind the head of its frame.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Header {
    /// The record's place in the order of all writes.
    pub(crate) seq: U64,
    kind: u8,
    pub(crate) flags: u8,
    /// How far durability was behind when the record was written: everything up to
    /// `seq - 1 - lag` was durable then. [`LAG_UNKNOWN`] if it was further.
    pub(crate) lag: U16,
    pub(crate) space: U32,
    key_len: U32,
    /// Records of the same batch (or group, if relocated) behind this one.
    pub(crate) remaining: U32,
}

/// Where the key of a record begins, in bytes.
pub(crate) const KEY_AT: u64 = FIXED as u64;

/// The offset of a record's kind.
const KIND_AT: usize = frame::HEADER_LEN + size_of::<U64>();

/// Bytes of the shortest record.
pub(crate) const LEN_MIN: u64 = (FIXED as u64).next_multiple_of(ALIGN);

/// The highest number of a record: more than can be written, so that sums of numbers do not wrap.
pub(crate) const SEQ_MAX: u64 = 1 << 62;

/// The lag of a record that does not say it.
pub(crate) const LAG_UNKNOWN: u16 = u16::MAX;

/// The value lies in overflow blocks.
const OVERFLOW: u8 = 1;
/// The record was moved here by collection, with the sequence number that it had.
pub(crate) const RELOCATED: u8 = 2;
/// A range without an end.
const OPEN_END: u8 = 4;

/// The kinds of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The key has the value.
    Put,
    /// The key was deleted.
    Delete,
    /// The keys from the key up to the value, or without an end, were deleted.
    DeleteRange,
}

/// A part of a value in overflow blocks.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Piece {
    /// The window of 2 KiB of the data device that it begins in.
    window: U32,
    /// Its length in bytes, and in the upper three bits the unit of the window that it begins with. Version 5 of the
    /// form has zeros there.
    len_and_unit: U32,
    checksum: U64,
}

/// Bits of a piece's length.
const PIECE_LEN_BITS: u32 = 29;

impl Piece {
    /// Describes `bytes`, the part of a value that record `seq` refers to at `place`.
    ///
    /// # Panics
    /// If the form has no room for the place or the length.
    pub(crate) fn new(place: u64, bytes: &[u8], salt: u64, seq: u64) -> Self {
        let window = u32::try_from(place / UNITS_MIN).expect("a device has fewer places");
        let len = bytes.len() as u32;
        assert!(bytes.len() < 1 << PIECE_LEN_BITS, "a piece is no longer than a segment");
        let len_and_unit = len | ((place % UNITS_MIN) as u32) << PIECE_LEN_BITS;
        let checksum = Self::sum(place, bytes, salt, seq).into();
        Self { window: window.into(), len_and_unit: len_and_unit.into(), checksum }
    }

    /// Where it begins on the data device, in units.
    pub(crate) fn place(&self) -> u64 {
        let unit = self.len_and_unit.get() >> PIECE_LEN_BITS;
        u64::from(self.window.get()) * UNITS_MIN + u64::from(unit)
    }

    /// In bytes.
    pub(crate) fn len(&self) -> u64 {
        u64::from(self.len_and_unit.get()) & ((1 << PIECE_LEN_BITS) - 1)
    }

    /// Whether `bytes` have the checksum of this piece.
    pub(crate) fn matches(&self, bytes: &[u8], salt: u64, seq: u64) -> bool {
        self.checksum.get() == Self::sum(self.place(), bytes, salt, seq)
    }

    /// The block that it begins in.
    pub(crate) fn block(&self) -> u32 {
        (self.place() / UNITS) as u32
    }

    fn sum(place: u64, bytes: &[u8], salt: u64, seq: u64) -> u64 {
        let (window, unit) = ((place / UNITS_MIN) as u32, (place % UNITS_MIN) as u32);
        xxh3_64_with_seed(bytes, seed(salt ^ seq, window, unit))
    }
}

/// The seed of the checksums of a block's records in one of its incarnations.
pub(crate) fn seed(salt: u64, block: u32, incarnation: u32) -> u64 {
    let lives = planted!("indexlog.checksum-without-life", 0, incarnation);
    frame::seed(salt, u64::from(block) << 32 | u64::from(lives))
}

fn is_too_long(value_len: usize) -> bool {
    value_len > INLINE_LEN_MAX
}

/// Bytes of a log that a record takes, and of the overflow blocks that its value does if it is too long;
/// in as few pieces as can be.
pub(crate) fn space(key_len: usize, value_len: usize) -> u64 {
    let (mut body, mut overflow) = (value_len, 0);
    if is_too_long(value_len) {
        body = size_of::<U32>() + pieces(value_len).count() * size_of::<Piece>();
        overflow = pieces(value_len).map(piece_space).sum();
    }
    ((FIXED + key_len + body) as u64).next_multiple_of(ALIGN) + overflow
}

/// The content of a new record.
#[derive(Clone, Copy)]
pub(crate) struct Draft<'a> {
    pub(crate) kind: Kind,
    pub(crate) seq: u64,
    pub(crate) lag: u64,
    pub(crate) remaining: u32,
    pub(crate) space: u32,
    pub(crate) key: &'a [u8],
    /// The value, or the end of the range.
    pub(crate) value: Option<&'a [u8]>,
    /// The pieces of the value, if it is not inline.
    pub(crate) pieces: &'a [Piece],
}

impl Draft<'_> {
    /// Whether a value is too long to be inline.
    pub(crate) fn needs_overflow(value: &[u8]) -> bool {
        is_too_long(value.len())
    }

    /// The length of the record in bytes, without padding.
    pub(crate) fn len(&self) -> u64 {
        let body = if self.pieces.is_empty() {
            self.value.map_or(0, <[u8]>::len)
        } else {
            size_of::<U32>() + size_of_val(self.pieces)
        };
        (FIXED + self.key.len() + body) as u64
    }

    /// The length of the payload in bytes.
    pub(crate) fn payload_len(&self) -> u64 {
        self.len() - frame::HEADER_LEN as u64
    }

    /// Appends the record to `out`, without padding.
    pub(crate) fn encode(&self, out: &mut Vec<u8>, seed: u64) {
        let start = out.len();
        out.extend_from_slice(&[0; frame::HEADER_LEN]);
        self.encode_payload(out);
        frame::seal(&mut out[start..], seed);
    }

    /// Appends the payload of the record's frame to `out`.
    pub(crate) fn encode_payload(&self, out: &mut Vec<u8>) {
        let value = self.value.unwrap_or_default();
        let open_end = self.kind == Kind::DeleteRange && self.value.is_none();
        let overflow = !self.pieces.is_empty();
        let header = Header {
            seq: self.seq.into(),
            kind: match self.kind {
                Kind::Put => 1,
                Kind::Delete => 2,
                Kind::DeleteRange => 3,
            },
            flags: (u8::from(overflow) * OVERFLOW) | (u8::from(open_end) * OPEN_END),
            lag: (self.lag.min(LAG_UNKNOWN.into()) as u16).into(),
            space: self.space.into(),
            key_len: (self.key.len() as u32).into(),
            remaining: self.remaining.into(),
        };
        out.extend_from_slice(header.as_bytes());
        out.extend_from_slice(self.key);
        if overflow {
            let len = self.pieces.iter().map(|piece| piece.len() as u32).sum::<u32>();
            out.extend_from_slice(U32::from(len).as_bytes());
            out.extend_from_slice(self.pieces.as_bytes());
        } else {
            out.extend_from_slice(value);
        }
    }
}

/// Appends a copy of a record, moved to a block with another seed, to `out`.
pub(crate) fn relocate(record: &Record<'_>, remaining: u32, out: &mut Vec<u8>, seed: u64) {
    let mut header = record.header;
    header.flags |= RELOCATED;
    header.remaining = remaining.into();
    copy(&Record { header, ..*record }, out, seed);
}

/// Appends a copy of a record to `out`, without its lag.
pub(crate) fn copy(record: &Record<'_>, out: &mut Vec<u8>, seed: u64) {
    let start = out.len();
    let mut header = record.header;
    header.lag = LAG_UNKNOWN.into();
    out.extend_from_slice(&[0; frame::HEADER_LEN]);
    out.extend_from_slice(header.as_bytes());
    out.extend_from_slice(record.key);
    out.extend_from_slice(record.body);
    frame::seal(&mut out[start..], seed);
}

/// A record that has its checksum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    pub(crate) header: Header,
    pub(crate) kind: Kind,
    pub(crate) key: &'a [u8],
    /// The value; or its length and its pieces.
    body: &'a [u8],
}

impl<'a> Record<'a> {
    /// Reads the record at the start of `bytes`, which end where reading has to end.
    ///
    /// # Errors
    /// The reason why there is none.
    pub(crate) fn read(bytes: &'a [u8], seed: u64) -> Result<Self, &'static str> {
        // Checked first: this tells most places where there was never a record.
        let kind = match bytes.get(KIND_AT) {
            Some(1) => Kind::Put,
            Some(2) => Kind::Delete,
            Some(3) => Kind::DeleteRange,
            Some(_) => return Err("it is of an unknown kind"),
            None => return Err("the block ends inside a header"),
        };
        let payload = frame::read(bytes, seed).map_err(|torn| match torn {
            Torn::Length => "its length reaches beyond the block",
            Torn::Sum => "it does not have its checksum",
        })?;
        Self::parse(payload, kind)
    }

    /// Reads the record whose payload, which has its sum, is `payload`.
    ///
    /// # Errors
    /// The reason why it is not a record.
    pub(crate) fn of_payload(payload: &'a [u8]) -> Result<Self, &'static str> {
        let kind = match payload.get(KIND_AT - frame::HEADER_LEN) {
            Some(1) => Kind::Put,
            Some(2) => Kind::Delete,
            Some(3) => Kind::DeleteRange,
            _ => return Err("it is of an unknown kind"),
        };
        Self::parse(payload, kind)
    }

    fn parse(payload: &'a [u8], kind: Kind) -> Result<Self, &'static str> {
        let contradicts = "it contradicts itself";
        let (header, rest) = Header::read_from_prefix(payload).map_err(|_| contradicts)?;
        let key_len = header.key_len.get() as usize;
        let (key, body) = rest.split_at_checked(key_len).ok_or(contradicts)?;
        if header.seq.get() > SEQ_MAX {
            return Err("its number is beyond all that is ever written");
        }
        let record = Self { header, kind, key, body };
        if key_len > KEY_LEN_MAX || record.value_len() > VALUE_LEN_MAX {
            return Err(contradicts);
        }
        Ok(record)
    }

    /// Returns the record's length in bytes, without padding.
    pub(crate) fn len(&self) -> u64 {
        (FIXED + self.key.len() + self.body.len()) as u64
    }

    /// Returns where the record behind this one starts, if this one starts at `at`.
    pub(crate) fn next_at(&self, at: u64) -> u64 {
        let align = if self.header.remaining.get() == 0 { BATCH_ALIGN } else { ALIGN };
        (at + self.len()).next_multiple_of(align)
    }

    pub(crate) fn seq(&self) -> u64 {
        self.header.seq.get()
    }

    pub(crate) fn is_relocated(&self) -> bool {
        self.header.flags & RELOCATED != 0
    }

    pub(crate) fn has_overflow(&self) -> bool {
        self.header.flags & OVERFLOW != 0
    }

    /// Returns the value's length in bytes.
    pub(crate) fn value_len(&self) -> usize {
        if !self.has_overflow() {
            return self.body.len();
        }
        U32::read_from_prefix(self.body).map_or(0, |(len, _)| len.get() as usize)
    }

    /// The value, if it is inline.
    pub(crate) fn inline_value(&self) -> Option<&'a [u8]> {
        (!self.has_overflow()).then_some(self.body)
    }

    /// Bytes of the record before an inline value.
    pub(crate) fn value_at(&self) -> usize {
        FIXED + self.key.len()
    }

    /// The pieces of a value that is not inline; none if the record contradicts itself.
    pub(crate) fn pieces(&self) -> &'a [Piece] {
        if !self.has_overflow() {
            return &[];
        }
        let pieces = self.body.get(size_of::<U32>()..).unwrap_or_default();
        <[Piece]>::ref_from_bytes(pieces).unwrap_or_default()
    }

    /// The end of a deleted range.
    pub(crate) fn range_end(&self) -> Option<&'a [u8]> {
        (self.header.flags & OPEN_END == 0).then_some(self.body)
    }

    /// Returns the number up to which everything was durable when the record was written.
    pub(crate) fn durable_before(&self) -> u64 {
        match self.header.lag.get() {
            LAG_UNKNOWN => 0,
            lag => self.seq().saturating_sub(1 + u64::from(lag)),
        }
    }
}

/// The key of the record at the start of `bytes`, which was checked before.
#[inline]
pub(crate) fn key_of(bytes: &[u8]) -> Option<&[u8]> {
    let (header, rest) = Header::ref_from_prefix(bytes.get(frame::HEADER_LEN..)?).ok()?;
    rest.get(..header.key_len.get() as usize)
}

/// Names a damaged record, whose bytes are the first of `bytes`, with its key if that can still be
/// read.
pub(crate) fn damage(bytes: &[u8], block: u32, at: u64, why: &str) -> Damage {
    let mut what = format!("record at block {block}, offset {at}");
    if let Some(payload) = bytes.get(frame::HEADER_LEN..)
        && let Ok((header, rest)) = Header::read_from_prefix(payload)
        && matches!(header.kind, 1..=3)
        && header.key_len.get() as usize <= KEY_LEN_MAX
        && let Some(key) = rest.get(..(header.key_len.get() as usize).min(64))
        && !key.is_empty()
    {
        let more = if header.key_len.get() > 64 { "…" } else { "" };
        what += &format!(
            " (it seems to be number {}, key `{}{more}`)",
            header.seq.get(),
            key.escape_ascii()
        );
    }
    Damage { what, why: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn draft<'a>(kind: Kind, key: &'a [u8], value: Option<&'a [u8]>) -> Draft<'a> {
        Draft { kind, seq: 77, lag: 3, remaining: 0, space: 9, key, value, pieces: &[] }
    }

    proptest! {
        #[test]
        fn a_record_reads_back_and_every_flipped_bit_is_seen(
            key in prop::collection::vec(any::<u8>(), 0..50),
            value in prop::option::of(prop::collection::vec(any::<u8>(), 0..200)),
            kind in 0..3,
            bit in any::<prop::sample::Index>(),
        ) {
            let kind = [Kind::Put, Kind::Delete, Kind::DeleteRange][kind as usize];
            let mut bytes = Vec::new();
            let draft = draft(kind, &key, value.as_deref());
            draft.encode(&mut bytes, 5);
            prop_assert_eq!(bytes.len() as u64, draft.len());
            let record = Record::read(&bytes, 5).unwrap();
            prop_assert_eq!((record.kind, record.key, record.seq()), (kind, &key[..], 77));
            prop_assert_eq!(record.body, value.as_deref().unwrap_or_default());
            prop_assert_eq!(record.durable_before(), 73);
            prop_assert_eq!(record.len(), draft.len());
            if kind == Kind::DeleteRange {
                prop_assert_eq!(record.range_end(), value.as_deref());
            }
            prop_assert!(Record::read(&bytes, 6).is_err(), "another life of the block");
            let bit = bit.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Record::read(&bytes, 5).is_err());
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(Record::read(&bytes, 1).is_err());
        }
    }

    #[test]
    fn a_piece_is_stored_as_in_version_5_where_it_begins_with_a_window() {
        let (salt, seq, bytes) = (7, 9, [3; 4097]);
        let sum = xxh3_64_with_seed(&bytes, seed(salt ^ seq, 5, 0));
        let stored =
            [&5_u32.to_le_bytes()[..], &4097_u32.to_le_bytes(), &sum.to_le_bytes()].concat();
        assert_eq!(Piece::new(5 * UNITS_MIN, &bytes, salt, seq).as_bytes(), stored);
        for place in [0, 7, 8 * 5 + 3, u64::from(u32::MAX) * UNITS_MIN + 7] {
            let piece = Piece::new(place, &bytes, salt, seq);
            assert_eq!((piece.place(), piece.len()), (place, 4097));
            assert!(piece.matches(&bytes, salt, seq) && !piece.matches(&bytes[1..], salt, seq));
            let other = Piece::new(place ^ 1, &bytes, salt, seq);
            assert_ne!(other.checksum, piece.checksum, "the place is in the checksum");
        }
    }

    #[test]
    fn the_longest_record_fits_a_block() {
        let pieces = vec![Piece::new(1, b"", 0, 0); PIECES_MAX];
        let key = vec![0; KEY_LEN_MAX];
        let draft = Draft { pieces: &pieces, ..draft(Kind::Put, &key, Some(b"v")) };
        assert!(draft.len().next_multiple_of(BATCH_ALIGN) <= BLOCK);
        assert!(PIECES_MAX >= 2 * VALUE_LEN_MAX / halite_alloc::SEGMENT as usize);
    }
}

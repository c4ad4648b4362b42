//! A record: one operation on one key, as it lies in a zone.
//!
//! ```text
//!  0  sequence << 8 | kind   u64
//!  8  check                  u32   of all that follows, and the sequence; seeded
//! 12  value len              u32
//! 16  key len                u32   with the key space's 4 bytes
//! 20  key, value, zeros up to a multiple of 8
//! ```
//!
//! All little-endian. The seed is that of the memtable ([`Seed`]), so that the earlier content of a zone is no record
//! of it.

use halite_codec::Seed as Checks;

/// Bytes before the key.
pub(crate) const HEAD: usize = 20;

/// Values up to this length lie in their record, longer ones in pieces of this length, or in a file.
pub(crate) const PIECE: usize = 64 << 10;

/// The kind of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Sets the value of a key.
    Put = 1,
    /// Removes a key.
    Delete = 2,
    /// Removes all keys from the record's key up to its value.
    RangeDelete = 3,
    /// Sets the value of a key; the record's value has the length and the addresses of the pieces.
    PutPieces = 4,
    /// A piece of a value. No index points to it.
    Piece = 5,
    /// Sets the value of a key; the record's value refers to the file that has it ([`halite_sst::ValueRef`]).
    PutFile = 6,
}

impl Kind {
    #[inline]
    pub(crate) fn of(byte: u8) -> Option<Self> {
        use Kind::{Delete, Piece, Put, PutFile, PutPieces, RangeDelete};
        [Put, Delete, RangeDelete, PutPieces, Piece, PutFile]
            .into_iter()
            .find(|&kind| kind as u8 == byte)
    }
}

/// The seed of the checks of one memtable's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seed(Checks);

impl Seed {
    /// Derives the seed from a pool's salt and the memtable's id, which is never used twice.
    pub(crate) fn new(salt: u64, id: u64) -> Self {
        Self(Checks::new(Checks::new(salt).checksum(&id.to_le_bytes())))
    }

    /// The seed as that of what has checksums.
    #[inline]
    pub(crate) fn of_checks(self) -> Checks {
        self.0
    }
}

/// Appends a record whose sequence is not known yet but for `number`, its place in its batch; [`complete`]
/// completes it.
pub(crate) fn encode(
    to: &mut Vec<u8>,
    number: u32,
    kind: Kind,
    key: [&[u8]; 2],
    value: [&[u8]; 2],
) {
    let key_len = (key[0].len() + key[1].len()) as u32;
    let value_len = (value[0].len() + value[1].len()) as u32;
    let mut head = [0; HEAD];
    head[..8].copy_from_slice(&(u64::from(number) << 8 | kind as u64).to_le_bytes());
    head[12..16].copy_from_slice(&value_len.to_le_bytes());
    head[16..].copy_from_slice(&key_len.to_le_bytes());
    to.reserve(len(key_len as usize, value_len as usize));
    to.extend_from_slice(&head);
    for part in key.into_iter().chain(value) {
        to.extend_from_slice(part);
    }
    let padding = to.len().next_multiple_of(8) - to.len();
    to.extend_from_slice(&[0; 8][..padding]);
}

/// Bytes that a record takes.
pub(crate) fn len(key_len: usize, value_len: usize) -> usize {
    (HEAD + key_len + value_len).next_multiple_of(8)
}

/// Gives the record at the start of `bytes` its sequence, `base` more than its number, and its check.
pub(crate) fn complete(bytes: &mut [u8], base: u64, seed: Seed) {
    let head = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes")) + (base << 8);
    bytes[..8].copy_from_slice(&head.to_le_bytes());
    let check = check_of(head, &bytes[12..], seed);
    bytes[8..12].copy_from_slice(&check.to_le_bytes());
}

/// The check of a record with this first word and these bytes behind the check. The sequence is mixed in where
/// it costs no pass over the bytes.
#[inline]
fn check_of(head: u64, behind: &[u8], seed: Seed) -> u32 {
    (seed.0.at(head).checksum(behind) >> 32) as u32
}

/// The lengths in a record's head: of the record, and up to the end of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lens {
    pub(crate) key: usize,
    pub(crate) value: usize,
}

impl Lens {
    /// Reads the head from the first [`HEAD`] bytes.
    #[inline]
    pub(crate) fn of(head: &[u8]) -> Self {
        let at = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("4 bytes"));
        Self { key: at(16) as usize, value: at(12) as usize }
    }

    /// Bytes of the whole record, without its padding.
    #[inline]
    pub(crate) fn exact(self) -> usize {
        HEAD + self.key + self.value
    }

    /// Bytes of the whole record.
    #[inline]
    pub(crate) fn padded(self) -> usize {
        self.exact().next_multiple_of(8)
    }
}

/// A record, read where it lies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record<'a> {
    bytes: &'a [u8],
    lens: Lens,
}

impl<'a> Record<'a> {
    /// The record at the start of `bytes`, if there is a whole one; its check is not compared.
    #[inline]
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        let lens = Lens::of(bytes.get(..HEAD)?);
        let bytes = bytes.get(..lens.padded())?;
        Some(Self { bytes, lens })
    }

    /// Whether the record is as it was written.
    #[inline]
    pub(crate) fn is_whole(&self, seed: Seed) -> bool {
        let check = u32::from_le_bytes(self.bytes[8..12].try_into().expect("4 bytes"));
        check == check_of(self.head(), &self.bytes[12..], seed) && self.kind().is_some()
    }

    #[inline]
    fn head(&self) -> u64 {
        u64::from_le_bytes(self.bytes[..8].try_into().expect("8 bytes"))
    }

    #[inline]
    pub(crate) fn sequence(&self) -> u64 {
        self.head() >> 8
    }

    #[inline]
    pub(crate) fn kind(&self) -> Option<Kind> {
        Kind::of(self.head() as u8)
    }

    #[inline]
    pub(crate) fn key(&self) -> &'a [u8] {
        &self.bytes[HEAD..][..self.lens.key]
    }

    pub(crate) fn head_and_key(&self) -> &'a [u8] {
        &self.bytes[..HEAD + self.lens.key]
    }

    #[inline]
    pub(crate) fn value(&self) -> &'a [u8] {
        &self.bytes[HEAD + self.lens.key..][..self.lens.value]
    }

    /// Bytes that it takes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_and_every_changed_bit_shows() {
        let seed = Seed::new(7, 1);
        let mut bytes = Vec::new();
        encode(&mut bytes, 3, Kind::Put, [b"spac", b"key"], [b"val", b"ue"]);
        assert_eq!(bytes.len(), len(7, 5));
        complete(&mut bytes, 1000, seed);
        let record = Record::read(&bytes).unwrap();
        assert!(record.is_whole(seed) && !record.is_whole(Seed::new(7, 2)));
        assert_eq!((record.sequence(), record.kind()), (1003, Some(Kind::Put)));
        assert_eq!((record.key(), record.value()), (&b"spackey"[..], &b"value"[..]));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let whole = Record::read(&damaged).is_some_and(|record| record.is_whole(seed));
            assert!(!whole, "bit {bit}");
        }
        assert!(Record::read(&bytes[..bytes.len() - 1]).is_none());
    }
}

//! Records that are pinned where they lie, and their values.

use halite_blocks::log::frame;
use halite_contract::{Bytes, Error, Result};
use halite_pmem::Pinned;

use crate::entry::Entry;
use crate::record::{self, Record};

/// A record, pinned and not yet checked.
pub(crate) struct PinnedRecord {
    pub(super) bytes: Pinned,
    pub(super) seed: u64,
    pub(super) entry: Entry,
    /// The pieces of a value that is not inline; `None` for a piece that is not there to be pinned.
    pub(super) pieces: Vec<Option<Pinned>>,
}

impl PinnedRecord {
    /// The record, checked.
    pub(crate) fn read(&self) -> Result<Record<'_>> {
        let seed = frame::place(self.seed, self.entry.offset());
        Record::read(&self.bytes, seed).map_err(|why| {
            record::damage(&self.bytes, self.entry.block(), self.entry.offset(), why).into()
        })
    }

    /// The pieces of its value, if all of them are pinned and have their checksums.
    pub(crate) fn whole_pieces(&self, record: &Record<'_>, salt: u64) -> Option<Vec<&[u8]>> {
        let pieces = record.pieces().iter().zip(&self.pieces);
        let read = |(piece, pinned): (&record::Piece, &Option<Pinned>)| {
            pinned.as_ref().filter(|bytes| piece.matches(bytes, salt, record.seq())).map(|_| ())
        };
        pieces.map(read).collect::<Option<()>>()?;
        Some(self.pieces.iter().flatten().map(|pinned| &**pinned).collect())
    }

    /// The key.
    pub(crate) fn key(&self) -> Result<Bytes> {
        let record = self.read()?;
        let range = record.value_at() - record.key.len()..record.value_at();
        Ok(Bytes::from(self.bytes.clone().slice(range)))
    }

    /// The value, if the record's key is `key`.
    pub(crate) fn value_of(mut self, key: &[u8], salt: u64) -> Result<Option<Bytes>> {
        let pieces = std::mem::take(&mut self.pieces);
        let record = self.read()?;
        if record.key != key {
            return Ok(None);
        }
        if record.has_overflow() {
            return overflowed(&record, pieces, salt).map(Some);
        }
        let range = record.value_at()..record.value_at() + record.value_len();
        Ok(Some(Bytes::from(self.bytes.slice(range))))
    }

    /// The key and the value.
    pub(crate) fn pair(mut self, salt: u64) -> Result<(Bytes, Bytes)> {
        let pieces = std::mem::take(&mut self.pieces);
        let record = self.read()?;
        let value_at = record.value_at();
        let key = Bytes::from(self.bytes.clone().slice(value_at - record.key.len()..value_at));
        if record.has_overflow() {
            return Ok((key, overflowed(&record, pieces, salt)?));
        }
        let range = value_at..value_at + record.value_len();
        Ok((key, Bytes::from(self.bytes.slice(range))))
    }
}

/// A value from its pieces: pinned if there is one, else copied together.
fn overflowed(record: &Record<'_>, pinned: Vec<Option<Pinned>>, salt: u64) -> Result<Bytes> {
    let mut copied = Vec::new();
    for (piece, pinned) in record.pieces().iter().zip(pinned) {
        let bytes = pinned
            .filter(|bytes| piece.matches(bytes, salt, record.seq()))
            .ok_or_else(|| piece_damage(record, piece))?;
        if bytes.len() == record.value_len() {
            return Ok(Bytes::from(bytes));
        }
        copied.reserve_exact(record.value_len().saturating_sub(copied.len()));
        copied.extend_from_slice(&bytes);
    }
    if copied.len() != record.value_len() {
        return Err(Error::Damaged {
            what: format!("value of key `{}`", record.key.escape_ascii()),
            why: "its pieces are not as long as it is".into(),
        });
    }
    Ok(Bytes::from(copied))
}

/// Names a damaged piece of a value.
pub(crate) fn piece_damage(record: &Record<'_>, piece: &record::Piece) -> Error {
    Error::Damaged {
        what: format!(
            "value of key `{}`, {} bytes at block {}",
            record.key[..record.key.len().min(64)].escape_ascii(),
            piece.len(),
            piece.block()
        ),
        why: "it does not have its checksum".into(),
    }
}

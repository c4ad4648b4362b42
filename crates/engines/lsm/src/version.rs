//! A version of a key: its sequence, and its value where that is stored.

use halite_contract::{Bytes, Error, Result, VALUE_LEN_MAX};
use halite_sst::ValueRef;

use crate::address::Address;
use crate::encoded::PIECES_HEAD;
use crate::record::{Kind, Record};
use crate::zones::Zones;

/// A version of a key.
pub(crate) struct Version {
    pub(crate) sequence: u64,
    pub(crate) value: Stored,
}

/// The value of a version.
pub(crate) enum Stored {
    /// None, as it is a removal.
    Nothing,
    Bytes(Bytes),
    /// A file that has it.
    File(ValueRef),
}

/// The value of a record, which was checked.
pub(crate) fn stored(zones: &Zones, address: Address, record: &Record<'_>) -> Result<Stored> {
    Ok(match record.kind() {
        Some(Kind::Put) => Stored::Bytes(Bytes::from(record.value())),
        Some(Kind::PutPieces) => Stored::Bytes(Bytes::from(join(zones, address, record)?)),
        Some(Kind::PutFile) => Stored::File(file_of(zones, address, record)?),
        Some(Kind::Delete) => Stored::Nothing,
        _ => return Err(zones.damaged(address, "an index leads to what is no version of a key")),
    })
}

/// The file of a [`Kind::PutFile`].
pub(crate) fn file_of(zones: &Zones, address: Address, record: &Record<'_>) -> Result<ValueRef> {
    ValueRef::of_bytes(record.value()).map_err(|why| zones.damaged(address, why))
}

/// The file of an entry of the levels.
pub(crate) fn file_of_entry(key: &[u8], value: &[u8]) -> Result<ValueRef> {
    ValueRef::of_bytes(value).map_err(|why| Error::Damaged {
        what: format!("the levels' entry of `{}`", key.get(4..).unwrap_or(key).escape_ascii()),
        why: why.into(),
    })
}

/// The value of a [`Kind::PutPieces`], whose pieces are in the same memtable.
pub(crate) fn join(zones: &Zones, address: Address, record: &Record<'_>) -> Result<Vec<u8>> {
    let damaged = || zones.damaged(address, "the pieces of its value contradict it");
    let (len, pieces) = record.value().split_first_chunk::<PIECES_HEAD>().ok_or_else(damaged)?;
    let len = u64::from_le_bytes(*len);
    let (pieces, rest) = pieces.as_chunks::<8>();
    let most = (pieces.len() as u64 * crate::record::PIECE as u64).min(VALUE_LEN_MAX as u64);
    if !rest.is_empty() || len > most {
        return Err(damaged());
    }
    let mut value = Vec::with_capacity(len as usize);
    for piece in pieces {
        let piece = Address::from_bits(u64::from_le_bytes(*piece));
        if piece.slot() != zones.slot as usize {
            return Err(damaged());
        }
        let record = zones.checked(piece)?;
        if record.kind() != Some(Kind::Piece) {
            return Err(damaged());
        }
        value.extend_from_slice(record.value());
    }
    if value.len() as u64 == len { Ok(value) } else { Err(damaged()) }
}

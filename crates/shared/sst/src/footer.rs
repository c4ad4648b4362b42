//! The last 56 bytes of a table: the store that it belongs to, and where its properties are.
//!
//! ```text
//!  0  magic       "HALITSST"
//!  8  format      u32   1
//! 12  len         u32   of the properties, without their trailer
//! 16  store id    u128
//! 32  number      u64   of the table
//! 40  offset      u64   of the properties
//! 48  checksum    u64   xxh3 of the bytes above; the one that does not depend on store and number, so that
//!                       a table that is foreign or misnamed can be told from a damaged one
//! ```

use halite_codec::{Reader, Seed, check_behind, put_behind};

use crate::index::Handle;
use crate::{Error, Result};

pub(crate) const FOOTER: usize = 56;

const MAGIC: [u8; 8] = *b"HALITSST";
const FORMAT: u32 = 1;

/// The fields of a footer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) store_id: u128,
    pub(crate) number: u64,
    pub(crate) properties: Handle,
}

impl Footer {
    pub(crate) fn bytes(&self) -> [u8; FOOTER] {
        let mut bytes = Vec::with_capacity(FOOTER);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        bytes.extend_from_slice(&self.properties.len.to_le_bytes());
        bytes.extend_from_slice(&self.store_id.to_le_bytes());
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.extend_from_slice(&self.properties.offset.to_le_bytes());
        put_behind(&mut bytes, Seed::NONE);
        bytes.try_into().expect("the footer's length")
    }

    /// Reads the footer of a file.
    pub(crate) fn of_bytes(bytes: &[u8; FOOTER], file: &str) -> Result<Self> {
        let damaged = |why: &str| Error::damaged(file, "footer", why);
        if bytes[..8] != MAGIC {
            return Err(damaged("this is no table, or its end is missing"));
        }
        let bytes = check_behind(bytes, Seed::NONE).map_err(|why| damaged(why.reason()))?;
        let mut reader = Reader(&bytes[MAGIC.len()..]);
        let mut read = || {
            let (format, len, store_id) = (reader.u32()?, reader.u32()?, reader.u128()?);
            let (number, offset) = (reader.u64()?, reader.u64()?);
            Ok((format, Self { store_id, number, properties: Handle { offset, len } }))
        };
        let (format, footer) = read().map_err(|why: halite_codec::Error| damaged(why.reason()))?;
        if format != FORMAT {
            return Err(Error::Format { file: file.to_owned(), found: format, known: FORMAT });
        }
        Ok(footer)
    }
}

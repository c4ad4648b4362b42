//! The reference that an entry or a record has in place of a large value: to the file that has the value.
//!
//! ```text
//!  0  number   u64   of the file
//!  8  len      u64   of the value, in bytes
//! 16  check    u64   of the checks of all of the value's chunks
//! ```

use crate::Parsed;

/// The place of a large value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueRef {
    /// The number of its file, which no other file of the store has.
    pub number: u64,
    /// Bytes of the value.
    pub len: u64,
    /// The check of the checks of its chunks.
    pub check: u64,
}

impl ValueRef {
    /// Bytes of a reference.
    pub const LEN: usize = 24;

    /// No store comes near to so many files, nor to so long a value.
    const MAX: u64 = u64::MAX / 4;

    /// Its stored form.
    #[must_use]
    pub fn bytes(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&self.number.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.len.to_le_bytes());
        bytes[16..].copy_from_slice(&self.check.to_le_bytes());
        bytes
    }

    /// The reference that is stored in these bytes.
    ///
    /// # Errors
    /// The reason why they are none.
    pub fn of_bytes(bytes: &[u8]) -> Parsed<Self> {
        let bytes: &[u8; Self::LEN] =
            bytes.try_into().map_err(|_| "a reference to a value has another length")?;
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let found = Self { number: word(0), len: word(8), check: word(16) };
        if found.number > Self::MAX || found.len > Self::MAX {
            return Err("a reference leads to no value");
        }
        Ok(found)
    }
}

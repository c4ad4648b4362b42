//! Limits that every engine keeps.

use crate::{Error, Result};

/// The longest key, in bytes: 64 KiB.
pub const KEY_LEN_MAX: usize = 64 << 10;

/// The longest value, in bytes: 512 MiB, and 64 bytes for the prefix that a layer above puts before a value of that
/// length, such as a server's tag.
pub const VALUE_LEN_MAX: usize = (512 << 20) + 64;

/// The longest name of a key space, in bytes.
pub const KEY_SPACE_NAME_LEN_MAX: usize = 255;

/// Checks a key against [`KEY_LEN_MAX`].
///
/// # Errors
/// [`Error::KeyTooLong`].
pub fn check_key(key: &[u8]) -> Result<()> {
    if key.len() > KEY_LEN_MAX { Err(Error::KeyTooLong { len: key.len() }) } else { Ok(()) }
}

/// Checks the bound of a range: the smallest string above the longest key is one byte longer.
pub(crate) fn check_bound(bound: &[u8]) -> Result<()> {
    if bound.len() > KEY_LEN_MAX + 1 { Err(Error::KeyTooLong { len: bound.len() }) } else { Ok(()) }
}

/// Checks a value against [`VALUE_LEN_MAX`].
///
/// # Errors
/// [`Error::ValueTooLong`].
pub fn check_value(value: &[u8]) -> Result<()> {
    if value.len() > VALUE_LEN_MAX { Err(Error::ValueTooLong { len: value.len() }) } else { Ok(()) }
}

/// Checks the name of a key space.
///
/// # Errors
/// [`Error::KeySpaceName`].
pub fn check_key_space_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > KEY_SPACE_NAME_LEN_MAX {
        Err(Error::KeySpaceName { len: name.len() })
    } else {
        Ok(())
    }
}

//! The limits of objects, and their checks.

use halite_contract::{KEY_LEN_MAX, KEY_SPACE_NAME_LEN_MAX, Result};

use crate::Error;

/// Bytes of a chunk.
pub const CHUNK_LEN: usize = 128 << 10;

/// Bytes of an object, at most: 2³² - 1 chunks.
pub const OBJECT_LEN_MAX: u64 = u32::MAX as u64 * CHUNK_LEN as u64;

/// Bytes of an object's name, and of a key of custom metadata, at most: with what is before them, they are keys.
pub const NAME_LEN_MAX: usize = KEY_LEN_MAX - 16;

/// Bytes of an object store's name, at most: with what is around it, it is the name of a dataset.
pub const STORE_NAME_LEN_MAX: usize = KEY_SPACE_NAME_LEN_MAX - 32;

/// Bytes of one write that are atomic, at most, if it begins at a multiple of [`CHUNK_LEN`]; anywhere else, one chunk less.
pub const ATOMIC_LEN_MAX: usize = ATOMIC_CHUNKS * CHUNK_LEN;

/// Chunks of a commit, at most.
pub(crate) const ATOMIC_CHUNKS: usize = 64;

// Also where the options keep chunks out of extents of their own, and upserts have worse parts than chunks.
const _: () =
    assert!(2 * ATOMIC_LEN_MAX <= halite_wal::pool_log::BATCH_MAX, "the log takes a write whole");

/// Refuses a name that is empty or too long.
pub(super) fn check_name(name: &[u8]) -> Result<()> {
    match (1..=NAME_LEN_MAX).contains(&name.len()) {
        true => Ok(()),
        false => Err(Error::ObjectName { len: name.len() }.into()),
    }
}

/// Refuses a key of custom metadata that is too long.
pub(super) fn check_metadata_key(key: &[u8]) -> Result<()> {
    match key.len() <= NAME_LEN_MAX {
        true => Ok(()),
        false => Err(Error::ObjectMetadataKey { len: key.len() }.into()),
    }
}

/// The end of a range of an object. Refuses a range that no object has.
pub(super) fn end_of(offset: u64, len: usize) -> Result<u64> {
    let end = offset.checked_add(len as u64).filter(|end| *end <= OBJECT_LEN_MAX);
    end.ok_or_else(|| Error::ObjectTooLong.into())
}

/// A name, as an error shows it.
pub(super) fn shown(name: &[u8]) -> String {
    const SHOWN: usize = 64;
    let more = if name.len() > SHOWN { "..." } else { "" };
    format!("\"{}{more}\"", name[..name.len().min(SHOWN)].escape_ascii())
}

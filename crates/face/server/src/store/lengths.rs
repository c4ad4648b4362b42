//! The limits of keys and values, for changes that the engine sees at the end of a transaction.

use halite::{EngineError, KEY_LEN_MAX, VALUE_LEN_MAX};

use super::Result;

/// Refuses lengths in a transaction that the engine would refuse at its end.
pub(super) fn check_lengths(key: &[u8], stored: &[u8]) -> Result<()> {
    if key.len() > KEY_LEN_MAX {
        Err(EngineError::KeyTooLong { len: key.len() }.into())
    } else if stored.len() > VALUE_LEN_MAX {
        Err(EngineError::ValueTooLong { len: stored.len() }.into())
    } else {
        Ok(())
    }
}

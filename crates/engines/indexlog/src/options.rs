//! Options that only this engine has.

use halite_contract::{EngineOptions, OwnOptions, Result};

use crate::error::Error;

/// The index of a store. It is in DRAM and built by each opening, so each may choose another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexKind {
    /// A tree in the order of keys (Lersch §5.6.2).
    Ordered {
        /// Bytes of each key that it keeps, one of [`IndexKind::KEY_BYTES`]. With fewer of them it
        /// takes less memory, and reads the full keys of more records to find one.
        key_bytes: usize,
    },
    /// A table by a hash of the keys, for point operations: it takes little memory, and each scan, and
    /// each deletion of a range, visits all keys of the key space. A scan sorts those that it finds
    /// before it yields the first.
    Hash,
}

impl IndexKind {
    /// How many bytes of a key an ordered index can keep.
    pub const KEY_BYTES: [usize; 4] = [0, 2, 4, 8];

    /// Checks that there is such an index.
    ///
    /// # Errors
    /// [`Error::KeyBytes`].
    pub fn check(self) -> Result<()> {
        match self {
            Self::Ordered { key_bytes } if !Self::KEY_BYTES.contains(&key_bytes) => {
                Err(Error::KeyBytes { key_bytes }.into())
            }
            _ => Ok(()),
        }
    }
}

/// With 8 bytes of a key, other keys are hardly ever read to find one.
impl Default for IndexKind {
    fn default() -> Self {
        Self::Ordered { key_bytes: 8 }
    }
}

/// The bytes written between two snapshots of the index by default: 128 MiB. An opening reads those in a fraction of a
/// second.
pub const INDEX_SNAPSHOT: u64 = 128 << 20;

/// Options of the index+log engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexLogOptions {
    /// The index of the keys.
    pub index: IndexKind,
    /// How many bytes are written between two snapshots of the index: an opening has to read as many besides a
    /// snapshot. `None`: none is taken, an existing one is removed, and an opening reads all records.
    pub index_snapshot: Option<u64>,
}

impl IndexLogOptions {
    /// Returns the options of this engine in an engine's options, or the defaults.
    #[must_use]
    pub fn of(options: &EngineOptions) -> Self {
        options.own.get()
    }
}

impl From<IndexLogOptions> for OwnOptions {
    fn from(options: IndexLogOptions) -> Self {
        Self::of(options)
    }
}

impl Default for IndexLogOptions {
    fn default() -> Self {
        Self { index: IndexKind::default(), index_snapshot: Some(INDEX_SNAPSHOT) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_that_there_is_not_is_refused() {
        let check = |key_bytes| IndexKind::Ordered { key_bytes }.check();
        assert!(IndexKind::KEY_BYTES.into_iter().all(|known| check(known).is_ok()));
        let refused = check(3).unwrap_err();
        assert!(matches!(Error::of(&refused), Some(Error::KeyBytes { key_bytes: 3 })));
        assert!(refused.to_string().ends_with("not 3"));
        assert!(IndexKind::Hash.check().is_ok() && IndexKind::default().check().is_ok());
    }
}

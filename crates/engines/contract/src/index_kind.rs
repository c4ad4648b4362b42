//! Kinds of indexes.

use crate::{Error, Result};

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
    /// [`Error::IndexKeyBytes`].
    pub fn check(self) -> Result<()> {
        match self {
            Self::Ordered { key_bytes } if !Self::KEY_BYTES.contains(&key_bytes) => {
                Err(Error::IndexKeyBytes { asked: key_bytes })
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

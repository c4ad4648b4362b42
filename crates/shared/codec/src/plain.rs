//! The bytes of a block in memory, shared by all who read it.

use std::ops::Deref;
use std::sync::Arc;

/// The bytes of a block: checked, decompressed, shared. Cloning makes another handle.
#[derive(Clone)]
pub struct Plain {
    bytes: Arc<[u8]>,
    len: usize,
}

impl Plain {
    /// `len` bytes, which `fill` writes: they are zeros before.
    ///
    /// # Errors
    /// The error of `fill`.
    pub fn filled<E>(len: usize, fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<Self, E> {
        let mut bytes: Arc<[u8]> = std::iter::repeat_n(0, len).collect();
        fill(Arc::get_mut(&mut bytes).expect("nobody else has it yet"))?;
        Ok(Self { bytes, len })
    }

    /// Its first `len` bytes. The others stay in memory.
    ///
    /// # Panics
    /// If it has less.
    #[must_use]
    pub fn cut(self, len: usize) -> Self {
        assert!(len <= self.len);
        Self { len, ..self }
    }

    /// The bytes that it takes in memory, those that were cut off among them.
    #[must_use]
    #[inline]
    pub fn held_bytes(&self) -> usize {
        self.bytes.len()
    }
}

impl From<&[u8]> for Plain {
    fn from(bytes: &[u8]) -> Self {
        Self { bytes: bytes.into(), len: bytes.len() }
    }
}

impl Deref for Plain {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

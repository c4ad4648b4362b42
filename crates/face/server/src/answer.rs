//! A reply on its way to its connection.

/// The longest reply that needs no credit, and is not counted while it travels, in bytes.
pub(crate) const SMALL: usize = 1 << 10;

/// A reply that has come.
#[derive(Debug)]
pub(crate) enum Answer<'a> {
    /// It lies in a buffer of the caller.
    Shared(&'a [u8]),
    /// It has a buffer of its own.
    Own(Vec<u8>),
}

impl Answer<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Shared(bytes) => bytes.len(),
            Self::Own(bytes) => bytes.len(),
        }
    }
}

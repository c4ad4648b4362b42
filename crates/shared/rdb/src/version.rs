//! The versions of the format that are written.

/// A version of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Version {
    /// 10, that of Redis 7.0. It does not have when a stream's consumers last got an entry.
    Redis70,
    /// 11, that of Redis 7.2.
    Redis72,
    /// 12, that of Redis 7.4, in which fields of hashes can expire.
    Redis74,
}

impl Version {
    /// The number in files and payloads.
    #[must_use]
    pub const fn number(self) -> u16 {
        match self {
            Self::Redis70 => 10,
            Self::Redis72 => 11,
            Self::Redis74 => 12,
        }
    }
}

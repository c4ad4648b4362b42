//! The defects of encoded bytes.

use std::fmt;

/// A result of decoding.
pub type Result<T> = std::result::Result<T, Error>;

/// A defect of encoded bytes. The caller knows the bytes' origin, and adds it to its own error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The bytes end before a number or a byte string does.
    Truncated,
    /// A varint has more bytes than any number.
    UnendedNumber,
    /// A varint has more than 64 bits.
    NumberOver64Bits,
    /// A varint has more than the 32 bits that it may have.
    NumberOver32Bits,
    /// The checksum is not that of the bytes, their seed and their place.
    Checksum,
    /// The code of the compression is of none that there is.
    UnknownCompression,
    /// The block is compressed with a codec that this build does not have: it is not damaged.
    NotBuiltIn,
    /// The compressed bytes do not decompress to as many bytes as the block says.
    NotDecompressed,
    /// The length of a block that is not compressed is not what its trailer says.
    WrongLength,
    /// The trailer of a compressed block says a length to which its bytes cannot decompress.
    ImpossibleLength,
    /// The block is longer than [`BLOCK_LEN_MAX`](crate::BLOCK_LEN_MAX).
    TooLong,
}

impl Error {
    /// The defect in words, to stand behind the name of the part that has it.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Truncated => "it ends in the middle",
            Self::UnendedNumber => "a number does not end",
            Self::NumberOver64Bits => "a number has more than 64 bits",
            Self::NumberOver32Bits => "a number has more than 32 bits",
            Self::Checksum => "its checksum is wrong",
            Self::UnknownCompression => "its compression is unknown",
            Self::NotBuiltIn => {
                "it is compressed with Zstandard; use a build with the feature `zstd`"
            }
            Self::NotDecompressed => "it cannot be decompressed",
            Self::WrongLength => "its length is not what it says",
            Self::ImpossibleLength => "it says that it is longer than it can be",
            Self::TooLong => "it is longer than any block",
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl std::error::Error for Error {}

/// The reason alone, for parsers whose own errors are reasons, too.
impl From<Error> for &'static str {
    fn from(error: Error) -> Self {
        error.reason()
    }
}

//! The errors of input.

use std::borrow::Cow;
use std::fmt;
use std::io;

/// A result of reading.
pub type Result<T> = std::result::Result<T, Error>;

/// Why input is refused: where, in what, and why.
#[derive(Debug)]
pub struct Error {
    /// The offset in the input, in bytes, of the part that is refused.
    pub offset: u64,
    /// The part that was read there, in words, such as "a member of a set".
    pub part: &'static str,
    /// The key to whose value the part belongs.
    pub key: Option<Box<[u8]>>,
    /// The reason.
    pub why: Why,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset, part, key, why } = self;
        write!(f, "at byte {offset}, in {part}")?;
        if let Some(key) = key {
            write!(f, " of the key `{}`", key.escape_ascii())?;
        }
        write!(f, ": {why}")
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.why {
            Why::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl Error {
    pub(crate) fn new(offset: u64, part: &'static str, why: impl Into<Why>) -> Self {
        Self { offset, part, key: None, why: why.into() }
    }

    /// The error of the value of `key`.
    pub(crate) fn of_key(self, key: &[u8]) -> Self {
        Self { key: Some(key.into()), ..self }
    }
}

/// The reason for which input is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Why {
    /// It cannot be read.
    #[error("{0}")]
    Io(io::Error),
    /// It ends in the middle of the part.
    #[error("it ends too early")]
    Ended,
    /// An append-only file ends in the middle of a command or a transaction, as after a crash.
    #[error("the file ends in the middle of it; it is whole up to byte {good}")]
    Truncated {
        /// The length of what is whole, in bytes.
        good: u64,
    },
    /// It is no RDB file.
    #[error("it does not begin with REDIS and a version")]
    NotRdb,
    /// The version is none that is known.
    #[error("its version is {found}; versions 1 to 12 are known")]
    Version {
        /// The version that the file says.
        found: u16,
    },
    /// A code is none of a type, and of no other part of a file.
    #[error("there is no type with the code {code}")]
    UnknownType {
        /// The code.
        code: u8,
    },
    /// A form that only release candidates of Redis wrote, and that later ones refuse, too.
    #[error("it has the form of a release candidate of Redis, which no release reads")]
    ReleaseCandidate,
    /// The checksum is not that of the file.
    #[error("the checksum is {stored:016x}, but that of the bytes is {computed:016x}")]
    Checksum {
        /// As the file says.
        stored: u64,
        /// Of the bytes that were read.
        computed: u64,
    },
    /// A length is over the limit.
    #[error("it has {len} bytes; the limit is {limit}")]
    TooLong {
        /// The length, in bytes.
        len: u64,
        /// The limit, in bytes.
        limit: u64,
    },
    /// The bytes are of no value that there can be.
    #[error("{0}")]
    Defect(Defect),
}

/// A defect of encoded bytes, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Defect(Cow<'static, str>);

impl Defect {
    pub(crate) const fn new(text: &'static str) -> Self {
        Self(Cow::Borrowed(text))
    }

    pub(crate) fn from_text(text: String) -> Self {
        Self(Cow::Owned(text))
    }
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Defect> for Why {
    fn from(defect: Defect) -> Self {
        Self::Defect(defect)
    }
}

impl From<io::Error> for Why {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Ended,
            _ => Self::Io(error),
        }
    }
}

/// A short way to a defect.
pub(crate) fn defect<T>(text: &'static str) -> std::result::Result<T, Defect> {
    Err(Defect::new(text))
}

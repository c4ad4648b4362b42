//! The errors of tables.

use std::sync::Arc;

/// A result of tables.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a table: the file, what is wrong with it, the way out.
///
/// It can be cloned: the failure of one writer is reported to all threads that wait for it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Stored bytes do not have their checksum, contradict each other, or end too early.
    #[error(
        "{file} is damaged: {what}: {why}; run `halite check`, and repair it or restore a copy"
    )]
    Damaged {
        /// The file's name in the store's folder.
        file: String,
        /// Which part of it.
        what: String,
        /// The defect.
        why: String,
    },

    /// A file that the store needs is not there.
    #[error("{file} is missing; bring it back from a copy, or repair the store without it")]
    Missing {
        /// The file's name in the store's folder.
        file: String,
    },

    /// A file belongs to another store.
    #[error("{file} belongs to the store {found:032x}, not to {wanted:032x}; move it away")]
    Foreign {
        /// The file's name in the store's folder.
        file: String,
        /// The store that it belongs to.
        found: u128,
        /// The store whose folder it lies in.
        wanted: u128,
    },

    /// A file has the name of another one.
    #[error("{file} says that its number is {found}; give it the name that it had")]
    Misnamed {
        /// The file's name in the store's folder.
        file: String,
        /// The number that the file itself says.
        found: u64,
    },

    /// A file has a format that this version does not read.
    #[error(
        "{file} has format {found}; this version reads format {known}; use the one that wrote it"
    )]
    Format {
        /// The file's name in the store's folder.
        file: String,
        /// The format's number.
        found: u32,
        /// The number of the format that can be read.
        known: u32,
    },

    /// A file has blocks that are compressed with Zstandard, and this build is without.
    #[error("{file} is compressed with Zstandard; use a build with the feature `zstd`")]
    NotBuiltIn {
        /// The file's name in the store's folder.
        file: String,
    },

    /// An error of a file.
    #[error(transparent)]
    Disk(#[from] Arc<halite_disk::Error>),
}

impl From<halite_disk::Error> for Error {
    fn from(error: halite_disk::Error) -> Self {
        Self::Disk(Arc::new(error))
    }
}

impl Error {
    /// The file that cannot be read as what it is, if the error is of one.
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        match self {
            Self::Damaged { file, .. }
            | Self::Missing { file }
            | Self::Foreign { file, .. }
            | Self::Misnamed { file, .. }
            | Self::Format { file, .. }
            | Self::NotBuiltIn { file } => Some(file),
            Self::Disk(_) => None,
        }
    }

    /// An error of reading a file. A part that the device cannot read, or that is cut off, is damaged: other files
    /// may be read.
    pub(crate) fn of_reading(file: &str, what: &str, error: halite_disk::Error) -> Self {
        match error {
            error if error.is_unreadable() => Self::damaged(file, what, error.to_string()),
            error @ halite_disk::Error::Short { .. } => {
                Self::damaged(file, what, error.to_string())
            }
            error => error.into(),
        }
    }

    pub(crate) fn damaged(file: &str, what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Damaged { file: file.to_owned(), what: what.into(), why: why.into() }
    }
}

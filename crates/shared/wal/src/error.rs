//! The errors of logs.

use std::sync::Arc;

/// A result of a log.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a log: the file, what is wrong with it, the way out.
///
/// It can be cloned: a failure is reported to all threads that wait for the log.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Stored batches do not have their checksum, do not follow each other, or end too early.
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

    /// The next file could not be made, or this one not grow. The log has not changed.
    #[error("the log cannot go on in a new file: {0}; remove the reason and write again")]
    NoFile(Arc<halite_disk::Error>),

    /// There is no segment that a log on a pool could go on in. The log has not changed.
    #[error("the log cannot go on in a new segment: {0}; remove the reason and write again")]
    NoSegment(Arc<halite_alloc::Error>),

    /// A write to a log on a pool failed before.
    #[error("a write to the log has failed, so its end is not known; open the store again")]
    Failed,

    /// An error of a pool.
    #[error(transparent)]
    Pool(#[from] Arc<halite_alloc::Error>),

    /// An error of a file.
    #[error(transparent)]
    Disk(#[from] Arc<halite_disk::Error>),
}

impl From<halite_disk::Error> for Error {
    fn from(error: halite_disk::Error) -> Self {
        Self::Disk(Arc::new(error))
    }
}

impl From<halite_alloc::Error> for Error {
    fn from(error: halite_alloc::Error) -> Self {
        Self::Pool(Arc::new(error))
    }
}

impl Error {
    pub(crate) fn damaged(file: &str, what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Damaged { file: file.to_owned(), what: what.into(), why: why.into() }
    }
}

/// The error of a file that could not be made or grow.
pub(crate) fn no_file(error: halite_disk::Error) -> Error {
    Error::NoFile(Arc::new(error))
}

/// The error of a segment that could not be got.
pub(crate) fn no_segment(error: halite_alloc::Error) -> Error {
    match error {
        halite_alloc::Error::Full { .. } => Error::NoSegment(Arc::new(error)),
        other => other.into(),
    }
}

/// The error of a pool that the kernel cannot write.
pub(crate) fn pool_failed(error: halite_pmem::Error) -> Error {
    halite_alloc::Error::from(error).into()
}

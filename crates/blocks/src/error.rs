//! What can go wrong in a block.

use std::path::PathBuf;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a block cannot do what it was asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The pool cannot.
    #[error(transparent)]
    Pool(#[from] halite_pmem::Error),

    /// The space holds something else than a log, or formatting it was interrupted.
    #[error("there is no log at offset {offset} of the pool; format the space as one first")]
    NotALog {
        /// In the pool.
        offset: u64,
    },

    /// The log was written by another version.
    #[error(
        "the log at offset {offset} of the pool has format {found}, and this program reads format \
         {known}; open it with the program that wrote it"
    )]
    LogVersion {
        /// In the pool.
        offset: u64,
        /// The log's.
        found: u16,
        /// This program's.
        known: u16,
    },

    /// The log was formatted for another algorithm.
    #[error(
        "the log at offset {offset} of the pool has the algorithm of number {found}, which is not \
         {asked}; open it with that one, or format the space"
    )]
    LogAlgorithm {
        /// In the pool.
        offset: u64,
        /// The number of the log's algorithm.
        found: u8,
        /// The name of the one it was opened with.
        asked: &'static str,
    },

    /// What the log says of itself is damaged.
    #[error("the log at offset {offset} of the pool is damaged: {what}; restore it from a copy")]
    LogDamaged {
        /// In the pool.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },

    /// The space cannot be a log.
    #[error(
        "{len} bytes at offset {offset} of the pool cannot be a log: it needs {least} bytes or \
         more, and lengths and offsets that are multiples of 64"
    )]
    LogSpace {
        /// In the pool.
        offset: u64,
        /// In bytes.
        len: u64,
        /// In bytes.
        least: u64,
    },

    /// The entry is longer than the log.
    #[error("an entry of {len} bytes is longer than the log, which takes {capacity}; split it")]
    EntryTooLong {
        /// In bytes.
        len: u64,
        /// What the log takes in all, in bytes.
        capacity: u64,
    },

    /// The log is full.
    #[error(
        "the log is full: an entry of {len} bytes takes {needed}, and {remaining} are left; reset \
         the log once its entries are applied"
    )]
    LogFull {
        /// In bytes.
        len: u64,
        /// What the entry takes, in bytes.
        needed: u64,
        /// In bytes.
        remaining: u64,
    },

    /// An earlier append or reset failed.
    #[error(
        "an earlier write to the log at offset {offset} of the pool failed, so its end is not \
         known; open it again"
    )]
    LogFailed {
        /// In the pool.
        offset: u64,
    },

    /// A space holds no cells of the technique that is to open it.
    #[error(
        "{}: no {wanted} cells at {offset}, but {found}; open what is there, or format the space",
        path.display()
    )]
    ForeignCells {
        /// The pool.
        path: PathBuf,
        /// Where the space begins in it, in bytes.
        offset: u64,
        /// The technique that was to open it.
        wanted: &'static str,
        /// What is there instead.
        found: String,
    },

    /// Cells are not as any crash leaves them: the medium lost or changed something.
    #[error("{}: damaged cells at {offset}: {what}; restore them from a copy", path.display())]
    DamagedCells {
        /// The pool.
        path: PathBuf,
        /// Where the space begins in it, in bytes.
        offset: u64,
        /// Which part, and why it cannot be.
        what: String,
    },

    /// There are no cells of such a length.
    #[error("a cell of {len} bytes: it must have 16 to 128, a multiple of 16")]
    CellLen {
        /// The length in bytes.
        len: u64,
    },

    /// A space is too short for its cells.
    #[error("{count} cells need {needed} bytes, the space has {len}; take fewer, or a longer space")]
    CellsDoNotFit {
        /// How many.
        count: u64,
        /// What they need, in bytes.
        needed: u64,
        /// The length of the space in bytes.
        len: u64,
    },
}

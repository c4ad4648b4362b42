//! The errors of indexes.

use std::path::PathBuf;

use super::KEY_LEN_MAX;

/// A result of an index.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of an index: the thing, the reason, the way out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read or written.
    #[error(transparent)]
    Disk(#[from] halite_disk::Error),

    /// The file is none of a copy-on-write tree.
    #[error("{}: no file of copy-on-write trees; choose the right file", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },

    /// The file is one of another store.
    #[error(
        "{}: the file is of another store or partition: of {found:032x}, not of {wanted:032x}; bring the right file back",
        path.display()
    )]
    OtherStore {
        /// The file.
        path: PathBuf,
        /// The id of the store that it is of.
        found: u128,
        /// The id of the store that it was to be of.
        wanted: u128,
    },

    /// The file is of a later version.
    #[error(
        "{}: the file has format {version}, and this program knows up to {known}; use a later program",
        path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// The version that the file says.
        version: u32,
        /// The latest version that is known.
        known: u32,
    },

    /// A part of the file is not what was written.
    #[error("{}: page {page} is damaged: {reason}; restore the file from a copy", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The page's number; page 0 has the master records.
        page: u32,
        /// The defect.
        reason: &'static str,
    },

    /// The heap refuses, or its medium does.
    #[error(transparent)]
    Heap(#[from] halite_alloc::Error),

    /// A node in a heap is not what was written.
    #[error("the index node at {pointer:#018x} is damaged: {reason}; restore the pool from a copy")]
    DamagedNode {
        /// The word that leads to it.
        pointer: u64,
        /// The defect.
        reason: &'static str,
    },

    /// A page size that is not supported.
    #[error("pages of {len} bytes: a page has 256, 512, ... or 16,384 bytes; choose one of these")]
    PageLen {
        /// The size that was asked for.
        len: usize,
    },

    /// A key that is too long.
    #[error(
        "a key of {len} bytes: an index takes keys of up to {KEY_LEN_MAX} bytes; use a shorter one"
    )]
    KeyTooLong {
        /// Its length in bytes.
        len: usize,
    },

    /// A value that is too long.
    #[error("a value of {len} bytes: a tree takes values of up to {max} bytes; divide it")]
    ValueTooLong {
        /// Its length in bytes.
        len: usize,
        /// The longest that a tree takes.
        max: usize,
    },

    /// The file has as many pages as it can.
    #[error(
        "{}: the file has no room for another page; remove entries, or use larger pages", path.display()
    )]
    Full {
        /// The file.
        path: PathBuf,
    },

    /// A change of the batch failed, so that the dirty directory is in no defined state.
    #[error("{}: a change of this batch failed before; abort the batch", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
    },

    /// The master record could not be written for certain.
    #[error(
        "{}: the last commit failed while its master record was being written, so that it may count or not; open the \
         file again, and look", path.display()
    )]
    Unknown {
        /// The file.
        path: PathBuf,
    },
}

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

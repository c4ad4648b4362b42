//! What can go wrong in a block.

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a block cannot do what it was asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The pool cannot.
    #[error(transparent)]
    Pool(#[from] halite_pmem::Error),
}

//! The errors of making a cache.

/// A result of making a cache.
pub type Result<T> = std::result::Result<T, Error>;

/// A cache could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no memory for the table that points to the cached items.
    #[error(
        "there is no memory for the table of a cache in a pool of {pool_bytes} bytes; make the pool smaller, or free some"
    )]
    NoMemory {
        /// Bytes of the pool.
        pool_bytes: u64,
    },

    /// The pool gives no zones.
    #[error(transparent)]
    Alloc(#[from] halite_alloc::Error),
}

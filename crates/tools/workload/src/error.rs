//! The errors of workloads.

use std::error::Error as StdError;

/// A result of a workload.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a workload: the thing, the reason, the way out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A size of the database is out of its limits.
    #[error("{what}: {found} is not between {min} and {max}")]
    Scale {
        /// The rows that were to be so many.
        what: &'static str,
        /// The number asked for.
        found: u32,
        /// The least.
        min: u32,
        /// The most.
        max: u32,
    },

    /// The shares of the transactions do not add up.
    #[error("the shares of the five transactions add up to {sum}, not to 100 percent")]
    MixSum {
        /// Their sum.
        sum: u64,
    },

    /// A skew is no share.
    #[error("the skew {found} is no share: give a number above 0, and 1 at most")]
    Skew {
        /// The number.
        found: f64,
    },

    /// There are too few tuples, or too many.
    #[error("{found} tuples are too few or too many: give a number between 11 and 2^60")]
    Tuples {
        /// The number.
        found: u64,
    },

    /// A number that must not be zero is.
    #[error("{what} must not be 0")]
    Zero {
        /// The thing.
        what: &'static str,
    },

    /// The store holds no TPC-C database.
    #[error("the store holds no TPC-C database; load one first")]
    NotLoaded,

    /// The load of a database did not end.
    #[error(
        "the TPC-C database is loaded by half: warehouse {warehouse} has {done} of {batches} batches; load it again \
         with the same size, and the load goes on there"
    )]
    HalfLoaded {
        /// The first warehouse that is not whole.
        warehouse: u32,
        /// The batches that it has.
        done: u64,
        /// The batches that it needs.
        batches: u64,
    },

    /// The store holds a database of another size.
    #[error(
        "the store holds a TPC-C database with {what} {found}, not {wanted}; ask for {found}, or load into another \
         store"
    )]
    OtherScale {
        /// The thing that differs.
        what: &'static str,
        /// The stored number.
        found: u64,
        /// The number asked for.
        wanted: u64,
    },

    /// A row that must be there is missing.
    #[error("the table {table} has no row with the key {key}; check the database")]
    Missing {
        /// The table.
        table: String,
        /// The key.
        key: String,
    },

    /// A row is refused, or does not fit its schema.
    #[error(transparent)]
    Rows(#[from] halite_table::Error),

    /// Another transaction was in the way; the store runs this one again, and gives up after many times.
    #[error("the transaction met another {tries} times and gave up; use fewer threads")]
    Conflict {
        /// How often it was run.
        tries: u32,
    },

    /// A thread of the run ended with a panic.
    #[error("a thread of the run ended with a panic; its message is above")]
    Panicked,

    /// An error of the store.
    #[error("the store failed: {0}")]
    Store(#[source] Box<dyn StdError + Send + Sync>),
}

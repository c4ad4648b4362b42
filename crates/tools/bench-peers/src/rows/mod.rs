//! Stores of rows for `bench arulraj` and `bench tpcc`: the driver's tables and indexes as pairs of bytes, in one table of
//! the peer each, and each transaction one of the peer's.

mod lmdb;
mod sqlite;

use std::error::Error as StdError;

pub(crate) use lmdb::LmdbRows;
pub(crate) use sqlite::SqliteRows;

/// An error of a peer, for the driver.
fn failed(error: impl StdError + Send + Sync + 'static) -> halite_workload::Error {
    halite_workload::Error::Store(Box::new(error))
}

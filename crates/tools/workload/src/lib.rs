//! Workloads over rows: TPC-C, and the YCSB of the testbed.
//!
//! [`store`] is what a workload asks of a store of rows; [`tpcc`] and [`ycsb003`] run on anything that is one: the
//! testbed of recovery methods, and, through the face, each engine of the house.
#![forbid(unsafe_code)]

mod error;
pub mod store;
pub mod tpcc;
pub mod ycsb003;

pub use error::{Error, Result};

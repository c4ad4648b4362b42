//! The LSM engine: memtables in persistent memory, sorted levels on an SSD.
#![forbid(unsafe_code)]

pub mod levels;
pub mod sst;

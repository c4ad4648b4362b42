//! The small algorithms that engines on persistent memory are made of (van Renen §3).
//!
//! | module | purpose | section |
//! |---|---|---|
//! | [`log`] | appends an entry durably, and finds the valid prefix after a crash | §3.3 |
//! | [`page`] | brings a page that changed in DRAM to the medium, whole or not at all | §3.2 |
//! | [`cell`] | updates 16 to 128 bytes in place, whole or not at all | §3.4 |
//! | [`interleave`] | lets many operations wait for the medium at the same time | §3.5 |
//!
//! Each module has every algorithm of the paper behind one contract, so that an algorithm can be measured
//! against the others, and documents the costs of an operation: flushes, fences, lines, space. All of them
//! stand on ranges of a pool ([`halite_pmem::Fresh`], [`halite_pmem::Words`]), and treat all bytes that
//! they read back from one as untrusted input.

pub mod cell;
mod error;
pub mod interleave;
pub mod log;
pub mod page;

pub use error::{Error, Result};

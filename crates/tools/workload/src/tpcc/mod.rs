//! TPC-C, revision 5.11; a § is a clause of its specification.
//!
//! [`load()`] fills the tables of [`schema`] with the rows of §4.3; [`run`] drives terminals, which draw a transaction
//! ([`mix`]) and its input ([`inputs`]) and run its [`procedures`]; [`check()`] tells whether the twelve conditions
//! hold. Random values are those of [`random`].
//!
//! The result is *TPC-C-like*: no terminal is emulated over a network, nothing is priced, and no auditor has seen it.

mod check;
mod driver;
pub mod inputs;
mod load;
pub mod mix;
mod population;
pub mod procedures;
pub mod random;
mod rows;
mod scale;
pub mod schema;
#[cfg(test)]
mod tests;

pub use check::{CONDITIONS, CheckProgress, CheckReport, Violation, check};
pub use driver::{End, Measured, Report, RunOptions, RunProgress, run};
pub use load::{LoadProgress, Loaded, load};
pub use scale::Scale;

#![forbid(unsafe_code)]
//! x
mod glob;
mod number;
pub mod resp;

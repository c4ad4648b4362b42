//! The promises of each building block.

mod cells;
mod interleave;
mod log;
mod pages;

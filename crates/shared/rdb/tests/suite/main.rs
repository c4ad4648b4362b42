//! The crate's promises: real servers' files are read, values come back from their bytes, and no bytes do harm.

mod append_only;
mod common;
mod files;
mod forms;
mod mutations;
mod round_trips;

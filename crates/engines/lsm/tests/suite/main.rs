//! The engine's promises, through its public face.

mod batches;
mod commit_points;
mod commits;
mod common;
mod conformance;
mod crashes;
mod failed_syncs;
mod failures;
mod flushed;
mod large_values;
mod levels;
mod log;
mod long_readers;
mod opening;
mod repairs;
mod sample;
mod scan;

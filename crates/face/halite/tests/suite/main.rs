//! A database's promises, in one process.

mod backup;
mod features;
mod restored_levels;
mod snapshots;
mod transactions;

//! A database's promises, in one process.

mod backup;
mod restored_levels;
mod snapshots;
mod transactions;

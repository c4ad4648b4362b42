//! The building blocks as subjects of the lab.
//!
//! A block has no engine above it and no `alloc` below: each subject has a pool for itself.

pub mod cells;

use crate::{Job, Rules};

/// The jobs of all blocks.
#[must_use]
pub fn blocks_suite(rules: &[Rules]) -> Vec<Box<dyn Job>> {
    let mut jobs = Vec::new();
    jobs.extend(cells::jobs(rules));
    jobs
}

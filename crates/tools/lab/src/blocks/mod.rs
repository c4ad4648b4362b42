//! The building blocks as subjects of the lab.
//!
//! A block has no engine above it and no `alloc` below: each subject has a pool for itself.

pub mod cells;
pub mod leaves;
pub mod logs;
pub mod pages;

use crate::Rules;
use crate::job::Job;
use std::sync::Arc;

/// The jobs for the building blocks. There are none under [`Rules::FailedPlatform`]: the manager of their space has to
/// notice that a platform failed, not the blocks.
#[must_use]
pub fn blocks_suite(rules: &[Rules]) -> Vec<Arc<dyn Job>> {
    let rules: Vec<_> =
        rules.iter().copied().filter(|rules| *rules != Rules::FailedPlatform).collect();
    let mut jobs: Vec<Arc<dyn Job>> = Vec::new();
    jobs.extend(cells::jobs(&rules));
    jobs.extend(leaves::jobs(&rules));
    jobs.extend(logs::jobs(&rules));
    jobs.extend(pages::jobs(&rules));
    jobs
}

//! The building blocks as subjects of the lab.

mod logs;

use crate::{Job, Rules};

/// The jobs for the building blocks.
///
/// A block is a part of what an engine stores: that a platform failed to save its caches is noted by
/// the manager of segments above it, so under [`Rules::FailedPlatform`] there is no job.
#[must_use]
pub fn blocks_suite(rules: &[Rules]) -> Vec<Box<dyn Job>> {
    let mut jobs: Vec<Box<dyn Job>> = Vec::new();
    for &rules in rules.iter().filter(|rules| **rules != Rules::FailedPlatform) {
        jobs.extend(logs::jobs(rules));
    }
    jobs
}

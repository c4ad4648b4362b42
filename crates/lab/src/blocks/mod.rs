//! The building blocks of `halite-blocks` as subjects of the lab.

pub mod leaves;

use crate::{Job, Rules};

/// The jobs for the blocks, under the given rules. A block does not know whether its platform failed,
/// so under [`Rules::FailedPlatform`] there is none.
#[must_use]
pub fn blocks_suite(rules: &[Rules]) -> Vec<Box<dyn Job>> {
    let mut jobs = Vec::new();
    jobs.extend(leaves::jobs(rules));
    jobs
}

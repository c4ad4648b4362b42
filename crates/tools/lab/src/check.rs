//! The lab in a test.

use std::fmt::Write;

use crate::{Effort, Explorer, Rules, Subject, Tally};

/// Explores the histories of some seeds.
///
/// # Panics
/// At the first violation, with its case and its story.
#[track_caller]
pub fn check<S: Subject>(subject: &S, rules: Rules, seeds: impl IntoIterator<Item = u64>) -> Tally {
    let mut explorer = Explorer::new(subject, rules, Effort::default());
    for seed in seeds {
        if let Some(violation) = explorer.explore(seed) {
            let (story, _) = explorer.replay(&violation.case);
            let mut told = format!("{}: {}: {}", subject.name(), violation.case, violation.what);
            for line in story {
                // A string takes every write.
                let _ = write!(told, "\n{line}");
            }
            panic!("{told}");
        }
    }
    explorer.tally
}

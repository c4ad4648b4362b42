//! The LSM engine comes back from every power cut that the lab looks at: with fixed seeds, and with one that is drawn
//! anew each time and printed.
//!
//! `HALITE_LAB_SEEDS` sets how many of the fixed seeds there are, each of which is then looked at in depth,
//! `HALITE_LAB_SEED` the fresh one, and `HALITE_LAB_JOBS` the jobs of which the names or rules have that in them.

mod seeds;

use std::env;

use halite_lab::{Effort, Job, Rules, Tally, suite};

use seeds::{number, seeds};

/// Whether the deep budget was asked for, in place of one for a first look.
fn is_deep() -> bool {
    halite_contract::lab::is_deep("lsm")
}

/// The least that is to be looked at, of which the deep budget has so many.
fn least(deep: u64) -> u64 {
    if is_deep() { deep } else { deep / 16 }
}

/// Images of a history, for a first look and in depth, for the sake of more jobs.
const IMAGES: [u64; 2] = [30, 80];

/// Explores the histories of some seeds in each job whose name ends so, and prints the story of each finding.
fn survive(kind: &str, fixed: u64, images: [u64; 2]) -> Tally {
    let images = images[usize::from(is_deep())];
    let quick = Effort { history_images_max: images, ..Effort::default() };
    let (fixed, effort) = match number("HALITE_LAB_SEEDS") {
        Some(asked) => (asked, Effort::default()),
        None => (fixed, quick),
    };
    let of_jobs = env::var("HALITE_LAB_JOBS").unwrap_or_default();
    let mut all = Tally::default();
    let mut found = Vec::new();
    let first_look = [Rules::Memory, Rules::FailingSyncs];
    let rules = if is_deep() { &Rules::ALL[..] } else { &first_look };
    let jobs = suite(&halite_lsm::REGISTRATION, rules);
    let is_meant = |job: &dyn Job| job.name().ends_with(kind) && job.label().contains(&of_jobs);
    for job in jobs.iter().filter(|job| is_meant(&***job)) {
        // The time goes into histories, not images: fresh ones are looked at under the rules that ask the most of a store.
        let is_fresh = job.rules() == Rules::Memory || number("HALITE_LAB_SEEDS").is_some();
        let count = if is_fresh { u64::MAX } else { fixed };
        let seen = job.look(&mut seeds(fixed).take(count as usize), &effort, None);
        if let Some(finding) = seen.finding {
            let (_, case) = finding.case.split_once(':').expect("a name comes before");
            let story =
                job.replay(case, &Effort::default(), None).map(|replay| replay.story.join("\n"));
            found.push(format!(
                "{}: {}\n{}",
                finding.case,
                finding.what,
                story.unwrap_or_else(|why| why)
            ));
        }
        let wrong: Vec<_> = seen.lints.met().filter(|(lint, ..)| lint.is_wrong()).collect();
        assert!(wrong.is_empty(), "{wrong:?}");
        let tally = seen.tally;
        println!(
            "{}: {} histories, {} schedules, {} crash points, {} distinct images, {} nested recoveries",
            job.label(),
            tally.histories,
            tally.schedules,
            tally.crash_points,
            tally.distinct.len(),
            tally.nested
        );
        all += tally;
    }
    assert!(found.is_empty(), "{}", found.join("\n\n"));
    all
}

#[test]
fn few_short_writes_survive() {
    assert!(survive("-few", 1, IMAGES).nested > least(1000));
}

#[test]
fn short_writes_of_all_sorts_survive() {
    assert!(survive("-mixed", 1, IMAGES).nested > least(1000));
}

#[test]
fn one_edit_of_the_manifest_after_the_other_survives() {
    assert!(survive("-levels", 1, [7, 24]).nested > least(1000));
}

#[test]
fn values_in_files_of_their_own_survive() {
    // Longer histories take minutes.
    let kind = if number("HALITE_LAB_SEEDS").is_some() { "-values" } else { "-few-values" };
    assert!(survive(kind, 1, [1, 5]).nested > least(100));
}

#[test]
#[ignore = "takes minutes"]
fn large_values_survive() {
    assert!(survive("-large", 1, IMAGES).nested > least(100));
}

#[test]
#[ignore = "takes minutes"]
fn what_goes_to_the_levels_survives() {
    assert!(survive("-collecting", 1, IMAGES).nested > least(100));
}

#[test]
fn the_end_of_a_zone_survives() {
    assert!(survive("-zones", 1, IMAGES).nested > least(100));
}

#[test]
fn concurrent_calls_are_durably_linearizable() {
    let histories = if is_deep() { 5 } else { 2 };
    assert!(survive("-threads", histories, IMAGES).schedules >= 10 * histories);
}

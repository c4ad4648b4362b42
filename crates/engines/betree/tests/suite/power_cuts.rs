//! The store comes back from every power cut that the lab looks at.

use std::env;

use halite_contract::lab::is_deep;
use halite_lab::{Effort, Job, Random, Rules, Tally, suite};

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Explores the histories of some seeds in the jobs whose names end so, and prints the story of each finding.
/// `HALITE_LAB_SEEDS` sets how many there are, `HALITE_LAB_SEED` the first of those that are no fixed ones, and
/// `HALITE_LAB_JOBS` the jobs of which the names or rules have that in them.
fn survive(kind: &str, fixed: u64, images: u64) {
    // A first look has the fixed seeds under one set of rules, and the fresh ones under the other.
    let is_whole = is_deep("betree") || number("HALITE_LAB_SEEDS").is_some();
    let fixed = number("HALITE_LAB_SEEDS").unwrap_or(fixed);
    let fresh = number("HALITE_LAB_SEED").unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Random::of(&[now.map_or(0, |now| now.as_nanos() as u64)]).next()
    });
    println!("HALITE_LAB_SEED={fresh}");
    let effort = Effort { history_images_max: images, ..Effort::default() };
    let rules =
        if is_deep("betree") { &Rules::ALL[..] } else { &[Rules::Memory, Rules::PageCache] };
    let of_jobs = env::var("HALITE_LAB_JOBS").unwrap_or_default();
    let jobs = suite(&halite_betree::REGISTRATION, rules);
    let is_meant = |job: &dyn Job| job.name().ends_with(kind) && job.label().contains(&of_jobs);
    let (mut all, mut found) = (Tally::default(), Vec::new());
    for job in jobs.iter().filter(|job| is_meant(&***job)) {
        let mut fresh = Random::new(fresh);
        let fresh = (0..fixed.div_ceil(4)).map(|_| fresh.next());
        let seeds: Vec<u64> = match job.label().contains(Rules::Memory.name()) {
            _ if is_whole => (0..fixed).chain(fresh).collect(),
            true => (0..fixed).collect(),
            false => fresh.collect(),
        };
        let seen = job.look(&mut seeds.into_iter(), &effort, None);
        if let Some(finding) = seen.finding {
            let (_, case) = finding.case.split_once(':').expect("a name comes before");
            let story =
                job.replay(case, &Effort::default(), None).map(|replay| replay.story.join("\n"));
            found.push(format!(
                "{}: {}\n{}",
                finding.case,
                finding.what,
                story.unwrap_or_default()
            ));
        }
        all += seen.tally;
    }
    println!(
        "{kind}: {} crash points, {} images, {} nested",
        all.crash_points, all.images, all.nested
    );
    assert!(found.is_empty(), "{}", found.join("\n\n"));
    assert!(all.crash_points > 10 * fixed, "{} crash points", all.crash_points);
}

#[test]
fn few_writes() {
    survive("few", 2, 60);
}

#[test]
fn mixed_histories() {
    survive("mixed", 1, 20);
}

#[test]
fn full_memtables() {
    survive("levels", 1, 30);
}

#[test]
fn buffers_that_are_appended_to_in_place() {
    survive("in-place", 1, 30);
}

#[test]
#[ignore = "takes minutes"]
fn large_values() {
    survive("large", 1, 100);
}

#[test]
fn values_in_extents() {
    survive("values", 1, 40);
}

#[test]
#[ignore = "takes minutes"]
fn overwritten_values() {
    survive("collecting", 1, 100);
}

#[test]
fn migrating() {
    survive("tiers", 1, 40);
}

#[test]
fn threads() {
    survive("threads", 1, 40);
}

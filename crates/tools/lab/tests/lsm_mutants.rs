//! The mutation score of the LSM engine: every call that asks for a flush, a fence or a sync is left out once, and the
//! lab tells which of them it misses.
//!
//!     cargo test --release -p halite-lab --test lsm_mutants -- --ignored --nocapture
//!
//! `HALITE_LAB_MINUTES` sets for how long it looks, on all processors, and `HALITE_LAB_JOBS` with which jobs: those
//! whose names and rules begin with one of the words, which commas part. Of few jobs a mutant may survive that others
//! catch.

use std::env;
use std::fs;
use std::path::Path;
use std::time::Duration;

use halite_lab::{Budget, Job, Plan, Rules, mutate, place, suite};

/// Minutes, if nothing else is asked for.
const MINUTES: u64 = 15;

/// Lines whose requests histories here do not judge, and why.
const BESIDE: [&str; 10] = [
    // Commit points tell damage from torn ends, which `crates/engines/lsm/tests/suite/commit_points.rs` judges.
    "self.words().flush(GIDX",
    "fence([memtable.zones.flush_gidx()])",
    "fence([self.flush_commit_id()])",
    "fence_all(&points)?;",
    "pool.fence_all(&flushed)?;",
    // The same judges it with a history that ours seldom are: batches that are not synced until one begins a memtable.
    "let fenced = self.pool().fence_all(&flushed)",
    // A thread that brings something to the levels makes it durable, too, unless a sync of it failed before. Then any
    // word of a memtable that is stored on its page makes that dirty again.
    "fence_found(&[commit_id.flush(",
    // A store that says that it was closed is opened as any other.
    "home.pool().sync_file()",
    // The seed of a memtable already tells its records from those that its zones held before.
    "fresh.zero(0..LINE)",
    "fresh.pool().fence([zeroed])",
];

/// The sources of the engine and of its log.
const SOURCES: [&str; 2] = ["crates/engines/lsm/src/", "crates/shared/wal/src/"];

/// Places that `crates/engines/lsm/tests/suite/crashes.rs` judges, as its histories are of them alone; so of
/// `crates/shared/sst`.
const APART: [&str; 1] = ["crates/engines/lsm/src/levels/"];

/// Whether a place, `file:line`, is in the engine, and nothing beside this judges it.
fn is_judged_here(place: &str) -> bool {
    let (file, number) = place.rsplit_once(':').expect("a place is a file and a line");
    if !SOURCES.iter().any(|part| file.starts_with(part))
        || APART.iter().any(|part| file.starts_with(part))
    {
        return false;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(file);
    let text = fs::read_to_string(path).expect("the source is text");
    let number: usize = number.parse().expect("lines are counted");
    let line = text.lines().nth(number - 1).expect("the line is there");
    !BESIDE.iter().any(|call| line.contains(call))
}

/// The texts of all files in a folder and the folders in it.
fn sources(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("the engine").map(|entry| entry.expect("a file"));
    let texts = entries.map(|entry| match entry.path() {
        path if path.is_dir() => sources(&path),
        path => vec![fs::read_to_string(path).expect("the source is text")],
    });
    texts.flatten().collect()
}

#[test]
fn what_is_judged_beside_is_there() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../engines/lsm/src");
    let sources = sources(&folder);
    for call in BESIDE {
        assert!(sources.iter().any(|source| source.contains(call)), "{call} is gone");
    }
}

#[test]
#[ignore = "takes a quarter of an hour"]
fn every_call_is_missed_if_it_is_left_out() {
    let minutes = env::var("HALITE_LAB_MINUTES").ok().and_then(|text| text.parse().ok());
    let rules = [Rules::Memory, Rules::PageCache, Rules::FailingSyncs];
    let mut jobs = suite(&halite_lsm::REGISTRATION, &rules);
    // Those that take long show little that these do not.
    let kinds = ["-few", "-mixed", "-levels", "-values"];
    let is_short = |job: &dyn Job| kinds.iter().any(|kind| job.name().ends_with(kind));
    let is_zones = |job: &dyn Job| job.label() == "lsm-zones memory";
    let of_jobs = env::var("HALITE_LAB_JOBS").unwrap_or_default();
    let is_asked_for =
        |job: &dyn Job| of_jobs.split(',').any(|begin| job.label().starts_with(begin));
    jobs.retain(|job| (is_short(&**job) || is_zones(&**job)) && is_asked_for(&**job));
    let budget = Budget::Time(Duration::from_secs(60 * minutes.unwrap_or(MINUTES)));
    let plan = Plan { seed: 1, ..Plan::new(budget) };
    let score = mutate(&plan, &jobs, &|site| is_judged_here(&place(site)), &|_| ());
    let mut survivors = Vec::new();
    for verdict in &score.verdicts {
        let caught = verdict.caught.as_ref().map_or("SURVIVES", |finding| &finding.case);
        println!(
            "{}: {caught}, {} histories, {:?}",
            verdict.mutant, verdict.histories, verdict.time
        );
        if verdict.caught.is_none() {
            survivors.push(verdict.mutant.to_string());
        }
    }
    println!("{} of {} are caught, in {:?}", score.caught(), score.verdicts.len(), score.elapsed);
    // Of few jobs, and in a short time, some are not met.
    assert!(!of_jobs.is_empty() || score.verdicts.len() >= 15, "they are met by histories");
    assert!(score.findings.is_empty(), "{:?}", score.findings);
    assert!(survivors.is_empty(), "nobody needs {survivors:?}");
}

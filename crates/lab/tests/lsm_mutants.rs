//! The mutation score of the LSM engine: every call that asks for a flush, a fence or a sync is left out once, and the
//! lab tells which of them it misses.
//!
//!     cargo test --release -p halite-lab --test lsm_mutants -- --ignored --nocapture
//!
//! `HALITE_LAB_MINUTES` sets for how long it looks, on all processors.

use std::env;
use std::sync::Arc;
use std::time::Duration;

use halite_lab::{Budget, Job, Plan, Rules, lsm_suite, mutate, place};
use halite_lsm::Lsm;

/// Minutes, if nothing else is asked for.
const MINUTES: u64 = 15;

#[test]
#[ignore = "takes a quarter of an hour"]
fn every_call_is_missed_if_it_is_left_out() {
    let minutes = env::var("HALITE_LAB_MINUTES").ok().and_then(|text| text.parse().ok());
    let open = |options: &_| Ok(Arc::new(Lsm::open(options)?) as _);
    let mut jobs = lsm_suite(open, &[Rules::Memory, Rules::PageCache]);
    // Those that take long show little that these do not.
    let is_short = |job: &dyn Job| ["-few", "-mixed"].iter().any(|kind| job.name().ends_with(kind));
    let is_zones = |job: &dyn Job| job.label() == "lsm-zones memory";
    jobs.retain(|job| is_short(&**job) || is_zones(&**job));
    let budget = Budget::Time(Duration::from_secs(60 * minutes.unwrap_or(MINUTES)));
    let plan = Plan { seed: 1, ..Plan::new(budget) };
    let score = mutate(&plan, &jobs, &|site| place(site).starts_with("crates/lsm/src/"), &|_| ());
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
    assert!(score.findings.is_empty(), "{:?}", score.findings);
    assert!(survivors.is_empty(), "nobody needs {survivors:?}");
}

//! The mutation score of the LSM engine: every call that asks for a flush, a fence or a sync is left out once, and the
//! lab notices each.
//!
//! `HALITE_LAB_HISTORIES` sets in how many histories a mutant may hide.

use std::env;
use std::sync::Arc;

use halite_lab::{Budget, Plan, Rules, lsm_suite, mutate, place};
use halite_lsm::Lsm;

/// Histories in which a mutant may hide. Most show in the first.
const HISTORIES_MAX: u64 = 60;

#[test]
fn every_call_is_missed_if_it_is_left_out() {
    let histories = env::var("HALITE_LAB_HISTORIES").ok().and_then(|text| text.parse().ok());
    let jobs = lsm_suite(
        |options| Ok(Arc::new(Lsm::open(options)?) as _),
        &[Rules::Memory, Rules::PageCache],
    );
    let plan = Plan { seed: 1, ..Plan::new(Budget::Histories(histories.unwrap_or(HISTORIES_MAX))) };
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

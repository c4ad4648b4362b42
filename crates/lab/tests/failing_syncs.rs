//! Where the kernel fails to sync: what was acknowledged stays, what failed happened whole or not at all,
//! and a store that goes on refuses. `power_cuts.rs` has the manager of segments.

use std::sync::Arc;

use halite_indexlog::IndexLog;
use halite_lab::blocks::blocks_suite;
use halite_lab::{Budget, Job, Kind, Plan, Rules, Store, check, explore};

const RULES: Rules = Rules::FailingSyncs;

fn blocks_survive(prefix: &str, histories: u64) {
    let jobs: Vec<Box<dyn Job>> =
        blocks_suite(&[RULES]).into_iter().filter(|job| job.name().contains(prefix)).collect();
    let plan = Plan { seed: 1, ..Plan::new(Budget::Histories(histories)) };
    let report = explore(&plan, &jobs, &|_| ());
    println!(
        "{prefix}: {} histories, {} crash points, {} distinct images, {} nested recoveries",
        report.tally.histories,
        report.tally.crash_points,
        report.tally.distinct.len(),
        report.tally.nested
    );
    if let Some(finding) = report.findings.first() {
        let (name, case) = finding.case.split_once(':').expect("a job's name and its case");
        let job = jobs.iter().find(|job| job.name() == name).expect("the job of the case");
        let story = job.replay(case, None).map(|replay| replay.story.join("\n"));
        panic!("{}: {}\n{}", finding.case, finding.what, story.unwrap_or_default());
    }
    assert!(report.tally.nested > 100);
}

#[test]
fn logs_survive() {
    blocks_survive("log-", 10);
}

#[test]
fn pages_survive() {
    blocks_survive("page-", 20);
}

#[test]
fn cells_survive() {
    blocks_survive("cells-", 8);
}

#[test]
fn leaves_survive() {
    blocks_survive("leaves", 60);
}

fn engine_survives(kinds: &'static [Kind], seeds: u64) {
    let subject = Store::new("indexlog", |options| Ok(Arc::new(IndexLog::open(options)?)));
    let tally = check(&subject.with_kinds(kinds), RULES, 0..seeds);
    assert!(tally.nested > 10, "{}", tally.nested);
}

#[test]
fn short_writes_survive() {
    engine_survives(&[Kind::Few, Kind::Mixed], 60);
}

#[test]
fn values_that_fill_blocks_survive() {
    engine_survives(&[Kind::Blocks, Kind::Large], 6);
}

#[test]
fn collection_survives() {
    engine_survives(&[Kind::Collecting], 3);
}

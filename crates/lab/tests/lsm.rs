//! The LSM engine comes back from every power cut that the lab looks at.

use std::sync::Arc;

use halite_disk::{Disk, DiskModel};
use halite_engine::{CommitPoints, Durable, Engine, EngineOptions, Partitioning, Result};
use halite_lab::{Effort, Explorer, Kind, Rules, Store, Subject, Tally};
use halite_lsm::Lsm;

/// Opens the engine with memtables that are full soon, and its files beside the pool.
fn open(options: &EngineOptions, durable: Durable, points: CommitPoints) -> Result<Arc<dyn Engine>> {
    let mut options = options.clone();
    let medium = options.pool_options.medium.as_ref().expect("a modelled pool");
    options.lsm.disk = Some(Disk::model(&DiskModel::of(medium)));
    options.lsm.durable = durable;
    options.lsm.commit_points = points;
    options.lsm.memtable_bytes = Some(4 << 10);
    options.lsm.cache_bytes = 1 << 20;
    Ok(Arc::new(Lsm::open(&options)?))
}

fn explore<S: Subject>(subject: &S, rules: Rules, seeds: u64) -> Tally {
    let mut explorer = Explorer::new(subject, rules, Effort::default());
    for seed in 0..seeds {
        if let Some(violation) = explorer.explore(seed) {
            let (story, _) = explorer.replay(&violation.case);
            panic!("{} {}: {}\n{}", subject.name(), violation.case, violation.what, story.join("\n"));
        }
    }
    let tally = explorer.tally;
    println!(
        "{} under {}: {} histories, {} crash points, {} distinct images, {} nested recoveries",
        subject.name(),
        rules.name(),
        tally.histories,
        tally.crash_points,
        tally.distinct.len(),
        tally.nested
    );
    tally
}

fn seeds(default: u64) -> u64 {
    std::env::var("HALITE_LAB_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn run(durable: Durable, trees: usize, kinds: &'static [Kind]) {
    for rules in Rules::ALL {
        let subject = Store::new("lsm", move |options| open(options, durable, CommitPoints::Trailing))
            .with_kinds(kinds)
            .with_partitioning(Partitioning::Hash(trees));
        explore(&subject, rules, seeds(4));
    }
}

#[test]
fn one_tree() {
    run(Durable::Pool, 1, &[Kind::Few, Kind::Mixed]);
}

#[test]
fn two_trees() {
    run(Durable::Pool, 2, &[Kind::Few, Kind::Mixed]);
}

#[test]
fn with_a_log() {
    run(Durable::Log, 1, &[Kind::Few, Kind::Mixed]);
}

#[test]
fn two_trees_with_a_log() {
    run(Durable::Log, 2, &[Kind::Few, Kind::Mixed]);
}

#[test]
fn large_values() {
    run(Durable::Pool, 1, &[Kind::Large, Kind::Blocks]);
}

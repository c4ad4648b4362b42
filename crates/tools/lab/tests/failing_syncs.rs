//! Where the kernel fails to sync: acknowledged operations stay, failed ones happened whole or not at all,
//! and a store that goes on refuses. `power_cuts.rs` has the manager of segments.

use std::sync::Arc;

use halite_contract::{Durability, Engine, EngineOptions, Error, Op, Partitioning};
use halite_indexlog::{IndexLog, REGISTRATION};
use halite_lab::blocks::blocks_suite;
use halite_lab::{Budget, Effort, Job, Kind, Plan, Rules, Store, check, explore};
use halite_pmem::{Domain, Error as PoolError, Medium};

const RULES: Rules = Rules::FailingSyncs;

fn blocks_survive(prefix: &str, histories: u64) {
    let jobs: Vec<Arc<dyn Job>> =
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
        let story =
            job.replay(case, &Effort::default(), None).map(|replay| replay.story.join("\n"));
        panic!("{}: {}\n{}", finding.case, finding.what, story.unwrap_or_default());
    }
    assert!(report.tally.nested > 100);
}

#[test]
fn logs_survive() {
    blocks_survive("log-", 4);
}

#[test]
fn pages_survive() {
    blocks_survive("page-", 5);
}

#[test]
fn cells_survive() {
    blocks_survive("cells-", 4);
}

#[test]
fn leaves_survive() {
    blocks_survive("leaves", 20);
}

fn engine_survives(kinds: &'static [Kind], seeds: u64) {
    let subject = Store::of(&REGISTRATION, "indexlog-mixed").with_kinds(&[]);
    let tally = check(&subject.with_kinds(kinds), RULES, 0..seeds);
    assert!(tally.nested > 10, "{}", tally.nested);
}

#[test]
fn short_writes_survive() {
    engine_survives(&[Kind::Few, Kind::Mixed], 40);
}

#[test]
fn partitions_survive() {
    let subject = Store::of(&REGISTRATION, "indexlog-partitions");
    let tally = check(&subject, RULES, 0..30);
    assert!(tally.nested > 10, "{}", tally.nested);
}

#[test]
fn collection_survives() {
    engine_survives(&[Kind::Collecting], 1);
}

#[test]
fn a_failed_batch_on_several_partitions_ends_the_writes_to_all() {
    let partitioning = Partitioning::Hash(3);
    let medium = Medium::new(Domain::PageCache, 32 << 20).unwrap();
    let mut options = EngineOptions::new("pool");
    options.pool_options.size_max = medium.capacity();
    options.pool_options.medium = Some(medium.clone());
    options.partitioning = Some(partitioning.clone());
    let engine = IndexLog::open(&options).unwrap();
    let space = engine.key_space("space").unwrap();
    let key_of = |partition| {
        let keys = (0_u32..).map(u32::to_le_bytes);
        keys.into_iter().find(|key| partitioning.partition_of(key) == partition).unwrap()
    };
    let keys = [key_of(0), key_of(1), key_of(2)];
    let put = |at: usize| Op::Put { space, key: &keys[at], value: b"value" };

    medium.machine().fail_sync_after(Some(0));
    engine.write(&[put(0), put(1)], Durability::Immediate).unwrap_err();
    assert!(medium.machine().has_failed_to_sync());
    for at in 0..keys.len() {
        let refused = engine.write(&[put(at)], Durability::Deferred);
        // The third partition has no part in the batch.
        let is_named = matches!(&refused, Err(Error::Poisoned { .. }) if at < 2)
            || matches!(&refused, Err(Error::Pool(PoolError::SyncFailed { .. })) if at == 2);
        assert!(is_named, "{refused:?}");
    }
    engine.sync().unwrap_err();
    for key in &keys {
        assert_eq!(engine.get(space, key).unwrap(), None);
    }
}

//! Stores that keep files come back from every power cut, and each sync that they ask for is needed.

mod small_stores;

use std::collections::BTreeSet;
use std::env;
use std::sync::Arc;

use halite_lab::{
    Budget, Effort, Exploration, Explorer, Job, Media, Plan, Rules, Subject, mutate, place,
};
use small_stores::SmallStore;

/// Their source, whose requests are left out.
const SOURCE: &str = "crates/tools/lab/tests/small_stores/";

const RULES: [Rules; 4] = [Rules::Memory, Rules::PageCache, Rules::FailingSyncs, Rules::Platform];

/// Histories of each store under each set of rules; `HALITE_LAB_SEEDS` sets others.
const HISTORIES: u64 = 25;

/// Histories in which a mutant may hide.
const HISTORIES_MAX: u64 = 200;

#[test]
fn files_and_the_pool_beside_them_come_back_from_every_power_cut() {
    let histories = env::var("HALITE_LAB_SEEDS").ok().and_then(|text| text.parse().ok());
    let histories: u64 = histories.unwrap_or(HISTORIES);
    for store in SmallStore::ALL {
        for rules in RULES {
            let mut explorer = Explorer::new(&store, rules, Effort::default());
            for seed in 0..histories {
                if let Some(violation) = explorer.explore(seed) {
                    let (story, _) = explorer.replay(&violation.case);
                    let (case, what) = (violation.case, violation.what);
                    panic!("{} {case}: {what}\n{}", store.name(), story.join("\n"));
                }
            }
            let tally = &explorer.tally;
            println!(
                "{} under {}: {} crash points, {} of them complete, {} images, {} distinct, {} nested",
                store.name(),
                rules.name(),
                tally.crash_points,
                tally.complete_points,
                tally.images,
                tally.distinct.len(),
                tally.nested
            );
            // An exploration without crash points would find nothing.
            assert!(tally.crash_points > 12 * histories, "{}", tally.crash_points);
            assert!(tally.complete_points > 4 * histories, "{}", tally.complete_points);
            assert!(tally.nested > 4 * histories, "{}", tally.nested);
        }
    }
}

#[test]
fn every_sync_of_files_and_of_names_is_missed_if_it_is_left_out() {
    let mut jobs: Vec<Arc<dyn Job>> = Vec::new();
    for store in SmallStore::ALL {
        for rules in [Rules::Memory, Rules::PageCache] {
            jobs.push(Arc::new(Exploration::new(store, rules, 1)));
        }
    }
    let plan = Plan { seed: 1, ..Plan::new(Budget::Histories(HISTORIES_MAX)) };
    let score = mutate(&plan, &jobs, &|site| place(site).starts_with(SOURCE), &|_| ());
    assert!(score.findings.is_empty(), "{:#?}", score.findings.first());
    let mut survivors = Vec::new();
    for verdict in &score.verdicts {
        let caught = verdict.caught.as_ref().map_or("SURVIVES", |finding| &finding.case);
        println!("{}: {caught}, {} histories", verdict.mutant, verdict.histories);
        if verdict.caught.is_none() {
            survivors.push(verdict.mutant.to_string());
        }
    }
    assert!(survivors.is_empty(), "nobody needs {survivors:?}");
    let judged: BTreeSet<_> =
        score.verdicts.iter().map(|verdict| place(verdict.mutant.site)).collect();
    let source = include_str!("small_stores/mod.rs");
    for (number, line) in (1..).zip(source.lines()) {
        if [".sync()", ".fence(", ".fence_found("].iter().any(|call| line.contains(call)) {
            assert!(judged.contains(&format!("{SOURCE}mod.rs:{number}")), "never left out: {line}");
        }
    }
}

#[test]
fn a_medium_without_faults_gives_back_files_and_pool() {
    // The first two strikes of each history, on the closed store and the killed one, have no fault.
    let mut media = Media::new(&SmallStore::Noted).with_strikes(2);
    for seed in 0..HISTORIES {
        if let Some(violation) = media.strike(seed) {
            panic!("{}: {}", violation.case, violation.what);
        }
    }
    assert_eq!(media.tally.histories, HISTORIES);
}

#[test]
fn a_case_of_files_is_replayed_and_told_with_their_names() {
    let plan = Plan { seed: 1, ..Plan::new(Budget::Histories(20)) };
    let mut jobs: Vec<Arc<dyn Job>> = Vec::new();
    for store in [SmallStore::Renamed, SmallStore::Logged] {
        jobs.push(Arc::new(Exploration::new(store, Rules::Memory, 1)));
    }
    let score = mutate(&plan, &jobs, &|site| place(site).starts_with(SOURCE), &|_| ());
    let mut told = String::new();
    for verdict in &score.verdicts {
        let Some(finding) = &verdict.caught else { continue };
        let (name, case) = finding.case.split_once(':').expect("a case has the name of its job");
        let job = jobs.iter().find(|job| job.name() == name).expect("the job is there");
        let without = Some((verdict.mutant.site, verdict.mutant.request));
        let replay = job.replay(case, &Effort::default(), without).expect("it is the job's own");
        assert!(replay.what.is_some(), "{case}");
        told += &replay.story.join("\n");
    }
    println!("{told}");
    for part in ["the folder: ", "current is file ", " of file ", "not synced"] {
        assert!(told.contains(part), "{part}");
    }
}

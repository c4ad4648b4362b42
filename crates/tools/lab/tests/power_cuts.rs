//! The manager of segments and the index+log engine come back from every power cut that the lab looks
//! at: with fixed seeds, and with one that is drawn anew each time and printed.
//!
//! `HALITE_LAB_SEEDS` sets how many of the fixed seeds there are, each of which is then looked at in depth,
//! `HALITE_LAB_SEED` the fresh one.

mod seeds;

use halite_indexlog::REGISTRATION;
use halite_lab::{
    Effort, Explorer, HeapOfRows, Kind, Objects, Opener, Rules, Space, Store, Subject, Tally,
};

use seeds::number;

/// Whether the deep budget was asked for, in place of one for a first look.
fn is_deep() -> bool {
    halite_contract::lab::is_deep("indexlog")
}

/// The seeds: of so many fixed ones, a first look takes half.
fn seeds(fixed: u64) -> impl Iterator<Item = u64> {
    let fixed = if is_deep() { fixed } else { fixed.div_ceil(2) };
    seeds::seeds(number("HALITE_LAB_SEEDS").unwrap_or(fixed))
}

/// Explores the histories of the seeds, and prints the story of each finding.
fn survives<S: Subject>(subject: &S, rules: Rules, fixed: u64) -> Tally {
    // Of each history less than usual, for the sake of more of them.
    let quick = Effort { history_images_max: 450, ..Effort::default() };
    let effort = if number("HALITE_LAB_SEEDS").is_some() { Effort::default() } else { quick };
    let mut explorer = Explorer::new(subject, rules, effort);
    for seed in seeds(fixed) {
        if let Some(violation) = explorer.explore(seed) {
            let (story, _) = explorer.replay(&violation.case);
            panic!("{}: {}\n{}", violation.case, violation.what, story.join("\n"));
        }
    }
    let wrong: Vec<_> = explorer.lints.met().filter(|(lint, ..)| lint.is_wrong()).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
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
    // An exploration without crash points would find nothing.
    let least = 10;
    assert!(tally.nested > least || rules == Rules::FailedPlatform && tally.detected > least);
    tally
}

fn engine(kinds: &'static [Kind]) -> impl Subject {
    Store::of(&REGISTRATION, "indexlog-mixed").with_kinds(kinds)
}

fn partitioned(kinds: &'static [Kind]) -> Store<Opener> {
    Store::of(&REGISTRATION, "indexlog-partitions").with_kinds(kinds)
}

#[test]
fn partitions_survive_together() {
    for (rules, fixed) in [(Rules::Memory, 54), (Rules::PageCache, 28), (Rules::Platform, 10)] {
        survives(&partitioned(&[Kind::Few, Kind::Mixed]), rules, fixed);
    }
    survives(&partitioned(&[Kind::Blocks, Kind::Large]), Rules::Memory, 6);
}

fn with_change_log(kinds: &'static [Kind], partitions: usize) -> impl Subject {
    Store::of(&REGISTRATION, "indexlog-changes").with_kinds(kinds).with_partitions(partitions)
}

#[test]
fn change_logs_survive() {
    for partitions in [1, 2] {
        for (rules, fixed) in [(Rules::Memory, 4), (Rules::PageCache, 2), (Rules::Platform, 1)] {
            survives(&with_change_log(&[Kind::Few, Kind::Mixed], partitions), rules, fixed);
        }
        survives(&with_change_log(&[Kind::Large], partitions), Rules::Memory, 1);
    }
    survives(&with_change_log(&[Kind::Blocks, Kind::Collecting], 2), Rules::Memory, 1);
    survives(&with_change_log(&[Kind::Segments], 1), Rules::Memory, 2);
}

#[test]
fn snapshots_of_the_index_survive() {
    let subject = |kinds| Store::of(&REGISTRATION, "indexlog-snapshots").with_kinds(kinds);
    for (rules, fixed) in [(Rules::Memory, 4), (Rules::PageCache, 2), (Rules::Platform, 1)] {
        survives(&subject(&[Kind::Few, Kind::Mixed]), rules, fixed);
    }
    survives(&subject(&[Kind::Blocks, Kind::Large, Kind::Collecting]), Rules::Memory, 2);
}

#[test]
fn stores_survive_while_their_partitions_change() {
    let subject = partitioned(&[Kind::Few, Kind::Mixed]).with_repartitioning();
    for (rules, fixed) in [(Rules::Memory, 4), (Rules::PageCache, 2)] {
        survives(&subject, rules, fixed);
    }
}

#[test]
fn segments_survive_under_all_rules() {
    Rules::ALL.into_iter().for_each(|rules| drop(survives(&Space, rules, 134)));
}

#[test]
fn objects_survive_under_all_rules() {
    Rules::ALL.into_iter().for_each(|rules| drop(survives(&Objects, rules, 100)));
}

#[test]
fn the_heap_survives_under_all_rules() {
    Rules::ALL.into_iter().for_each(|rules| drop(survives(&HeapOfRows, rules, 20)));
}

#[test]
fn short_writes_survive_on_memory() {
    let tally = survives(&engine(&[Kind::Few, Kind::Mixed]), Rules::Memory, 200);
    assert!(tally.complete_points > 1000, "of most points all images are looked at");
}

#[test]
fn short_writes_survive_on_ordinary_files() {
    survives(&engine(&[Kind::Few, Kind::Mixed]), Rules::PageCache, 134);
}

#[test]
fn short_writes_survive_where_caches_persist() {
    survives(&engine(&[Kind::Few, Kind::Mixed]), Rules::Platform, 68);
}

#[test]
fn a_platform_that_fails_is_noticed() {
    let tally = survives(&engine(&[Kind::Few, Kind::Mixed]), Rules::FailedPlatform, 28);
    assert!(tally.detected > tally.recoveries / 2);
}

#[test]
fn values_that_fill_blocks_survive() {
    survives(&engine(&[Kind::Blocks, Kind::Large]), Rules::Memory, 20);
    survives(&engine(&[Kind::Blocks, Kind::Large]), Rules::PageCache, 8);
}

#[test]
fn collection_survives() {
    survives(&engine(&[Kind::Collecting]), Rules::Memory, 8);
    survives(&engine(&[Kind::Collecting]), Rules::PageCache, 4);
    survives(&partitioned(&[Kind::Collecting]), Rules::Memory, 4);
}

#[test]
fn concurrent_calls_are_durably_linearizable() {
    let subject = Store::of(&REGISTRATION, "indexlog-threads");
    // With a sync for a fence, threads write in groups.
    for (rules, histories) in [(Rules::Memory, 54), (Rules::PageCache, 28)] {
        let effort = Effort { images_max: 24, history_images_max: 300, ..Effort::default() };
        let mut explorer = Explorer::new(&subject, rules, effort);
        for seed in seeds(histories) {
            if let Some(violation) = explorer.explore_schedules(seed, 8) {
                panic!("{}: {}", violation.case, violation.what);
            }
        }
        println!("{} schedules", explorer.tally.schedules);
        assert!(explorer.tally.schedules >= 100 && explorer.tally.nested > 100);
    }
}

#[test]
fn a_seed_repeats_what_it_did() {
    let subject = engine(&[Kind::Mixed]);
    let tally = || {
        let mut explorer = Explorer::new(&subject, Rules::Memory, Effort::default());
        (0..10).for_each(|seed| assert!(explorer.explore(seed).is_none()));
        let mut distinct: Vec<_> = explorer.tally.distinct.into_iter().collect();
        distinct.sort_unstable();
        (explorer.tally.crash_points, explorer.tally.images, distinct)
    };
    assert_eq!(tally(), tally());
}

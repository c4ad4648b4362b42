//! The stores of the engine `table` come back from every power cut that the lab looks at. `table_mutants.rs` tells whether
//! each fence and sync that they ask for is needed.
//!
//! `HALITE_LAB_SEEDS` sets how many histories there are under each set of rules.

mod cow_trees;
mod methods;
mod nonvolatile_tree;
mod testbed;

use std::env;

use cow_trees::Trees;
use halite_lab::{Effort, Explorer, Rules, Subject};
use halite_table::Kind;
use methods::{
    CowStorage, DeepNvmLogStorage, InPStorage, LogStorage, Methods, NvmCowStorage, NvmInPStorage,
    NvmLogStorage, NvmWblStorage, SmallNvmInPStorage, SmallNvmWblStorage,
};
use nonvolatile_tree::TreeInHeap;
use testbed::Partitions;

const RULES: [Rules; 2] = [Rules::PageCache, Rules::FailingSyncs];

/// Histories under each set of rules.
const HISTORIES: u64 = 6;

/// Histories of subjects in a heap: under caches that persist, each store is a crash point.
fn first_look(rules: Rules) -> u64 {
    if rules == Rules::Platform { 1 } else { 3 }
}

/// Explores a few histories, which have more crash points than others, as their recoveries have.
fn survives_few<S: Subject>(subject: &S, rules: Rules) {
    let effort = Effort { history_images_max: 60, nested_percent: [2, 2], ..Effort::default() };
    explore(subject, rules, if rules == Rules::Platform { 1 } else { 2 }, effort);
}

/// Explores so many histories, unless the environment says how many.
fn survives<S: Subject>(subject: &S, rules: Rules, histories: u64) {
    let effort = Effort { history_images_max: 300, ..Effort::default() };
    explore(subject, rules, histories, effort);
}

fn explore<S: Subject>(subject: &S, rules: Rules, histories: u64, effort: Effort) {
    let asked = env::var("HALITE_LAB_SEEDS").ok().and_then(|text| text.parse().ok());
    let histories = asked.unwrap_or(histories);
    let mut explorer = Explorer::new(subject, rules, effort);
    for seed in 0..histories {
        if let Some(violation) = explorer.explore(seed) {
            let (story, _) = explorer.replay(&violation.case);
            panic!("{}: {}\n{}", violation.case, violation.what, story.join("\n"));
        }
    }
    let tally = &explorer.tally;
    println!(
        "{} under {}: {} crash points, {} of them complete, {} images, {} distinct, {} nested",
        subject.name(),
        rules.name(),
        tally.crash_points,
        tally.complete_points,
        tally.images,
        tally.distinct.len(),
        tally.nested
    );
    // A lab that looks at no crash points would find nothing.
    assert!(tally.crash_points > 5 * histories, "{}", tally.crash_points);
}

#[test]
fn committed_batches_and_nothing_else_survive_every_power_cut() {
    for rules in RULES {
        survives(&Trees, rules, HISTORIES);
    }
}

#[test]
fn transactions_of_a_nonvolatile_tree_survive_whole_or_not_at_all() {
    Rules::ALL.into_iter().for_each(|rules| survives(&TreeInHeap, rules, first_look(rules)));
}

#[test]
fn inp_partitions_survive() {
    for rules in RULES {
        survives(&Methods::<InPStorage>::NEW, rules, HISTORIES);
    }
}

#[test]
fn nvm_inp_partitions_survive() {
    let subject = Methods::<NvmInPStorage>::NEW;
    Rules::ALL.into_iter().for_each(|rules| survives(&subject, rules, first_look(rules)));
}

#[test]
fn cow_partitions_survive() {
    for rules in RULES {
        survives(&Methods::<CowStorage>::NEW, rules, HISTORIES);
    }
}

#[test]
fn nvm_cow_partitions_survive() {
    let subject = Methods::<NvmCowStorage>::NEW;
    Rules::ALL.into_iter().for_each(|rules| survives(&subject, rules, first_look(rules)));
}

#[test]
fn log_partitions_survive() {
    for rules in RULES {
        survives(&Methods::<LogStorage>::NEW, rules, HISTORIES);
    }
}

#[test]
fn nvm_log_partitions_survive() {
    let subject = Methods::<NvmLogStorage>::NEW;
    Rules::ALL.into_iter().for_each(|rules| survives_few(&subject, rules));
}

#[test]
fn nvm_wbl_partitions_survive() {
    let subject = Methods::<NvmWblStorage>::NEW;
    Rules::ALL.into_iter().for_each(|rules| survives_few(&subject, rules));
}

#[test]
fn transactions_over_partitions_survive() {
    let subject = Partitions::of(Kind::NvmInP);
    Rules::ALL.into_iter().for_each(|rules| survives_few(&subject, rules));
}

#[test]
fn transactions_over_partitions_with_views_survive() {
    for rules in [Rules::Memory, Rules::FailingSyncs] {
        survives_few(&Partitions::of(Kind::NvmCow), rules);
    }
}

#[test]
fn transactions_over_partitions_in_files_survive() {
    for kind in [Kind::InP, Kind::Cow, Kind::Log] {
        let subject = Partitions::of(kind);
        RULES.into_iter().for_each(|rules| survives_few(&subject, rules));
    }
}

#[test]
fn transactions_over_partitions_survive_without_room() {
    let effort = Effort { history_images_max: 60, nested_percent: [2, 2], ..Effort::default() };
    explore(&Partitions::SMALL, Rules::Memory, 1, effort);
}

#[test]
fn nvm_log_partitions_with_small_memtables_survive() {
    survives_few(&Methods::<DeepNvmLogStorage>::NEW, Rules::Memory);
}

#[test]
fn nvm_inp_partitions_survive_in_pools_without_room() {
    let subject = Methods::<SmallNvmInPStorage>::NEW;
    Rules::ALL.into_iter().for_each(|rules| survives_few(&subject, rules));
}

#[test]
fn nvm_wbl_partitions_survive_in_pools_without_room() {
    let subject = Methods::<SmallNvmWblStorage>::NEW;
    Rules::ALL.into_iter().for_each(|rules| survives_few(&subject, rules));
}

#[test]
fn two_partitions_of_a_folder_survive_in_turns() {
    let subject = Methods::<CowStorage>::in_turns("table:cow-in-turns", 2);
    RULES.into_iter().for_each(|rules| survives(&subject, rules, HISTORIES / 2));
}

#[test]
fn two_partitions_of_a_pool_survive_in_turns() {
    let subject = Methods::<NvmInPStorage>::in_turns("table:nvm-inp-in-turns", 2);
    Rules::ALL.into_iter().for_each(|rules| survives_few(&subject, rules));
}

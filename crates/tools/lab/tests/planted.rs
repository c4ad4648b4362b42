//! The lab finds bugs: classic ones, planted in the code that ships, each within its budget.
//!
//!     RUSTFLAGS="--cfg halite_planted" cargo test --release -p halite-lab --test planted \
//!         --target-dir target/planted
#![cfg(halite_planted)]

mod betree_pools;
mod cow_trees;
mod methods;
mod server_collections;
mod small_stores;
mod testbed;

use std::time::Instant;

use betree_pools::{Pools, devices};
use halite_blocks::page::CopyOnWrite;
use halite_lab::blocks::pages::Pages;
use halite_lab::planted::{Histories, PLANTED_BUGS, PlantedBug};
use halite_lab::{
    Case, Effort, Explorer, Kind, Opener, Rules, Space, Store, Subject, Tally, Violation,
};
use halite_sim::planted::Bug;
use halite_table::Kind as Method;
use methods::{
    CowStorage, DeepNvmLogStorage, InPStorage, LogStorage, Methods, NvmCowStorage, NvmInPStorage,
    NvmLogStorage, NvmWblStorage, SmallNvmInPStorage,
};
use server_collections::Collections;
use small_stores::SmallStore;
use testbed::Partitions;

/// Looks at the histories of the first seeds, up to a violation; replays that.
fn explore_all(histories: Histories, rules: Rules, look: Look) -> (Option<Violation>, Tally) {
    let kinds: &'static [Kind] = match histories {
        Histories::Space => return explore(&Space, rules, look),
        Histories::LoggedFiles => return explore(&SmallStore::Logged, rules, look),
        Histories::NotedFiles => return explore(&SmallStore::Noted, rules, look),
        Histories::RenamedFiles => return explore(&SmallStore::Renamed, rules, look),
        Histories::Objects => return explore(&halite_lab::Objects, rules, look),
        Histories::Heap => return explore(&halite_lab::HeapOfRows, rules, look),
        Histories::Pages => {
            return explore(&Pages::<CopyOnWrite>::new("page-cow"), rules, look);
        }
        Histories::CowTrees => return explore(&cow_trees::Trees, rules, look),
        Histories::Cow => return explore(&Methods::<CowStorage>::NEW, rules, look),
        Histories::InP => return explore(&Methods::<InPStorage>::NEW, rules, look),
        Histories::Log => return explore(&Methods::<LogStorage>::NEW, rules, look),
        Histories::NvmInP => return explore(&Methods::<NvmInPStorage>::NEW, rules, look),
        Histories::NvmLog => return explore(&Methods::<NvmLogStorage>::NEW, rules, look),
        Histories::DeepNvmLog => {
            return explore(&Methods::<DeepNvmLogStorage>::NEW, rules, look);
        }
        Histories::NvmCow => return explore(&Methods::<NvmCowStorage>::NEW, rules, look),
        Histories::SmallNvmInP => {
            return explore(&Methods::<SmallNvmInPStorage>::NEW, rules, look);
        }
        Histories::NvmWbl => return explore(&Methods::<NvmWblStorage>::NEW, rules, look),
        Histories::Server(name) => return explore(&Collections::of(name), rules, look),
        Histories::Testbed => return explore(&Partitions::of(Method::NvmInP), rules, look),
        Histories::TestbedInP => return explore(&Partitions::of(Method::InP), rules, look),
        Histories::TestbedCow => return explore(&Partitions::of(Method::Cow), rules, look),
        Histories::Partitions => {
            let subject = indexlog("indexlog-partitions", &[Kind::Few, Kind::Mixed]);
            return explore(&subject.with_partitions(3), rules, look);
        }
        Histories::Lsm(trees, kind) => {
            let name = if trees == 1 { "lsm-mixed" } else { "lsm-trees-mixed" };
            return explore(&lsm(name, kind).with_partitions(trees), rules, look);
        }
        Histories::LsmLog(kind) => return explore(&lsm("lsm-log-mixed", kind), rules, look),
        Histories::Betree(kind) => {
            let subject = Store::of(&halite_betree::REGISTRATION, "betree-mixed");
            return explore(&subject.with_kinds(only(kind)), rules, look);
        }
        Histories::BetreeValues => {
            let subject = Store::of(&halite_betree::REGISTRATION, "betree-mixed-values");
            return explore(&subject, rules, look);
        }
        Histories::BetreePool(name) => {
            return explore(&Pools::of(&format!("betree-pool-{name}")), rules, look);
        }
        Histories::BetreeDevices => {
            let case = Case { rules, seed: 0, schedule: None, crashes: Vec::new() };
            let found = devices::defect().map(|what| Violation { case, what });
            return (found, Tally { histories: 1, recoveries: 2, ..Tally::default() });
        }
        Histories::Indexlog(kind) | Histories::Changes(kind) | Histories::Snapshots(kind) => {
            only(kind)
        }
    };
    let name = match histories {
        Histories::Changes(_) => "indexlog-changes",
        Histories::Snapshots(_) => "indexlog-snapshots",
        _ => "indexlog-mixed",
    };
    explore(&indexlog(name, kinds), rules, look)
}

/// Histories of one kind.
fn only(kind: Kind) -> &'static [Kind] {
    match kind {
        Kind::Few => &[Kind::Few],
        Kind::Mixed => &[Kind::Mixed],
        Kind::Blocks => &[Kind::Blocks],
        Kind::Large => &[Kind::Large],
        Kind::Collecting => &[Kind::Collecting],
        Kind::Segments => &[Kind::Segments],
        Kind::Zones => &[Kind::Zones],
        Kind::Levels => &[Kind::Levels],
        Kind::Unsynced => &[Kind::Unsynced],
    }
}

fn indexlog(name: &str, kinds: &'static [Kind]) -> Store<Opener> {
    Store::of(&halite_indexlog::REGISTRATION, name).with_kinds(kinds)
}

fn lsm(name: &str, kind: Kind) -> Store<Opener> {
    Store::of(&halite_lsm::REGISTRATION, name).with_kinds(only(kind))
}

/// How far histories are looked at.
#[derive(Debug, Clone, Copy)]
struct Look {
    /// How many.
    histories: u64,
    /// Recoveries after which no other history is begun.
    recoveries_max: u64,
    /// Images of a history, about.
    images_max: u64,
    /// Whether few recoveries are crashed in turn, as those of betree.
    is_shallow: bool,
}

/// Whether few recoveries of a store are crashed in turn, as these have many points to crash at: a server that opens with
/// other partitions moves its collections in each.
fn has_long_recoveries(of: Histories) -> bool {
    of == Histories::Server("server-rehoming")
}

impl Look {
    /// Returns the effort for a bug: of each history less than usual, for the sake of more of them.
    fn search(of: Histories, budget: u64) -> Self {
        let is_shallow = has_long_recoveries(of);
        Self { histories: budget, recoveries_max: u64::MAX, images_max: 700, is_shallow }
    }

    /// Returns the effort for a violation without a bug: the campaigns and the other tests look at the same histories
    /// for longer.
    fn control(of: Histories, budget: u64) -> Self {
        let is_shallow = of.name().starts_with("betree")
            || of == Histories::DeepNvmLog
            || has_long_recoveries(of);
        let recoveries_max = if is_shallow { 1000 } else { 3000 };
        Self { histories: budget, recoveries_max, images_max: 300, is_shallow }
    }

    fn effort(self) -> Effort {
        let effort = Effort { history_images_max: self.images_max, ..Effort::default() };
        match self.is_shallow {
            true => Effort { nested_images_max: [3, 2], nested_percent: [3, 2], ..effort },
            false => effort,
        }
    }
}

fn explore<S: Subject>(subject: &S, rules: Rules, look: Look) -> (Option<Violation>, Tally) {
    let mut explorer = Explorer::new(subject, rules, look.effort());
    let mut found = None;
    for seed in 0..look.histories {
        found = explorer.explore(seed);
        if found.is_some() || explorer.tally.recoveries > look.recoveries_max {
            break;
        }
    }
    if let Some(violation) = &found {
        let (story, what) = Explorer::new(subject, rules, look.effort()).replay(&violation.case);
        assert!(what.is_some(), "{} does not show it again: {}", violation.case, violation.what);
        if !Bug::is_any_there() {
            println!("{}", story.join("\n"));
        }
    }
    (found, explorer.tally)
}

/// The bugs; with `HALITE_LAB_BUGS`, those whose ids, or the paths of whose files, have that in them.
fn bugs() -> impl Iterator<Item = &'static PlantedBug> {
    let places = std::env::var("HALITE_LAB_BUGS").unwrap_or_default();
    PLANTED_BUGS.iter().filter(move |bug| bug.place.contains(&places) || bug.id.contains(&places))
}

#[test]
fn every_planted_bug_is_found_within_its_budget() {
    let mut missed = Vec::new();
    println!("| bug | where | histories of | rules | it took | the violation |");
    println!("|---|---|---|---|---|---|");
    for &PlantedBug { id, place, histories, rules, budget, .. } in bugs() {
        let start = Instant::now();
        let (found, tally) =
            Bug::of(id).during(|| explore_all(histories, rules, Look::search(histories, budget)));
        let shown = match &found {
            Some(violation) => format!("{}: {}", violation.case, violation.what),
            None => "**missed**".to_owned(),
        };
        println!(
            "| {id} | {place} | {} | {} | {} of {budget} histories, {} recoveries, {:.1?} | {shown} |",
            histories.name(),
            rules.name(),
            tally.histories,
            tally.recoveries,
            start.elapsed(),
        );
        if found.is_none() {
            missed.push(id);
        }
    }
    assert!(missed.is_empty(), "within their budgets these are not found: {missed:?}");
}

#[test]
fn without_a_planted_bug_the_same_histories_are_right() {
    let mut explored: Vec<(Histories, Rules, u64)> = Vec::new();
    for &PlantedBug { histories, rules, budget, .. } in bugs() {
        match explored.iter_mut().find(|(of, under, _)| (*of, *under) == (histories, rules)) {
            Some((_, _, count)) => *count = budget.max(*count),
            None => explored.push((histories, rules, budget)),
        }
    }
    for (histories, rules, count) in explored {
        let start = Instant::now();
        let (found, tally) = explore_all(histories, rules, Look::control(histories, count));
        let (of, under, recoveries) = (histories.name(), rules.name(), tally.recoveries);
        let seen = tally.histories;
        println!(
            "{of}, {under}: {seen} of {count} histories, {recoveries} recoveries, {:.1?}",
            start.elapsed()
        );
        if let Some(violation) = found {
            panic!("{}: {}: {}", histories.name(), violation.case, violation.what);
        }
        assert!(recoveries > seen, "{recoveries} recoveries of {seen} histories");
    }
}

//! Pools of the Bε-tree engine come back from every power cut that the lab looks at: with snapshots, a clone, objects,
//! values in extents of their own, and leaves of mirrors and parity that go and come back. The engine's own tests
//! explore its key spaces and its threads.
//!
//! `HALITE_LAB_SEEDS` sets how many histories of each pool there are, `HALITE_LAB_SEED` the first of those that are no
//! fixed ones, `HALITE_LAB_JOBS` the pools of which the names or rules have that in them, and `HALITE_LAB_IMAGES` the
//! images of a history.

mod betree_pools;
mod seeds;

use std::env;
use std::time::Instant;

use betree_pools::{POOLS, Pools, devices};
use halite_contract::lab::is_deep;
use halite_lab::{Effort, Explorer, Rules, Tally};
use seeds::{number, seeds};

/// The effort of so many images of a history, about, of whose recoveries some are crashed in turn: a pool's take long.
fn effort(images: u64) -> Effort {
    Effort {
        history_images_max: images,
        nested_images_max: [3, 2],
        nested_percent: [3, 2],
        ..Effort::default()
    }
}

/// Explores some histories of a pool, and prints the story of a violation.
fn explore(pools: &Pools, rules: Rules, seeds: &[u64], images: u64) -> Tally {
    let mut explorer = Explorer::new(pools, rules, effort(images));
    let start = Instant::now();
    for &seed in seeds {
        let Some(found) = explorer.explore(seed) else { continue };
        let (story, _) = Explorer::new(pools, rules, effort(images)).replay(&found.case);
        panic!("{}:{}: {}\n{}", pools.name, found.case, found.what, story.join("\n"));
    }
    let tally = explorer.tally;
    println!(
        "{} {}: {} histories, {} crash points, {} images, {} recoveries, {} nested, {:.1?}",
        pools.name,
        rules.name(),
        tally.histories,
        tally.crash_points,
        tally.images,
        tally.recoveries,
        tally.nested,
        start.elapsed()
    );
    tally
}

/// Explores a pool, under the rules that the budget has. Each has a test, so that they are explored side by side.
fn come_back(pools: &Pools) {
    let asked = number("HALITE_LAB_SEEDS");
    let seeds: Vec<_> = seeds(asked.unwrap_or(1)).collect();
    let rules = if is_deep("betree") { &Rules::ALL[..] } else { &[Rules::Memory] };
    let of_jobs = env::var("HALITE_LAB_JOBS").unwrap_or_default();
    let images = number("HALITE_LAB_IMAGES").unwrap_or(20);
    for &rules in rules {
        if format!("{} {}", pools.name, rules.name()).contains(&of_jobs) {
            // The time goes into histories, not images: the fresh one is looked at under one set of rules.
            let is_fresh = rules == Rules::Memory || asked.is_some();
            let seeds = if is_fresh { &seeds[..] } else { &seeds[..1] };
            assert!(explore(pools, rules, seeds, images).crash_points > 0);
        }
    }
}

#[test]
fn pools_of_one_device_come_back_from_power_cuts() {
    come_back(&Pools::of("betree-pool-single"));
}

#[test]
fn values_in_extents_come_back_from_power_cuts() {
    come_back(&Pools::of("betree-pool-values"));
}

#[test]
fn mirrors_come_back_from_power_cuts() {
    come_back(&Pools::of("betree-pool-mirror"));
}

#[test]
fn other_pools_come_back_from_power_cuts() {
    let apart = ["betree-pool-single", "betree-pool-values", "betree-pool-mirror"];
    POOLS.iter().filter(|pools| !apart.contains(&pools.name)).for_each(come_back);
}

#[test]
fn leaves_whose_syncs_fail_are_not_taken_for_whole() {
    let seeds: Vec<_> = seeds(if is_deep("betree") { 4 } else { 2 }).collect();
    let mirror = Pools::of("betree-pool-mirror");
    assert!(explore(&mirror, Rules::FailingSyncs, &seeds, 20).crash_points > 0);
}

#[test]
fn damage_and_histories_that_parted_are_never_read() {
    assert_eq!(devices::defect(), None);
}

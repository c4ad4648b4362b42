//! The server's collections come back from every power cut that the lab looks at: each acknowledged command is there, the
//! one under way whole or not at all, and no element without its collection.
//!
//! `HALITE_LAB_SEEDS` sets how many histories of each server there are, `HALITE_LAB_SEED` the first of those that are no
//! fixed ones, `HALITE_LAB_JOBS` the servers of which the names or rules have that in them, `HALITE_LAB_IMAGES` the
//! images of a history, and `HALITE_LAB_MINUTES` for how long all of them are looked at, in turns.

mod seeds;
mod server_collections;

use std::env;
use std::time::{Duration, Instant};

use halite_contract::lab::is_deep;
use halite_lab::{Effort, Explorer, Rules, Tally};
use seeds::{number, seeds};
use server_collections::{Collections, SERVERS};

/// The effort of so many images of a history, about.
fn effort(images: u64) -> Effort {
    Effort {
        history_images_max: images,
        nested_images_max: [6, 3],
        nested_percent: [6, 4],
        ..Effort::default()
    }
}

/// Explores some histories of a server, and prints the story of a violation.
fn explore(server: &Collections, rules: Rules, seeds: &[u64], images: u64) -> Tally {
    let mut explorer = Explorer::new(server, rules, effort(images));
    for &seed in seeds {
        let Some(found) = explorer.explore(seed) else { continue };
        let (story, _) = Explorer::new(server, rules, effort(images)).replay(&found.case);
        panic!("{}:{}: {}\n{}", server.name, found.case, found.what, story.join("\n"));
    }
    explorer.tally
}

fn tell(name: &str, tally: &Tally, since: Instant) {
    println!(
        "{name}: {} histories, {} crash points, {} images, {} distinct, {} recoveries, {} nested, {:.1?}",
        tally.histories,
        tally.crash_points,
        tally.images,
        tally.distinct.len(),
        tally.recoveries,
        tally.nested,
        since.elapsed()
    );
}

/// The jobs that are asked for.
fn jobs(rules: &[Rules]) -> Vec<(Collections, Rules)> {
    let of_jobs = env::var("HALITE_LAB_JOBS").unwrap_or_default();
    let jobs = SERVERS.iter().flat_map(|server| rules.iter().map(|&rules| (*server, rules)));
    // Their histories take long: each opening adds up all records, and each step has many crash points.
    let is_short =
        |server: &Collections| !["server-evicting", "server-betree"].contains(&server.name);
    let asked = |(server, rules): &(Collections, Rules)| {
        let is_asked = format!("{} {}", server.name, rules.name()).contains(&of_jobs);
        is_asked && (!of_jobs.is_empty() || is_short(server) || is_deep("server"))
    };
    jobs.filter(asked).collect()
}

#[test]
fn collections_come_back_from_power_cuts() {
    let seeds: Vec<_> = seeds(number("HALITE_LAB_SEEDS").unwrap_or(2)).collect();
    let rules = if is_deep("server") { &Rules::ALL[..] } else { &[Rules::Memory] };
    let images = number("HALITE_LAB_IMAGES").unwrap_or(40);
    for (server, rules) in jobs(rules) {
        let start = Instant::now();
        let tally = explore(&server, rules, &seeds, images);
        tell(&format!("{} {}", server.name, rules.name()), &tally, start);
        assert!(tally.crash_points > 0);
    }
}

#[test]
fn what_a_failed_sync_leaves_open_is_not_acknowledged() {
    let seeds: Vec<_> = seeds(if is_deep("server") { 8 } else { 1 }).collect();
    for name in ["server-indexlog", "server-lsm"] {
        explore(&Collections::of(name), Rules::FailingSyncs, &seeds, 20);
    }
}

#[test]
#[ignore = "as long as HALITE_LAB_MINUTES says"]
fn collections_come_back_for_long() {
    let minutes = number("HALITE_LAB_MINUTES").unwrap_or(1);
    let start = Instant::now();
    let end = start + Duration::from_secs(60 * minutes);
    let first = number("HALITE_LAB_SEED").unwrap_or(1_000_000);
    let jobs = jobs(&[Rules::Memory, Rules::PageCache, Rules::FailingSyncs, Rules::Platform]);
    let mut total = Tally::default();
    for seed in first.. {
        for (server, rules) in &jobs {
            if Instant::now() < end {
                total +=
                    explore(server, *rules, &[seed], number("HALITE_LAB_IMAGES").unwrap_or(400));
            }
        }
        if Instant::now() >= end {
            break;
        }
    }
    tell("all", &total, start);
}

//! The mutation score of `pmem`, `alloc` and `indexlog`: every call that asks for a flush, a fence or a
//! sync is left out once, and the lab notices each.
//!
//!     cargo test --release -p halite-lab --test mutants -- --ignored --nocapture

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use halite_lab::{Budget, Plan, Rules, Score, mutate, place, suite};

/// Histories in which a mutant may hide. Most show in the first.
const HISTORIES_MAX: u64 = 700;

#[test]
#[ignore = "takes four minutes"]
fn every_call_is_missed_if_it_is_left_out() {
    let rules = [Rules::Memory, Rules::PageCache, Rules::FailedPlatform];
    let jobs = suite(&halite_indexlog::REGISTRATION, &rules);
    let plan = Plan { seed: 1, ..Plan::new(Budget::Histories(HISTORIES_MAX)) };
    let score = mutate(&plan, &jobs, &|site| !is_judged_elsewhere(&place(site)), &|_| ());
    assert!(score.findings.is_empty(), "{:?}", score.findings);
    for verdict in &score.verdicts {
        let caught = verdict.caught.as_ref().map_or("SURVIVES", |finding| &finding.case);
        println!("{}: {caught}, {} histories", verdict.mutant, verdict.histories);
    }
    println!("mutation score: {} of {}", score.caught(), score.verdicts.len());
    assert_eq!(score.caught(), score.verdicts.len());
    every_call_is_judged(&score);
}

/// A snapshot of the index that is not durable is not used, and costs the next opening time. So nothing
/// goes wrong if one of its calls is left out.
const HELPS: &str = "crates/engines/indexlog/src/index_snapshot.rs:";

/// The making durable of the zeros of a map segment: only a process that was killed within it leaves others,
/// and a test beside it does that. And that copies are covered before originals are freed: the planted bug
/// `indexlog.victim-freed-before-covered` leaves all of that out, and shows in few histories; a flush or a fence of it alone
/// shows in one of many hundred.
const BESIDE: [&str; 3] =
    ["fresh.flush(0..SEGMENT)", "fence_found(&[zeroed])", "fence_with_map(covered_by_map_alone)"];

/// Whether the line at a place, `file:line`, only helps, or is judged by a test beside it.
fn is_judged_elsewhere(place: &str) -> bool {
    let (file, number) = place.rsplit_once(':').expect("a place is a file and a line");
    if !file.ends_with("indexlog/src/space/block_map.rs")
        && !file.ends_with("indexlog/src/space/release.rs")
    {
        return place.starts_with(HELPS);
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(file);
    let text = fs::read_to_string(path).expect("the source is text");
    let number: usize = number.parse().expect("lines are counted");
    let line = text.lines().nth(number - 1).expect("the line is there");
    BESIDE.iter().any(|call| line.contains(call))
}

/// Every line of `alloc` and `indexlog` that waits, or streams, is among those that were left out.
fn every_call_is_judged(score: &Score) {
    let places = score.verdicts.iter().map(|verdict| place(verdict.mutant.site));
    let judged: BTreeSet<String> = places.collect();
    let mut missing = Vec::new();
    for name in ["shared/alloc", "engines/indexlog"] {
        for (file, text) in sources(name) {
            let shipped = text.lines().take_while(|line| *line != "#[cfg(test)]");
            for (number, line) in (1..).zip(shipped) {
                let asks = CALLS.iter().any(|call| line.contains(call));
                let is_outside = INSIDE.iter().all(|inside| !line.contains(inside));
                let place = format!("{file}:{number}");
                if asks && is_outside && !judged.contains(&place) && !is_judged_elsewhere(&place) {
                    missing.push(format!("{file}:{number}: {}", line.trim()));
                }
            }
        }
    }
    assert!(missing.is_empty(), "never left out:\n{}", missing.join("\n"));
}

/// The source files of a crate, with their paths from the workspace's root.
fn sources(name: &str) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let mut folders = vec![format!("crates/{name}/src")];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder)).expect("the source is there") {
            let entry = entry.expect("the source is there");
            let path = format!("{folder}/{}", entry.file_name().display());
            match entry.file_type().expect("the source is there").is_dir() {
                true => folders.push(path),
                false => {
                    let text = fs::read_to_string(entry.path()).expect("the source is text");
                    found.push((path, text));
                }
            }
        }
    }
    found
}

/// Calls that ask for write-backs, or wait for them.
const CALLS: [&str; 10] = [
    ".fence([",
    ".fence_all(",
    ".fence_found(",
    ".fence_with_map(",
    ".sync_pending(",
    ".write_stream(",
    ".table.write(",
    ".write_word(",
    ".write_copy(",
    "sync_file()",
];

/// Lines of functions whose callers count as the calls; and the zeroing of a map segment that was used
/// before, which a test beside it judges.
const INSIDE: [&str; 9] = [
    "words.pool().fence([flushed])",
    "self.pool().fence([flushed])",
    "copy.write_stream(0, self.stored",
    "self.appender.write_stream(",
    "copy.pool().fence([flushed])",
    "space.fence_with_map(flushed)",
    "Ok(self.pool.fence_all(&flushed)?)",
    "self.pool.fence([zeroed])",
    "self.pool.fence([head.flush(NEAR_AT..NEAR_AT + 8)])",
];

//! The mutation score of `pmem`, `alloc` and `indexlog`: every call that asks for a flush, a fence or a
//! sync is left out once, and the lab notices each.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use halite_indexlog::IndexLog;
use halite_lab::{Budget, Plan, Rules, Score, mutate, place, suite};

/// Histories in which a mutant may hide. Most show in the first.
const HISTORIES_MAX: u64 = 1500;

#[test]
fn every_call_is_missed_if_it_is_left_out() {
    let open = |options: &_| Ok(Arc::new(IndexLog::open(options)?) as _);
    let jobs = suite("indexlog", open, &[Rules::Memory, Rules::PageCache, Rules::FailedPlatform]);
    let plan = Plan { seed: 1, ..Plan::new(Budget::Histories(HISTORIES_MAX)) };
    let score = mutate(&plan, &jobs, &|_| ());
    assert!(score.findings.is_empty(), "{:?}", score.findings);
    for verdict in &score.verdicts {
        let caught = verdict.caught.as_ref().map_or("SURVIVES", |finding| &finding.case);
        println!("{}: {caught}, {} histories", verdict.mutant, verdict.histories);
    }
    let (helps, judged): (Vec<_>, Vec<_>) =
        score.verdicts.iter().partition(|verdict| place(verdict.mutant.site).starts_with(HELPS));
    let caught = judged.iter().filter(|verdict| verdict.caught.is_some()).count();
    println!("mutation score: {caught} of {}", judged.len());
    assert_eq!(caught, judged.len());
    assert!(helps.iter().all(|verdict| verdict.caught.is_none()));
    every_call_is_judged(&score);
}

/// A snapshot of the index that is not durable is not used, and costs the next opening time. So nothing
/// goes wrong if one of its calls is left out.
const HELPS: &str = "crates/indexlog/src/index_snapshot.rs:";

/// Every line of `alloc` and `indexlog` that waits, or streams, is among those that were left out.
fn every_call_is_judged(score: &Score) {
    let places = score.verdicts.iter().map(|verdict| place(verdict.mutant.site));
    let judged: BTreeSet<String> = places.collect();
    let mut missing = Vec::new();
    for name in ["alloc", "indexlog"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src");
        for entry in fs::read_dir(folder).expect("the source is there") {
            let path = entry.expect("the source is there").path();
            let text = fs::read_to_string(&path).expect("the source is text");
            let file = format!("crates/{name}/src/{}", path.file_name().unwrap().display());
            let shipped = text.lines().take_while(|line| *line != "#[cfg(test)]");
            for (number, line) in (1..).zip(shipped) {
                let asks = CALLS.iter().any(|call| line.contains(call));
                let is_outside = INSIDE.iter().all(|inside| !line.contains(inside));
                if asks && is_outside && !judged.contains(&format!("{file}:{number}")) {
                    missing.push(format!("{file}:{number}: {}", line.trim()));
                }
            }
        }
    }
    assert!(missing.is_empty(), "never left out:\n{}", missing.join("\n"));
}

/// What asks for write-backs, or waits for them.
const CALLS: [&str; 9] = [
    ".fence([",
    ".fence_all(",
    ".fence_found(",
    ".fence_with_map(",
    ".sync_pending(",
    ".write_stream(",
    ".table.write(",
    ".write_copy(",
    "sync_file()",
];

/// Lines of functions whose callers count as the calls; and the zeroing of a map segment that was used
/// before, which a test beside it judges.
const INSIDE: [&str; 8] = [
    "words.pool().fence([flushed])",
    "copy.write_stream(0, self.stored",
    "self.appender.write_stream(",
    "copy.pool().fence([flushed])",
    "self.fence_with_map(flushed)",
    "Ok(self.pool.fence_all(&flushed)?)",
    "self.pool.fence([zeroed])",
    "self.pool.fence([head.flush(NEAR_AT..NEAR_AT + 8)])",
];

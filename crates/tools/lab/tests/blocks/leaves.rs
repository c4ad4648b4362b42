//! Interleaved leaves come back from every power cut that the lab looks at, and the lab notices every
//! flush and fence of theirs that is left out.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use halite_lab::blocks::leaves::{self, InterleavedLeaves};
use halite_lab::{Budget, Plan, Rules, check, mutate, place};

#[test]
fn leaves_survive_power_cuts() {
    for (rules, seeds) in [(Rules::Memory, 300), (Rules::PageCache, 150), (Rules::Platform, 100)] {
        let tally = check(&InterleavedLeaves, rules, 0..seeds);
        println!(
            "{}: {} crash points, {} distinct images, {} nested recoveries",
            rules.name(),
            tally.crash_points,
            tally.distinct.len(),
            tally.nested
        );
        assert!(tally.nested > 100);
    }
}

#[test]
fn every_call_of_the_leaves_is_missed_if_it_is_left_out() {
    let jobs = leaves::jobs(&[Rules::Memory, Rules::PageCache]);
    let plan = Plan { seed: 1, ..Plan::new(Budget::Histories(600)) };
    let score = mutate(&plan, &jobs, &|_| true, &|_| ());
    assert!(score.findings.is_empty(), "{:?}", score.findings);
    for verdict in &score.verdicts {
        let caught = verdict.caught.as_ref().map_or("SURVIVES", |finding| &finding.case);
        println!("{}: {caught}, {} histories", verdict.mutant, verdict.histories);
    }
    println!("mutation score: {} of {}", score.caught(), score.verdicts.len());
    assert_eq!(score.caught(), score.verdicts.len());

    let judged: BTreeSet<String> =
        score.verdicts.iter().map(|verdict| place(verdict.mutant.site)).collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/blocks/src/interleave");
    for entry in fs::read_dir(folder).expect("the source is there") {
        let path = entry.expect("the source is there").path();
        let text = fs::read_to_string(&path).expect("the source is text");
        let file = path.file_name().expect("a file has a name").display().to_string();
        let shipped = text.lines().take_while(|line| *line != "#[cfg(test)]");
        for (number, line) in (1..).zip(shipped) {
            let asks = CALLS.iter().any(|call| line.contains(call)) && !line.contains(INSIDE);
            let place = format!("crates/shared/blocks/src/interleave/{file}:{number}");
            assert!(!asks || judged.contains(&place), "never left out: {place}: {}", line.trim());
        }
    }
}

/// What asks for write-backs, or waits for them.
const CALLS: [&str; 7] = [
    ".order(",
    ".flush(",
    ".fence(",
    ".fence_into(",
    ".fence_found(",
    ".persist_stream(",
    "stream.write(",
];

/// The call of `group.rs` that waits.
const INSIDE: &str = "group.fence(";

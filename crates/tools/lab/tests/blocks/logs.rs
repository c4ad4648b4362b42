//! Logs under the lab: no power cut takes an acknowledged entry or makes one up, and every flush and
//! fence of every algorithm is missed if it is left out.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use halite_lab::blocks::logs::jobs;
use halite_lab::{Budget, Plan, Rules, explore, mutate, place};

const RULES: [Rules; 3] = [Rules::Memory, Rules::PageCache, Rules::Platform];

/// Histories of each job.
const HISTORIES: u64 = 12;

/// Histories in which a mutant may hide.
const HISTORIES_MAX: u64 = 1500;

#[test]
fn no_power_cut_takes_an_entry_or_makes_one_up() {
    let plan = Plan { seed: 1, ..Plan::new(Budget::Histories(HISTORIES)) };
    let report = explore(&plan, &jobs(&RULES), &|_| ());
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
    assert!(report.tally.crash_points > 1000, "{}", report.tally.crash_points);
    assert!(report.tally.nested > 100, "{}", report.tally.nested);
}

#[test]
fn every_call_is_missed_if_it_is_left_out() {
    let plan = Plan { seed: 1, ..Plan::new(Budget::Histories(HISTORIES_MAX)) };
    let score = mutate(&plan, &jobs(&RULES), &|_| true, &|_| ());
    assert!(score.findings.is_empty(), "{:?}", score.findings);
    let is_of_logs = |file: &str| file.contains("blocks/src/log/");
    let of_logs = score.verdicts.iter().filter(|verdict| is_of_logs(verdict.mutant.site.file()));
    let mut judged = BTreeSet::new();
    let mut survivors = 0;
    for verdict in of_logs {
        let caught = verdict.caught.as_ref().map_or("SURVIVES", |finding| &finding.case);
        println!("{}: {caught}, {} histories", verdict.mutant, verdict.histories);
        survivors += usize::from(verdict.caught.is_none());
        judged.insert(place(verdict.mutant.site));
    }
    println!("mutation score: {} of {}", judged.len() - survivors, judged.len());
    assert_eq!(survivors, 0);
    every_call_is_judged(&judged);
}

/// Every line of the logs that asks for a write-back, or waits for one, is among those left out.
fn every_call_is_judged(judged: &BTreeSet<String>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/blocks/src/log");
    let mut missing = Vec::new();
    for entry in fs::read_dir(folder).expect("the source is there") {
        let path = entry.expect("the source is there").path();
        let text = fs::read_to_string(&path).expect("the source is text");
        let file = format!("crates/shared/blocks/src/log/{}", path.file_name().unwrap().display());
        for (number, line) in (1..).zip(text.lines()) {
            let asks = CALLS.iter().any(|call| line.contains(call));
            let is_judged_by_its_callers = line.contains(INSIDE);
            if asks && !is_judged_by_its_callers && !judged.contains(&format!("{file}:{number}")) {
                missing.push(format!("{file}:{number}: {}", line.trim()));
            }
        }
    }
    assert!(missing.is_empty(), "never left out:\n{}", missing.join("\n"));
}

const CALLS: [&str; 9] = [
    ".order(",
    ".fence([",
    ".fence_found(",
    ".flush(",
    ".zero(",
    "streaming.write(",
    ".persist_entry(",
    "staging.persist(",
    ".persist_stream(",
];

/// The lines of `Staging::persist`, whose callers count as the calls.
const INSIDE: &str = "let persisted = ";

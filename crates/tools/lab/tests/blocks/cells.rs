//! Small cells in the crash lab: no crash spoils them, and each flush and fence of theirs is needed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use halite_lab::blocks::cells::jobs;
use halite_lab::{Budget, Plan, Rules, explore, mutate, place};

/// The source whose requests are left out.
const SOURCE: &str = "crates/shared/blocks/src/cell/";

/// Histories of each job.
const HISTORIES: u64 = 6;

/// Histories in which a mutant may hide.
const HISTORIES_MAX: u64 = 300;

const RULES: [Rules; 3] = [Rules::Memory, Rules::PageCache, Rules::Platform];

#[test]
fn cells_come_back_from_every_crash() {
    let plan = Plan { seed: 1, ..Plan::new(Budget::Histories(HISTORIES)) };
    let report = explore(&plan, &jobs(&RULES), &|_| ());
    assert!(report.findings.is_empty(), "{:#?}", report.findings.first());
    assert!(report.tally.crash_points > 1000, "{}", report.tally.crash_points);
    assert!(report.tally.nested > 100, "{}", report.tally.nested);
}

#[test]
fn every_flush_and_fence_is_missed_if_it_is_left_out() {
    let plan = Plan { seed: 1, ..Plan::new(Budget::Histories(HISTORIES_MAX)) };
    let score = mutate(&plan, &jobs(&RULES), &|_| true, &|_| ());
    assert!(score.findings.is_empty(), "{:#?}", score.findings.first());
    let own = |place: &str| place.starts_with(SOURCE);
    let mut judged = BTreeSet::new();
    let mut survivors = Vec::new();
    for verdict in score.verdicts.iter().filter(|verdict| own(&place(verdict.mutant.site))) {
        let caught = verdict.caught.as_ref().map_or("SURVIVES", |finding| &finding.case);
        println!("{}: {caught}, {} histories", verdict.mutant, verdict.histories);
        judged.insert(place(verdict.mutant.site));
        if verdict.caught.is_none() {
            survivors.push(verdict.mutant.to_string());
        }
    }
    assert!(survivors.is_empty(), "nobody needs {survivors:?}");
    let missing: Vec<_> = requests().filter(|place| !judged.contains(place)).collect();
    assert!(missing.is_empty(), "never left out: {missing:?}");
}

/// The lines that ask for a write-back or wait for one.
fn requests() -> impl Iterator<Item = String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let mut folders = vec![PathBuf::from(SOURCE)];
    let mut lines = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder)).expect("the source is there") {
            let name = folder.join(entry.expect("the source is there").file_name());
            if root.join(&name).is_dir() {
                folders.push(name);
                continue;
            }
            let text = fs::read_to_string(root.join(&name)).expect("the source is text");
            let asks = |line: &str| CALLS.iter().any(|call| line.contains(call));
            let asking = (1..).zip(text.lines()).filter(|(_, line)| asks(line));
            lines.extend(asking.map(|(number, _)| format!("{}:{number}", name.display())));
        }
    }
    lines.into_iter()
}

const CALLS: [&str; 5] = [".fence(", ".fence_found(", ".flush(", ".zero(", ".persist_stream("];

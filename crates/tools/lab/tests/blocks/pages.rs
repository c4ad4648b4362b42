//! Page stores come back from every power cut that the lab looks at, and each of their flushes, fences
//! and streamed ranges is missed if it is left out.

use std::sync::Arc;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use halite_blocks::page::{
    ChecksummedPages, CopyOnWrite, Hybrid, MicroLog, PageStore, SealedMicroLog,
};
use halite_lab::blocks::blocks_suite;
use halite_lab::blocks::pages::Pages;
use halite_lab::{Budget, Explorer, Job, Plan, Rules, Score, Subject, mutate, place};

/// Histories of each store, under each set of rules.
const HISTORIES: u64 = 30;

/// Histories in which a mutant may hide. Most show in the first.
const HISTORIES_MAX: u64 = 1500;

const RULES: [Rules; 3] = [Rules::Memory, Rules::PageCache, Rules::Platform];

fn survives<S: PageStore + 'static>(subject: &Pages<S>) {
    for rules in RULES {
        let mut explorer = Explorer::new(subject, rules, halite_lab::Effort::default());
        let histories =
            if halite_contract::lab::is_deep("blocks") { HISTORIES } else { HISTORIES / 3 };
        for seed in 0..histories {
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
        assert!(tally.nested > histories);
    }
}

#[test]
fn copy_on_write_survives() {
    survives(&Pages::<CopyOnWrite>::new("page-cow"));
}

#[test]
fn the_micro_log_survives() {
    survives(&Pages::<MicroLog>::new("page-micro-log"));
}

#[test]
fn the_sealed_micro_log_survives() {
    survives(&Pages::<SealedMicroLog>::new("page-micro-log-sealed"));
}

#[test]
fn the_hybrid_survives() {
    survives(&Pages::<Hybrid>::new("page-hybrid"));
}

#[test]
fn a_torn_page_is_told_and_never_returned() {
    survives(&Pages::<ChecksummedPages>::that_tells("page-checksum"));
}

#[test]
fn a_store_that_tears_pages_is_found_out() {
    let subject = Pages::<ChecksummedPages>::new("page-checksum-as-atomic");
    let mut explorer = Explorer::new(&subject, Rules::Memory, halite_lab::Effort::default());
    assert!((0..HISTORIES).any(|seed| explorer.explore(seed).is_some()));
}

#[test]
fn every_call_is_missed_if_it_is_left_out() {
    let jobs: Vec<Arc<dyn Job>> =
        blocks_suite(&RULES).into_iter().filter(|job| job.name().starts_with("page-")).collect();
    let plan = Plan { seed: 1, ..Plan::new(Budget::Histories(HISTORIES_MAX)) };
    let score = mutate(&plan, &jobs, &|_| true, &|_| ());
    assert!(score.findings.is_empty(), "{:?}", score.findings);
    let of_pages: Vec<_> = score
        .verdicts
        .iter()
        .filter(|verdict| place(verdict.mutant.site).starts_with("crates/shared/blocks/"))
        .collect();
    for verdict in &of_pages {
        let caught = verdict.caught.as_ref().map_or("SURVIVES", |finding| &finding.case);
        println!("{}: {caught}, {} histories", verdict.mutant, verdict.histories);
    }
    let caught = of_pages.iter().filter(|verdict| verdict.caught.is_some()).count();
    println!("mutation score: {caught} of {}", of_pages.len());
    assert_eq!(caught, of_pages.len());
    every_call_is_judged(&score);
}

/// Every line of the page stores that waits, or streams, is among those that were left out.
fn every_call_is_judged(score: &Score) {
    let places = score.verdicts.iter().map(|verdict| place(verdict.mutant.site));
    let judged: BTreeSet<String> = places.collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/blocks/src/page");
    let mut missing = Vec::new();
    for entry in fs::read_dir(folder).expect("the source is there") {
        let path = entry.expect("the source is there").path();
        let text = fs::read_to_string(&path).expect("the source is text");
        let file = format!("crates/shared/blocks/src/page/{}", path.file_name().unwrap().display());
        let shipped = text.lines().take_while(|line| *line != "#[cfg(test)]");
        for (number, line) in (1..).zip(shipped) {
            let asks = CALLS.iter().any(|call| line.contains(call));
            if asks && !judged.contains(&format!("{file}:{number}")) {
                missing.push(format!("{file}:{number}: {}", line.trim()));
            }
        }
    }
    assert!(missing.is_empty(), "never left out:\n{}", missing.join("\n"));
}

/// What asks for write-backs, or waits for them.
const CALLS: [&str; 7] = [
    ".order(",
    ".fence([",
    ".fence_found(",
    ".persist_stream(",
    "stream.write(",
    "space.flush(",
    "space.zero(",
];

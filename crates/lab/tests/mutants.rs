//! The mutation score of `pmem`, `alloc` and `indexlog`: every call that asks for a flush, a fence or a
//! sync is left out once, and the lab notices each.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use halite_indexlog::IndexLog;
use halite_lab::{Effort, Kind, Mutant, Mutants, Rules, Space, Store, Subject, Verdict};

/// What is looked at, cheapest first, with the seeds in which mutants are found.
const RULES: [Rules; 3] = [Rules::Memory, Rules::PageCache, Rules::FailedPlatform];
const KINDS: [&[Kind]; 5] =
    [&[Kind::Few], &[Kind::Mixed], &[Kind::Large], &[Kind::Blocks], &[Kind::Collecting]];
const SEEDS: u64 = 30;

/// Histories in which a mutant may hide from one kind of them.
const HISTORIES_MAX: u64 = 120;

/// Mutants by the call that is left out. A call is caught if it is caught under any rules: a fence of an
/// ordinary file is a sync, and of two words in one of its sectors the order needs none.
type Verdicts = BTreeMap<(String, u32, &'static str), Verdict>;

fn call(mutant: &Mutant) -> (String, u32, &'static str) {
    let what = if mutant.request.name() == "flush" { "flush" } else { "fence or sync" };
    let file = mutant.site.file();
    let file = &file[file.find("crates/").unwrap_or(0)..];
    (file.to_owned(), mutant.site.line(), what)
}

fn judge<S: Subject>(subject: &S, rules: Rules, verdicts: &mut Verdicts) {
    let mutants = Mutants::find(subject, rules, 0..SEEDS);
    for mutant in mutants.all() {
        // Where the platform fails, fences are nothing that it could leave out.
        if rules == Rules::FailedPlatform && mutant.request.name() != "sync" {
            continue;
        }
        let before = verdicts.get(&call(&mutant));
        if before.is_some_and(|verdict| verdict.caught.is_some()) {
            continue;
        }
        let (verdict, _) = mutants.judge(subject, mutant, &Effort::default(), HISTORIES_MAX);
        verdicts.insert(call(&mutant), verdict);
    }
}

fn engine(kinds: &'static [Kind]) -> impl Subject {
    Store::new("indexlog", |options| Ok(Arc::new(IndexLog::open(options)?))).with_kinds(kinds)
}

#[test]
fn every_call_is_missed_if_it_is_left_out() {
    let judged: Vec<Verdicts> = thread::scope(|scope| {
        let memory = scope.spawn(|| {
            let mut verdicts = Verdicts::new();
            judge(&Space, Rules::Memory, &mut verdicts);
            KINDS.iter().for_each(|kinds| judge(&engine(kinds), Rules::Memory, &mut verdicts));
            verdicts
        });
        let mut others = Verdicts::new();
        for rules in &RULES[1..] {
            judge(&Space, *rules, &mut others);
            // What only some of these would miss, the others find under the rules of memory.
            judge(&engine(&[Kind::Mixed]), *rules, &mut others);
        }
        vec![memory.join().expect("the verdicts"), others]
    });
    let mut verdicts = Verdicts::new();
    for (call, verdict) in judged.into_iter().flatten() {
        let known = verdicts.entry(call).or_insert_with(|| verdict.clone());
        if known.caught.is_none() {
            *known = verdict;
        }
    }
    for ((file, line, what), verdict) in &verdicts {
        let caught = verdict.caught.as_ref().map(|violation| violation.case.to_string());
        println!("{file}:{line} {what}: {}", caught.as_deref().unwrap_or("SURVIVES"));
    }
    let survivors = verdicts.values().filter(|verdict| verdict.caught.is_none()).count();
    println!("mutation score: {} of {}", verdicts.len() - survivors, verdicts.len());
    assert_eq!(survivors, 0);
    all_calls_are_judged(&verdicts);
}

/// Every line of the source that asks for a flush or a fence is among those that were left out.
fn all_calls_are_judged(verdicts: &Verdicts) {
    let judged: BTreeSet<(&str, u32)> =
        verdicts.keys().map(|(file, line, _)| (file.as_str(), *line)).collect();
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
                if asks && is_outside && !judged.contains(&(file.as_str(), number)) {
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
const INSIDE: [&str; 6] = [
    "words.pool().fence([words.flush(at..at + 8)])",
    "copy.write_stream(0, self.stored",
    "copy.pool().fence([flushed])",
    "self.fence_with_map(flushed)",
    "Ok(self.pool.fence_all(&flushed)?)",
    "self.pool.fence([zeroed])",
];

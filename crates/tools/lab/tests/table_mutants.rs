//! The mutation score of the testbed: every call of the engine `table` that asks for a flush, a fence or a sync is left out
//! once, under each recovery method, and the lab tells which of them it misses.
//!
//!     cargo test --release -p halite-lab --test table_mutants -- --ignored --nocapture
//!
//! `HALITE_LAB_MINUTES` sets for how long it looks, on all processors, and `HALITE_LAB_JOBS` with which jobs: those
//! whose names and rules begin with one of the words, which commas part. Of few jobs a mutant may survive that others
//! catch. A fence of the heap, a publication, and a sync of a log or of a file are those of the place in the engine that
//! asks for them; `mutants.rs` judges the heap's own. Without a flag, two methods of files are looked at.

mod cow_trees;
mod methods;
mod nonvolatile_tree;
mod testbed;

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cow_trees::Trees;
use halite_lab::{
    Budget, Effort, Exploration, Job, Plan, Replay, Rules, Score, Seen, Subject, mutate, place,
};
use halite_sim::{Request, Site};
use halite_table::Kind;
use methods::{
    CowStorage, InPStorage, LogStorage, Methods, NvmCowStorage, NvmInPStorage, NvmLogStorage,
};
use nonvolatile_tree::TreeInHeap;
use testbed::Partitions;

/// Minutes, if nothing else is asked for.
const MINUTES: u64 = 15;

/// Histories of a first look, in which a mutant may hide.
const HISTORIES_MAX: u64 = 100;

const SOURCE: &str = "crates/engines/table/src/";

/// Lines, by the ends of their files, whose requests no history needs, and why.
const BESIDE: [(&str, &str); 0] = [];

/// Whether a place, `file:line`, is in the engine, and not beside.
fn is_judged_here(place: &str) -> bool {
    let (file, number) = place.rsplit_once(':').expect("a place is a file and a line");
    if !file.starts_with(SOURCE) {
        return false;
    }
    let text = source(file);
    let number: usize = number.parse().expect("lines are counted");
    let line = text.lines().nth(number - 1).expect("the line is there");
    !BESIDE.iter().any(|(end, call)| file.ends_with(end) && line.trim_start().starts_with(call))
}

/// The text of a file, by its path from the workspace's root.
fn source(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(file);
    fs::read_to_string(path).expect("the source is text")
}

/// A job of which a history has few images: a recovery of a heap makes many events, and another recovery behind each is
/// seldom the one that shows a mutant.
struct Shallow(Arc<dyn Job>);

impl Job for Shallow {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn rules(&self) -> Rules {
        self.0.rules()
    }

    fn share(&self) -> u64 {
        self.0.share()
    }

    fn look(
        &self,
        seeds: &mut dyn Iterator<Item = u64>,
        effort: &Effort,
        without: Option<(Site, Request)>,
    ) -> Seen {
        let effort = Effort {
            history_images_max: effort.history_images_max / 10,
            nested_images_max: [2, 2],
            nested_percent: [effort.nested_percent[0] / 4, 1],
            ..effort.clone()
        };
        self.0.look(seeds, &effort, without)
    }

    fn replay(
        &self,
        case: &str,
        effort: &Effort,
        without: Option<(Site, Request)>,
    ) -> Result<Replay, String> {
        self.0.replay(case, effort, without)
    }
}

fn job<S: Subject + Send + 'static>(subject: S, rules: Rules) -> Arc<dyn Job> {
    Arc::new(Shallow(Arc::new(Exploration::new(subject, rules, 1))))
}

/// The jobs of all methods, each under the rules of its medium.
fn jobs() -> Vec<Arc<dyn Job>> {
    let mut jobs = Vec::new();
    for rules in [Rules::Memory, Rules::PageCache] {
        jobs.push(job(Methods::<NvmInPStorage>::NEW, rules));
        jobs.push(job(Methods::<NvmCowStorage>::NEW, rules));
        jobs.push(job(Methods::<NvmLogStorage>::NEW, rules));
        jobs.push(job(TreeInHeap, rules));
        jobs.push(job(Partitions::of(Kind::NvmInP), rules));
    }
    for rules in [Rules::PageCache, Rules::FailingSyncs] {
        jobs.push(job(Methods::<InPStorage>::NEW, rules));
        jobs.push(job(Methods::<CowStorage>::NEW, rules));
        jobs.push(job(Methods::<LogStorage>::NEW, rules));
        jobs.push(job(Methods::<LogStorage>::killed("table:log-killed"), rules));
        jobs.push(job(Trees, rules));
        for kind in [Kind::InP, Kind::Cow, Kind::Log] {
            jobs.push(job(Partitions::of(kind), rules));
        }
    }
    jobs
}

/// Fails if a mutant survives.
fn all_are_caught(score: &Score) {
    let mut survivors = Vec::new();
    for verdict in &score.verdicts {
        let caught = verdict.caught.as_ref().map_or("SURVIVES", |finding| &finding.case);
        println!(
            "{}: {caught}, {} histories, {:?}",
            verdict.mutant, verdict.histories, verdict.time
        );
        if verdict.caught.is_none() {
            survivors.push(verdict.mutant.to_string());
        }
    }
    println!("{} of {} are caught, in {:?}", score.caught(), score.verdicts.len(), score.elapsed);
    assert!(score.findings.is_empty(), "{:?}", score.findings);
    assert!(survivors.is_empty(), "no history needs {survivors:?}");
}

/// Leaves out each sync that a part of the engine asks for, of which there are so many.
fn every_sync_is_missed<S: Subject + Send + 'static>(subject: S, part: &str, syncs: usize) {
    let plan = Plan { seed: 1, ..Plan::new(Budget::Histories(HISTORIES_MAX)) };
    let part = format!("{SOURCE}{part}");
    let is_ours = |site| place(site).starts_with(&part);
    let score = mutate(
        &plan,
        &[Arc::new(Exploration::new(subject, Rules::PageCache, 1))],
        &is_ours,
        &|_| (),
    );
    all_are_caught(&score);
    // Every request that a history reaches was judged.
    let judged: BTreeSet<_> =
        score.verdicts.iter().map(|verdict| place(verdict.mutant.site)).collect();
    assert!(judged.len() >= syncs, "{judged:?}");
}

#[test]
fn what_is_judged_beside_is_there() {
    for (file, call) in BESIDE {
        assert!(source(&format!("{SOURCE}{file}")).contains(call), "{call} is gone from {file}");
    }
}

#[test]
fn every_sync_of_the_trees_is_missed_if_it_is_left_out() {
    every_sync_is_missed(Trees, "index/cow_file/", 5);
}

#[test]
fn every_sync_of_inp_is_missed_if_it_is_left_out() {
    every_sync_is_missed(Methods::<InPStorage>::NEW, "method/", 3);
}

#[test]
#[ignore = "takes a quarter of an hour"]
fn every_call_is_missed_if_it_is_left_out() {
    let minutes = env::var("HALITE_LAB_MINUTES").ok().and_then(|text| text.parse().ok());
    let mut jobs = jobs();
    let of_jobs = env::var("HALITE_LAB_JOBS").unwrap_or_default();
    jobs.retain(|job| of_jobs.split(',').any(|begin| job.label().starts_with(begin)));
    let budget = Budget::Time(Duration::from_secs_f64(60.0 * minutes.unwrap_or(MINUTES as f64)));
    let plan = Plan { seed: 1, ..Plan::new(budget) };
    all_are_caught(&mutate(&plan, &jobs, &|site| is_judged_here(&place(site)), &|_| ()));
}

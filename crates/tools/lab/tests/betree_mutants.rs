//! The mutation score of the Bε-tree engine: every call that asks for a flush, a fence or a sync is left out once, in the
//! engine, its vdevs and its log, and the lab tells which of them it misses.
//!
//!     cargo test --release -p halite-lab --test betree_mutants -- --ignored --nocapture
//!
//! `HALITE_LAB_MINUTES` sets for how long it looks, on all processors, and `HALITE_LAB_JOBS` with which jobs: those
//! whose names and rules begin with one of the words, which commas part. Of few jobs a mutant may survive that others
//! catch. A sync of the devices, or of the log, is that of the place in the engine that asks for it.

mod betree_pools;

use std::env;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use betree_pools::POOLS;
use halite_lab::{
    Budget, Effort, Exploration, Job, Plan, Replay, Rules, Seen, mutate, place, suite,
};
use halite_sim::{Request, Site};

/// Minutes, if nothing else is asked for.
const MINUTES: u64 = 15;

/// The jobs, by what their names begin with.
const SHORT: [&str; 2] = ["betree-few", "betree-pool-"];

/// The sources of the engine and of its vdevs. The log in files is judged by `lsm_mutants.rs`, and that in the pool by
/// `crates/shared/wal/tests/pool_log_crashes.rs`; a sync of theirs that the engine asks for counts as the engine's.
const SOURCES: [&str; 2] = ["crates/engines/betree/src/", "crates/shared/vdev/src/"];

/// Lines, by the ends of their files, whose requests no history here needs, and why.
const BESIDE: [(&str, &str); 14] = [
    // The file of devices is a hint: the superblock of any leaf says the same, and is believed.
    ("betree/src/devices/hint.rs", "writer.sync()?;"),
    ("betree/src/devices/hint.rs", "disk.sync()"),
    // The names of the devices' files, or of the hint, are synced behind the removal of an older log, in the same folder.
    ("betree/src/devices/mod.rs", "disk.sync().map_err(Arc::new)?;"),
    // A flush shows readers what it takes. The checkpoint behind it syncs the log, too: only a thread that reads in between
    // sees more than is durable.
    ("betree/src/store/flush.rs", "self.log.sync()"),
    // The flush before a checkpoint has synced the log, but for commits of other threads in between.
    ("betree/src/store/checkpoint.rs", "self.log.sync()"),
    // The checkpoint behind a resilver syncs, too, before its label says that the leaf has everything. This sync lets the
    // report say whether the leaf took it: the tests of `pass` notice if it is gone.
    ("betree/src/pass/mod.rs", "storage.sync()?;"),
    // A store that says that it was closed is opened as any other.
    ("betree/src/store/mod.rs", "self.home.pool().sync_file()?;"),
    // The sync of the data, before the next label, makes the cleared slots durable.
    ("vdev/src/label/ring.rs", "if is_clean { Ok(()) } else { leaf.sync("),
    // A file whose labels are not durable is too short for them, or has the zeros of a new file: the store is made again.
    ("vdev/src/leaf/file.rs", ".and_then(|()| self.file.sync())"),
    // A segment whose zeros are lost has what it had before, which only the labels of a pool could be mistaken for.
    ("vdev/src/leaf/pmem.rs", "let zeroed = labels.zero("),
    ("vdev/src/leaf/pmem.rs", "labels.pool().fence([zeroed])?;"),
    // A label that a killed process wrote and did not sync, and that a cut behind the next opening takes back: the older one
    // leads to blocks that are free since, and no history here writes these again before the next checkpoint makes the label
    // durable. `crates/shared/vdev/tests/power_cuts.rs` has such histories, and notices both.
    ("vdev/src/leaf/file.rs", "leaf.file.sync()?;"),
    ("vdev/src/leaf/pmem.rs", "labels.pool().fence_found(&[labels.flush("),
    // A repair that is lost is made again by the next reader that finds the damage.
    ("vdev/src/leaf/pmem.rs", "self.pool.fence([flushed])?;"),
];

/// Whether a place, `file:line`, is in the engine or its vdevs, and not beside.
fn is_judged_here(place: &str) -> bool {
    let (file, number) = place.rsplit_once(':').expect("a place is a file and a line");
    if !SOURCES.iter().any(|part| file.starts_with(part)) {
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

#[test]
fn what_is_judged_beside_is_there() {
    for (file, call) in BESIDE {
        let found = ["crates/engines", "crates/shared"].map(|folder| format!("{folder}/{file}"));
        let found = found.iter().find(|file| is_there(file)).expect("the file is there");
        assert!(source(found).contains(call), "{call} is gone from {file}");
    }
}

fn is_there(file: &str) -> bool {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(file).exists()
}

/// A job of which a history has few images: a recovery of this engine makes many events, and another recovery behind each
/// is seldom the one that shows a mutant.
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
            nested_percent: [effort.nested_percent[0] / 2, 1],
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

#[test]
#[ignore = "takes a quarter of an hour"]
fn every_call_is_missed_if_it_is_left_out() {
    let minutes = env::var("HALITE_LAB_MINUTES").ok().and_then(|text| text.parse().ok());
    let rules = [Rules::Memory, Rules::PageCache, Rules::FailingSyncs];
    let mut jobs = suite(&halite_betree::REGISTRATION, &rules);
    for pools in POOLS {
        for rules in rules {
            jobs.push(Arc::new(Exploration::new(pools, rules, 1)) as Arc<dyn Job>);
        }
    }
    // Those that take long show little that these do not, and the allocators have a score of their own.
    jobs.retain(|job| SHORT.iter().any(|kind| job.name().starts_with(kind)));
    let of_jobs = env::var("HALITE_LAB_JOBS").unwrap_or_default();
    jobs.retain(|job| of_jobs.split(',').any(|begin| job.label().starts_with(begin)));
    let jobs: Vec<_> = jobs.into_iter().map(|job| Arc::new(Shallow(job)) as Arc<dyn Job>).collect();
    let budget = Budget::Time(Duration::from_secs_f64(60.0 * minutes.unwrap_or(MINUTES as f64)));
    let plan = Plan { seed: 1, ..Plan::new(budget) };
    let score = mutate(&plan, &jobs, &|site| is_judged_here(&place(site)), &|_| ());
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

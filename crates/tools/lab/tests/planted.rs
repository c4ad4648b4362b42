//! The lab finds bugs: classic ones, planted in the code that ships, each within its budget.
//!
//!     RUSTFLAGS="--cfg halite_planted" cargo test --release -p halite-lab --test planted \
//!         --target-dir target/planted
#![cfg(halite_planted)]

mod small_stores;

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::Instant;

use halite_blocks::page::CopyOnWrite;
use halite_lab::blocks::pages::Pages;
use halite_lab::{Effort, Explorer, Kind, Opener, Rules, Space, Store, Subject, Tally, Violation};
use halite_sim::planted::Bug;
use small_stores::SmallStore;

/// The store whose histories are explored: those of the seeds from 0 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Histories {
    Space,
    Objects,
    Pages,
    /// Tiny stores that keep files.
    Files(SmallStore),
    Store(Kind),
    /// Stores with three partitions.
    Partitions,
    /// Stores with a change log.
    Changes(Kind),
    /// Stores with snapshots of the index.
    Snapshots(Kind),
    /// Stores of the LSM engine with so many trees.
    Lsm(usize, Kind),
    /// The LSM engine with a log.
    LsmLog(Kind),
}

/// The place of a bug, and the means by which it must be found.
struct Plan {
    /// The file of the crates' sources.
    place: &'static str,
    histories: Histories,
    rules: Rules,
    /// Histories that it may take.
    budget: u64,
}

fn plan(bug: Bug) -> Plan {
    use Histories::{
        Changes, Files, Lsm, LsmLog, Objects, Pages, Partitions, Snapshots, Space, Store,
    };
    use Kind::{Blocks, Collecting, Few, Large, Levels, Mixed, Unsynced};
    use Rules::{FailingSyncs, Memory, PageCache, Platform};
    use SmallStore::{Logged, Noted, Renamed};
    let (place, histories, rules, budget) = match bug {
        Bug::FlushRoundedDown => ("pmem/src/pool.rs", Space, Memory, 10),
        Bug::WordStoredInHalves => ("pmem/src/words.rs", Space, Memory, 10),
        Bug::FileNamedBeforeSynced => ("pmem/src/pool.rs", Space, Memory, 10),
        Bug::FolderNotSynced => ("pmem/src/pool.rs", Space, Memory, 10),
        Bug::GrowthNotSynced => ("pmem/src/pool.rs", Space, Memory, 20),
        Bug::SyncMissesLastRange => ("pmem/src/file.rs", Space, PageCache, 10),
        Bug::FoundBytesNotSynced => ("pmem/src/pool.rs", Store(Few), PageCache, 20),
        Bug::FoundBytesTakenForDirty => ("pmem/src/pool.rs", Store(Few), FailingSyncs, 20),
        Bug::FailedSyncRepeated => ("pmem/src/syncs.rs", Store(Few), FailingSyncs, 10),
        Bug::NamesNotSynced => ("disk/src/disk.rs", Files(Noted), Memory, 10),
        Bug::RenamedInTwoSteps => ("disk/src/disk.rs", Files(Renamed), Memory, 10),
        Bug::SyncedWithoutBuffer => ("disk/src/writer.rs", Files(Logged), Memory, 10),
        Bug::FailedFileSyncRepeated => ("disk/src/writer.rs", Files(Logged), FailingSyncs, 10),
        Bug::FoundFileTakenForDirty => ("disk/src/memory.rs", Files(Logged), FailingSyncs, 20),
        Bug::PagesFlushedAfterFailure => ("blocks/src/page/ground.rs", Pages, FailingSyncs, 60),
        Bug::CachesMakeFencesNeedless => ("pmem/src/pool.rs", Store(Few), Platform, 10),
        Bug::SuperblockCopiesFencedTogether => ("alloc/src/superblock.rs", Space, Memory, 10),
        Bug::GoodSuperblockWrittenFirst => ("alloc/src/superblock.rs", Space, Memory, 10),
        Bug::GrowthAnnouncedBeforeLength => ("alloc/src/segments.rs", Space, Memory, 10),
        Bug::FlushBeforeStore => ("alloc/src/table.rs", Space, Memory, 10),
        Bug::SegmentReusedBeforeReleased => ("alloc/src/table.rs", Space, Memory, 30),
        Bug::PoolSegmentBeforeItsWords => ("alloc/src/object_pool.rs", Objects, Memory, 20),
        Bug::ObjectReusedBeforeReleased => ("alloc/src/object_pool.rs", Objects, Memory, 20),
        Bug::ChecksumOverHeader => ("blocks/src/log/frame.rs", Store(Few), Memory, 10),
        Bug::ChecksumWithoutLife => ("indexlog/src/record.rs", Store(Few), Memory, 20),
        Bug::SixteenBytesAtOnce => ("blocks/src/log/frame.rs", Store(Few), Memory, 10),
        Bug::BatchWithoutItsEnd => ("indexlog/src/recovery/log_end.rs", Store(Few), Memory, 10),
        Bug::RecordsBehindGap => ("indexlog/src/recovery/log_end.rs", Store(Blocks), Memory, 30),
        Bug::CutBlocksFreedOldestFirst => {
            ("indexlog/src/recovery/kept.rs", Store(Blocks), Memory, 100)
        }
        Bug::KilledProcessTrusted => ("indexlog/src/recovery/kept.rs", Store(Blocks), Memory, 30),
        Bug::CutKeptBeforeDropped => ("indexlog/src/recovery/kept.rs", Store(Blocks), Memory, 30),
        Bug::BatchCutInOnePartition => ("indexlog/src/recovery/log_end.rs", Partitions, Memory, 30),
        Bug::BatchKeptInParts => ("indexlog/src/recovery.rs", Partitions, Memory, 30),
        Bug::BlockLifeLivedTwice => ("indexlog/src/space/blocks.rs", Store(Few), Memory, 60),
        Bug::AcknowledgedBeforeFence => ("indexlog/src/write.rs", Store(Few), Memory, 10),
        Bug::ChangeBeforeFence => ("indexlog/src/log/append.rs", Changes(Few), Memory, 10),
        Bug::ReplaySkipsLast => ("indexlog/src/change_log/replay.rs", Changes(Few), Memory, 10),
        Bug::ChangesReleasedBeforeRecords => {
            ("indexlog/src/change_log.rs", Changes(Collecting), Memory, 30)
        }
        Bug::RecordsBehindChanges => ("indexlog/src/recovery/log_end.rs", Changes(Few), Memory, 60),
        Bug::DeferredTakenForDurable => ("indexlog/src/log/append.rs", Store(Few), Memory, 10),
        Bug::SealedBeforeRecords => ("indexlog/src/log/append.rs", Store(Blocks), Memory, 30),
        Bug::OpenBlocksUnknown => ("indexlog/src/log/append.rs", Store(Unsynced), Memory, 30),
        Bug::TailBeforeRecord => {
            ("indexlog/src/collection/moving.rs", Store(Collecting), Memory, 30)
        }
        Bug::VictimFreedBeforeCovered => {
            ("indexlog/src/space/release.rs", Store(Collecting), Memory, 30)
        }
        Bug::BlockReusedBeforeFreed => {
            ("indexlog/src/space/release.rs", Store(Collecting), Memory, 120)
        }
        Bug::TombstoneForgotten => {
            ("indexlog/src/storage/liveness.rs", Store(Collecting), Memory, 60)
        }
        Bug::TornValueTaken => ("indexlog/src/recovery/open_block.rs", Store(Large), Memory, 10),
        Bug::ValueReusedBeforeProved => {
            ("indexlog/src/space/release.rs", Store(Large), Memory, 200)
        }
        Bug::SnapshotBeforeSync => {
            ("indexlog/src/index_snapshot/capture.rs", Snapshots(Blocks), Memory, 60)
        }
        Bug::SnapshotTrustsReusedBlock => {
            ("indexlog/src/index_snapshot/read.rs", Snapshots(Collecting), Memory, 60)
        }
        Bug::SnapshotForgetsTail => {
            ("indexlog/src/index_snapshot/read.rs", Snapshots(Few), Memory, 10)
        }
        Bug::ValueFreedBeforeReplaced => ("indexlog/src/space/limbo.rs", Store(Large), Memory, 120),
        Bug::CommitIdBeforeData => ("lsm/src/commit.rs", Lsm(2, Few), Memory, 20),
        Bug::GidxBeforeData => ("lsm/src/commit.rs", Lsm(1, Few), Memory, 10),
        Bug::FragmentMissing => ("lsm/src/recovery.rs", Lsm(2, Few), Memory, 20),
        Bug::TailNotZeroed => ("lsm/src/recovery.rs", Lsm(1, Few), Memory, 60),
        Bug::RollFailureForgiven => ("lsm/src/commit.rs", Lsm(2, Few), FailingSyncs, 20),
        Bug::LevelsAheadOfCommitId => ("lsm/src/flush.rs", Lsm(1, Mixed), Memory, 20),
        Bug::LogRemovedBeforeTable => ("lsm/src/flush.rs", LsmLog(Mixed), Memory, 20),
        Bug::EditNotSynced => ("lsm/src/levels/manifest.rs", Lsm(1, Levels), Memory, 20),
        Bug::CurrentBeforeManifest => ("lsm/src/levels/manifest.rs", Lsm(1, Levels), Memory, 20),
        Bug::TableNamedBeforeSynced => ("sst/src/table_builder.rs", Lsm(1, Levels), Memory, 20),
        Bug::TableNamesNotSynced => ("lsm/src/levels/commit.rs", Lsm(1, Levels), Memory, 20),
        Bug::TornLogTaken => ("wal/src/batch.rs", LsmLog(Few), Memory, 10),
    };
    Plan { place, histories, rules, budget }
}

impl Histories {
    fn name(self) -> String {
        match self {
            Self::Space => "the manager of segments".to_owned(),
            Self::Objects => "object pools and zones".to_owned(),
            Self::Pages => "pages, copied on write".to_owned(),
            Self::Files(store) => format!("files, {store:?}"),
            Self::Store(kind) => format!("indexlog, {kind:?}"),
            Self::Partitions => "indexlog, 3 partitions".to_owned(),
            Self::Changes(kind) => format!("indexlog with a change log, {kind:?}"),
            Self::Snapshots(kind) => format!("indexlog with snapshots of the index, {kind:?}"),
            Self::Lsm(1, kind) => format!("lsm, {kind:?}"),
            Self::Lsm(trees, kind) => format!("lsm, {trees} trees, {kind:?}"),
            Self::LsmLog(kind) => format!("lsm with a log, {kind:?}"),
        }
    }

    /// Looks at the histories of the first seeds, up to a violation; replays that.
    fn explore(self, rules: Rules, look: Look) -> (Option<Violation>, Tally) {
        let kinds: &'static [Kind] = match self {
            Self::Space => return explore(&Space, rules, look),
            Self::Files(store) => return explore(&store, rules, look),
            Self::Objects => return explore(&halite_lab::Objects, rules, look),
            Self::Pages => {
                return explore(&Pages::<CopyOnWrite>::new("page-cow"), rules, look);
            }
            Self::Partitions => {
                let subject = indexlog("indexlog-partitions", &[Kind::Few, Kind::Mixed]);
                return explore(&subject.with_partitions(3), rules, look);
            }
            Self::Lsm(trees, kind) => {
                let name = if trees == 1 { "lsm-mixed" } else { "lsm-trees-mixed" };
                return explore(&lsm(name, kind).with_partitions(trees), rules, look);
            }
            Self::LsmLog(kind) => return explore(&lsm("lsm-log-mixed", kind), rules, look),
            Self::Store(kind) | Self::Changes(kind) | Self::Snapshots(kind) => only(kind),
        };
        let name = match self {
            Self::Changes(_) => "indexlog-changes",
            Self::Snapshots(_) => "indexlog-snapshots",
            _ => "indexlog-mixed",
        };
        explore(&indexlog(name, kinds), rules, look)
    }
}

/// Histories of one kind.
fn only(kind: Kind) -> &'static [Kind] {
    match kind {
        Kind::Few => &[Kind::Few],
        Kind::Mixed => &[Kind::Mixed],
        Kind::Blocks => &[Kind::Blocks],
        Kind::Large => &[Kind::Large],
        Kind::Collecting => &[Kind::Collecting],
        Kind::Segments => &[Kind::Segments],
        Kind::Zones => &[Kind::Zones],
        Kind::Levels => &[Kind::Levels],
        Kind::Unsynced => &[Kind::Unsynced],
    }
}

fn indexlog(name: &str, kinds: &'static [Kind]) -> Store<Opener> {
    Store::of(&halite_indexlog::REGISTRATION, name).with_kinds(kinds)
}

fn lsm(name: &str, kind: Kind) -> Store<Opener> {
    Store::of(&halite_lsm::REGISTRATION, name).with_kinds(only(kind))
}

/// How far histories are looked at.
#[derive(Debug, Clone, Copy)]
struct Look {
    /// How many.
    histories: u64,
    /// Recoveries after which no other history is begun.
    recoveries_max: u64,
    /// Images of a history, about.
    images_max: u64,
}

impl Look {
    /// Returns the effort for a bug: of each history less than usual, for the sake of more of them.
    fn search(budget: u64) -> Self {
        Self { histories: budget, recoveries_max: u64::MAX, images_max: 700 }
    }

    /// Returns the effort for a violation without a bug: the campaigns and the other tests look at the same histories
    /// for longer.
    fn control(budget: u64) -> Self {
        Self { histories: budget, recoveries_max: 10_000, images_max: 300 }
    }

    fn effort(self) -> Effort {
        Effort { history_images_max: self.images_max, ..Effort::default() }
    }
}

fn explore<S: Subject>(subject: &S, rules: Rules, look: Look) -> (Option<Violation>, Tally) {
    let mut explorer = Explorer::new(subject, rules, look.effort());
    let mut found = None;
    for seed in 0..look.histories {
        found = explorer.explore(seed);
        if found.is_some() || explorer.tally.recoveries > look.recoveries_max {
            break;
        }
    }
    if let Some(violation) = &found {
        let (story, what) = Explorer::new(subject, rules, look.effort()).replay(&violation.case);
        assert!(what.is_some(), "{} does not show it again: {}", violation.case, violation.what);
        if Bug::ALL.iter().all(|bug| !bug.is_there()) {
            println!("{}", story.join("\n"));
        }
    }
    (found, explorer.tally)
}

/// The bugs; with `HALITE_LAB_BUGS`, those of the files whose paths have that in them.
fn bugs() -> impl Iterator<Item = Bug> {
    let places = std::env::var("HALITE_LAB_BUGS").unwrap_or_default();
    Bug::ALL.iter().copied().filter(move |bug| plan(*bug).place.contains(&places))
}

#[test]
fn every_planted_bug_is_found_within_its_budget() {
    let mut missed = Vec::new();
    println!("| bug | where | histories of | rules | it took | the violation |");
    println!("|---|---|---|---|---|---|");
    for bug in bugs() {
        let Plan { place, histories, rules, budget } = plan(bug);
        let start = Instant::now();
        let (found, tally) = bug.during(|| histories.explore(rules, Look::search(budget)));
        let shown = match &found {
            Some(violation) => format!("{}: {}", violation.case, violation.what),
            None => "**missed**".to_owned(),
        };
        println!(
            "| {bug:?} | {place} | {} | {} | {} of {budget} histories, {} recoveries, {:.1?} | {shown} |",
            histories.name(),
            rules.name(),
            tally.histories,
            tally.recoveries,
            start.elapsed(),
        );
        if found.is_none() {
            missed.push(bug);
        }
    }
    assert!(missed.is_empty(), "within their budgets these are not found: {missed:?}");
}

#[test]
fn without_a_planted_bug_the_same_histories_are_right() {
    let mut explored: Vec<(Histories, Rules, u64)> = Vec::new();
    for bug in bugs() {
        let Plan { histories, rules, budget, .. } = plan(bug);
        match explored.iter_mut().find(|(of, under, _)| (*of, *under) == (histories, rules)) {
            Some((_, _, count)) => *count = budget.max(*count),
            None => explored.push((histories, rules, budget)),
        }
    }
    for (histories, rules, count) in explored {
        let start = Instant::now();
        let (found, tally) = histories.explore(rules, Look::control(count));
        let (of, under, recoveries) = (histories.name(), rules.name(), tally.recoveries);
        let seen = tally.histories;
        println!(
            "{of}, {under}: {seen} of {count} histories, {recoveries} recoveries, {:.1?}",
            start.elapsed()
        );
        if let Some(violation) = found {
            panic!("{}: {}: {}", histories.name(), violation.case, violation.what);
        }
        assert!(recoveries > seen, "{recoveries} recoveries of {seen} histories");
    }
}

/// A file of the crates' sources, by its crate and its path there, on whichever floor the crate is.
fn source(place: &str) -> String {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let floors =
        fs::read_dir(crates).expect("the floors").map(|floor| floor.expect("a floor").path());
    let file = floors.map(|floor| floor.join(place)).find(|file| file.exists());
    fs::read_to_string(file.expect("the catalogue names a file")).expect("the source is text")
}

#[test]
fn every_bug_is_planted_where_the_catalogue_says() {
    for &bug in Bug::ALL {
        let source: String =
            source(plan(bug).place).chars().filter(|char| !char.is_whitespace()).collect();
        let is_there =
            [",", ")"].iter().any(|end| source.contains(&format!("planted!({bug:?}{end}")));
        assert!(is_there, "{bug:?} is not in {}", plan(bug).place);
    }
}

#[test]
fn the_documented_catalogue_is_this_one() {
    let mut table = format!(
        "# Planted bugs\n\n\
         {} classic bugs of persistent memory are planted in the code that ships, compiled in under\n\
         `--cfg halite_planted` only, and one at a time chosen by the crash lab's test of itself:\n\n    \
         RUSTFLAGS=\"--cfg halite_planted\" cargo test --release -p halite-lab --test planted \\\n        \
         --target-dir target/planted\n\n\
         The lab must find each within a budget of histories, from seed 0 on, and must find nothing in\n\
         the same histories without one, as far as some thousand recoveries of them go. The test\n\
         compares this page with its catalogue.\n\n\
         | bug | what is wrong | where | histories of | rules | budget |\n|---|---|---|---|---|---|\n",
        Bug::ALL.len()
    );
    for &bug in Bug::ALL {
        let (Plan { place, histories, rules, budget }, what) = (plan(bug), bug.what());
        let (of, under) = (histories.name(), rules.name());
        writeln!(table, "| `{bug:?}` | {what} | `{place}` | {of} | {under} | {budget} |").unwrap();
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/PLANTED_BUGS.md");
    let written = fs::read_to_string(&page).unwrap_or_default();
    assert!(written == table, "{} should be:\n{table}", page.display());
}

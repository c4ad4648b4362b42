//! The jobs for an engine: its histories of every kind, and the manager of segments and the pools of
//! objects below it, under every set of rules.

use std::sync::Arc;

use halite_contract::{CommitPoints, Durable, Engine, EngineOptions, Partitioning};

use crate::job::{Concurrency, Exploration, Job, Striking};
use crate::media::Unseen;
use crate::{Kind, LsmPlan, Objects, Rules, Space, Store};

/// The kinds of histories, the cheap ones first, each with its name and its part of the time.
const KINDS: [(&str, &[Kind], u64); 6] = [
    ("few", &[Kind::Few], 3),
    ("mixed", &[Kind::Mixed], 3),
    ("blocks", &[Kind::Blocks], 2),
    ("large", &[Kind::Large], 1),
    ("collecting", &[Kind::Collecting], 2),
    ("unsynced", &[Kind::Unsynced], 1),
];

/// The part of the time that is for concurrent histories.
const THREADS_SHARE: u64 = 2;

/// The part of the time that is for stores with partitions.
const PARTITIONS_SHARE: u64 = 3;

/// The part of the time that is for stores with a change log, with one partition and with several.
const CHANGES_SHARE: u64 = 4;

/// The part of the time that is for stores with snapshots of the index.
const SNAPSHOTS_SHARE: u64 = 3;

/// Bytes that the stores write between two snapshots, besides the snapshots that are requested.
const SNAPSHOT_EVERY: u64 = 256 << 10;

/// The part of the time that is for the manager of segments, and for the pools of objects in them.
const SPACE_SHARE: u64 = 2;

/// The jobs for the allocators that every engine uses: the manager of segments, and the pools of objects and the zones
/// in them. They are called `alloc` and `objects`.
#[must_use]
pub fn space_suite(rules: &[Rules]) -> Vec<Arc<dyn Job>> {
    let mut jobs: Vec<Arc<dyn Job>> = Vec::new();
    for &rules in rules {
        jobs.push(Arc::new(Exploration::new(Space, rules, SPACE_SHARE * weight(rules))));
        jobs.push(Arc::new(Exploration::new(Objects, rules, SPACE_SHARE * weight(rules))));
    }
    jobs
}

/// The jobs for the engine that `open` opens, the cheap ones first. An engine's are called by its name
/// and the kind: `indexlog-few`.
pub fn suite<F>(engine: &str, open: F, rules: &[Rules]) -> Vec<Arc<dyn Job>>
where
    F: Fn(&EngineOptions) -> halite_contract::Result<Arc<dyn Engine>>
        + Send
        + Sync
        + Clone
        + 'static,
{
    let mut jobs = space_suite(rules);
    for (kind, kinds, share) in KINDS {
        for &rules in rules {
            let name = format!("{engine}-{kind}");
            let subject = Store::new(&name, open.clone()).with_kinds(kinds);
            jobs.push(Arc::new(Exploration::new(subject, rules, share * weight(rules))));
        }
    }
    for &rules in rules {
        let subject = partitioned(engine, &open).with_kinds(&[Kind::Few, Kind::Mixed]);
        jobs.push(Arc::new(Exploration::new(subject, rules, PARTITIONS_SHARE * weight(rules))));
    }
    for &rules in rules {
        // They take segments from each other, and give them back.
        let subject = partitioned(&format!("{engine}-space"), &open);
        let subject = subject.with_kinds(&[Kind::Large, Kind::Collecting]);
        jobs.push(Arc::new(Exploration::new(subject, rules, weight(rules))));
    }
    for &rules in rules {
        // The change log retains no segment, so that segments are released as soon as possible.
        let subjects = [
            Store::new(&format!("{engine}-changes"), open.clone()),
            partitioned(&format!("{engine}-changes"), &open).with_kinds(&[Kind::Few, Kind::Mixed]),
        ];
        for subject in subjects {
            let (subject, share) = (subject.with_change_log(0), CHANGES_SHARE * weight(rules));
            jobs.push(Arc::new(Exploration::new(subject, rules, share)));
        }
    }
    for &rules in rules {
        let subject = Store::new(&format!("{engine}-snapshots"), open.clone());
        let subject = subject
            .with_kinds(&[Kind::Mixed, Kind::Blocks, Kind::Collecting])
            .with_index_snapshots(SNAPSHOT_EVERY);
        jobs.push(Arc::new(Exploration::new(subject, rules, SNAPSHOTS_SHARE * weight(rules))));
    }
    for rules in rules.iter().copied().filter(|rules| *rules == Rules::Memory) {
        let subject = Store::new(&format!("{engine}-threads"), open.clone());
        jobs.push(Arc::new(Concurrency::new(subject, rules, THREADS_SHARE * weight(rules))));
    }
    jobs
}

/// The kinds of histories of the LSM engine, each with how often they are written in `suite`'s proportions.
const LSM_KINDS: [(&str, &[Kind], u64); 5] = [
    ("few", &[Kind::Few], 3),
    ("mixed", &[Kind::Mixed], 3),
    ("levels", &[Kind::Levels], 2),
    ("large", &[Kind::Large, Kind::Blocks], 1),
    ("collecting", &[Kind::Collecting], 1),
];

/// Where the LSM engine keeps the latest commits, how many trees it has, and how their commit points become durable.
const LSM_PLANS: [(&str, Durable, usize, CommitPoints); 5] = [
    ("lsm", Durable::Pool, 1, CommitPoints::Trailing),
    ("lsm-trees", Durable::Pool, 2, CommitPoints::Trailing),
    ("lsm-ordered", Durable::Pool, 2, CommitPoints::Ordered),
    ("lsm-log", Durable::Log, 1, CommitPoints::Trailing),
    ("lsm-log-trees", Durable::Log, 2, CommitPoints::Trailing),
];

/// Bytes of values that lie in files of their own, where histories are of those: about half of the short ones.
const LARGE_VALUE_BYTES: u64 = 20;

/// Bytes of memtables that have several zones.
const SEVERAL_ZONES: u64 = 16 << 20;

/// The jobs for the LSM engine, which `open` opens, the cheap ones first: `lsm-trees-few`, for example.
pub fn lsm_suite<F>(open: F, rules: &[Rules]) -> Vec<Arc<dyn Job>>
where
    F: Fn(&EngineOptions) -> halite_contract::Result<Arc<dyn Engine>>
        + Send
        + Sync
        + Clone
        + 'static,
{
    let mut jobs: Vec<Arc<dyn Job>> = Vec::new();
    let mut add = |subject: Store<F>, share: u64| {
        for &rules in rules {
            jobs.push(Arc::new(Exploration::new(subject.clone(), rules, share * weight(rules))));
        }
    };
    for (kind, kinds, share) in LSM_KINDS {
        for (name, durable, trees, points) in LSM_PLANS {
            let subject = Store::new(&format!("{name}-{kind}"), open.clone())
                .with_kinds(kinds)
                .with_partitioning(Partitioning::Hash(trees))
                .with_lsm(LsmPlan::new(durable, points));
            add(subject, share);
        }
    }
    for (kind, kinds) in [("few", &[Kind::Few]), ("mixed", &[Kind::Mixed])] {
        for (name, durable, trees, points) in LSM_PLANS {
            let plan = LsmPlan::new(durable, points);
            let subject = Store::new(&format!("{name}-{kind}-values"), open.clone())
                .with_kinds(kinds)
                .with_partitioning(Partitioning::Hash(trees))
                .with_lsm(LsmPlan { large_value_bytes: LARGE_VALUE_BYTES, ..plan });
            add(subject, 2);
        }
    }
    let plan = LsmPlan::new(Durable::Pool, CommitPoints::Trailing);
    let wide = LsmPlan { memtable_bytes: SEVERAL_ZONES, ..plan };
    add(Store::new("lsm-zones", open.clone()).with_kinds(&[Kind::Zones]).with_lsm(wide), 1);
    if rules.contains(&Rules::Memory) {
        for (name, trees) in [("lsm-threads", 1), ("lsm-trees-threads", 2)] {
            let subject = Store::new(name, open.clone())
                .with_partitioning(Partitioning::Hash(trees))
                .with_lsm(plan);
            jobs.push(Arc::new(Concurrency::new(
                subject,
                Rules::Memory,
                THREADS_SHARE * weight(Rules::Memory),
            )));
        }
    }
    jobs
}

/// The engine with as few partitions as can disagree.
fn partitioned<F>(engine: &str, open: &F) -> Store<F>
where
    F: Fn(&EngineOptions) -> halite_contract::Result<Arc<dyn Engine>> + Send + Sync + Clone,
{
    Store::new(&format!("{engine}-partitions"), open.clone())
        .with_partitioning(Partitioning::Hash(2))
}

/// The jobs that strike the stores of the engine that `open` opens, and its allocators, with faults of the medium.
/// Names are as in [`suite`].
pub fn media_suite<F>(engine: &str, open: F) -> Vec<Arc<dyn Job>>
where
    F: Fn(&EngineOptions) -> halite_contract::Result<Arc<dyn Engine>>
        + Send
        + Sync
        + Clone
        + 'static,
{
    let mut jobs: Vec<Arc<dyn Job>> = vec![
        Arc::new(Striking::new(Space, Unseen::BY_SPACE, SPACE_SHARE)),
        Arc::new(Striking::new(Objects, Unseen::BY_OBJECTS, SPACE_SHARE)),
    ];
    for (kind, kinds, share) in KINDS {
        let subject = Store::new(&format!("{engine}-{kind}"), open.clone()).with_kinds(kinds);
        jobs.push(Arc::new(Striking::new(subject, Unseen::BY_ENGINES, share)));
    }
    let subject = Store::new(&format!("{engine}-changes"), open.clone()).with_change_log(0);
    jobs.push(Arc::new(Striking::new(subject, Unseen::BY_ENGINES, CHANGES_SHARE)));
    let subject =
        Store::new(&format!("{engine}-snapshots"), open).with_index_snapshots(SNAPSHOT_EVERY);
    jobs.push(Arc::new(Striking::new(subject, Unseen::BY_ENGINES, SNAPSHOTS_SHARE)));
    jobs
}

/// Under the rules of memory a store has the most to do right.
fn weight(rules: Rules) -> u64 {
    match rules {
        Rules::Memory => 6,
        Rules::PageCache => 2,
        Rules::FailingSyncs | Rules::Platform | Rules::FailedPlatform => 1,
    }
}

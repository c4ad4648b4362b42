//! The source's YCSB: throughput and writes of each method by mix, skew and latency of the medium ("Runtime Performance",
//! "Reads and Writes").
//!
//! Each partition has a thread that asks its tuples alone, as the source's executors do. Commits become durable in groups of
//! some milliseconds, and the run ends when all are; a method whose commits are durable at once gains nothing by that.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use halite::Durability;
use halite_table::TableOptions;
use halite_table::component::Component;
use halite_workload::store::Store;
use halite_workload::ycsb003::{Client, Mix, Workload, load, schemas};
use serde_json::json;

use super::setting::Setting;
use super::stores::{Opened, Shape, Subject, of_table};
use crate::row::Params;
use crate::scratch::Home;
use crate::{Contender, Error, Result, Run, Sample};

pub(super) const NAME: &str = "arulraj.ycsb";

/// Transactions between two looks at the clock.
const LOOK: u64 = 16;

pub(super) fn plan(setting: &Setting<'_>, run: &Run<'_>) -> u64 {
    let cells = setting.latencies(run).len() * setting.skews().count() * setting.mixes().count();
    (cells * setting.subjects().len()) as u64 * u64::from(run.options.repeats)
}

/// A loaded store.
pub(super) struct Loaded {
    pub(super) opened: Opened,
    _home: Home,
}

/// Makes a store with the tuples of a workload.
pub(super) fn loaded(
    subject: &Subject,
    shape: &Shape<'_>,
    workload: &Workload,
    run: &std::path::Path,
) -> Result<Loaded> {
    let home = Home::new(run)?;
    let opened = subject.open(home.path(), shape)?;
    load(&*opened.store, workload, |_| {}).map_err(failed(subject.name(), "load"))?;
    if let Some(testbed) = &opened.testbed {
        testbed.sync().map_err(|error| of_table(subject.name(), "sync", error))?;
    }
    Ok(Loaded { opened, _home: home })
}

/// The error of a workload on a store.
pub(super) fn failed(
    store: &str,
    action: &'static str,
) -> impl FnOnce(halite_workload::Error) -> Error {
    let store = store.to_owned();
    move |error| Error::Store { store, action, source: error.into() }
}

pub(super) fn shape<'a>(setting: &'a Setting<'_>, durability: Durability) -> Shape<'a> {
    Shape {
        schemas: schemas(),
        partitions: setting.options.partitions,
        durability,
        profile: None,
        own: TableOptions::default(),
        built: setting.built,
    }
}

pub(super) fn run(setting: &Setting<'_>, run: &mut Run<'_>) -> Result<()> {
    let durability = match setting.options.group_ms {
        0 => Durability::Immediate,
        _ => Durability::Deferred,
    };
    let workload = setting.workload(run);
    for (latency, profile) in setting.latencies(run) {
        let shape = Shape { profile, ..shape(setting, durability) };
        let subjects = setting.subjects();
        let folder = run.options.folder.clone();
        let mut stores = Vec::new();
        for subject in &subjects {
            run.step(&format!("{NAME} load {}", subject.name()))?;
            stores.push(loaded(subject, &shape, &workload, &folder)?);
        }
        for (skew_name, skew) in setting.skews() {
            for mix in setting.mixes() {
                let workload = Workload { mix, skew, ..workload };
                let params = params(setting, latency, (skew_name, mix), &workload);
                let interrupted = run.interrupted();
                let contenders = subjects.iter().zip(&stores).map(|(subject, loaded)| {
                    contender(subject.name(), loaded, workload, setting, interrupted)
                        .with_source("throughput", source(subject, latency, skew_name, mix))
                });
                let mut contenders: Vec<_> = contenders.collect();
                run.compare(NAME, &params, &mut contenders)?;
            }
        }
    }
    Ok(())
}

fn params(
    setting: &Setting<'_>,
    latency: u64,
    (skew, mix): (&str, Mix),
    workload: &Workload,
) -> Params {
    let all = [
        ("latency-ns", json!(latency)),
        ("skew", json!(skew)),
        ("mix", json!(mix.name())),
        ("tuples", json!(workload.tuples)),
        ("transactions", json!(setting.transactions())),
        ("partitions", json!(setting.options.partitions)),
        ("group-ms", json!(setting.options.group_ms)),
        ("update", json!(if workload.updates_one { "one column" } else { "all columns" })),
    ];
    all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A loaded store as a contender that runs the workload.
pub(super) fn contender<'a>(
    name: &'a str,
    loaded: &'a Loaded,
    workload: Workload,
    setting: &'a Setting<'_>,
    interrupted: &'a AtomicBool,
) -> Contender<'a> {
    let measure = move || measured(name, &loaded.opened, &workload, setting, interrupted);
    Contender::new(name, measure)
}

/// Runs the transactions, a thread for each home, and makes all of them durable.
pub(super) fn measured(
    name: &str,
    opened: &Opened,
    workload: &Workload,
    setting: &Setting<'_>,
    interrupted: &AtomicBool,
) -> Result<Vec<Sample>> {
    let (before, pace) = (opened.written(), Pace::of(setting, workload));
    let began = Instant::now();
    let writes =
        at_each_home(workload, |home| one_home(name, opened, workload, (home, pace), interrupted))?;
    let (time, writes) = (began.elapsed(), writes.iter().sum::<u64>());
    let all = transactions(setting, workload);
    let mut samples = vec![
        Sample::throughput(all, time),
        Sample::new("updates", "1/txn", writes as f64 / all as f64),
    ];
    samples.extend(opened.samples_since(before, all));
    Ok(samples)
}

/// The transactions of a home.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// How many.
    each: u64,
    /// The time after which they are made durable.
    group: Duration,
}

impl Pace {
    pub(super) fn of(setting: &Setting<'_>, workload: &Workload) -> Self {
        let each = setting.transactions() / u64::from(workload.homes);
        Self { each, group: Duration::from_millis(setting.options.group_ms) }
    }
}

/// Transactions of a measurement: as many for each home.
pub(super) fn transactions(setting: &Setting<'_>, workload: &Workload) -> u64 {
    Pace::of(setting, workload).each * u64::from(workload.homes)
}

/// Does something in a thread for each home.
pub(super) fn at_each_home<T: Send>(
    workload: &Workload,
    run: impl Fn(u32) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    std::thread::scope(|scope| {
        let run = &run;
        let threads = (0..workload.homes).map(|home| scope.spawn(move || run(home)));
        let threads: Vec<_> = threads.collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    })
}

/// Runs the transactions of a home, and makes them durable. Returns how many updates there were.
pub(super) fn one_home(
    name: &str,
    opened: &Opened,
    workload: &Workload,
    (home, Pace { each, group }): (u32, Pace),
    interrupted: &AtomicBool,
) -> Result<u64> {
    let store: &dyn Store = &*opened.store;
    let seed = workload.seed ^ u64::from(home + 1) << 40 ^ opened.next_run() << 20;
    let client = Client::new(workload, seed).map_err(failed(name, "begin"))?;
    let mut client = client.at_home(home + 1);
    let sync = || match &opened.testbed {
        Some(testbed) if !group.is_zero() => {
            testbed.sync_partition(home as usize).map_err(|error| of_table(name, "sync", error))
        }
        _ => Ok(()),
    };
    let (mut writes, mut synced) = (0, Instant::now());
    for number in 0..each {
        {
            let _in = Component::Nothing.enter();
        }
        writes += u64::from(client.run(store).map_err(failed(name, "run a transaction"))?);
        if number % LOOK == 0 {
            if interrupted.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            if synced.elapsed() >= group {
                sync()?;
                synced = Instant::now();
            }
        }
    }
    sync()?;
    Ok(writes)
}

/// The throughput of the source's figure in transactions a second.
fn source(subject: &Subject, latency: u64, skew: &str, mix: Mix) -> Option<f64> {
    let Subject::Method(kind) = subject else { return None };
    let column = ["inp", "nvm-inp", "cow", "nvm-cow", "log", "nvm-log"];
    let column = column.iter().position(|name| *name == kind.name())?;
    let rows: [[[u32; 6]; 4]; 2] = match (latency, skew) {
        (160, _) => [
            [
                [2585, 2586, 886, 1654, 421, 1189],
                [1820, 2277, 414, 960, 479, 965],
                [934, 1541, 121, 519, 367, 620],
                [643, 1305, 71, 388, 261, 686],
            ],
            [
                [3300, 3314, 994, 2020, 437, 1307],
                [2273, 2770, 530, 1153, 426, 1105],
                [1061, 1776, 175, 658, 410, 697],
                [705, 1473, 101, 481, 398, 658],
            ],
        ],
        (320, _) => [
            [
                [1712, 1712, 732, 1203, 343, 938],
                [1305, 1453, 344, 770, 414, 775],
                [689, 1045, 102, 383, 296, 506],
                [500, 884, 60, 275, 222, 542],
            ],
            [
                [2327, 2345, 868, 1564, 362, 1115],
                [1708, 1926, 448, 988, 358, 895],
                [842, 1304, 148, 512, 340, 589],
                [582, 1122, 87, 358, 327, 546],
            ],
        ],
        (1280, _) => [
            [
                [750, 750, 439, 610, 191, 483],
                [602, 649, 169, 378, 261, 399],
                [349, 479, 50, 200, 171, 265],
                [271, 417, 30, 146, 126, 291],
            ],
            [
                [1149, 1155, 595, 885, 213, 628],
                [902, 960, 222, 519, 211, 500],
                [475, 663, 73, 274, 200, 312],
                [329, 566, 46, 199, 186, 296],
            ],
        ],
        _ => return None,
    };
    let rows = rows[["low", "high"].iter().position(|name| *name == skew)?];
    Some(f64::from(rows[mix as usize][column]) * 1000.0)
}

//! TPC-C at full cardinality, in process, each transaction durable ("TPC-C"): each method, the engine `lsm`, and peers.
//!
//! A store is loaded once and checked then; each measurement runs so many transactions by as many threads as there are
//! partitions, without the specification's waits. The twelve conditions are checked at the end.

use std::sync::atomic::{AtomicBool, Ordering};

use halite::Durability;
use halite_table::TableOptions;
use halite_workload::tpcc::mix::Kind as Transaction;
use halite_workload::tpcc::{End, Report, RunOptions, Scale, check, load, run as run_tpcc, schema};
use serde_json::json;

use super::setting::Setting;
use super::stores::{Opened, Shape, Subject};
use super::ycsb::failed;
use crate::row::Params;
use crate::scratch::Home;
use crate::{Contender, Error, Result, Run, Sample};

pub(super) const NAME: &str = "arulraj.tpcc";

fn subjects(setting: &Setting<'_>) -> Vec<Subject> {
    let methods = setting.methods().into_iter().map(Subject::Method);
    let peers = setting.peers.iter().cloned().map(Subject::Peer);
    methods.chain([Subject::Lsm]).chain(peers).collect()
}

pub(super) fn plan(setting: &Setting<'_>, run: &Run<'_>) -> u64 {
    let latencies = setting.latencies(run).len() as u64;
    latencies * subjects(setting).len() as u64 * u64::from(run.options.repeats)
}

fn scale(setting: &Setting<'_>) -> Scale {
    let warehouses = setting.options.warehouses;
    setting.sized(Scale::full(warehouses), Scale::tiny(warehouses))
}

/// Makes a store in a folder, and loads it.
fn loaded(
    subject: &Subject,
    folder: &std::path::Path,
    setting: &Setting<'_>,
    shape: &Shape<'_>,
    run: &Run<'_>,
) -> Result<()> {
    let shape = Shape { durability: Durability::Deferred, ..shape.clone() };
    let opened = subject.open(folder, &shape)?;
    let (interrupted, threads) = (run.interrupted(), setting.options.partitions as u32);
    let go_on = |_, _| !interrupted.load(Ordering::Relaxed);
    let is_whole = load(&*opened.store, scale(setting), run.options.seed, threads, &go_on);
    match is_whole.map_err(failed(subject.name(), "load TPC-C"))? {
        true => consistent(subject, &opened, interrupted),
        false => Err(Error::Interrupted),
    }
}

pub(super) fn run(setting: &Setting<'_>, run: &mut Run<'_>) -> Result<()> {
    for (latency, profile) in setting.latencies(run) {
        let shape = Shape {
            schemas: schema::schemas(),
            partitions: setting.options.partitions,
            durability: Durability::Immediate,
            profile,
            own: TableOptions::default(),
            built: setting.built,
        };
        let subjects = subjects(setting);
        let mut stores = Vec::new();
        for subject in &subjects {
            run.step(&format!("{NAME} load {}", subject.name()))?;
            let home = Home::new(&run.options.folder)?;
            loaded(subject, home.path(), setting, &shape, run)?;
            stores.push((subject.open(home.path(), &shape)?, home));
        }
        let params = params(setting, latency);
        let (interrupted, seed) = (run.interrupted(), run.options.seed);
        let contenders = subjects.iter().zip(&stores).map(|(subject, (opened, _))| {
            let mut turn = 0;
            let measure = move || {
                turn += 1;
                measured(subject.name(), opened, setting, seed + turn, interrupted)
            };
            Contender::new(subject.name(), measure)
                .with_source("throughput", source(subject, latency))
        });
        let mut contenders: Vec<_> = contenders.collect();
        run.compare(NAME, &params, &mut contenders)?;
        drop(contenders);
        for (subject, (opened, _)) in subjects.iter().zip(&stores) {
            run.step(&format!("{NAME} check {}", subject.name()))?;
            consistent(subject, opened, run.interrupted())?;
        }
    }
    Ok(())
}

fn params(setting: &Setting<'_>, latency: u64) -> Params {
    let scale = scale(setting);
    let all = [
        ("latency-ns", json!(latency)),
        ("warehouses", json!(scale.warehouses)),
        ("customers", json!(scale.warehouses * scale.districts * scale.customers)),
        ("threads", json!(setting.options.partitions)),
        ("transactions", json!(transactions(setting))),
        ("durable", json!("each")),
    ];
    all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn transactions(setting: &Setting<'_>) -> u64 {
    setting.options.tpcc_transactions.unwrap_or(setting.sized(40_000, 300))
}

fn measured(
    name: &str,
    opened: &Opened,
    setting: &Setting<'_>,
    seed: u64,
    interrupted: &AtomicBool,
) -> Result<Vec<Sample>> {
    let options = RunOptions {
        threads: setting.options.partitions as u32,
        end: End::Transactions(transactions(setting)),
        seed,
        ..RunOptions::default()
    };
    let before = opened.written();
    let go_on = |_| !interrupted.load(Ordering::Relaxed);
    let report = run_tpcc(&*opened.store, &options, &go_on).map_err(failed(name, "run TPC-C"))?;
    if report.is_broken_off {
        return Err(Error::Interrupted);
    }
    let mut samples = vec![
        Sample::throughput(report.transactions(), report.elapsed),
        Sample::new("new-orders", "1/min", new_orders(&report)),
    ];
    for (metric, quantile) in [("p50", 0.5), ("p99", 0.99)] {
        let latencies = &report.measured.latencies[Transaction::NewOrder as usize];
        let nanos = latencies.value_at_quantile(quantile) as f64;
        samples.push(Sample::new(format!("new-order-{metric}"), "ns", nanos));
    }
    samples.extend(opened.samples_since(before, report.transactions()));
    Ok(samples)
}

/// Orders a minute.
fn new_orders(report: &Report) -> f64 {
    let orders = report.measured.latencies[Transaction::NewOrder as usize].len();
    orders as f64 * 60.0 / report.elapsed.as_secs_f64().max(1e-9)
}

/// Checks the twelve conditions.
fn consistent(subject: &Subject, opened: &Opened, interrupted: &AtomicBool) -> Result<()> {
    let report = check(&*opened.store, &mut |_, _| !interrupted.load(Ordering::Relaxed));
    let report = report.map_err(failed(subject.name(), "check TPC-C"))?;
    let report = report.ok_or(Error::Interrupted)?;
    match report.violations.first() {
        None => Ok(()),
        Some(violation) => Err(Error::WrongAnswer {
            store: subject.name().to_owned(),
            why: format!(
                "condition {} of TPC-C is violated: {}: {}",
                violation.condition, violation.rows, violation.reason
            ),
        }),
    }
}

/// The throughput of the source's figure in transactions a second.
fn source(subject: &Subject, latency: u64) -> Option<f64> {
    let Subject::Method(kind) = subject else { return None };
    let of = match kind.name() {
        "inp" => [30_520, 25_190, 14_059],
        "nvm-inp" => [47_474, 36_008, 18_680],
        "cow" => [9_138, 7_789, 3_633],
        "nvm-cow" => [21_024, 17_554, 9_184],
        "log" => [19_760, 16_041, 9_506],
        "nvm-log" => [33_469, 27_909, 16_047],
        _ => return None,
    };
    let at = [160, 320, 1280].iter().position(|known| *known == latency)?;
    Some(f64::from(of[at]))
}

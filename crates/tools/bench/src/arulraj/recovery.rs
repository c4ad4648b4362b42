//! Recovery ("Recovery"): another process runs so many transactions and is killed; the time from opening its store to the
//! first committed transaction.
//!
//! As in the source, a transaction changes 20 tuples of 1,000. The child makes the last commits durable before it is killed,
//! and begins no checkpoint.

use std::path::Path;
use std::time::Instant;

use halite::Durability;
use halite_workload::ycsb003::{Client, Mix, Skew, Workload, load};
use serde_json::json;

use super::setting::Setting;
use super::stores::{Subject, of_table};
use super::ycsb::{failed, shape};
use crate::kv::{spawn_and_kill, tell_and_wait};
use crate::scratch::Home;
use crate::{Contender, Result, Run, Sample};

pub(super) const NAME: &str = "arulraj.recovery";

/// Transactions before the kill.
const TRANSACTIONS: [u64; 4] = [1_000, 10_000, 100_000, 1_000_000];

/// Tuples of the table, and of a transaction.
const TUPLES: u64 = 1_000;
const TUPLES_A_TRANSACTION: u32 = 20;

/// Those up to the transactions of a measurement.
fn counts(setting: &Setting<'_>) -> &'static [u64] {
    &TRANSACTIONS[..TRANSACTIONS.partition_point(|count| *count <= setting.transactions())]
}

pub(super) fn plan(setting: &Setting<'_>, run: &Run<'_>) -> u64 {
    let cells = counts(setting).len() * setting.methods().len();
    cells as u64 * u64::from(run.options.repeats)
}

fn workload(seed: u64) -> Workload {
    Workload {
        tuples: TUPLES,
        mix: Mix::WriteHeavy,
        skew: Skew::LOW,
        tuples_a_transaction: TUPLES_A_TRANSACTION,
        homes: 1,
        seed,
        ..Workload::default()
    }
}

pub(super) fn run(setting: &Setting<'_>, run: &mut Run<'_>) -> Result<()> {
    let (seed, interrupted) = (run.options.seed, run.interrupted());
    let folder = run.options.folder.clone();
    for &transactions in counts(setting) {
        let params = [
            ("transactions", json!(transactions)),
            ("tuples", json!(TUPLES)),
            ("tuples-a-transaction", json!(TUPLES_A_TRANSACTION)),
        ];
        let params = params.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let contender = |kind: halite_table::Kind| {
            let folder = &folder;
            let measure = move || {
                let home = Home::new(folder)?;
                let child = (setting.child)(kind.name(), home.path(), transactions);
                spawn_and_kill(child, kind.name(), interrupted)?;
                first_commit(setting, kind, home.path(), seed)
            };
            Contender::new(kind.name(), measure)
                .with_source("first-commit", source(kind, transactions))
        };
        let mut contenders: Vec<_> = setting.methods().into_iter().map(contender).collect();
        run.compare(NAME, &params, &mut contenders)?;
    }
    Ok(())
}

/// Opens the store, and commits a transaction.
fn first_commit(
    setting: &Setting<'_>,
    kind: halite_table::Kind,
    folder: &Path,
    seed: u64,
) -> Result<Vec<Sample>> {
    let shape = super::stores::Shape { partitions: 1, ..shape(setting, Durability::Immediate) };
    let workload = Workload { mix: Mix::WriteHeavy, ..workload(seed) };
    let mut client = Client::new(&workload, seed ^ 77).map_err(failed(kind.name(), "begin"))?;
    let began = Instant::now();
    let opened = Subject::Method(kind).open(folder, &shape)?;
    let open = began.elapsed();
    while !client.run(&*opened.store).map_err(failed(kind.name(), "run a transaction"))? {}
    let first = began.elapsed();
    if let Some(testbed) = &opened.testbed {
        let rows = testbed.verify().map_err(|error| of_table(kind.name(), "verify", error))?;
        if rows != TUPLES {
            let (store, why) = (kind.name().to_owned(), format!("{rows} tuples, not {TUPLES}"));
            return Err(crate::Error::WrongAnswer { store, why });
        }
    }
    Ok(vec![
        Sample::new("open", "ns", open.as_nanos() as f64),
        Sample::new("first-commit", "ns", first.as_nanos() as f64),
    ])
}

pub(super) fn load_and_wait(
    setting: &Setting<'_>,
    name: &str,
    folder: &Path,
    transactions: u64,
    run: &Run<'_>,
) -> Result<()> {
    let kind = name.parse().map_err(|error| of_table(name, "be", error))?;
    let shape = super::stores::Shape { partitions: 1, ..shape(setting, Durability::Deferred) };
    let workload = workload(run.options.seed);
    let opened = Subject::Method(kind).open(folder, &shape)?;
    load(&*opened.store, &workload, |_| {}).map_err(failed(name, "load"))?;
    let testbed = opened.testbed.as_ref().expect("a method is a testbed");
    testbed.checkpoint().map_err(|error| of_table(name, "take a checkpoint", error))?;
    let mut client = Client::new(&workload, run.options.seed).map_err(failed(name, "begin"))?;
    for number in 0..transactions {
        client.run(&*opened.store).map_err(failed(name, "run a transaction"))?;
        if number % 64 == 0 {
            testbed.sync().map_err(|error| of_table(name, "sync", error))?;
        }
    }
    testbed.sync().map_err(|error| of_table(name, "sync", error))?;
    tell_and_wait(name)
}

/// The source's time in ns.
fn source(kind: halite_table::Kind, transactions: u64) -> Option<f64> {
    let of = match kind.name() {
        "inp" => [9.0, 9.29, 100.9],
        "log" => [7.05, 71.6, 822.3],
        "nvm-inp" => [0.143, 0.137, 0.140],
        "nvm-log" => [0.056, 0.057, 0.058],
        "cow" | "nvm-cow" => [0.0; 3],
        _ => return None,
    };
    let at = TRANSACTIONS.iter().position(|known| *known == transactions)?;
    of.get(at).map(|ms| ms * 1e6)
}

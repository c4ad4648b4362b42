//! The time and the size of a checkpoint, for the method that compresses its checkpoints (InP: "periodically compressed
//! checkpoints").
//!
//! The table of YCSB is loaded, and a part of its tuples updated, so that each checkpoint has something to follow. The
//! source has no figures of it.

use std::time::Instant;

use halite::Durability;
use halite_table::Kind;
use halite_workload::ycsb003::{Client, Mix, Workload};
use serde_json::json;

use super::setting::Setting;
use super::stores::{Subject, of_table};
use super::ycsb::{Loaded, failed, loaded, shape};
use crate::{Contender, Result, Run, Sample};

pub(super) const NAME: &str = "arulraj.checkpoint";

/// Bytes of a tuple.
const TUPLE: u64 = 8 + 10 * 100;

/// Transactions before each checkpoint.
const TRANSACTIONS: u64 = 1_000;

fn is_asked(setting: &Setting<'_>) -> bool {
    setting.methods().contains(&Kind::InP)
}

pub(super) fn plan(setting: &Setting<'_>, run: &Run<'_>) -> u64 {
    u64::from(run.options.repeats) * u64::from(is_asked(setting))
}

pub(super) fn run(setting: &Setting<'_>, run: &mut Run<'_>) -> Result<()> {
    if !is_asked(setting) {
        return Ok(());
    }
    let workload = Workload { mix: Mix::WriteHeavy, ..setting.workload(run) };
    run.step(&format!("{NAME} load inp"))?;
    let shape = shape(setting, Durability::Deferred);
    let loaded = loaded(&Subject::Method(Kind::InP), &shape, &workload, &run.options.folder)?;
    let params = [("tuples", json!(workload.tuples)), ("partitions", json!(shape.partitions))];
    let params = params.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let measure = || checkpoint(&loaded, &workload);
    run.compare(NAME, &params, &mut [Contender::new(Kind::InP.name(), measure)])
}

fn checkpoint(loaded: &Loaded, workload: &Workload) -> Result<Vec<Sample>> {
    let (store, name) = (&*loaded.opened.store, Kind::InP.name());
    let mut client = Client::new(workload, workload.seed).map_err(failed(name, "begin"))?;
    for _ in 0..TRANSACTIONS {
        client.run(store).map_err(failed(name, "run a transaction"))?;
    }
    let testbed = loaded.opened.testbed.as_ref().expect("a method is a testbed");
    testbed.sync().map_err(|error| of_table(name, "sync", error))?;
    let before = testbed.file_traffic();
    let began = Instant::now();
    testbed.checkpoint().map_err(|error| of_table(name, "take a checkpoint", error))?;
    let time = began.elapsed().as_secs_f64();
    let bytes = (testbed.file_traffic() - before).bytes_written as f64;
    let user = (workload.tuples * TUPLE) as f64;
    Ok(vec![
        Sample::new("time", "ns", time * 1e9),
        Sample::new("bandwidth", "B/s", user / time.max(1e-9)),
        Sample::new("bytes", "B", bytes),
        Sample::new("per-user-byte", "B/B", bytes / user),
    ])
}

//! The space of each method by use, behind a load and a write-heavy run ("Storage Footprint"), and how evenly the run and the
//! load wear the segments of 2 MiB of its heap.

use halite::Durability;
use halite_workload::ycsb003::{Mix, Skew, Workload};
use serde_json::json;

use super::setting::Setting;
use super::stores::{Subject, of_table};
use super::ycsb::{loaded, measured, shape};
use crate::{Contender, Result, Run, Sample};

pub(super) const NAME: &str = "arulraj.footprint";

/// Bytes of a tuple: its key, and ten columns of a hundred bytes.
const TUPLE: u64 = 8 + 10 * 100;

pub(super) fn plan(setting: &Setting<'_>, _: &Run<'_>) -> u64 {
    setting.methods().len() as u64
}

pub(super) fn run(setting: &Setting<'_>, run: &mut Run<'_>) -> Result<()> {
    let repeats = run.options.repeats;
    // Space does not vary as time does.
    run.options.repeats = 1;
    let outcome = once(setting, run);
    run.options.repeats = repeats;
    outcome
}

fn once(setting: &Setting<'_>, run: &mut Run<'_>) -> Result<()> {
    let workload = Workload { mix: Mix::WriteHeavy, skew: Skew::LOW, ..setting.workload(run) };
    let params = [
        ("tuples", json!(workload.tuples)),
        ("transactions", json!(setting.transactions())),
        ("mix", json!(workload.mix.name())),
    ];
    let params = params.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let (folder, interrupted) = (run.options.folder.clone(), run.interrupted());
    let contender = |kind: halite_table::Kind| {
        let folder = &folder;
        let measure = move || {
            let shape = shape(setting, Durability::Deferred);
            let loaded = loaded(&Subject::Method(kind), &shape, &workload, folder)?;
            measured(kind.name(), &loaded.opened, &workload, setting, interrupted)?;
            let testbed = loaded.opened.testbed.as_ref().expect("a method is a testbed");
            let used = testbed
                .footprint()
                .map_err(|error| of_table(kind.name(), "tell its footprint", error))?;
            let user = (workload.tuples * TUPLE) as f64;
            let of = |name: &str, bytes: u64| Sample::new(name, "B", bytes as f64);
            let mut samples = vec![
                of("table", used.table),
                of("index", used.index),
                of("log", used.log),
                of("checkpoint", used.checkpoint),
                of("other", used.other),
                of("total", used.total()),
                Sample::new("total-per-user-byte", "B/B", used.total() as f64 / user),
            ];
            let wear =
                testbed.wear().map_err(|error| of_table(kind.name(), "tell its wear", error))?;
            let uneven = wear.iter().map(|wear| wear.lines_max as f64 / wear.lines_mean);
            samples
                .extend(uneven.reduce(f64::max).map(|most| Sample::new("wear", "max/mean", most)));
            Ok(samples)
        };
        Contender::new(kind.name(), measure).with_source("total-per-user-byte", source(kind))
    };
    let mut contenders: Vec<_> = setting.methods().into_iter().map(contender).collect();
    run.compare(NAME, &params, &mut contenders)
}

/// The source's total for each byte of its table.
fn source(kind: halite_table::Kind) -> Option<f64> {
    let total = match kind.name() {
        "inp" => 3.25,
        "cow" => 3.59,
        "log" => 3.46,
        "nvm-inp" => 2.57,
        "nvm-cow" => 2.81,
        "nvm-log" => 2.75,
        _ => return None,
    };
    Some(total / 2.01)
}

//! Servers under load over the network: the experiments of Lersch's thesis, §5.8 ("RStore").
//!
//! [`rstore`] looks for the servers' programs (`server`) and runs the experiments of `EXPERIMENTS`.
//! One of them starts the servers, each in a process of its own, and loads them (`fleet`); then they
//! take turns in [`Run::compare`], driven by the load generator ([`load`]).

mod fleet;
mod gc;
mod greedy;
pub mod load;
mod memory;
mod options;
mod recovery;
mod scaling;
mod scans;
mod server;
mod tail;
mod throughput;

use crate::{Params, Repeats, Result, Row, Run, Sample};
use fleet::Fleet;
pub use options::RstoreOptions;

/// An experiment that `--only` chooses.
struct Experiment {
    name: &'static str,
    /// How many measurements it makes.
    plan: fn(&Fleet, &Run<'_>) -> u64,
    /// Makes them.
    run: fn(&Fleet, &mut Run<'_>) -> Result<()>,
}

/// Those of `halite bench rstore`.
const EXPERIMENTS: &[Experiment] = &[
    Experiment { name: "throughput", plan: throughput::plan, run: throughput::run },
    Experiment { name: "tail", plan: tail::plan, run: tail::run },
    Experiment { name: "gc", plan: gc::plan, run: gc::run },
    Experiment { name: "recovery", plan: recovery::plan, run: recovery::run },
    Experiment { name: "memory", plan: memory::plan, run: memory::run },
    Experiment { name: "scans", plan: scans::plan, run: scans::run },
    Experiment { name: "scaling", plan: scaling::plan, run: scaling::run },
];

/// Runs the experiments whose names are in `only`, or all if it is empty.
///
/// # Errors
/// An option or a name that makes no sense; a server that was asked for by name and is not there; what
/// a server reports; [`crate::Error::Interrupted`].
pub fn rstore(options: &RstoreOptions, only: &[String], run: &mut Run<'_>) -> Result<()> {
    options.check()?;
    check(only)?;
    let chosen = |name: &str| only.is_empty() || only.iter().any(|only| only == name);
    let chosen = || EXPERIMENTS.iter().filter(|experiment| chosen(experiment.name));
    let fleet = Fleet::find(options, run)?;
    let measurements = chosen().map(|experiment| (experiment.plan)(&fleet, run)).sum();
    run.plan(measurements);
    chosen().try_for_each(|experiment| (experiment.run)(&fleet, run))
}

/// Refuses the name of no experiment.
pub(crate) fn check(only: &[String]) -> Result<()> {
    crate::experiment::check(only, EXPERIMENTS.iter().map(|experiment| experiment.name))
}

/// Adds a row of a single figure, beside what the source reports.
fn push(
    run: &mut Run<'_>,
    experiment: &str,
    subject: &str,
    params: &Params,
    sample: &Sample,
    source: Option<f64>,
) {
    let (metric, unit) = (sample.metric.clone(), sample.unit.clone());
    let repeats = Repeats { metric, unit, values: vec![sample.value] };
    let row = Row::of(experiment, subject, params, &repeats);
    if let Some(row) = row {
        run.push(Row { source, ..row });
    }
}

/// The median of what a subject was measured to have in the last comparison of that name and params.
fn median(
    run: &Run<'_>,
    experiment: &str,
    subject: &str,
    metric: &str,
    params: &Params,
) -> Option<f64> {
    let same = |row: &&Row| {
        (row.experiment.as_str(), row.subject.as_str(), row.metric.as_str())
            == (experiment, subject, metric)
            && params.iter().all(|(name, value)| row.params.get(name) == Some(value))
    };
    run.rows().iter().rev().find(same).map(|row| row.value)
}

//! RStore under measurement: each experiment redraws a figure or a table of Lersch's thesis (ch. 5).
//!
//! Those of [`RSTORE`] are about the foundations of its design. Those of `SERVERS` are about servers under load over
//! the network (§5.8): [`rstore`] looks for the servers' programs (`server`); an experiment starts them, each in a
//! process of its own, and loads them (`fleet`); then they take turns in [`Run::compare`], driven by the load generator
//! ([`load`]).

mod fleet;
mod gc;
mod greedy;
pub mod load;
mod memory;
pub mod messages;
mod options;
pub mod prefetch;
pub mod ranges;
mod recovery;
mod scaling;
mod scans;
pub(crate) mod server;
mod tail;
mod throughput;

use crate::{Experiment, Params, Repeats, Result, Row, Run, Sample, experiment};
use fleet::Fleet;
pub use options::RstoreOptions;

/// The experiments of `halite bench rstore` that need no server.
pub const RSTORE: &[Experiment] = &[
    Experiment { name: "messages", plan: messages::plan, run: messages::run },
    Experiment { name: "prefetch", plan: prefetch::plan, run: prefetch::run },
    Experiment { name: "ranges", plan: ranges::plan, run: ranges::run },
];

/// An experiment with servers.
struct ServerExperiment {
    name: &'static str,
    /// How many measurements it makes.
    plan: fn(&Fleet, &Run<'_>) -> u64,
    /// Makes them.
    run: fn(&Fleet, &mut Run<'_>) -> Result<()>,
}

/// The experiments of `halite bench rstore` that need servers.
const SERVERS: &[ServerExperiment] = &[
    ServerExperiment { name: "throughput", plan: throughput::plan, run: throughput::run },
    ServerExperiment { name: "tail", plan: tail::plan, run: tail::run },
    ServerExperiment { name: "gc", plan: gc::plan, run: gc::run },
    ServerExperiment { name: "recovery", plan: recovery::plan, run: recovery::run },
    ServerExperiment { name: "memory", plan: memory::plan, run: memory::run },
    ServerExperiment { name: "scans", plan: scans::plan, run: scans::run },
    ServerExperiment { name: "scaling", plan: scaling::plan, run: scaling::run },
];

/// Runs the experiments whose names are in `only`, or all if it is empty.
///
/// # Errors
/// An invalid option or name; a server that was named and is not installed; the errors of a server;
/// [`crate::Error::Interrupted`].
pub fn rstore(options: &RstoreOptions, only: &[String], run: &mut Run<'_>) -> Result<()> {
    options.check()?;
    check(only)?;
    let chosen = |name: &str| only.is_empty() || only.iter().any(|only| only == name);
    let first: Vec<_> = RSTORE.iter().filter(|one| chosen(one.name)).copied().collect();
    let with_servers: Vec<_> = SERVERS.iter().filter(|one| chosen(one.name)).collect();
    experiment::run(run, &first)?;
    if with_servers.is_empty() {
        return Ok(());
    }
    let fleet = Fleet::find(options, run)?;
    let measurements = with_servers.iter().map(|one| (one.plan)(&fleet, run)).sum();
    run.plan(measurements);
    with_servers.iter().try_for_each(|one| (one.run)(&fleet, run))
}

/// Refuses the name of no experiment.
pub(crate) fn check(only: &[String]) -> Result<()> {
    let names = RSTORE.iter().map(|one| one.name).chain(SERVERS.iter().map(|one| one.name));
    experiment::check(only, names)
}

/// Adds a row of a single figure, beside the source's value.
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

/// The median of a subject's figure in the last comparison of that name and params.
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

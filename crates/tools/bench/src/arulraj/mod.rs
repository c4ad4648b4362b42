//! The testbed of recovery methods under measurement: the experiments of Arulraj et al. (SIGMOD'15), each method beside the
//! others in one run.
//!
//! An experiment opens stores of rows (`stores`): partitions under each method, the engine `lsm` through its face, and peers
//! that are built in. `ycsb` and `tpcc` measure throughput and what is written, `recovery` the time from a kill to the next
//! commit, `footprint` the space, `node_size` and `sync` the sweeps of the source. `interface` has the heap beside a file,
//! `loads_stores` the traffic of the medium, `checkpoint` the time and the size of one, `breakdown` the parts of a transaction's time, and
//! `cost` the bytes of an operation beside the source's cost model.

mod breakdown;
mod checkpoint;
mod cost;
mod cost_model;
mod footprint;
mod interface;
mod loads_stores;
mod node_size;
mod options;
mod recovery;
mod setting;
mod stores;
mod sweep;
mod tpcc;
mod ycsb;

use std::path::Path;

use halite_table::component;

use crate::{Error, Result, Run, experiment};
pub use options::ArulrajOptions;
pub use setting::{ChildCommand, Setting};

/// An experiment of `halite bench arulraj`.
struct Part {
    name: &'static str,
    /// How many measurements it makes.
    plan: fn(&Setting<'_>, &Run<'_>) -> u64,
    /// Makes them.
    run: fn(&Setting<'_>, &mut Run<'_>) -> Result<()>,
}

const ALL: &[Part] = &[
    Part { name: "ycsb", plan: ycsb::plan, run: ycsb::run },
    Part { name: "tpcc", plan: tpcc::plan, run: tpcc::run },
    Part { name: "recovery", plan: recovery::plan, run: recovery::run },
    Part { name: "footprint", plan: footprint::plan, run: footprint::run },
    Part { name: "node-size", plan: node_size::plan, run: node_size::run },
    Part { name: "sync", plan: sweep::plan, run: sweep::run },
    Part { name: "interface", plan: interface::plan, run: interface::run },
    Part { name: "loads-stores", plan: loads_stores::plan, run: loads_stores::run },
    Part { name: "checkpoint", plan: checkpoint::plan, run: checkpoint::run },
    Part { name: "breakdown", plan: breakdown::plan, run: breakdown::run },
    Part { name: "cost", plan: cost::plan, run: cost::run },
];

/// Those that split a transaction among its parts.
const SPLIT: [&str; 2] = ["breakdown", "cost"];

/// Refuses names of experiments that there are not, or that are not built in.
///
/// # Errors
/// [`crate::Error::Unknown`], [`crate::Error::Wrong`].
pub fn check(only: &[String]) -> Result<()> {
    experiment::check(only, ALL.iter().map(|part| part.name))?;
    match only.iter().find(|name| !component::IS_SPLIT && SPLIT.contains(&name.as_str())) {
        Some(name) => {
            let why = format!("{name} needs a program that is built with the feature `components`");
            Err(Error::Wrong { option: "--only", why })
        }
        None => Ok(()),
    }
}

/// Makes the experiments of these names, or all that are built in but TPC-C, which has a command of its own.
///
/// # Errors
/// Those of an experiment.
pub fn arulraj(setting: &Setting<'_>, only: &[String], run: &mut Run<'_>) -> Result<()> {
    check(only)?;
    let chosen = |part: &&Part| match only.is_empty() {
        true => part.name != "tpcc" && (component::IS_SPLIT || !SPLIT.contains(&part.name)),
        false => only.iter().any(|only| only == part.name),
    };
    let parts: Vec<_> = ALL.iter().filter(chosen).collect();
    for part in &parts {
        let measurements = (part.plan)(setting, run);
        run.plan(measurements);
    }
    parts.iter().try_for_each(|part| (part.run)(setting, run))
}

/// Is the process that is killed: makes a store in a folder, runs so many transactions, and waits.
///
/// # Errors
/// Those of the store.
pub fn load_and_wait(
    setting: &Setting<'_>,
    name: &str,
    folder: &Path,
    transactions: u64,
    run: &Run<'_>,
) -> Result<()> {
    recovery::load_and_wait(setting, name, folder, transactions, run)
}

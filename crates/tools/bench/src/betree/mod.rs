//! The Bε-tree engine under measurement: the experiments of Haura (Karim et al., §3 to §6), and what their conclusions
//! ask for.
//!
//! Each experiment is measured on persistent memory and on a disk ([`Medium`]), in folders of the run. Those with
//! key-value stores (`stores`) let the engine take turns with Halite's LSM engine and with peers, all with as much
//! memory and equally durable; each store lives in a place of its own (`crate::tenant`). Those with objects, snapshots
//! and devices open the engine itself (`engine`), beside the medium read and written without it (`raw`). `targets` says of
//! a run what it has reached.

mod access;
mod archive;
mod batches;
mod block_size;
mod commit;
mod constant;
mod engine;
mod in_place;
mod insert;
mod media;
mod migration;
mod node_size;
mod objects;
mod options;
mod raw;
mod reads;
mod scrub;
mod setting;
mod stores;
mod targets;
mod turns;
mod ycsb;

use crate::{Result, Run, experiment};
pub use media::Medium;
pub use options::BetreeBenchOptions;
pub use setting::Setting;

/// An experiment of `halite bench betree`.
struct BetreeExperiment {
    name: &'static str,
    /// How many measurements it makes.
    plan: fn(&Setting<'_>, &Run<'_>) -> u64,
    /// Makes them.
    run: fn(&Setting<'_>, &mut Run<'_>) -> Result<()>,
}

const ALL: &[BetreeExperiment] = &[
    BetreeExperiment { name: "access", plan: access::plan, run: access::run },
    BetreeExperiment { name: "objects", plan: objects::plan, run: objects::run },
    BetreeExperiment { name: "block-size", plan: block_size::plan, run: block_size::run },
    BetreeExperiment { name: "archive", plan: archive::plan, run: archive::run },
    BetreeExperiment { name: "node-size", plan: node_size::plan, run: node_size::run },
    BetreeExperiment { name: "in-place", plan: in_place::plan, run: in_place::run },
    BetreeExperiment { name: "insert", plan: insert::plan, run: insert::run },
    BetreeExperiment { name: "reads", plan: reads::plan_reads, run: reads::run_reads },
    BetreeExperiment { name: "scans", plan: reads::plan_scans, run: reads::run_scans },
    BetreeExperiment { name: "ycsb", plan: ycsb::plan, run: ycsb::run },
    BetreeExperiment { name: "commit", plan: commit::plan, run: commit::run },
    BetreeExperiment { name: "constant", plan: constant::plan, run: constant::run },
    BetreeExperiment { name: "scrub", plan: scrub::plan_scrub, run: scrub::run_scrub },
    BetreeExperiment { name: "damage", plan: scrub::plan_one, run: scrub::run_damage },
    BetreeExperiment { name: "resilver", plan: scrub::plan_one, run: scrub::run_resilver },
    BetreeExperiment { name: "migration", plan: migration::plan, run: migration::run },
];

/// Runs the experiments whose names are in `only`, or all if it is empty.
///
/// # Errors
/// An invalid name; the errors of a store; a store that answers wrongly; [`crate::Error::Interrupted`].
pub fn betree(setting: &Setting<'_>, only: &[String], run: &mut Run<'_>) -> Result<()> {
    check(only)?;
    let is_chosen = |name: &str| only.is_empty() || only.iter().any(|only| only == name);
    let chosen: Vec<_> = ALL.iter().filter(|one| is_chosen(one.name)).collect();
    run.plan(chosen.iter().map(|one| (one.plan)(setting, run)).sum());
    let outcome = chosen.iter().try_for_each(|one| (one.run)(setting, run));
    targets::judge(run);
    outcome
}

/// Refuses the name of no experiment.
pub(crate) fn check(only: &[String]) -> Result<()> {
    experiment::check(only, ALL.iter().map(|one| one.name))
}

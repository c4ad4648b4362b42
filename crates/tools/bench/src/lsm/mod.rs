//! The parts of the LSM engine, and the engine itself, under measurement: each experiment redraws a figure of Yan et
//! al. (§4).
//!
//! Those of [`LSM`] are about one part. Those of `STORES` are about whole stores in a [`Setting`]: the engine with its
//! memtables in persistent memory (`xp`), the same engine with a log and volatile memtables (`xs`), and peers, all with
//! as much memory (`stores`). Such a store lives in a folder of its own, where it is opened for a turn and closed again
//! (`crate::tenant`), and its files are kept out of the kernel's page cache, like those of the paper's stores
//! by direct I/O.

mod commit;
mod global_index;
pub mod halloc;
mod host_memory;
pub mod index;
mod memtable;
mod options;
mod rebuild;
mod recovery;
mod setting;
mod size;
mod stability;
mod stores;
mod ycsb;

use std::path::Path;

use crate::{Experiment, Result, Run, experiment};
pub use options::LsmBenchOptions;
pub use setting::Setting;
pub(crate) use stores::LsmStore;

/// The experiments of `halite bench lsm` that are about one part.
pub const LSM: &[Experiment] = &[
    Experiment { name: "halloc", plan: halloc::plan, run: halloc::run },
    Experiment { name: "index", plan: index::plan, run: index::run },
];

/// An experiment with stores.
struct StoreExperiment {
    name: &'static str,
    /// How many measurements it makes.
    plan: fn(&Setting<'_>, &Run<'_>) -> u64,
    /// Makes them.
    run: fn(&Setting<'_>, &mut Run<'_>) -> Result<()>,
}

/// The experiments of `halite bench lsm` that need stores.
const STORES: &[StoreExperiment] = &[
    StoreExperiment { name: "commit", plan: commit::plan, run: commit::run },
    StoreExperiment { name: "memtable", plan: memtable::plan, run: memtable::run },
    StoreExperiment { name: "rebuild", plan: rebuild::plan, run: rebuild::run },
    StoreExperiment { name: "global-index", plan: global_index::plan, run: global_index::run },
    StoreExperiment { name: "ycsb", plan: ycsb::plan, run: ycsb::run },
    StoreExperiment { name: "size", plan: size::plan, run: size::run },
    StoreExperiment { name: "recovery", plan: recovery::plan, run: recovery::run },
    StoreExperiment { name: "stability", plan: stability::plan, run: stability::run },
];

/// Runs the experiments whose names are in `only`, or all if it is empty.
///
/// # Errors
/// An invalid option or name; the errors of a store; a store that answers wrongly; [`crate::Error::Interrupted`].
pub fn lsm(setting: &Setting<'_>, only: &[String], run: &mut Run<'_>) -> Result<()> {
    check(only)?;
    let chosen = |name: &str| only.is_empty() || only.iter().any(|only| only == name);
    let of_parts: Vec<_> = LSM.iter().filter(|one| chosen(one.name)).copied().collect();
    let of_stores: Vec<_> = STORES.iter().filter(|one| chosen(one.name)).collect();
    let measurements = of_stores.iter().map(|one| (one.plan)(setting, run)).sum();
    run.plan(measurements);
    experiment::run(run, &of_parts)?;
    of_stores.iter().try_for_each(|one| (one.run)(setting, run))
}

/// The task of the process that `recovery` kills: loads the store of that name in `folder`, prints a message, and waits
/// to be killed.
///
/// # Errors
/// The errors of the store; an error in writing the message; [`crate::Error::Interrupted`].
pub fn load_and_wait(
    setting: &Setting<'_>,
    store: &str,
    folder: &Path,
    run: &Run<'_>,
) -> Result<()> {
    recovery::load_and_wait(setting, store, folder, run)
}

/// Refuses the name of no experiment.
pub(crate) fn check(only: &[String]) -> Result<()> {
    let names = LSM.iter().map(|one| one.name).chain(STORES.iter().map(|one| one.name));
    experiment::check(only, names)
}

//! The experiments that `--only` chooses from.

use crate::blocks::{cells, interleaving, logs, pages};
use crate::run::{Run, RunOptions};
use crate::{Error, Result, device};

/// An experiment that can be run by itself.
#[derive(Debug, Clone, Copy)]
pub struct Experiment {
    /// Its name for `--only`.
    pub name: &'static str,
    /// How many measurements it makes.
    pub plan: fn(&RunOptions) -> u64,
    /// Makes them.
    pub run: fn(&mut Run<'_>) -> Result<()>,
}

/// The experiments of `halite bench device`.
pub const DEVICE: &[Experiment] = &[
    Experiment { name: "read", plan: device::read::plan, run: device::read::run },
    Experiment { name: "persist", plan: device::persist::plan, run: device::persist::run },
    Experiment { name: "bandwidth", plan: device::bandwidth::plan, run: device::bandwidth::run },
    Experiment {
        name: "interference",
        plan: device::interference::plan,
        run: device::interference::run,
    },
    Experiment { name: "profile", plan: device::profile::plan, run: device::profile::run },
    Experiment { name: "limits", plan: device::limits::plan, run: device::limits::run },
];

/// The experiments of `halite bench blocks`.
pub const BLOCKS: &[Experiment] = &[
    Experiment { name: "log", plan: logs::plan, run: logs::run },
    Experiment { name: "page", plan: pages::plan, run: pages::run },
    Experiment { name: "cell", plan: cells::plan, run: cells::run },
    Experiment { name: "interleaving", plan: interleaving::plan, run: interleaving::run },
];

/// Refuses a name in `only` that is not in `all`.
pub(crate) fn check<'a>(
    only: &[String],
    all: impl IntoIterator<Item = &'a str> + Clone,
) -> Result<()> {
    match only.iter().find(|name| !all.clone().into_iter().any(|known| known == **name)) {
        Some(name) => Err(Error::unknown("experiment", name, all)),
        None => Ok(()),
    }
}

/// Returns the experiments of `all` whose names are in `only`; all of them if there are no names.
pub(crate) fn choose(all: &'static [Experiment], only: &[String]) -> Result<Vec<Experiment>> {
    check(only, all.iter().map(|experiment| experiment.name))?;
    let chosen = |name: &str| only.is_empty() || only.iter().any(|only| only == name);
    Ok(all.iter().filter(|experiment| chosen(experiment.name)).copied().collect())
}

/// Announces all `experiments`, then runs one after the other.
pub(crate) fn run(run: &mut Run<'_>, experiments: &[Experiment]) -> Result<()> {
    for experiment in experiments {
        let measurements = (experiment.plan)(&run.options);
        run.plan(measurements);
    }
    experiments.iter().try_for_each(|experiment| (experiment.run)(run))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &[Experiment] = &[
        Experiment { name: "one", plan: |_| 1, run: |_| Ok(()) },
        Experiment { name: "two", plan: |_| 2, run: |_| Ok(()) },
    ];

    #[test]
    fn unknown_names_are_refused_with_the_known_ones() {
        let names = |only: &[&str]| {
            let only: Vec<_> = only.iter().map(|name| (*name).to_owned()).collect();
            choose(ALL, &only).map(|chosen| chosen.iter().map(|e| e.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&[]).unwrap(), ["one", "two"]);
        assert_eq!(names(&["two"]).unwrap(), ["two"]);
        let error = names(&["two", "three"]).unwrap_err().to_string();
        assert_eq!(error, "there is no experiment `three`; there is one, two");
    }
}

//! The latency of the instruction that makes bytes durable, for the methods that have their rows in persistent memory ("cost
//! of the sync primitive"): write-heavy, on a medium that differs in that alone.

use halite::Durability;
use halite_pmem::Profile;
use halite_table::Kind;
use halite_workload::ycsb003::{Mix, Skew, Workload};
use serde_json::json;

use super::setting::Setting;
use super::stores::{Shape, Subject};
use super::ycsb::{contender, loaded, shape};
use crate::{Result, Run};

pub(super) const NAME: &str = "arulraj.sync";

/// Latencies in ns.
const LATENCIES: [u64; 4] = [10, 100, 1_000, 10_000];

fn methods(setting: &Setting<'_>) -> Vec<Kind> {
    let mut methods = setting.methods();
    methods.retain(|kind| !kind.has_files());
    methods
}

pub(super) fn plan(setting: &Setting<'_>, run: &Run<'_>) -> u64 {
    (LATENCIES.len() * methods(setting).len()) as u64 * u64::from(run.options.repeats)
}

pub(super) fn run(setting: &Setting<'_>, run: &mut Run<'_>) -> Result<()> {
    let (folder, interrupted) = (run.options.folder.clone(), run.interrupted());
    let workload = Workload { mix: Mix::WriteHeavy, skew: Skew::LOW, ..setting.workload(run) };
    for latency in LATENCIES {
        let profile: Profile = format!("read=1,persist={latency}").parse().expect("it is one");
        let mut stores = Vec::new();
        for kind in methods(setting) {
            run.step(&format!("{NAME} load {}", kind.name()))?;
            let shape =
                Shape { profile: Some(profile.clone()), ..shape(setting, Durability::Deferred) };
            stores.push((kind, loaded(&Subject::Method(kind), &shape, &workload, &folder)?));
        }
        let params = [("persist-ns", json!(latency)), ("tuples", json!(workload.tuples))];
        let params = params.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let mut contenders: Vec<_> = stores
            .iter()
            .map(|(kind, loaded)| contender(kind.name(), loaded, workload, setting, interrupted))
            .collect();
        run.compare(NAME, &params, &mut contenders)?;
    }
    Ok(())
}

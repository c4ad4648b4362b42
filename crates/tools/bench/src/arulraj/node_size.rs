//! The size of an index's nodes or pages, for the methods whose stores have that as an option ("B+tree node size").

use halite::Durability;
use halite_table::{Kind, TableOptions};
use halite_workload::ycsb003::{Skew, Workload};
use serde_json::json;

use super::setting::Setting;
use super::stores::{Shape, Subject};
use super::ycsb::{contender, loaded, shape};
use crate::{Result, Run};

pub(super) const NAME: &str = "arulraj.node-size";

/// Sizes in bytes.
const SIZES: [usize; 5] = [256, 512, 1024, 4096, 16 << 10];

fn sizes(setting: &Setting<'_>) -> &'static [usize] {
    setting.sized(&SIZES, &SIZES[1..3])
}

/// The options of a method with nodes of a size.
fn options(kind: Kind, size: usize) -> Option<TableOptions> {
    let mut options = TableOptions::default();
    match kind.name() {
        "cow" => options.cow.page_len = size,
        "nvm-inp" => options.nvm_inp.node_len = size,
        _ => return None,
    }
    Some(options)
}

fn methods(setting: &Setting<'_>) -> Vec<Kind> {
    let mut methods = setting.methods();
    methods.retain(|&kind| options(kind, SIZES[0]).is_some());
    methods
}

pub(super) fn plan(setting: &Setting<'_>, run: &Run<'_>) -> u64 {
    let cells = sizes(setting).len() * methods(setting).len() * setting.mixes().count();
    cells as u64 * u64::from(run.options.repeats)
}

pub(super) fn run(setting: &Setting<'_>, run: &mut Run<'_>) -> Result<()> {
    let (folder, interrupted) = (run.options.folder.clone(), run.interrupted());
    for kind in methods(setting) {
        let subject = Subject::Method(kind);
        let mut stores = Vec::new();
        for &size in sizes(setting) {
            run.step(&format!("{NAME} load {} {size}", kind.name()))?;
            let own = options(kind, size).expect("the method has the option");
            let shape = Shape { own, ..shape(setting, Durability::Deferred) };
            let workload = setting.workload(run);
            stores.push((size, loaded(&subject, &shape, &workload, &folder)?));
        }
        for mix in setting.mixes() {
            let workload = Workload { mix, skew: Skew::LOW, ..setting.workload(run) };
            let params = [("mix", json!(mix.name())), ("tuples", json!(workload.tuples))];
            let params = params.into_iter().map(|(name, value)| (name.to_owned(), value));
            let params = params.collect();
            let mut contenders: Vec<_> = stores
                .iter()
                .map(|(size, loaded)| {
                    contender(kind.name(), loaded, workload, setting, interrupted)
                        .with_param("node-len", json!(size))
                })
                .collect();
            run.compare(NAME, &params, &mut contenders)?;
        }
    }
    Ok(())
}

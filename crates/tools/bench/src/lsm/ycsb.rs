//! YCSB (Yan §4.1, Fig. 10): loading, and A to F on a database that is larger than persistent memory.
//!
//! `load` puts records one at a time into an empty store. For the others each store is loaded once, several records at
//! a time, and keeps its database from workload to workload. Records of D are requested by the latest, as in YCSB;
//! those of the others uniformly and by a zipfian distribution. An update is a put of a whole value.

use serde_json::json;

use super::setting::{KEY_LEN, Setting, VALUE_LEN, records_of};
use crate::kv::{Distribution, Length, Mix, Workload};
use crate::tenant::compare;
use crate::{Contender, Params, Result, Run};

/// The experiments, but for the workload's name.
pub(super) const NAME: &str = "lsm.ycsb";

const PEERS: [&str; 2] = ["rocksdb", "fjall"];

/// Workloads and distributions, in YCSB's order: those that insert come last.
const PHASES: [(Workload, Distribution); 11] = [
    (Workload::YcsbA, Distribution::Uniform),
    (Workload::YcsbA, Distribution::Zipfian),
    (Workload::YcsbB, Distribution::Uniform),
    (Workload::YcsbB, Distribution::Zipfian),
    (Workload::YcsbC, Distribution::Uniform),
    (Workload::YcsbC, Distribution::Zipfian),
    (Workload::YcsbF, Distribution::Uniform),
    (Workload::YcsbF, Distribution::Zipfian),
    (Workload::YcsbD, Distribution::Latest),
    (Workload::YcsbE, Distribution::Uniform),
    (Workload::YcsbE, Distribution::Zipfian),
];

pub(super) fn plan(setting: &Setting<'_>, run: &Run<'_>) -> u64 {
    (PHASES.len() as u64 + 1) * (2 + setting.peers_of(&PEERS)) * u64::from(run.options.repeats)
}

pub(super) fn run(setting: &Setting<'_>, run: &mut Run<'_>) -> Result<()> {
    let records = records_of(setting.pmem as f64 * setting.options.fill, VALUE_LEN);
    load(setting, records, run)?;
    let stores = setting.stores(setting.pmem, &PEERS, &run.options);
    let mut tenants = setting.tenants(stores, VALUE_LEN, run)?;
    for tenant in &mut tenants {
        run.step(&format!("{NAME} {} is loaded", tenant.store.name()))?;
        tenant.load(records)?;
    }
    for (workload, distribution) in PHASES {
        let Some(mix) = workload.mix(&Mix::of(&[])) else { continue };
        let params = params(setting, records, Some((&mix, distribution)));
        let length = Length::Time(setting.time);
        let experiment = workload.experiment().replace("kv.ycsb", NAME);
        compare(run, &experiment, &params, &mut tenants, |tenant| {
            Ok(tenant.measure(&mix, distribution, workload.scan_length(), length)?.samples())
        })?;
    }
    Ok(())
}

/// Puts of single records into an empty store, as long as a measurement takes, or until all are there.
fn load(setting: &Setting<'_>, records: u64, run: &mut Run<'_>) -> Result<()> {
    let (options, interrupted) = (run.options.clone(), run.interrupted());
    let stores = || setting.stores(setting.pmem, &PEERS, &options);
    let names: Vec<String> = stores().iter().map(|store| store.name().to_owned()).collect();
    let contender = |(place, name): (usize, &String)| {
        let (stores, options) = (&stores, &options);
        let measure = move || {
            let store = stores().swap_remove(place);
            let mut tenant = setting.tenant(store, VALUE_LEN, options, interrupted)?;
            Ok(tenant.measure_load(records, Length::Time(setting.time))?.samples())
        };
        Contender::new(name.clone(), measure)
    };
    let mut contenders: Vec<_> = names.iter().enumerate().map(contender).collect();
    run.compare(&format!("{NAME}-load"), &params(setting, records, None), &mut contenders)
}

fn params(setting: &Setting<'_>, records: u64, of: Option<(&Mix, Distribution)>) -> Params {
    let mut params = setting.params(
        setting.pmem,
        [
            ("records", json!(records)),
            ("key-len", json!(KEY_LEN)),
            ("value-len", json!(VALUE_LEN)),
            ("threads", json!(setting.options.threads)),
            ("seconds", json!(setting.time.as_secs_f64())),
        ],
    );
    if let Some((mix, distribution)) = of {
        params.insert("mix".to_owned(), json!(mix.to_string()));
        params.insert("distribution".to_owned(), json!(distribution.to_string()));
    }
    params
}

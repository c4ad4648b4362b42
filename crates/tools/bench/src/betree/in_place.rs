//! The cost of a byte of the user by the way in which nodes are written (Haura §6): YCSB A and F, and random inserts,
//! with values of 1000 bytes.
//!
//! `copy-on-write` writes a buffer anew at each arrival (`runs_max` = 1), with nodes of 4 MiB, as the paper's engine
//! does. `default` is the engine as it is, with several runs a buffer; `in-place`, in persistent memory alone, appends
//! what arrives to a buffer where it lies. `write-amplification` is what was written, in lines of the pool and by calls
//! of the kernel, for each byte of keys and values that writes brought, with what the store puts off. In persistent
//! memory a turn does as many operations as there are records, behind as many to warm up: within a fixed time a faster
//! store would merge more. On a disk, whose syncs are slow, it takes a fixed time.

use halite_betree::{BetreeOptions, Buffers};
use serde_json::json;

use super::Medium;
use super::batches::Batches;
use super::setting::{KEY_LEN, Setting, betree_options, memory, mixed};
use super::stores::BetreeStore;
use crate::kv::{Kind, Length, Mix, Store, Workload};
use crate::tenant::compare;
use crate::{Result, Run, RunOptions};

pub(super) const NAME: &str = "betree.in-place";

const VALUE_LEN: usize = 1000;

const WORKLOADS: [Workload; 2] = [Workload::YcsbA, Workload::YcsbF];

/// Bytes of nodes of the paper's engine.
const NODE: u64 = 4 << 20;

/// The engine in its variants.
fn stores(medium: Medium, data: u64, run: &RunOptions) -> Vec<Box<dyn Store>> {
    let own = betree_options(memory(data));
    let classic = BetreeOptions {
        buffers: Buffers::CopyOnWrite,
        runs_max: Some(1),
        buffer_bytes: Some(NODE),
        leaf_bytes: Some(NODE),
        ..own.clone()
    };
    let store = |name, own| Box::new(BetreeStore::new(name, own, run)) as Box<dyn Store>;
    let mut stores = vec![store("copy-on-write", classic), store("default", own.clone())];
    if medium == Medium::Pmem {
        stores.push(store("in-place", BetreeOptions { buffers: Buffers::InPlace, ..own }));
    }
    stores
}

pub(super) fn plan(setting: &Setting<'_>, run: &Run<'_>) -> u64 {
    let subjects = setting.media().map(|medium| if medium == Medium::Pmem { 3 } else { 2 });
    let workloads = WORKLOADS.len() as u64 + 1;
    subjects.sum::<u64>() * workloads * u64::from(run.options.repeats)
}

pub(super) fn run(setting: &Setting<'_>, run: &mut Run<'_>) -> Result<()> {
    let records = setting.records(500_000, 5_000);
    let record = (KEY_LEN + VALUE_LEN) as u64;
    let data = records * record;
    let values = mixed(VALUE_LEN, run.options.seed);
    for medium in setting.media() {
        let params = |op: &str| {
            setting.params(
                medium,
                [
                    ("op", json!(op)),
                    ("records", json!(records)),
                    ("value-len", json!(VALUE_LEN)),
                    ("threads", json!(setting.options.threads)),
                    ("cache", json!(memory(data).cache)),
                ],
            )
        };
        let (options, interrupted) = (run.options.clone(), run.interrupted());
        let lodging = setting.lodging(medium, &options);
        let mut empty = stores(medium, data, &options);
        let measure = |store: &mut dyn Store| {
            let batches = Batches::new(mixed(VALUE_LEN, options.seed));
            super::insert::filled(store, batches, (records, record), setting, interrupted)
        };
        let mut contenders = super::turns::in_new_places(&mut empty, &lodging, &measure)?;
        run.compare(NAME, &params("insert"), &mut contenders)?;
        drop(contenders);
        let mut tenants = setting.tenants(medium, stores(medium, data, &options), &values, run)?;
        for tenant in &mut tenants {
            run.step(&format!("{NAME} {} is loaded", tenant.store.name()))?;
            tenant.load(records)?;
        }
        for workload in WORKLOADS {
            let Some(mix) = workload.mix(&Mix::of(&[])) else { continue };
            let written = mix.share(Kind::Update) + mix.share(Kind::ReadModifyWrite);
            let op = workload.experiment().replace("kv.", "");
            let length = match medium {
                Medium::Pmem => Length::Operations(records),
                Medium::Disk => Length::Time(setting.time),
            };
            compare(run, NAME, &params(&op), &mut tenants, |tenant| {
                let (distribution, scans) = (workload.distribution(), workload.scan_length());
                let measured = tenant.measure(&mix, distribution, scans, length)?;
                let mut samples = measured.samples();
                samples.extend(measured.amplification(written * record as f64));
                Ok(samples)
            })?;
        }
    }
    Ok(())
}

//! YCSB A to F, with values of 1000 bytes, on data that is eight times as large as each store's cache.
//!
//! Each store is loaded once, several records at a time, and keeps its database from workload to workload. An update is
//! a put of a whole value, durable by itself.

use serde_json::json;

use super::setting::{Setting, memory};
use crate::kv::records::{KeyForm, Records};
use crate::kv::{Length, Mix, Workload};
use crate::tenant::compare;
use crate::{Result, Run};

const PEERS: [&str; 4] = ["redb", "lmdb", "rocksdb", "fjall"];

const VALUE_LEN: usize = 1000;

/// Bytes of a key, about.
const KEY_LEN: usize = 23;

/// The workloads, those that insert last.
const WORKLOADS: [Workload; 6] = [
    Workload::YcsbA,
    Workload::YcsbB,
    Workload::YcsbC,
    Workload::YcsbF,
    Workload::YcsbD,
    Workload::YcsbE,
];

pub(super) fn plan(setting: &Setting<'_>, run: &Run<'_>) -> u64 {
    let turns = setting.stores_of(&PEERS) * u64::from(run.options.repeats);
    setting.media_count() * WORKLOADS.len() as u64 * turns
}

pub(super) fn run(setting: &Setting<'_>, run: &mut Run<'_>) -> Result<()> {
    let records = setting.records(500_000, 5_000);
    let data = records * (KEY_LEN + VALUE_LEN) as u64;
    let values = Records::new(KeyForm::User, VALUE_LEN, run.options.seed);
    for medium in setting.media() {
        let stores = setting.stores(medium, data, &PEERS, &run.options);
        let mut tenants = setting.tenants(medium, stores, &values, run)?;
        for tenant in &mut tenants {
            run.step(&format!("betree.ycsb {} is loaded", tenant.store.name()))?;
            tenant.load(records)?;
        }
        for workload in WORKLOADS {
            let Some(mix) = workload.mix(&Mix::of(&[])) else { continue };
            let params = setting.params(
                medium,
                [
                    ("records", json!(records)),
                    ("value-len", json!(VALUE_LEN)),
                    ("threads", json!(setting.options.threads)),
                    ("cache", json!(memory(data).cache)),
                    ("mix", json!(mix.to_string())),
                ],
            );
            let experiment = workload.experiment().replace("kv.", "betree.");
            let length = Length::Time(setting.time);
            compare(run, &experiment, &params, &mut tenants, |tenant| {
                let (distribution, scans) = (workload.distribution(), workload.scan_length());
                Ok(tenant.measure(&mix, distribution, scans, length)?.samples())
            })?;
        }
    }
    Ok(())
}

//! Random gets, and scans of a thousand pairs, of records of 16 + 100 bytes in a store whose data is eight times as
//! large as its cache.
//!
//! Each store is loaded once, several records at a time, and keeps its database from turn to turn.

use serde_json::json;

use super::setting::{KEY_LEN, Setting, memory, mixed};
use crate::kv::workload::ScanLength;
use crate::kv::{Distribution, Kind, Length, Mix};
use crate::tenant::compare;
use crate::{Result, Run};

const PEERS: [&str; 4] = ["redb", "lmdb", "rocksdb", "fjall"];

const VALUE_LEN: usize = 100;

/// Pairs of a scan.
const PAIRS: u64 = 1000;

pub(super) fn plan_reads(setting: &Setting<'_>, run: &Run<'_>) -> u64 {
    setting.media_count() * setting.stores_of(&PEERS) * u64::from(run.options.repeats)
}

pub(super) fn plan_scans(setting: &Setting<'_>, run: &Run<'_>) -> u64 {
    plan_reads(setting, run)
}

pub(super) fn run_reads(setting: &Setting<'_>, run: &mut Run<'_>) -> Result<()> {
    asked("betree.reads", Kind::Read, setting, run)
}

pub(super) fn run_scans(setting: &Setting<'_>, run: &mut Run<'_>) -> Result<()> {
    asked("betree.scans", Kind::Scan, setting, run)
}

fn asked(name: &str, kind: Kind, setting: &Setting<'_>, run: &mut Run<'_>) -> Result<()> {
    let records = setting.records(2_000_000, 20_000);
    let data = records * (KEY_LEN + VALUE_LEN) as u64;
    let values = mixed(VALUE_LEN, run.options.seed);
    for medium in setting.media() {
        let stores = setting.stores(medium, data, &PEERS, &run.options);
        let mut tenants = setting.tenants(medium, stores, &values, run)?;
        for tenant in &mut tenants {
            run.step(&format!("{name} {} is loaded", tenant.store.name()))?;
            tenant.load(records)?;
        }
        let params = setting.params(
            medium,
            [
                ("records", json!(records)),
                ("key-len", json!(KEY_LEN)),
                ("value-len", json!(VALUE_LEN)),
                ("threads", json!(setting.options.threads)),
                ("cache", json!(memory(data).cache)),
            ],
        );
        let mix = Mix::of(&[(kind, 100)]);
        let (scans, length) = (ScanLength::Always(PAIRS), Length::Time(setting.time));
        compare(run, name, &params, &mut tenants, |tenant| {
            Ok(tenant.measure(&mix, Distribution::Uniform, scans, length)?.samples())
        })?;
    }
    Ok(())
}

//! The size of the database (Yan §4.1, Fig. 12): YCSB D, whose records are requested by the latest, while the database
//! grows beyond persistent memory.
//!
//! `fill` is bytes of the database for each byte of persistent memory. A fourth of the run's is used, so
//! that the disk has room for all stores at the largest size.

use serde_json::json;

use super::setting::{KEY_LEN, Setting, VALUE_LEN, records_of};
use crate::kv::{Distribution, Length, Mix, Workload};
use crate::tenant::compare;
use crate::{Result, Run};

pub(super) const NAME: &str = "lsm.size";

const PEERS: [&str; 1] = ["rocksdb"];

const FILLS: [u64; 5] = [1, 2, 4, 6, 10];

/// The run's persistent memory is divided by this.
const PART: u64 = 4;

fn fills(run: &Run<'_>) -> &'static [u64] {
    if run.options.quick { &FILLS[..2] } else { &FILLS }
}

pub(super) fn plan(setting: &Setting<'_>, run: &Run<'_>) -> u64 {
    fills(run).len() as u64 * (2 + setting.peers_of(&PEERS)) * u64::from(run.options.repeats)
}

pub(super) fn run(setting: &Setting<'_>, run: &mut Run<'_>) -> Result<()> {
    let pmem = (setting.pmem / PART).max(64 << 20);
    let stores = setting.stores(pmem, &PEERS, &run.options);
    let mut tenants = setting.tenants(stores, VALUE_LEN, run)?;
    let workload = Workload::YcsbD;
    let Some(mix) = workload.mix(&Mix::of(&[])) else { return Ok(()) };
    for fill in fills(run) {
        let records = records_of((pmem * fill) as f64, VALUE_LEN);
        for tenant in &mut tenants {
            run.step(&format!("{NAME} {} is loaded up to fill={fill}", tenant.store.name()))?;
            tenant.load(records)?;
        }
        let params = setting.params(
            pmem,
            [
                ("fill", json!(fill)),
                ("key-len", json!(KEY_LEN)),
                ("value-len", json!(VALUE_LEN)),
                ("threads", json!(setting.options.threads)),
                ("mix", json!(mix.to_string())),
            ],
        );
        let length = Length::Time(setting.time);
        compare(run, NAME, &params, &mut tenants, |tenant| {
            let scans = workload.scan_length();
            Ok(tenant.measure(&mix, Distribution::Latest, scans, length)?.samples())
        })?;
    }
    Ok(())
}

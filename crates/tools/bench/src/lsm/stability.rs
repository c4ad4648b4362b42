//! Throughput over time (Yan §4.4, Fig. 15d): reads and writes, as many of the one as of the other, for ten
//! minutes.
//!
//! `drop` is by how much the slowest of sixty parts of the time is below the fastest; `worst-window` the
//! throughput in the slowest tenth of a second. `lsm.stability-over-time` has the parts.

use std::cell::RefCell;

use serde_json::json;

use super::setting::{KEY_LEN, Setting, VALUE_LEN, records_of};
use crate::kv::phase::WINDOW;
use crate::kv::workload::ScanLength;
use crate::kv::{Distribution, Kind, Length, Mix};
use crate::tenant::{Tenant, compare};
use crate::{Repeats, Result, Row, Run, Sample};

pub(super) const NAME: &str = "lsm.stability";

const PEERS: [&str; 1] = ["rocksdb"];

/// The database's part of the persistent memory.
const PART: f64 = 0.2;

/// Parts of the time.
const PARTS: usize = 60;

pub(super) fn plan(setting: &Setting<'_>, _: &Run<'_>) -> u64 {
    2 + setting.peers_of(&PEERS)
}

pub(super) fn run(setting: &Setting<'_>, run: &mut Run<'_>) -> Result<()> {
    let records = records_of(setting.pmem as f64 * PART, VALUE_LEN);
    let stores = setting.stores(setting.pmem, &PEERS, &run.options);
    let mut tenants = setting.tenants(stores, VALUE_LEN, run)?;
    for tenant in &mut tenants {
        run.step(&format!("{NAME} {} is loaded", tenant.store.name()))?;
        tenant.load(records)?;
    }
    let mix = Mix::of(&[(Kind::Read, 50), (Kind::Update, 50)]);
    let params = setting.params(
        setting.pmem,
        [
            ("records", json!(records)),
            ("key-len", json!(KEY_LEN)),
            ("value-len", json!(VALUE_LEN)),
            ("threads", json!(setting.options.threads)),
            ("mix", json!(mix.to_string())),
            ("seconds", json!(setting.stability.as_secs_f64())),
        ],
    );
    let over_time: RefCell<Vec<(String, Vec<f64>)>> = RefCell::default();
    let length = Length::Time(setting.stability);
    let measure = |tenant: &mut Tenant<'_>| {
        let scans = ScanLength::Always(1);
        let measured = tenant.measure(&mix, Distribution::Uniform, scans, length)?;
        let parts = parts(&measured.windows);
        let mut samples = measured.samples();
        samples.extend(steadiness(&measured.windows, &parts));
        over_time.borrow_mut().push((tenant.store.name().to_owned(), parts));
        Ok(samples)
    };
    // A single run is as long as many.
    let repeats = std::mem::replace(&mut run.options.repeats, 1);
    let outcome = compare(run, NAME, &params, &mut tenants, measure);
    run.options.repeats = repeats;
    for (name, parts) in over_time.into_inner() {
        let each = setting.stability.as_secs_f64() / parts.len() as f64;
        for (place, value) in parts.into_iter().enumerate() {
            let mut params = params.clone();
            params.insert("second".to_owned(), json!((each * place as f64 * 10.0).round() / 10.0));
            let repeats = Repeats {
                metric: "throughput".to_owned(),
                unit: "op/s".to_owned(),
                values: vec![value],
            };
            if let Some(row) = Row::of(&format!("{NAME}-over-time"), &name, &params, &repeats) {
                run.push(row);
            }
        }
    }
    outcome
}

/// The mean throughput in each part of the time.
fn parts(windows: &[f64]) -> Vec<f64> {
    let len = windows.len().div_ceil(PARTS).max(1);
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    // The remainder at the end is too short to be a part.
    windows.chunks_exact(len).map(mean).collect()
}

fn steadiness(windows: &[f64], parts: &[f64]) -> Vec<Sample> {
    let least = |values: &[f64]| values.iter().copied().reduce(f64::min);
    let most = |values: &[f64]| values.iter().copied().reduce(f64::max);
    let mut samples = Vec::new();
    if let Some(worst) = least(windows) {
        samples.push(Sample::new("worst-window", "op/s", worst));
        let stalled = windows.iter().filter(|rate| **rate == 0.0).count();
        let time = WINDOW.as_nanos() as f64 * stalled as f64;
        samples.push(Sample::new("stalled", "ns", time));
    }
    if let Some((least, most)) = least(parts).zip(most(parts)) {
        samples.push(Sample::new("drop", "%", (1.0 - least / most.max(1e-9)) * 100.0));
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drop_is_of_parts_and_a_stall_of_a_window() {
        let windows: Vec<f64> =
            (0..600).map(|window| if window == 599 { 0.0 } else { 1000.0 }).collect();
        let parts = parts(&windows);
        assert_eq!(parts.len(), 60);
        let value = |metric: &str| {
            let samples = steadiness(&windows, &parts);
            samples.iter().find(|sample| sample.metric == metric).map(|sample| sample.value)
        };
        assert_eq!(value("worst-window"), Some(0.0));
        assert_eq!(value("stalled"), Some(1e8));
        assert!((value("drop").unwrap() - 10.0).abs() < 1e-9);
        assert!(steadiness(&[], &[]).is_empty());
    }
}

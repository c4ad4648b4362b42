//! The global index (Yan §4.4, Fig. 15a to c): writes, reads and scans before any part of the database is merged into
//! level one.
//!
//! The store with persistent memory has all of the database in its global index. The one with a log has it in
//! a tiered level zero of thirty runs and more, as the compaction from there is put off; `runs` says how many
//! there are. Its cache has room for 30 % of the database, as in the paper.

use serde_json::json;

use super::setting::{KEY_LEN, Setting, records_of, xp, xs};
use crate::kv::workload::ScanLength;
use crate::kv::{Distribution, Kind, Length, Memory, Mix, Store};
use crate::tenant::{Tenant, compare};
use crate::{Result, Run, RunOptions, Sample};

pub(super) const NAME: &str = "lsm.global-index";

const VALUE_LENS: [usize; 3] = [64, 512, 4096];

/// Operations, in the order in which they are measured: writes change the records that the others read.
const OPS: [(&str, Kind); 3] =
    [("read", Kind::Read), ("scan", Kind::Scan), ("write", Kind::Update)];

/// Pairs of a scan.
const PAIRS: u64 = 100;

/// So many memtables make the database: more than the thirty runs that the paper has at least, as memtables
/// are whole zones, and the last ones stay in memory.
const RUNS: u64 = 60;

/// The database takes this part of the persistent memory (a fifth): record headers, and memtables that are being
/// flushed, take the rest.
const PART: u64 = 5;

/// More runs than there will be.
const NEVER: usize = 1 << 20;

fn value_lens(run: &Run<'_>) -> &'static [usize] {
    if run.options.quick { &VALUE_LENS[1..2] } else { &VALUE_LENS }
}

pub(super) fn plan(_: &Setting<'_>, run: &Run<'_>) -> u64 {
    (value_lens(run).len() * OPS.len() * 2) as u64 * u64::from(run.options.repeats)
}

/// Returns both stores, for so many bytes of database.
fn stores(bytes: u64, pmem: u64, run: &RunOptions) -> Vec<Box<dyn Store>> {
    let mut with_log = xs(pmem, run);
    with_log.options.level_zero_runs = Some(NEVER);
    with_log
        .set_memory(Memory { write_buffer: (bytes / RUNS).max(2 << 20), cache: bytes * 3 / 10 });
    vec![Box::new(xp(pmem, run)), Box::new(with_log)]
}

pub(super) fn run(setting: &Setting<'_>, run: &mut Run<'_>) -> Result<()> {
    let bytes = setting.pmem / PART;
    for &value_len in value_lens(run) {
        let records = records_of(bytes as f64, value_len);
        let stores = stores(bytes, setting.pmem, &run.options);
        let mut tenants = setting.tenants(stores, value_len, run)?;
        for tenant in &mut tenants {
            run.step(&format!("{NAME} {} is loaded", tenant.store.name()))?;
            tenant.load(records)?;
        }
        for (op, kind) in OPS {
            let params = setting.params(
                setting.pmem,
                [
                    ("database", json!(bytes)),
                    ("key-len", json!(KEY_LEN)),
                    ("threads", json!(setting.options.threads)),
                    ("pairs", json!(PAIRS)),
                    ("op", json!(op)),
                    ("value-len", json!(value_len)),
                ],
            );
            let mix = Mix::of(&[(kind, 100)]);
            let measured = |tenant: &mut Tenant<'_>| measured(tenant, &mix, setting);
            compare(run, NAME, &params, &mut tenants, measured)?;
        }
    }
    Ok(())
}

fn measured(tenant: &mut Tenant<'_>, mix: &Mix, setting: &Setting<'_>) -> Result<Vec<Sample>> {
    let (scans, length) = (ScanLength::Always(PAIRS), Length::Time(setting.time));
    let mut samples = tenant.measure(mix, Distribution::Uniform, scans, length)?.samples();
    let runs = tenant.visit(|store, _| Ok(store.runs()))?;
    samples.extend(runs.map(|runs| Sample::new("runs", "run", runs as f64)));
    Ok(samples)
}

//! The sizes of nodes (Haura §4.4, Fig. 6): the bytes that the buffer of a child collects, which take the part of
//! internal nodes here, and those of leaves, each from 4 KiB to 4 MiB.
//!
//! Records of 16 + 500 bytes, 128 MiB of them, are put into an empty store, then read and scanned at random; the cache
//! has an eighth of them. `geometric-mean` is that of the three throughputs. `default` is the engine with its own
//! sizes; the paper's are 4 MiB of both. The paper found that sizes decide, that of internal nodes more than that of
//! leaves.

use serde_json::json;

use super::setting::{BETREE, KEY_LEN, Setting, betree_options, memory, mixed};
use super::stores::BetreeStore;
use crate::kv::workload::ScanLength;
use crate::kv::{Distribution, Kind, Length, Mix};
use crate::tenant::Tenant;
use crate::{Contender, Result, Run, Sample};

pub(super) const NAME: &str = "betree.node-size";

const VALUE_LEN: usize = 500;

const KIB: u64 = 1 << 10;

const SIZES: [u64; 6] = [4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, 1024 * KIB, 4096 * KIB];

/// Pairs of a scan.
const PAIRS: u64 = 100;

/// Repeats, at most: cells are many.
const REPEATS_MAX: u32 = 2;

fn sizes(setting: &Setting<'_>) -> &'static [u64] {
    setting.sized(&SIZES[..], &[64 * KIB, 4096 * KIB])
}

fn repeats(run: &Run<'_>) -> u32 {
    run.options.repeats.min(REPEATS_MAX)
}

pub(super) fn plan(setting: &Setting<'_>, run: &Run<'_>) -> u64 {
    let cells = sizes(setting).len() as u64 * sizes(setting).len() as u64 + 1;
    setting.media_count() * cells * u64::from(repeats(run))
}

pub(super) fn run(setting: &Setting<'_>, run: &mut Run<'_>) -> Result<()> {
    let (options, interrupted) = (run.options.clone(), run.interrupted());
    let data = setting.sized(128 << 20, 2 << 20);
    let records = data / (KEY_LEN + VALUE_LEN) as u64;
    let sizes = sizes(setting);
    for medium in setting.media() {
        let lodging = setting.lodging(medium, &options);
        let params = setting.params(
            medium,
            [
                ("records", json!(records)),
                ("value-len", json!(VALUE_LEN)),
                ("threads", json!(setting.options.threads)),
                ("cache", json!(memory(data).cache)),
            ],
        );
        let cell = |buffer: Option<u64>, leaf: Option<u64>| {
            let (options, lodging) = (&options, &lodging);
            let measure = move || {
                let mut own = betree_options(memory(data));
                (own.buffer_bytes, own.leaf_bytes) = (buffer, leaf);
                let store = Box::new(BetreeStore::new(BETREE, own, options));
                let values = mixed(VALUE_LEN, options.seed);
                let mut tenant = Tenant::new(store, values, lodging, interrupted)?;
                measured(&mut tenant, records, setting)
            };
            match buffer.zip(leaf) {
                Some((buffer, leaf)) => Contender::new(BETREE, measure)
                    .with_param("buffer", json!(buffer))
                    .with_param("leaf", json!(leaf)),
                None => Contender::new("default", measure),
            }
        };
        let grid = sizes.iter().flat_map(|buffer| sizes.iter().map(|leaf| (*buffer, *leaf)));
        let mut contenders: Vec<_> =
            grid.map(|(buffer, leaf)| cell(Some(buffer), Some(leaf))).collect();
        contenders.push(cell(None, None));
        let fewer = repeats(run);
        let asked = std::mem::replace(&mut run.options.repeats, fewer);
        let outcome = run.compare(NAME, &params, &mut contenders);
        run.options.repeats = asked;
        outcome?;
    }
    Ok(())
}

fn measured(tenant: &mut Tenant<'_>, records: u64, setting: &Setting<'_>) -> Result<Vec<Sample>> {
    let ingest = records as f64 / tenant.load(records)?.as_secs_f64().max(1e-9);
    let (scans, length) = (ScanLength::Always(PAIRS), Length::Time(setting.time / 20));
    let mut throughput = |kind: Kind| -> Result<f64> {
        let mix = Mix::of(&[(kind, 100)]);
        let measured = tenant.measure(&mix, Distribution::Uniform, scans, length)?;
        Ok(measured.operations as f64 / measured.duration.as_secs_f64().max(1e-9))
    };
    let (reads, scans) = (throughput(Kind::Read)?, throughput(Kind::Scan)?);
    Ok(vec![
        Sample::new("ingest", "op/s", ingest),
        Sample::new("reads", "op/s", reads),
        Sample::new("scans", "op/s", scans),
        Sample::new("geometric-mean", "op/s", (ingest * reads * scans).cbrt()),
    ])
}

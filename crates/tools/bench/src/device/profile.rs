//! Whether a pool with an emulation profile has the costs of the profile: the same loops as in the other experiments,
//! over so few bytes that the machine itself is faster than the profile.
//!
//! The least costs of the machine, with the emulation of a medium without costs, stand beside it as `floor`: a profile
//! below that is too fast for this machine.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use halite_pmem::probe::{self, Way};
use halite_pmem::{Fresh, LINE, Profile};
use serde_json::json;

use super::bandwidth::rate;
use super::{KIB, MIB, Offsets, Pattern, median_of, ns_each, params, thread_counts};
use crate::{Contender, LIMIT, Result, Row, Run, RunOptions, Sample, Scratch};

/// The experiment's name in rows.
pub const NAME: &str = "device.profile";

/// The bytes that are read and written: more than the emulation's cache, and less than the processor's own.
const BYTES: u64 = MIB;

/// Operations in a slice, and slices in a measurement, of latencies.
const OPERATIONS: u64 = 32;
const SLICES: u64 = 501;

/// Bytes of a round of a bandwidth, for each thread.
const BYTES_A_ROUND: u64 = 8 * MIB;

/// Bytes that are read and written at once, for bandwidths.
const BLOCK: u64 = 256 * KIB;

/// The largest deviation of a figure, as a part of it.
const TOLERANCE: f64 = 0.1;

/// A medium without costs, to measure those of the machine and of the emulation.
const FLOOR: &str = "read=1,persist=1,read-bw=1000000GB,write-bw=1000000GB";

/// The number of its measurements; zero without a profile.
#[must_use]
pub fn plan(options: &RunOptions) -> u64 {
    if options.profile.is_some() { 3 * u64::from(options.repeats) } else { 0 }
}

/// Measures: metrics `read-latency`, `sequential-read-latency`, `persist-latency` and `same-line-latency` in ns,
/// `read-bandwidth` and `write-bandwidth` in B/s, whose `limit` is the profile's figure; and of each a `deviation` from
/// that, whose parameter `verdict` says whether it is within 10 %.
///
/// # Errors
/// The errors of a pool; [`crate::Error::Interrupted`].
pub fn run(run: &mut Run<'_>) -> Result<()> {
    let Some(profile) = run.options.profile.clone() else { return Ok(()) };
    let floor = RunOptions { profile: Some(FLOOR.parse()?), ..run.options.clone() };
    let profiled = Subject::new(&run.options)?;
    let floor = Subject::new(&floor)?;
    let before = run.rows().len();
    run.compare(
        NAME,
        &params([("profile", json!(profile.name)), ("bytes", json!(BYTES))]),
        &mut [
            Contender::new("pool", || Ok(profiled.measure())),
            Contender::new("floor", || Ok(floor.measure())),
            Contender::new(LIMIT, || Ok(figures(&profile))),
        ],
    )?;
    let rows = &run.rows()[before..];
    let deviations: Vec<Row> = rows
        .iter()
        .filter(|row| row.subject == "pool")
        .filter_map(|row| deviation(row, rows))
        .collect();
    deviations.into_iter().for_each(|row| run.push(row));
    Ok(())
}

/// The profile's figure for each metric.
fn figures(profile: &Profile) -> Vec<Sample> {
    let latency = |metric, ns: u64| Sample::new(metric, "ns", ns as f64);
    let rate = |metric, rate: u64| Sample::new(metric, "B/s", rate as f64);
    let mut figures = vec![
        latency("read-latency", profile.read_ns),
        latency("sequential-read-latency", profile.sequential_read_ns),
        latency("persist-latency", profile.persist_ns),
        latency("same-line-latency", profile.same_line_ns),
        rate("read-bandwidth", profile.read_bytes_per_s),
        rate("write-bandwidth", profile.write_bytes_per_s),
    ];
    figures.retain(|figure| figure.value < Profile::UNLIMITED as f64);
    figures
}

/// The deviation of a figure, with its verdict.
fn deviation(row: &Row, rows: &[Row]) -> Option<Row> {
    let limit = row.limit?;
    let floor = rows.iter().find(|other| other.subject == "floor" && other.metric == row.metric)?;
    let off = |value: f64| value / limit - 1.0;
    let is_too_slow = match row.unit.as_str() {
        "ns" => floor.value > limit,
        _ => floor.value < limit,
    };
    let verdict = match off(row.value).abs() <= TOLERANCE {
        true => "within 10 %",
        false if is_too_slow => "this machine is slower than the profile",
        false => "not within 10 %",
    };
    let mut params = row.params.clone();
    params.insert("figure".to_owned(), json!(row.metric));
    params.insert("verdict".to_owned(), json!(verdict));
    Some(Row {
        params,
        metric: "deviation".to_owned(),
        unit: "ratio".to_owned(),
        value: off(row.value),
        min: off(row.min),
        max: off(row.max),
        limit: None,
        ..row.clone()
    })
}

/// A pool that is measured, with a part for each thread.
struct Subject {
    _scratch: Scratch,
    parts: Vec<Mutex<Fresh>>,
}

impl Subject {
    fn new(options: &RunOptions) -> Result<Self> {
        let threads = thread_counts().last().copied().unwrap_or(1);
        let scratch = Scratch::new(options, threads * BYTES)?;
        let part = |thread| {
            let mut fresh = scratch.pool().claim(thread * BYTES, BYTES)?;
            let _ = fresh.zero(0..BYTES);
            Ok(Mutex::new(fresh))
        };
        let parts = (0..threads).map(part).collect::<Result<_>>()?;
        Ok(Self { _scratch: scratch, parts })
    }

    fn measure(&self) -> Vec<Sample> {
        let latency = |metric, pattern, operate: &dyn Fn(&mut Fresh, &[u64]) -> Duration| {
            let mut fresh = self.parts[0].lock().unwrap_or_else(PoisonError::into_inner);
            let mut offsets = Offsets::new(pattern, LINE, BYTES, 0);
            let ns = median_of(SLICES, || {
                let offsets = offsets.take(OPERATIONS);
                ns_each(operate(&mut fresh, &offsets), offsets.len())
            });
            Sample::new(metric, "ns", ns)
        };
        let read = |fresh: &mut Fresh, at: &[u64]| probe::read_dependent(fresh, at);
        let mut samples = vec![
            latency("read-latency", Pattern::Scattered, &read),
            latency("sequential-read-latency", Pattern::Sequential, &read),
            self.rate("read-bandwidth", &|fresh, at| probe::read(fresh, at, BLOCK)),
        ];
        let written_back = [Way::Clwb, Way::ClflushOpt, Way::Clflush];
        if let Some(way) = written_back.into_iter().find(|way| way.is_available()) {
            let persist = |fresh: &mut Fresh, at: &[u64]| probe::persist(fresh, way, at);
            samples.extend([
                latency("persist-latency", Pattern::Sequential, &persist),
                latency("same-line-latency", Pattern::Same, &persist),
                self.rate("write-bandwidth", &|fresh, at| probe::write(fresh, way, at, BLOCK)),
            ]);
        }
        samples
    }

    fn rate(&self, metric: &str, work: &(dyn Fn(&mut Fresh, &[u64]) -> Duration + Sync)) -> Sample {
        let offsets = |seed| Offsets::new(Pattern::Sequential, BLOCK, BYTES, seed);
        let of =
            |threads| rate(&self.parts[..threads as usize], offsets, BYTES_A_ROUND / BLOCK, work);
        // The channel is shared: whichever number of threads gets most out of it.
        Sample::new(metric, "B/s", thread_counts().into_iter().map(of).fold(0.0, f64::max))
    }
}

//! Read latency (van Renen, figure 1; Lersch, table 2.3): reads that depend on the one before, over
//! growing working sets, on the medium and on DRAM.
//!
//! The working set from which on the figures rise separates the latencies of caches from the medium's.

use std::time::Duration;

use halite_pmem::probe;
use serde_json::json;

use super::{Dram, GIB, KIB, LINE, MIB, Offsets, Pattern, median_of, ns_each, params};
use crate::{Contender, Result, Row, Run, RunOptions, Sample, Scratch};

/// The experiment's name in rows.
pub const NAME: &str = "device.read";

/// Dependent reads in a slice, and slices in a measurement.
const READS: u64 = 100;
const SLICES: u64 = 501;

/// How many times slower than DRAM the paper finds random reads (§2.2).
const FACTOR_OF_DRAM: f64 = 3.3;

fn working_sets(options: &RunOptions) -> Vec<u64> {
    let max = if options.quick { 16 * MIB } else { 4 * GIB };
    std::iter::successors(Some(64 * KIB), |bytes| Some(bytes * 4))
        .take_while(|b| *b <= max)
        .collect()
}

/// How many measurements it makes.
#[must_use]
pub fn plan(options: &RunOptions) -> u64 {
    working_sets(options).len() as u64 * 2 * 2 * u64::from(options.repeats)
}

/// Measures: metric `latency`, in ns; and `factor-of-dram`.
///
/// # Errors
/// The errors of a pool; [`crate::Error::Interrupted`].
pub fn run(run: &mut Run<'_>) -> Result<()> {
    let sets = working_sets(&run.options);
    let max = sets.last().copied().unwrap_or_default();
    let scratch = Scratch::large(run, max)?;
    let mut fresh = scratch.pool().claim(0, max)?;
    // Memory that was never written may not be present.
    run.prepare(max, |part| drop(fresh.zero(part)))?;
    let mut dram = Dram::with_room(max);
    run.prepare(max, |part| dram.extend(part))?;
    let seed = run.options.seed;
    for bytes in sets {
        for (pattern, source, dram_source) in
            [(Pattern::Sequential, 175.0, 75.0), (Pattern::Random, 300.0, 85.0)]
        {
            let measure = |read: &dyn Fn(&[u64]) -> Duration| {
                let mut offsets = Offsets::new(pattern, LINE, bytes, seed);
                let ns = median_of(SLICES, || {
                    let offsets = offsets.take(READS);
                    ns_each(read(&offsets), offsets.len())
                });
                Ok(vec![Sample::new("latency", "ns", ns)])
            };
            let is_largest = bytes == max;
            let params = params([("pattern", pattern.json()), ("bytes", json!(bytes))]);
            let before = run.rows().len();
            run.compare(
                NAME,
                &params,
                &mut [
                    Contender::new("pool", || measure(&|at| probe::read_dependent(&fresh, at)))
                        .with_source("latency", is_largest.then_some(source)),
                    Contender::new("dram", || measure(&|at| dram.read_dependent(at)))
                        .with_source("latency", is_largest.then_some(dram_source)),
                ],
            )?;
            if let [pool, dram] = &run.rows()[before..] {
                let factor = pool.value / dram.value;
                let source = (is_largest && pattern == Pattern::Random).then_some(FACTOR_OF_DRAM);
                let row = Row {
                    metric: "factor-of-dram".to_owned(),
                    unit: "ratio".to_owned(),
                    value: factor,
                    min: pool.min / dram.max,
                    max: pool.max / dram.min,
                    source,
                    ..pool.clone()
                };
                run.push(row);
            }
        }
    }
    Ok(())
}

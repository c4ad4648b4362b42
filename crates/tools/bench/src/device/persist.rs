//! Persist latency (van Renen, figure 2): a store to one line, its write-back and a fence, for the same
//! line again and again, for one line after the other and for random ones, with every instruction.

use std::cell::RefCell;

use halite_pmem::probe::{self, Way};

use super::{LINE, MIB, Offsets, Pattern, median_of, ns_each, params};
use crate::{Contender, Result, Run, RunOptions, Sample, Scratch};

/// The experiment's name in rows.
pub const NAME: &str = "device.persist";

/// Persists in a slice, and slices in a measurement.
const PERSISTS: u64 = 32;
const SLICES: u64 = 501;

const PATTERNS: [Pattern; 3] = [Pattern::Same, Pattern::Sequential, Pattern::Random];

fn ways() -> impl Iterator<Item = Way> {
    Way::PERSISTENT.into_iter().filter(|way| way.is_available())
}

/// How many measurements it makes.
#[must_use]
pub fn plan(options: &RunOptions) -> u64 {
    (PATTERNS.len() * ways().count()) as u64 * u64::from(options.repeats)
}

/// Measures: metric `latency`, in ns; the subjects are the instructions.
///
/// # Errors
/// The errors of a pool; [`crate::Error::Interrupted`].
pub fn run(run: &mut Run<'_>) -> Result<()> {
    let bytes = if run.options.quick { 16 * MIB } else { 1024 * MIB };
    let scratch = Scratch::large(run, bytes)?;
    let fresh = RefCell::new(scratch.pool().claim(0, bytes)?);
    run.prepare(bytes, |part| drop(fresh.borrow_mut().zero(part)))?;
    let seed = run.options.seed;
    for pattern in PATTERNS {
        let measure = &|way| {
            let mut offsets = Offsets::new(pattern, LINE, bytes, seed);
            let ns = median_of(SLICES, || {
                let offsets = offsets.take(PERSISTS);
                let time = probe::persist(&mut fresh.borrow_mut(), way, &offsets);
                ns_each(time, offsets.len())
            });
            Ok(vec![Sample::new("latency", "ns", ns)])
        };
        let mut contenders: Vec<_> =
            ways().map(|way| Contender::new(way.name(), move || measure(way))).collect();
        run.compare(NAME, &params([("pattern", pattern.json())]), &mut contenders)?;
    }
    Ok(())
}

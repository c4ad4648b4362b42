//! Prefetching in scans (Lersch §5.6.2, Fig. 5.6): scans of 100 records that are copied to a buffer, out of an array in
//! key order, out of a log in the order of writing, and out of that log with the next record prefetched while one is
//! copied: its first two lines, which are the address translation and the start for the processor's own prefetcher, or
//! all of it.
//!
//! As in the thesis all other work is left out: the index is an array of places in key order. With the predicate, each
//! record is summed first and copied only if the sum is even, so that there is more work while the next one is fetched.

use fastrand::Rng;
use halite_pmem::Fresh;
use serde_json::json;

use crate::mix::mix;
use crate::{Contender, Params, Result, Run, RunOptions, Sample, Scratch};

/// The experiment's name in rows.
pub const NAME: &str = "rstore.prefetch";

/// Records of a scan, as in the thesis.
const SCANNED: u64 = 100;

/// Bytes of a record.
const RECORD_LENS: [u64; 5] = [64, 128, 256, 512, 1024];

const LINE: u64 = halite_pmem::LINE;

/// Bytes of a record that are fetched ahead if not all of it is.
const HEAD: u64 = 2 * LINE;

/// Bytes of all records: more than the caches hold, unless the run is quick.
fn bytes(options: &RunOptions) -> u64 {
    if options.quick { 16 << 20 } else { 1 << 30 }
}

/// Scans of a measurement.
fn scans(options: &RunOptions) -> u64 {
    if options.quick { 200 } else { 5_000 }
}

/// How many measurements it makes.
#[must_use]
pub fn plan(options: &RunOptions) -> u64 {
    (RECORD_LENS.len() * 2 * 4) as u64 * u64::from(options.repeats)
}

/// Measures: metric `time` of a scan, in ns.
///
/// # Errors
/// The errors of making a pool; [`crate::Error::Interrupted`].
pub fn run(run: &mut Run<'_>) -> Result<()> {
    let (bytes, scans) = (bytes(&run.options), scans(&run.options));
    let scratch = Scratch::large(run, bytes)?;
    let mut records = scratch.pool().claim(0, bytes)?;
    let mut random = Rng::with_seed(run.options.seed);
    let noise: Vec<u8> = (0..1 << 17).flat_map(|_| random.u64(..).to_le_bytes()).collect();
    for at in (0..bytes).step_by(noise.len()) {
        records.write(at, &noise);
    }
    let records = &records;
    for record_len in RECORD_LENS {
        let count = bytes / record_len;
        let in_order = Places { record_len, places: (0..count as u32).collect() };
        let written = Places { record_len, places: shuffled(count, run.options.seed) };
        for predicate in [false, true] {
            let params = Params::from_iter([
                ("record-len".to_owned(), json!(record_len)),
                ("records".to_owned(), json!(SCANNED)),
                ("predicate".to_owned(), json!(predicate)),
            ]);
            let seed = run.options.seed;
            let of =
                |places, ahead| move || Ok(scanned(records, places, ahead, predicate, scans, seed));
            let mut contenders = [
                Contender::new("sorted-array", of(&in_order, 0)),
                Contender::new("index-log", of(&written, 0)),
                Contender::new("index-log-prefetch-head", of(&written, HEAD)),
                Contender::new("index-log-prefetch", of(&written, record_len)),
            ];
            run.compare(NAME, &params, &mut contenders)?;
        }
    }
    Ok(())
}

/// The places of the records, in the order of their keys.
struct Places {
    record_len: u64,
    places: Vec<u32>,
}

impl Places {
    fn at(&self, number: u64) -> u64 {
        u64::from(self.places[number as usize]) * self.record_len
    }
}

fn shuffled(count: u64, seed: u64) -> Vec<u32> {
    let mut places: Vec<u32> = (0..count as u32).collect();
    Rng::with_seed(mix(seed)).shuffle(&mut places);
    places
}

fn scanned(
    records: &Fresh,
    places: &Places,
    ahead: u64,
    predicate: bool,
    scans: u64,
    seed: u64,
) -> Vec<Sample> {
    let (count, len) = (places.places.len() as u64, places.record_len);
    let mut random = Rng::with_seed(seed);
    let mut buffer: Vec<u8> = Vec::with_capacity((SCANNED * len) as usize);
    let begin = std::time::Instant::now();
    for _ in 0..scans {
        buffer.clear();
        let first = random.u64(..count - SCANNED);
        for number in first..first + SCANNED {
            if ahead > 0 && number + 1 < first + SCANNED {
                let next = places.at(number + 1);
                let lines = (next..next + ahead.min(len)).step_by(LINE as usize);
                lines.for_each(|line| records.prefetch(line));
            }
            let record = records.read(places.at(number), len);
            if !predicate || is_even(record) {
                buffer.extend_from_slice(record);
            }
        }
        std::hint::black_box(&buffer);
    }
    let ns = begin.elapsed().as_nanos() as f64 / scans as f64;
    vec![Sample::new("time", "ns", ns)]
}

fn is_even(record: &[u8]) -> bool {
    record.iter().fold(0_u8, |sum, byte| sum.rotate_left(1).wrapping_add(*byte)) % 2 == 0
}

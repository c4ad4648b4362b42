//! Logs (van Renen §3.3, Fig. 8): entries of growing size appended durably, by every algorithm, packed
//! and aligned to lines.
//!
//! `blocks.log` is the append alone, in space that was formatted before. `blocks.log-cycle` counts the
//! log's whole life: format, fill, reset, fill, and so on. The limit is the raw loop that stores as
//! many lines as an aligned entry of the salted log takes, and fences once.

use std::time::{Duration, Instant};

use halite_blocks::log::{Algorithm, Classic, Header, Layout, Log, PopLog, Rawl, Salted};
use halite_pmem::{Fresh, LINE, Pool, Traffic, UNIT, probe};
use serde_json::json;

use crate::{Contender, Error, LIMIT, Params, Result, Run, RunOptions, Sample, Scratch};

/// Fills of one log in `blocks.log-cycle`.
const FILLS: u64 = 4;

/// The bytes of an entry: in Fig. 8 they go from 8 to 512.
fn sizes(options: &RunOptions) -> Vec<u64> {
    if options.quick {
        return vec![64, 256, 512];
    }
    let mut sizes: Vec<u64> = (8..=128).step_by(8).collect();
    sizes.extend((160..=512).step_by(32));
    sizes
}

/// The sizes for which a whole cycle is measured.
fn cycle_sizes(options: &RunOptions) -> Vec<u64> {
    if options.quick { vec![256] } else { vec![64, 128, 256, 512] }
}

/// Entries appended for one figure.
fn entries(options: &RunOptions) -> u64 {
    if options.quick { 5_000 } else { 50_000 }
}

/// One algorithm and layout.
struct Subject {
    name: String,
    append: fn(&RunOptions, Layout, u64) -> Result<Vec<Sample>>,
    cycle: fn(&RunOptions, Layout, u64) -> Result<Vec<Sample>>,
    layout: Layout,
}

fn subject<A: Algorithm>(layout: Layout) -> Subject {
    let name = match layout {
        Layout::Packed => format!("{}-naive", A::NAME),
        Layout::Lines => A::NAME.to_owned(),
    };
    Subject { name, append: append::<A>, cycle: cycle::<A>, layout }
}

fn subjects() -> Vec<Subject> {
    let layouts = [Layout::Lines, Layout::Packed];
    let of_layout = |layout| {
        [
            subject::<Classic>(layout),
            subject::<Header<1>>(layout),
            subject::<Header<64>>(layout),
            subject::<Rawl>(layout),
            subject::<PopLog>(layout),
            subject::<Salted>(layout),
        ]
    };
    layouts.into_iter().flat_map(of_layout).collect()
}

/// How many measurements [`run`] makes.
#[must_use]
pub fn plan(options: &RunOptions) -> u64 {
    let experiments = sizes(options).len() + cycle_sizes(options).len();
    (experiments * (subjects().len() + 1)) as u64 * u64::from(options.repeats)
}

/// Measures the logs.
///
/// # Errors
/// The errors of a log or its pool; [`Error::Interrupted`].
pub fn run(run: &mut Run<'_>) -> Result<()> {
    let options = run.options.clone();
    for size in sizes(&options) {
        compare(run, "blocks.log", size, |subject| subject.append)?;
    }
    for size in cycle_sizes(&options) {
        compare(run, "blocks.log-cycle", size, |subject| subject.cycle)?;
    }
    Ok(())
}

type Measure = fn(&RunOptions, Layout, u64) -> Result<Vec<Sample>>;

fn compare(
    run: &mut Run<'_>,
    experiment: &str,
    size: u64,
    measure: fn(&Subject) -> Measure,
) -> Result<()> {
    let options = run.options.clone();
    let mut params = Params::new();
    params.insert("entry_bytes".to_owned(), json!(size));
    let mut contenders = vec![Contender::new(LIMIT, || limit(&options, size))];
    for subject in subjects() {
        let (measure, layout, options) = (measure(&subject), subject.layout, &options);
        contenders.push(Contender::new(subject.name, move || measure(options, layout, size)));
    }
    run.compare(experiment, &params, &mut contenders)
}

/// Bytes that differ from entry to entry; as many bits are set as are not.
struct Payloads {
    bytes: Vec<u8>,
    size: usize,
}

/// Distinct payloads of a measurement.
const PAYLOADS: usize = 64;

impl Payloads {
    fn new(options: &RunOptions, size: u64) -> Self {
        let mut state = options.seed | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 24) as u8
        };
        let size = size as usize;
        Self { bytes: (0..size * PAYLOADS).map(|_| next()).collect(), size }
    }

    fn get(&self, number: u64) -> &[u8] {
        let at = number as usize % PAYLOADS * self.size;
        &self.bytes[at..at + self.size]
    }
}

/// A space for a log that so many entries fill, in which no page fault is due.
fn space<A: Algorithm>(pool: &Pool, layout: Layout, size: u64, count: u64) -> Result<Fresh> {
    let head = (A::CONTROL_LINES + 1) * LINE;
    let footprint = Log::<A>::format(pool.claim(0, head + LINE)?, layout)?.footprint(size);
    let mut space = pool.claim(0, head + (count * footprint).next_multiple_of(LINE))?;
    let touched = space.zero(0..space.len());
    pool.fence([touched])?;
    Ok(space)
}

/// A pool for a log of any algorithm with so many entries.
fn scratch(options: &RunOptions, size: u64, count: u64) -> Result<Scratch> {
    let footprint_max = size.next_multiple_of(LINE) + 3 * LINE;
    Scratch::new(options, (count * footprint_max).next_multiple_of(UNIT) + UNIT)
}

fn append<A: Algorithm>(options: &RunOptions, layout: Layout, size: u64) -> Result<Vec<Sample>> {
    let count = entries(options);
    let scratch = scratch(options, size, count)?;
    let pool = scratch.pool();
    let mut log = Log::<A>::format(space::<A>(pool, layout, size, count)?, layout)?;
    let payloads = Payloads::new(options, size);
    let before = pool.traffic();
    let start = Instant::now();
    for number in 0..count {
        log.append(payloads.get(number))?;
    }
    let time = start.elapsed();
    let traffic = pool.traffic() - before;
    check(&log, &payloads, count)?;
    Ok(samples(count, time, traffic))
}

/// A log that is full after each fill; all fills together append as many entries as `blocks.log`.
fn cycle<A: Algorithm>(options: &RunOptions, layout: Layout, size: u64) -> Result<Vec<Sample>> {
    let count = entries(options) / FILLS;
    let scratch = scratch(options, size, count)?;
    let pool = scratch.pool();
    let payloads = Payloads::new(options, size);
    let space = space::<A>(pool, layout, size, count)?;
    let before = pool.traffic();
    let start = Instant::now();
    let mut log = Log::<A>::format(space, layout)?;
    for fill in 0..FILLS {
        if fill > 0 {
            log.reset()?;
        }
        for number in 0..count {
            log.append(payloads.get(number))?;
        }
    }
    let time = start.elapsed();
    let traffic = pool.traffic() - before;
    check(&log, &payloads, count)?;
    Ok(samples(count * FILLS, time, traffic))
}

/// The raw loop for the lines of an aligned salted entry.
fn limit(options: &RunOptions, size: u64) -> Result<Vec<Sample>> {
    let count = entries(options);
    let scratch = scratch(options, size, count)?;
    let mut space = space::<Salted>(scratch.pool(), Layout::Lines, size, count)?;
    let footprint = (space.len() - LINE) / count;
    let offsets: Vec<u64> = (0..count).map(|number| LINE + number * footprint).collect();
    let bytes = vec![0x5a; footprint as usize];
    let time = probe::persist_stream(&mut space, &bytes, &offsets);
    Ok(vec![Sample::throughput(count, time)])
}

/// A log cannot be fast by being wrong.
fn check<A: Algorithm>(log: &Log<A>, payloads: &Payloads, count: u64) -> Result<()> {
    let mut found = 0;
    for (number, entry) in (0..).zip(log.entries()) {
        if *entry != *payloads.get(number) {
            let why = format!("entry {number} is not what was appended");
            return Err(Error::WrongAnswer { store: A::NAME.to_owned(), why });
        }
        found += 1;
    }
    if found != count {
        let why = format!("it has {found} entries of {count}");
        return Err(Error::WrongAnswer { store: A::NAME.to_owned(), why });
    }
    Ok(())
}

fn samples(count: u64, time: Duration, traffic: Traffic) -> Vec<Sample> {
    let per_op = |metric, total: u64| Sample::new(metric, "1/op", total as f64 / count as f64);
    vec![
        Sample::throughput(count, time),
        per_op("fences", traffic.fences),
        per_op("lines", traffic.lines),
        per_op("flushes", traffic.flushes),
    ]
}

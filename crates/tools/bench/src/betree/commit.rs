//! Durable commits of records of 16 + 100 bytes: their latency, the fences of one in persistent memory, and the syncs
//! of one on a disk, beside the LSM engine.
//!
//! The background work of a store is in the time, and in the counts.

use std::sync::Barrier;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde_json::json;

use super::batches::Batches;
use super::setting::{KEY_LEN, Setting, mixed};
use super::turns::in_new_places;
use crate::kv::Store;
use crate::{Error, Result, Run, Sample};

pub(super) const NAME: &str = "betree.commit";

const VALUE_LEN: usize = 100;

/// Records of a commit.
const BATCHES: [u64; 3] = [1, 10, 100];

const THREADS: [u64; 2] = [1, 2];

/// Bytes of data that memory is given for: commits write at most a few times as many.
const DATA: u64 = 1 << 30;

/// Significant digits of a latency.
const DIGITS: u8 = 3;

fn batches(setting: &Setting<'_>) -> &'static [u64] {
    setting.sized(&BATCHES, &BATCHES[..2])
}

pub(super) fn plan(setting: &Setting<'_>, run: &Run<'_>) -> u64 {
    let shapes = (batches(setting).len() * THREADS.len()) as u64;
    setting.media_count() * shapes * 2 * u64::from(run.options.repeats)
}

/// The commits of one figure.
#[derive(Clone, Copy)]
struct Load {
    batch: u64,
    threads: u64,
    time: Duration,
    seed: u64,
}

pub(super) fn run(setting: &Setting<'_>, run: &mut Run<'_>) -> Result<()> {
    let (options, interrupted) = (run.options.clone(), run.interrupted());
    for medium in setting.media() {
        let lodging = setting.lodging(medium, &options);
        for threads in THREADS {
            for &batch in batches(setting) {
                let load = Load { batch, threads, time: setting.time / 4, seed: options.seed };
                let params = setting.params(
                    medium,
                    [
                        ("key-len", json!(KEY_LEN)),
                        ("value-len", json!(VALUE_LEN)),
                        ("threads", json!(threads)),
                        ("batch", json!(batch)),
                    ],
                );
                let mut stores = setting.own_stores(medium, DATA, &options);
                let measure = |store: &mut dyn Store| committed(store, load, interrupted);
                let mut contenders = in_new_places(&mut stores, &lodging, &measure)?;
                run.compare(NAME, &params, &mut contenders)?;
            }
        }
    }
    Ok(())
}

/// The commits of one thread.
struct Part {
    commits: u64,
    start: Instant,
    end: Instant,
    latencies: Histogram<u64>,
}

fn committed(store: &dyn Store, load: Load, interrupted: &AtomicBool) -> Result<Vec<Sample>> {
    let before = store.counters().unwrap_or_default();
    let begin = Barrier::new(load.threads as usize);
    let outcomes: Vec<Result<Part>> = std::thread::scope(|scope| {
        let begin = &begin;
        let threads: Vec<_> = (0..load.threads)
            .map(|thread| scope.spawn(move || one_thread(store, load, thread, begin, interrupted)))
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    });
    let after = store.counters().unwrap_or_default();
    let parts = outcomes.into_iter().collect::<Result<Vec<_>>>()?;
    let commits: u64 = parts.iter().map(|part| part.commits).sum();
    let (start, end) = (parts.iter().map(|part| part.start), parts.iter().map(|part| part.end));
    let time = start.min().zip(end.max()).map_or(Duration::ZERO, |(start, end)| end - start);
    let mut latencies = histogram(store.name())?;
    for part in &parts {
        // All have the same bounds.
        let _ = latencies.add(&part.latencies);
    }
    let (traffic, all) = (after.traffic - before.traffic, commits.max(1) as f64);
    let mut samples = vec![
        Sample::throughput(commits * load.batch, time),
        Sample::new("commits", "commit/s", commits as f64 / time.as_secs_f64().max(1e-9)),
        Sample::new("fences", "1/commit", traffic.fences as f64 / all),
        Sample::new("lines", "1/commit", traffic.lines as f64 / all),
    ];
    if let Some((before, after)) = before.syncs.zip(after.syncs) {
        samples.push(Sample::new("syncs", "1/commit", (after - before) as f64 / all));
    }
    for (name, quantile) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)] {
        let latency = latencies.value_at_quantile(quantile) as f64;
        samples.push(Sample::new(format!("commit-{name}"), "ns", latency));
    }
    Ok(samples)
}

fn histogram(store: &str) -> Result<Histogram<u64>> {
    let why = |error: hdrhistogram::CreationError| Error::Store {
        store: store.to_owned(),
        action: "make room for latencies",
        source: error.to_string().into(),
    };
    Histogram::new_with_bounds(1, 3_600_000_000_000, DIGITS).map_err(why)
}

fn one_thread(
    store: &dyn Store,
    load: Load,
    thread: u64,
    begin: &Barrier,
    interrupted: &AtomicBool,
) -> Result<Part> {
    /// Numbers of a thread's records: no other thread has them.
    const OF_THREAD: u64 = 1 << 40;
    let name = store.name();
    let session = store.session().map_err(Error::of_store(name, "open a session"));
    let mut batches = Batches::new(mixed(VALUE_LEN, load.seed));
    let mut latencies = histogram(name)?;
    begin.wait();
    let mut session = session?;
    let start = Instant::now();
    let (mut end, mut commits) = (start, 0);
    while end - start < load.time && !interrupted.load(Relaxed) {
        let first = thread * OF_THREAD + commits * load.batch;
        let took = batches.put(name, &mut *session, first..first + load.batch)?;
        end = took.1;
        latencies.saturating_record((took.1 - took.0).as_nanos() as u64);
        commits += 1;
    }
    if interrupted.load(Relaxed) {
        return Err(Error::Interrupted);
    }
    Ok(Part { commits, start, end, latencies })
}

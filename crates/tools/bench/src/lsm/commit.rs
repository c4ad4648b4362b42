//! Durable commits (Yan §4.3, Fig. 16): inserts of records of 24 bytes and of 508, in commits of several, without
//! merges and without writes to the levels.
//!
//! `lsm.commit` goes through batches and threads, with both ways in which commit points become durable: `xp` with a
//! later fence, `xp-ordered` in every commit, like the paper's. Its limit is the medium's throughput for threads that
//! each write as many bytes and fence them, one commit after the other. `lsm.commit-wait` compares how threads wait for
//! one another, and batches that several of them commit as one. Latencies are those of a commit.

use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

use halite_lsm::experiments::{CommitPoints, WaitStrategy};
use halite_pmem::Fresh;
use hdrhistogram::Histogram;
use serde_json::json;

use super::host_memory::touch;
use super::setting::{Setting, xp};
use super::stores::LsmStore;
use crate::kv::records::{KeyForm, Records};
use crate::kv::{Memory, Pair, Store};
use crate::tenant::Place;
use crate::{Contender, Error, LIMIT, Result, Run, RunOptions, Sample, Scratch};

pub(super) const NAME: &str = "lsm.commit";

/// Records of a commit; the paper has 1 to 100.
const BATCHES: [u64; 8] = [1, 2, 5, 10, 20, 50, 75, 100];

const THREADS: [u64; 2] = [1, 2];

/// Threads of the comparison of waits: as many as processors, or more than some machines have.
const THREADS_WAITING: [u64; 4] = [1, 2, 4, 16];

/// Bytes of a key, and of a value: the paper's, which make records of 24 bytes, and those of YCSB, which come closer to
/// the medium's throughput.
const KEY_LEN: usize = 8;
const VALUE_LENS: [usize; 2] = [16, 500];

/// Waiting as by default, and several threads' batches committed as one.
const TOGETHER: &str = "together";

/// Bytes around the records of a commit.
const HEADER: u64 = 32;

const LINE: u64 = 64;

/// Below so many records a commit takes not much longer than reading the clock, and one in
/// [`TIMED`] is timed.
const TIMED_ALL: u64 = 10;
const TIMED: u64 = 8;

/// Significant digits of a latency.
const DIGITS: u8 = 3;

/// The memtable, which has room for all.
const MEMTABLE: u64 = 256 << 20;

fn batches(run: &Run<'_>) -> &'static [u64] {
    if run.options.quick { &[1, 50] } else { &BATCHES }
}

fn waiting(run: &Run<'_>) -> &'static [u64] {
    if run.options.quick { &THREADS_WAITING[1..2] } else { &THREADS_WAITING }
}

pub(super) fn plan(_: &Setting<'_>, run: &Run<'_>) -> u64 {
    let commits = VALUE_LENS.len() * batches(run).len() * THREADS.len() * 3;
    (commits + waiting(run).len() * (WaitStrategy::ALL.len() + 1)) as u64
        * u64::from(run.options.repeats)
}

/// The commits of one figure.
#[derive(Clone, Copy)]
struct Load {
    value_len: usize,
    batch: u64,
    threads: u64,
    /// The records of each thread.
    records: u64,
}

pub(super) fn run(setting: &Setting<'_>, run: &mut Run<'_>) -> Result<()> {
    let options = run.options.clone();
    let wait = WaitStrategy::default();
    for threads in THREADS {
        let shapes =
            VALUE_LENS.iter().flat_map(|len| batches(run).iter().map(move |batch| (*len, *batch)));
        for (value_len, batch) in shapes.collect::<Vec<_>>() {
            let records = records(&options, threads, value_len);
            let load = Load { value_len, batch, threads, records };
            let params = params(setting, load);
            let store = |name: &'static str, points| {
                let options = &options;
                Contender::new(name, move || {
                    committed(
                        xp(setting.pmem, options).committing(points, wait),
                        load,
                        setting,
                        options,
                    )
                })
            };
            let mut contenders = [
                Contender::new(LIMIT, || limit(&options, load)),
                store("xp", CommitPoints::Trailing),
                store("xp-ordered", CommitPoints::Ordered),
            ];
            run.compare(NAME, &params, &mut contenders)?;
        }
    }
    for &threads in waiting(run) {
        let value_len = VALUE_LENS[0];
        // Where more threads than processors spin, a commit takes long.
        let records = records(&options, threads, value_len) / threads;
        let load = Load { value_len, batch: 1, threads, records };
        let contender = |wait: WaitStrategy| {
            let options = &options;
            let name = format!("{wait:?}").to_lowercase();
            Contender::new(name, move || {
                let store = xp(setting.pmem, options);
                committed(store.committing(CommitPoints::default(), wait), load, setting, options)
            })
        };
        let mut contenders: Vec<_> = WaitStrategy::ALL.into_iter().map(contender).collect();
        contenders.push(Contender::new(TOGETHER, || {
            let mut store = xp(setting.pmem, &options);
            store.options.batches_max = threads as usize;
            committed(store, load, setting, &options)
        }));
        run.compare(&format!("{NAME}-wait"), &params(setting, load), &mut contenders)?;
    }
    Ok(())
}

fn params(setting: &Setting<'_>, load: Load) -> crate::Params {
    setting.params(
        setting.pmem.max(4 * MEMTABLE),
        [
            ("key-len", json!(KEY_LEN)),
            ("value-len", json!(load.value_len)),
            ("threads", json!(load.threads)),
            ("batch", json!(load.batch)),
        ],
    )
}

/// A million of each thread, as the paper has it, or as many as the memtable has room for.
fn records(run: &RunOptions, threads: u64, value_len: usize) -> u64 {
    let room = MEMTABLE * 3 / 4 / commit_len(1, value_len) / threads;
    if run.quick { 2_000 } else { room.min(1_000_000) }
}

/// Bytes that a commit takes.
fn commit_len(batch: u64, value_len: usize) -> u64 {
    let record = (20 + 4 + KEY_LEN + value_len).next_multiple_of(8) as u64;
    (HEADER + batch * record).next_multiple_of(LINE)
}

/// Measures the commits of all threads.
fn committed(
    store: LsmStore,
    load: Load,
    setting: &Setting<'_>,
    run: &RunOptions,
) -> Result<Vec<Sample>> {
    let mut store = store;
    let place = Place::new(&setting.lodging(run))?;
    let pool_bytes = setting.pmem.max(4 * MEMTABLE);
    store.set_pool(pool_bytes, Memory { write_buffer: MEMTABLE, cache: 1 << 20 });
    // The limit has no page faults where it writes, so those here must not wait for the host.
    touch(
        &run.folder,
        load.records * load.threads / load.batch * commit_len(load.batch, load.value_len),
    );
    let failed = |action| Error::of_store("xp", action);
    store.open(place.path()).map_err(failed("open"))?;
    // The first commit finds the memtable without a zone.
    let mut session = store.session().map_err(failed("open a session"))?;
    session.put(b"", b"").map_err(failed("put"))?;
    drop(session);
    let before = store.counters().unwrap_or_default().traffic;
    let begin = Barrier::new(load.threads as usize);
    let outcomes: Vec<Result<(Instant, Instant, Histogram<u64>)>> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..load.threads)
            .map(|thread| {
                let (store, begin) = (&store, &begin);
                scope.spawn(move || one_thread(store, load, thread, run.seed, begin))
            })
            .collect();
        let join = |handle: std::thread::ScopedJoinHandle<'_, _>| {
            handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        handles.into_iter().map(join).collect()
    });
    let traffic = store.counters().unwrap_or_default().traffic - before;
    let parts = outcomes.into_iter().collect::<Result<Vec<_>>>()?;
    check(&store, load, run.seed)?;
    store.close().map_err(failed("close"))?;

    let start = parts.iter().map(|part| part.0).min();
    let end = parts.iter().map(|part| part.1).max();
    let time = start.zip(end).map_or(Duration::ZERO, |(start, end)| end - start);
    let mut latencies = histogram()?;
    for (_, _, part) in &parts {
        // All have the same bounds.
        let _ = latencies.add(part);
    }
    let (records, seconds) = (load.records * load.threads, time.as_secs_f64().max(1e-9));
    let commits = records as f64 / load.batch as f64;
    let mut samples = vec![
        Sample::throughput(records, time),
        Sample::new("commits", "commit/s", commits / seconds),
        Sample::new("bandwidth", "B/s", (traffic.lines * LINE) as f64 / seconds),
        Sample::new("fences", "1/commit", traffic.fences as f64 / commits),
        Sample::new("lines", "1/commit", traffic.lines as f64 / commits),
    ];
    for (name, quantile) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)] {
        let latency = latencies.value_at_quantile(quantile) as f64;
        samples.push(Sample::new(format!("commit-{name}"), "ns", latency));
    }
    Ok(samples)
}

fn histogram() -> Result<Histogram<u64>> {
    let why = |error: hdrhistogram::CreationError| Error::Store {
        store: "xp".to_owned(),
        action: "make room for latencies",
        source: error.to_string().into(),
    };
    Histogram::new_with_bounds(1, 3_600_000_000_000, DIGITS).map_err(why)
}

/// The records of a thread: no other thread has their keys.
fn number(load: Load, thread: u64, record: u64) -> u64 {
    thread * load.records + record
}

fn values(load: Load, seed: u64) -> Records {
    Records::new(KeyForm::Mixed { len: KEY_LEN }, load.value_len, seed)
}

fn one_thread(
    store: &LsmStore,
    load: Load,
    thread: u64,
    seed: u64,
    begin: &Barrier,
) -> Result<(Instant, Instant, Histogram<u64>)> {
    let prepared = store.session().map_err(Error::of_store("xp", "open a session"));
    let mut values = values(load, seed);
    let mut latencies = histogram()?;
    let mut batch: Vec<Pair> = vec![Pair::default(); load.batch as usize];
    begin.wait();
    let mut session = prepared?;
    let start = Instant::now();
    for (commit, first) in (0..load.records).step_by(load.batch as usize).enumerate() {
        let count = load.batch.min(load.records - first);
        for (record, pair) in (first..first + count).zip(&mut batch) {
            let (key, value) = values.pair(number(load, thread, record), 0);
            pair.0.clear();
            pair.0.extend_from_slice(key);
            pair.1.clear();
            pair.1.extend_from_slice(value);
        }
        let is_timed = load.batch >= TIMED_ALL || (commit as u64).is_multiple_of(TIMED);
        let begun = is_timed.then(Instant::now);
        let done = match &batch[..count as usize] {
            [(key, value)] => session.put(key, value),
            several => session.put_all(several),
        };
        done.map_err(Error::of_store("xp", "commit"))?;
        if let Some(begun) = begun {
            latencies.saturating_record(begun.elapsed().as_nanos() as u64);
        }
    }
    Ok((start, Instant::now(), latencies))
}

/// Makes sure that a thousand of each thread's records are there.
fn check(store: &LsmStore, load: Load, seed: u64) -> Result<()> {
    let mut session = store.session().map_err(Error::of_store("xp", "open a session"))?;
    let mut values = values(load, seed);
    for thread in 0..load.threads {
        for record in (0..load.records).step_by((load.records / 1000).max(1) as usize) {
            values.key(number(load, thread, record));
            let mut found = None;
            let read = &mut |value: &[u8]| found = values.version(values.last_key(), value);
            session.get(values.last_key(), read).map_err(Error::of_store("xp", "get"))?;
            if found != Some(0) {
                let why = format!("record {record} of thread {thread} is missing");
                return Err(Error::WrongAnswer { store: "xp".to_owned(), why });
            }
        }
    }
    Ok(())
}

/// The medium's throughput: as many bytes as a commit has, in sequence and fenced, by the better of the two ways to
/// write them.
fn limit(run: &RunOptions, load: Load) -> Result<Vec<Sample>> {
    let bytes = commit_len(load.batch, load.value_len);
    let region = if run.quick { 1 << 20 } else { 64 << 20 };
    let commits = load.records / load.batch;
    let scratch = Scratch::new(run, region * load.threads)?;
    let memories = (0..load.threads)
        .map(|thread| {
            let mut fresh = scratch.pool().claim(thread * region, region)?;
            // No page fault is due.
            let _ = fresh.zero(0..region);
            Ok(Mutex::new(fresh))
        })
        .collect::<Result<Vec<_>>>()?;
    let begin = &Barrier::new(load.threads as usize);
    let mut best: f64 = 0.0;
    for is_streamed in [false, true] {
        let start = Mutex::new(None);
        let start = &start;
        std::thread::scope(|scope| {
            let work = |memory: &Mutex<Fresh>| -> Result<()> {
                let mut fresh = memory.lock().unwrap_or_else(|e| e.into_inner());
                let chunk = vec![7; bytes as usize];
                begin.wait();
                start.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert_with(Instant::now);
                let mut at = 0;
                for _ in 0..commits {
                    if at + bytes > region {
                        at = 0;
                    }
                    let flushed = if is_streamed {
                        fresh.write_stream(at, &chunk)
                    } else {
                        fresh.write(at, &chunk);
                        fresh.flush(at..at + bytes)
                    };
                    fresh.pool().fence([flushed])?;
                    at += bytes;
                }
                Ok(())
            };
            let handles: Vec<_> =
                memories.iter().map(|memory| scope.spawn(move || work(memory))).collect();
            let join = |handle: std::thread::ScopedJoinHandle<'_, Result<()>>| {
                handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            handles.into_iter().try_for_each(join)
        })?;
        let start = start.lock().unwrap_or_else(|e| e.into_inner());
        let time = start.map_or(Duration::ZERO, |start| start.elapsed());
        let written = (commits * bytes * load.threads) as f64;
        best = best.max(written / time.as_secs_f64().max(1e-9));
    }
    Ok(vec![Sample::new("bandwidth", "B/s", best)])
}

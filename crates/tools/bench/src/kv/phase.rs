//! One phase of a workload: threads that do operations, and one that watches them.
//!
//! The threads warm up, wait for each other, and begin together. In a closed loop a thread begins an
//! operation when its last one ends, and times one in [`TIMED`]: reading the clock takes as long as a
//! fence. In an open loop operations are due at fixed times, and their latency counts from then, so
//! that a store that stalls is charged for all that waited.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use hdrhistogram::Histogram;

use super::options::Length;
use super::process;
use super::store::{Counters, Store};
use super::worker::{Operation, Worker};
use super::workload::{KINDS, Kind};
use crate::summary::deviation;
use crate::{Error, Result, Sample};

/// The window in which operations are counted to see how steady they are.
pub(crate) const WINDOW: Duration = Duration::from_millis(100);

/// In a closed loop one operation in so many is timed, by chance.
const TIMED: u64 = 8;

/// How long threads warm up, as a part of the measured time.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WarmUp {
    /// A tenth of the operations or of the time: caches of the processor are warm.
    Tenth,
    /// As many operations, or as long, as the store's.
    AsLong,
}

impl WarmUp {
    fn divisor(self) -> u32 {
        match self {
            Self::Tenth => 10,
            Self::AsLong => 1,
        }
    }
}

/// How a phase is driven.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// How long; `None`: until the operations are done, without warming up.
    pub(crate) length: Option<Length>,
    /// Operations a second of all threads together, in an open loop.
    pub(crate) rate: Option<u64>,
    pub(crate) warm_up: WarmUp,
}

/// The figures of a phase.
pub(crate) struct Measured {
    pub(crate) operations: u64,
    pub(crate) duration: Duration,
    pairs: u64,
    latencies: Vec<(Kind, Histogram<u64>)>,
    /// Operations a second in each [`WINDOW`].
    pub(crate) windows: Vec<f64>,
    before: Option<Counters>,
    after: Option<Counters>,
    cpu_ns: u64,
    /// Bytes written to disks, where that is known.
    written_bytes: Option<u64>,
    /// Bytes written by calls of the kernel and in lines of the pool, where that is known.
    all_written_bytes: Option<u64>,
    /// Calls of the kernel that read, and their bytes, where that is known.
    call_reads: Option<(u64, u64)>,
    anonymous_bytes: Option<u64>,
}

/// The state that the threads and the watching one share.
struct Shared<'a> {
    pace: Pace,
    threads: usize,
    interrupted: &'a AtomicBool,
    /// True once a thread failed.
    failed: AtomicBool,
    /// Every thread is warm; the measuring may begin.
    warm: Barrier,
    begin: Barrier,
    done: Box<[Done]>,
}

/// Operations that a thread has done.
#[repr(align(128))]
#[derive(Default)]
struct Done(AtomicU64);

/// Waits at a barrier at the latest when it goes: a thread that fails lets no other one wait forever.
struct Arrive<'a>(Option<&'a Barrier>);

impl Arrive<'_> {
    fn wait(&mut self) {
        if let Some(barrier) = self.0.take() {
            barrier.wait();
        }
    }
}

impl Drop for Arrive<'_> {
    fn drop(&mut self) {
        self.wait();
    }
}

/// The figures of one thread.
struct Part {
    operations: u64,
    pairs: u64,
    start: Instant,
    end: Instant,
    latencies: Vec<Option<Histogram<u64>>>,
}

/// Runs a phase with the workers that `worker` makes, each in a thread of its own; `check` is called for each when all
/// are done.
pub(crate) fn run<'s>(
    store: &'s dyn Store,
    threads: usize,
    pace: Pace,
    interrupted: &AtomicBool,
    worker: &(dyn Fn(usize) -> Result<Worker<'s>> + Sync),
) -> Result<Measured> {
    let shared = Shared {
        pace,
        threads,
        interrupted,
        failed: AtomicBool::new(false),
        warm: Barrier::new(threads + 1),
        begin: Barrier::new(threads + 1),
        done: (0..threads).map(|_| Done::default()).collect(),
    };
    let finished = Barrier::new(threads);
    let (sender, parts) = channel();
    thread::scope(|scope| {
        for thread in 0..threads {
            let (shared, finished, sender) = (&shared, &finished, sender.clone());
            scope.spawn(move || {
                let mut finished = Arrive(Some(finished));
                let outcome = one(shared, thread, worker, &mut finished);
                shared.failed.fetch_or(outcome.is_err(), Relaxed);
                // The receiver waits for all of them.
                let _ = sender.send(outcome);
            });
        }
        drop(sender);
        shared.warm.wait();
        let (before, cpu_before) = (store.counters(), process::cpu_ns());
        let written_before = process::disk_written_bytes();
        let (all_before, reads_before) = (all_written(store), process::call_reads());
        shared.begin.wait();
        let mut measured = watch(&shared, &parts)?;
        (measured.before, measured.after) = (before, store.counters());
        measured.cpu_ns = process::cpu_ns() - cpu_before;
        let written = written_before.zip(process::disk_written_bytes());
        measured.written_bytes = written.map(|(before, after)| after - before);
        let all = all_before.zip(all_written(store));
        measured.all_written_bytes = all.map(|(before, after)| after - before);
        let reads = reads_before.zip(process::call_reads());
        measured.call_reads = reads.map(|(before, after)| (after.0 - before.0, after.1 - before.1));
        Ok(measured)
    })
}

/// A thread's whole life.
fn one<'s>(
    shared: &Shared<'_>,
    thread: usize,
    worker: &(dyn Fn(usize) -> Result<Worker<'s>> + Sync),
    finished: &mut Arrive<'_>,
) -> Result<Part> {
    let (mut warm, mut begin) = (Arrive(Some(&shared.warm)), Arrive(Some(&shared.begin)));
    let warmed = worker(thread).and_then(|mut worker| {
        shared.warm_up(&mut worker)?;
        Ok(worker)
    });
    shared.failed.fetch_or(warmed.is_err(), Relaxed);
    warm.wait();
    begin.wait();
    let mut worker = warmed?;
    let pairs_before = worker.pairs;
    let mut part = match shared.pace.rate {
        Some(rate) => shared.open_loop(&mut worker, rate)?,
        None => shared.closed_loop(&mut worker)?,
    };
    part.pairs = worker.pairs - pairs_before;
    finished.wait();
    if !shared.failed.load(Relaxed) {
        worker.check_writes(shared.threads == 1)?;
    }
    Ok(part)
}

impl Shared<'_> {
    /// A thread's share of all operations.
    fn share(&self, operations: u64) -> u64 {
        operations.div_ceil(self.threads as u64)
    }

    /// Whether to stop before the end.
    #[inline]
    fn stopped(&self) -> Result<bool> {
        if self.interrupted.load(Relaxed) {
            return Err(Error::Interrupted);
        }
        Ok(self.failed.load(Relaxed))
    }

    fn warm_up(&self, worker: &mut Worker<'_>) -> Result<()> {
        let start = Instant::now();
        let mut count = 0;
        while match self.pace.length {
            None => false,
            Some(Length::Operations(operations)) => {
                count < self.share(operations) / u64::from(self.pace.warm_up.divisor())
            }
            Some(Length::Time(time)) => start.elapsed() < time / self.pace.warm_up.divisor(),
        } && !self.stopped()?
        {
            let Some(operation) = worker.next() else { break };
            worker.execute(&operation)?;
            count += 1;
        }
        Ok(())
    }

    fn closed_loop(&self, worker: &mut Worker<'_>) -> Result<Part> {
        let mut latencies = Latencies::new();
        let mut which = Rng::with_seed(worker.thread as u64);
        let (most, deadline) = self.bounds();
        let start = Instant::now();
        let (mut end, mut operations) = (start, 0);
        while operations < most && deadline.is_none_or(|time| end - start < time) {
            if self.stopped()? {
                break;
            }
            let Some(operation) = worker.next() else { break };
            if which.u64(..TIMED) == 0 {
                let begun = Instant::now();
                worker.execute(&operation)?;
                end = Instant::now();
                latencies.add(&operation, end - begun);
            } else {
                worker.execute(&operation)?;
            }
            operations += 1;
            self.done[worker.thread].0.store(operations, Relaxed);
        }
        let (end, latencies) = (Instant::now(), latencies.0);
        Ok(Part { operations, pairs: 0, start, end, latencies })
    }

    fn open_loop(&self, worker: &mut Worker<'_>, rate: u64) -> Result<Part> {
        let mut latencies = Latencies::new();
        let (most, deadline) = self.bounds();
        let start = Instant::now();
        let (mut end, mut operations) = (start, 0);
        while operations < most {
            // The threads' operations are due one after the other.
            let place = operations * self.threads as u64 + worker.thread as u64;
            let due =
                Duration::from_nanos((u128::from(place) * 1_000_000_000 / u128::from(rate)) as u64);
            if deadline.is_some_and(|time| due >= time) || !self.wait(start + due)? {
                break;
            }
            let Some(operation) = worker.next() else { break };
            worker.execute(&operation)?;
            end = Instant::now();
            latencies.add(&operation, end.saturating_duration_since(start + due));
            operations += 1;
            self.done[worker.thread].0.store(operations, Relaxed);
        }
        Ok(Part { operations, pairs: 0, start, end, latencies: latencies.0 })
    }

    /// Operations of a thread at most, and the time.
    fn bounds(&self) -> (u64, Option<Duration>) {
        match self.pace.length {
            None => (u64::MAX, None),
            Some(Length::Operations(operations)) => (self.share(operations), None),
            Some(Length::Time(time)) => (u64::MAX, Some(time)),
        }
    }

    /// Waits until then; false if the phase is to stop.
    fn wait(&self, due: Instant) -> Result<bool> {
        /// How late a sleeping thread may wake.
        const SLACK: Duration = Duration::from_micros(200);
        /// How often a sleeping thread checks whether it has to stop.
        const NAP: Duration = Duration::from_millis(100);
        loop {
            if self.stopped()? {
                return Ok(false);
            }
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(true);
            }
            match left.checked_sub(SLACK) {
                Some(nap) => thread::sleep(nap.min(NAP)),
                None => thread::yield_now(),
            }
        }
    }
}

/// A histogram for each kind that is met.
struct Latencies(Vec<Option<Histogram<u64>>>);

/// Significant digits of a latency.
const DIGITS: u8 = 3;

/// The longest latency that is distinguished from longer ones: an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

impl Latencies {
    fn new() -> Self {
        Self(KINDS.iter().map(|_| None).collect())
    }

    fn add(&mut self, operation: &Operation, latency: Duration) {
        let place = operation.kind as usize;
        if self.0[place].is_none() {
            self.0[place] = Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).ok();
        }
        if let Some(histogram) = &mut self.0[place] {
            histogram.saturating_record(latency.as_nanos() as u64);
        }
    }
}

/// Bytes that calls of the kernel wrote so far, for any store, and lines of the store's pool.
pub(crate) fn all_written(store: &dyn Store) -> Option<u64> {
    let pool = store.counters().map_or(0, |counters| counters.pool_bytes());
    Some(process::call_written_bytes()? + pool)
}

/// Counts in windows until all threads are done, and puts their parts together.
fn watch(shared: &Shared<'_>, parts: &mpsc::Receiver<Result<Part>>) -> Result<Measured> {
    let mut outcomes = Vec::new();
    let mut windows = Vec::new();
    let mut anonymous_bytes = None;
    let (mut last, mut window_start) = (0, Instant::now());
    loop {
        let window_end = window_start + WINDOW;
        match parts.recv_timeout(window_end.saturating_duration_since(Instant::now())) {
            Ok(outcome) => outcomes.push(outcome),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                let count = shared.done.iter().map(|done| done.0.load(Relaxed)).sum::<u64>();
                let now = Instant::now();
                // A window that a thread did not work to its end is dropped.
                if outcomes.is_empty() {
                    windows.push((count - last) as f64 / (now - window_start).as_secs_f64());
                }
                (last, window_start) = (count, now);
                anonymous_bytes = anonymous_bytes.max(process::anonymous_bytes());
            }
        }
    }
    anonymous_bytes = anonymous_bytes.max(process::anonymous_bytes());

    let parts = outcomes.into_iter().collect::<Result<Vec<Part>>>()?;
    let start = parts.iter().map(|part| part.start).min();
    let end = parts.iter().map(|part| part.end).max();
    let duration = start.zip(end).map_or(Duration::ZERO, |(start, end)| end - start);
    let mut latencies: Vec<(Kind, Histogram<u64>)> = Vec::new();
    for (place, (_, kind)) in KINDS.iter().enumerate() {
        let mut of_kind = parts.iter().filter_map(|part| part.latencies[place].as_ref());
        let Some(mut all) = of_kind.next().cloned() else { continue };
        for part in of_kind {
            // Both have the same bounds.
            let _ = all.add(part);
        }
        latencies.push((*kind, all));
    }
    Ok(Measured {
        operations: parts.iter().map(|part| part.operations).sum(),
        duration,
        pairs: parts.iter().map(|part| part.pairs).sum(),
        latencies,
        windows,
        before: None,
        after: None,
        cpu_ns: 0,
        written_bytes: None,
        all_written_bytes: None,
        call_reads: None,
        anonymous_bytes,
    })
}

/// The percentiles that are reported, with their names.
const PERCENTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];

impl Measured {
    /// Bytes that were written after the end, and because of it: to disks, and by calls and in lines.
    pub(crate) fn add_written(&mut self, disk: u64, all: u64) {
        self.written_bytes = self.written_bytes.map(|written| written + disk);
        self.all_written_bytes = self.all_written_bytes.map(|written| written + all);
    }

    /// Bytes that were written for each byte of the user, if an operation brings so many.
    pub(crate) fn amplification(&self, user_bytes: f64) -> Option<Sample> {
        let user = self.operations as f64 * user_bytes;
        let written = self.all_written_bytes.filter(|_| user > 0.0)?;
        Some(Sample::new("write-amplification", "x", written as f64 / user))
    }

    /// Returns all samples, as docs/BENCH.md lists them.
    pub(crate) fn samples(&self) -> Vec<Sample> {
        let mut samples = vec![Sample::throughput(self.operations, self.duration)];
        let operations = self.operations.max(1) as f64;
        let mut add = |metric: &str, unit: &str, value: f64| {
            samples.push(Sample::new(metric, unit, value));
        };
        if let Some(deviation) = deviation(&self.windows) {
            add("throughput-stddev", "op/s", deviation);
        }
        if self.pairs > 0 {
            add("pairs", "pair/s", self.pairs as f64 / self.duration.as_secs_f64().max(1e-9));
        }
        for (kind, histogram) in &self.latencies {
            for (name, quantile) in PERCENTILES {
                let value = histogram.value_at_quantile(quantile) as f64;
                add(&format!("{kind}-{name}"), "ns", value);
            }
            add(&format!("{kind}-max"), "ns", histogram.max() as f64);
        }
        if let Some((before, after)) = self.before.zip(self.after) {
            let traffic = after.traffic - before.traffic;
            for (metric, count) in [
                ("fences", traffic.fences),
                ("flushes", traffic.flushes),
                ("lines", traffic.lines),
                ("media-blocks", traffic.media_blocks),
            ] {
                add(metric, "1/op", count as f64 / operations);
            }
            if let Some((before, after)) = before.syncs.zip(after.syncs) {
                add("syncs", "1/op", (after - before) as f64 / operations);
            }
            add("index", "B/record", after.index_bytes as f64 / after.records.max(1) as f64);
        }
        add("cpu", "ns/op", self.cpu_ns as f64 / operations);
        if let Some(bytes) = self.written_bytes {
            add("disk-written", "B/op", bytes as f64 / operations);
        }
        if let Some(bytes) = self.all_written_bytes {
            add("written", "B/op", bytes as f64 / operations);
        }
        if let Some((calls, bytes)) = self.call_reads {
            add("read-calls", "1/op", calls as f64 / operations);
            add("read-by-calls", "B/op", bytes as f64 / operations);
        }
        for (metric, bytes) in
            [("memory-anonymous", self.anonymous_bytes), ("memory-peak", process::peak_bytes())]
        {
            if let Some(bytes) = bytes {
                add(metric, "B", bytes as f64);
            }
        }
        samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_numbered_as_they_are_listed() {
        for (place, (_, kind)) in KINDS.iter().enumerate() {
            assert_eq!(*kind as usize, place);
        }
    }
}

//! Interference (van Renen §2.4, figure 5): scans and random reads, of DRAM and of the pool, each alone and beside
//! another load: writing a log, writing pages, scans or random reads.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use halite_pmem::probe::{self, Way};
use halite_pmem::{Fresh, LINE};
use serde_json::json;

use super::{Dram, KIB, MIB, Offsets, Pattern, params};
use crate::{Contender, Result, Run, RunOptions, Sample, Scratch};

/// The experiment's name in rows.
pub const NAME: &str = "device.interference";

/// A load on memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    ScanDram,
    ScanPool,
    LookUpDram,
    LookUpPool,
    /// One line after the other, each with a fence.
    Log,
    /// Pages of 16 KiB at random places, each with a fence.
    Page,
}

const IN_FRONT: [Task; 4] = [Task::ScanDram, Task::ScanPool, Task::LookUpDram, Task::LookUpPool];
const BESIDE: [Task; 6] =
    [Task::ScanDram, Task::ScanPool, Task::LookUpDram, Task::LookUpPool, Task::Log, Task::Page];

impl Task {
    fn name(self) -> &'static str {
        match self {
            Self::ScanDram => "scan-dram",
            Self::ScanPool => "scan-pool",
            Self::LookUpDram => "look-up-dram",
            Self::LookUpPool => "look-up-pool",
            Self::Log => "log",
            Self::Page => "page",
        }
    }

    /// The part of this load's bandwidth that the paper reports beside another (§2.4).
    fn source(self, beside: Self) -> Option<f64> {
        match (self, beside) {
            (Self::ScanDram, Self::Log) => Some(65.6e9),
            (Self::ScanDram, Self::Page) => Some(49.2e9),
            (Self::ScanPool, Self::Log) => Some(15.6e9),
            (Self::ScanPool, Self::Page) => Some(13.0e9),
            _ => None,
        }
    }
}

/// The memory that one thread works on.
struct Memory {
    fresh: Fresh,
    dram: Dram,
    sequential: Offsets,
    random: Offsets,
    lines: Offsets,
    pages: Offsets,
}

impl Memory {
    const SCANNED: u64 = 256 * KIB;
    const PAGE: u64 = 16 * KIB;

    fn new(mut fresh: Fresh, seed: u64) -> Self {
        let bytes = fresh.len();
        let _ = fresh.zero(0..bytes);
        Self {
            fresh,
            dram: Dram::new(bytes),
            sequential: Offsets::new(Pattern::Sequential, Self::SCANNED, bytes, seed),
            random: Offsets::new(Pattern::Random, LINE, bytes, seed),
            lines: Offsets::new(Pattern::Sequential, LINE, bytes, seed),
            pages: Offsets::new(Pattern::Random, Self::PAGE, bytes, seed),
        }
    }

    /// Does a little of a task; returns its bytes.
    fn work(&mut self, task: Task) -> u64 {
        let (offsets, block) = match task {
            Task::ScanDram | Task::ScanPool => (self.sequential.take(1), Self::SCANNED),
            Task::LookUpDram | Task::LookUpPool => (self.random.take(256), LINE),
            Task::Log => (self.lines.take(64), LINE),
            Task::Page => (self.pages.take(1), Self::PAGE),
        };
        match task {
            Task::ScanDram | Task::LookUpDram => self.dram.read(&offsets, block),
            Task::ScanPool | Task::LookUpPool => probe::read(&self.fresh, &offsets, block),
            Task::Log => probe::persist(&mut self.fresh, Way::NonTemporal, &offsets),
            Task::Page => probe::write(&mut self.fresh, Way::NonTemporal, &offsets, block),
        };
        offsets.len() as u64 * block
    }

    /// Does a task until it is told to stop or time is up; returns bytes in a second.
    fn rate(&mut self, task: Task, time: Duration, stop: &AtomicBool) -> f64 {
        let start = Instant::now();
        let mut bytes = 0;
        while start.elapsed() < time && !stop.load(Ordering::Relaxed) {
            bytes += self.work(task);
        }
        bytes as f64 / start.elapsed().as_secs_f64().max(1e-9)
    }
}

fn is_possible(task: Task) -> bool {
    !matches!(task, Task::Log | Task::Page) || Way::NonTemporal.is_available()
}

fn beside() -> impl Iterator<Item = Task> {
    BESIDE.into_iter().filter(|task| is_possible(*task))
}

/// How many measurements it makes.
#[must_use]
pub fn plan(options: &RunOptions) -> u64 {
    (beside().count() * IN_FRONT.len()) as u64 * u64::from(options.repeats)
}

/// Measures with one thread in front and one beside: metrics `bandwidth` of the front thread, alone (`bandwidth-alone`)
/// and beside the other, in B/s; `slowdown`, the ratio of the two; and `bandwidth-beside`, of the other thread.
///
/// # Errors
/// The errors of a pool; [`crate::Error::Interrupted`].
pub fn run(run: &mut Run<'_>) -> Result<()> {
    let (bytes, time) = if run.options.quick {
        (16 * MIB, Duration::from_millis(10))
    } else {
        (512 * MIB, Duration::from_millis(200))
    };
    let scratch = Scratch::large(run, 2 * bytes)?;
    let memory = |place| -> Result<_> {
        Ok(RefCell::new(Memory::new(scratch.pool().claim(place * bytes, bytes)?, place)))
    };
    let (front, back) = (memory(0)?, memory(1)?);
    for other in beside() {
        let measure = &|task| {
            let (mut front, mut back) = (front.borrow_mut(), back.borrow_mut());
            let alone = front.rate(task, time, &AtomicBool::new(false));
            let (beside, others) = both(&mut front, task, &mut back, other, time);
            let rate = |metric: &str, rate| Sample::new(metric, "B/s", rate);
            Ok(vec![
                rate("bandwidth", beside),
                rate("bandwidth-alone", alone),
                Sample::new("slowdown", "ratio", alone / beside.max(1.0)),
                rate("bandwidth-beside", others),
            ])
        };
        let mut contenders: Vec<_> = IN_FRONT
            .into_iter()
            .map(|task| {
                Contender::new(task.name(), move || measure(task))
                    .with_source("bandwidth", task.source(other))
            })
            .collect();
        run.compare(NAME, &params([("beside", json!(other.name()))]), &mut contenders)?;
    }
    Ok(())
}

/// Bytes in a second of a task, and of the other beside it.
fn both(
    front: &mut Memory,
    task: Task,
    back: &mut Memory,
    other: Task,
    time: Duration,
) -> (f64, f64) {
    let (stop, goes_on) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            back.work(other);
            goes_on.store(true, Ordering::Release);
            back.rate(other, Duration::MAX, &stop)
        });
        while !goes_on.load(Ordering::Acquire) && !other.is_finished() {
            std::thread::yield_now();
        }
        let rate = front.rate(task, time, &AtomicBool::new(false));
        stop.store(true, Ordering::Relaxed);
        (rate, other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

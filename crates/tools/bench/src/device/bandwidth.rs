//! Bandwidth (van Renen, figures 3 and 4, table 2): independent accesses to blocks at random places, by their size and
//! by the number of threads.
//!
//! Stores are left in the cache, written back, or made past the cache; loads are loads. Beside them
//! stand loads and stores of DRAM. Under a profile, stores that are left in the cache cost nothing.

use std::sync::{Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};

use halite_pmem::probe::{self, Way};
use halite_pmem::{Fresh, LINE};
use serde_json::json;

use super::{Dram, KIB, MIB, Offsets, Pattern, median_of, params, thread_counts};
use crate::{Contender, Result, Run, RunOptions, Sample, Scratch};

/// The experiment's name in rows.
pub const NAME: &str = "device.bandwidth";

/// Rounds of a measurement.
const ROUNDS: u64 = 15;

/// An access of a thread to its blocks.
#[derive(Debug, Clone, Copy)]
enum Job {
    Load,
    Store(Way),
    LoadDram,
    StoreDram,
}

impl Job {
    fn all() -> impl Iterator<Item = Self> {
        [
            Self::Load,
            Self::Store(Way::Store),
            Self::Store(Way::Clwb),
            Self::Store(Way::NonTemporal),
            Self::LoadDram,
            Self::StoreDram,
        ]
        .into_iter()
        .filter(|job| !matches!(job, Self::Store(way) if !way.is_available()))
    }

    fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Store(Way::Store) => "store",
            Self::Store(Way::NonTemporal) => "non-temporal",
            Self::Store(_) => "store+clwb",
            Self::LoadDram => "dram-load",
            Self::StoreDram => "dram-store",
        }
    }
}

/// The memory that a thread works on.
struct Memory {
    fresh: Fresh,
    dram: Dram,
}

impl Memory {
    fn work(&mut self, job: Job, offsets: &[u64], block: u64) -> Duration {
        match job {
            Job::Load => probe::read(&self.fresh, offsets, block),
            Job::Store(way) => probe::write(&mut self.fresh, way, offsets, block),
            Job::LoadDram => self.dram.read(offsets, block),
            Job::StoreDram => self.dram.write(offsets, block),
        }
    }
}

/// Threads and block sizes: all sizes with all threads, and all threads with a block of the medium and
/// with 1 MiB.
fn shapes() -> Vec<(u64, u64)> {
    let counts = thread_counts();
    let most = counts.last().copied().unwrap_or(1);
    let lines = [1, 2, 3, 4, 5, 6, 7, 8, 12, 16];
    let sizes = lines.iter().map(|lines| lines * LINE).chain([4 * KIB, 16 * KIB]);
    let by_size = sizes.map(|block| (most, block));
    let by_threads = counts.iter().flat_map(|threads| [(*threads, 256), (*threads, MIB)]);
    let mut shapes: Vec<_> = by_size.chain(by_threads).collect();
    shapes.sort_unstable();
    shapes.dedup();
    shapes
}

/// How many measurements it makes.
#[must_use]
pub fn plan(options: &RunOptions) -> u64 {
    (shapes().len() * Job::all().count()) as u64 * u64::from(options.repeats)
}

/// Measures: metric `bandwidth`, in B/s, of all threads together.
///
/// # Errors
/// The errors of a pool; [`crate::Error::Interrupted`].
pub fn run(run: &mut Run<'_>) -> Result<()> {
    let (bytes, bytes_a_round) =
        if run.options.quick { (16 * MIB, 2 * MIB) } else { (512 * MIB, 16 * MIB) };
    let most = thread_counts().last().copied().unwrap_or(1);
    let scratch = Scratch::large(run, bytes * most)?;
    let memories = (0..most)
        .map(|thread| {
            let mut fresh = scratch.pool().claim(thread * bytes, bytes)?;
            run.prepare(bytes, |part| drop(fresh.zero(part)))?;
            Ok(Mutex::new(Memory { fresh, dram: Dram::new(bytes) }))
        })
        .collect::<Result<Vec<_>>>()?;
    let seed = run.options.seed;
    for (threads, block) in shapes() {
        let measure = &|job| {
            let rate = rate(
                &memories[..threads as usize],
                |thread| Offsets::new(Pattern::Random, block, bytes, seed ^ thread),
                (bytes_a_round / block).max(1),
                |memory, offsets| memory.work(job, offsets, block),
            );
            Ok(vec![Sample::new("bandwidth", "B/s", rate)])
        };
        let mut contenders: Vec<_> =
            Job::all().map(|job| Contender::new(job.name(), move || measure(job))).collect();
        let params = params([("threads", json!(threads)), ("block", json!(block))]);
        run.compare(NAME, &params, &mut contenders)?;
    }
    Ok(())
}

/// Bytes in a second of all threads, each of which works on so many blocks of its memory in a round:
/// the median of the rounds, each from the begin of its first thread to the end of its last.
pub(super) fn rate<M: Send>(
    memories: &[Mutex<M>],
    offsets: impl Fn(u64) -> Offsets + Sync,
    blocks: u64,
    work: impl Fn(&mut M, &[u64]) -> Duration + Sync,
) -> f64 {
    let (begin, offsets, work) = (&Barrier::new(memories.len()), &offsets, &work);
    let block = offsets(0).block;
    let times: Vec<Vec<(Instant, Instant)>> = std::thread::scope(|scope| {
        let threads: Vec<_> = memories
            .iter()
            .zip(1..)
            .map(|(memory, seed)| {
                scope.spawn(move || {
                    let mut memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
                    let mut offsets = offsets(seed);
                    let round = |_| {
                        let offsets = offsets.take(blocks);
                        begin.wait();
                        let start = Instant::now();
                        work(&mut memory, &offsets);
                        (start, Instant::now())
                    };
                    (0..ROUNDS).map(round).collect()
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let mut rounds = 0..ROUNDS as usize;
    let bytes = (blocks * block) as f64 * memories.len() as f64;
    median_of(ROUNDS, || {
        let round = rounds.next().unwrap_or_default();
        let first = times.iter().map(|times| times[round].0).min();
        let last = times.iter().map(|times| times[round].1).max();
        let time = last.zip(first).map(|(last, first)| last - first).unwrap_or_default();
        bytes / time.as_secs_f64().max(1e-9)
    })
}

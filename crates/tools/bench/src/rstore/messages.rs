//! Shared memory against messages (Lersch §5.3.2, Fig. 5.1): threads increment one counter, under a mutex that they
//! share, or by a request to the one thread that owns the counter.
//!
//! The operation is the same throughout: an increment, so that only contention is measured. With messages one of the
//! threads is the owner and only serves. The others send requests through a bounded queue and do not wait for replies,
//! but for room. A single thread is owner and sender in turns. No thread spins for long: a full or an empty queue puts
//! a thread to sleep, as a contended mutex does. So the time that the processors are busy for an increment shows the
//! cost of waiting, even where there are more threads than cores.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

use crate::{Contender, Error, Params, Result, Run, RunOptions, Sample};

/// The experiment's name in rows.
pub const NAME: &str = "rstore.messages";

/// Threads that are tried even where there are fewer cores.
const THREADS_MIN: usize = 4;

/// Requests that a queue has room for.
const QUEUE: usize = 1024;

/// Increments between two looks at the clock of the run.
const BURST: u64 = 64;

/// A request to the owner: by how much it is to increment.
struct Increment(u64);

/// The work of one thread.
struct Work {
    /// Increments that it made, or requested.
    increments: u64,
    /// How long a processor worked for it.
    busy: Duration,
}

fn threads_max() -> usize {
    thread::available_parallelism().map_or(1, usize::from).max(THREADS_MIN)
}

/// How many measurements it makes.
#[must_use]
pub fn plan(options: &RunOptions) -> u64 {
    threads_max() as u64 * 2 * u64::from(options.repeats)
}

/// Makes them, for each number of threads: metrics `throughput`, in increments a second, and `cpu`, in ns
/// that processors are busy for an increment, all threads together.
///
/// # Errors
/// [`Error::WrongAnswer`] if an increment was lost; [`Error::Interrupted`].
pub fn run(run: &mut Run<'_>) -> Result<()> {
    let length = Duration::from_millis(if run.options.quick { 20 } else { 500 });
    for threads in 1..=threads_max() {
        let params = Params::from_iter([("threads".to_owned(), json!(threads))]);
        let mut contenders = [
            Contender::new("mutex", || mutex(threads, length)),
            Contender::new("messages", || messages(threads, length)),
        ];
        run.compare(NAME, &params, &mut contenders)?;
    }
    Ok(())
}

/// All threads lock the counter.
fn mutex(threads: usize, length: Duration) -> Result<Vec<Sample>> {
    let counter = Mutex::new(0);
    let (works, time) = timed(length, |stop| {
        thread::scope(|scope| {
            let increment = || {
                worked(stop, || {
                    *counter.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) += 1;
                    true
                })
            };
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(increment)).collect();
            threads.into_iter().map(join).collect()
        })
    });
    let counted = counter.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    samples("mutex", counted, works, time)
}

/// One thread owns the counter, and the others send it requests.
fn messages(threads: usize, length: Duration) -> Result<Vec<Sample>> {
    let (ask, asked) = sync_channel::<Increment>(QUEUE);
    let mut counter = 0;
    let (works, time) = timed(length, |stop| {
        if threads == 1 {
            return vec![alone(stop, &ask, &asked, &mut counter)];
        }
        thread::scope(|scope| {
            let askers: Vec<_> = (1..threads)
                .map(|_| {
                    let ask = ask.clone();
                    scope.spawn(move || worked(stop, || ask.send(Increment(1)).is_ok()))
                })
                .collect();
            // The owner ends when the last sender is dropped.
            drop(ask);
            let counter = &mut counter;
            let owner = scope.spawn(move || {
                let busy = busy_time();
                asked.iter().for_each(|Increment(by)| *counter += by);
                Work { increments: 0, busy: busy_time().saturating_sub(busy) }
            });
            askers.into_iter().chain([owner]).map(join).collect()
        })
    });
    samples("messages", counter, works, time)
}

/// One thread that sends requests to itself.
fn alone(
    stop: &AtomicBool,
    ask: &SyncSender<Increment>,
    asked: &Receiver<Increment>,
    counter: &mut u64,
) -> Work {
    worked(stop, || {
        let sent = ask.send(Increment(1)).is_ok();
        asked.try_iter().for_each(|Increment(by)| *counter += by);
        sent
    })
}

/// Lets threads work for a while. Returns their work, and how long it took them.
fn timed(
    length: Duration,
    work: impl FnOnce(&AtomicBool) -> Vec<Work> + Send,
) -> (Vec<Work>, Duration) {
    let stop = &AtomicBool::new(false);
    thread::scope(|scope| {
        let began = Instant::now();
        let working = scope.spawn(move || (work(stop), began.elapsed()));
        thread::sleep(length);
        stop.store(true, Ordering::Relaxed);
        join(working)
    })
}

/// Increments until it is time to stop, or until an increment is refused.
fn worked(stop: &AtomicBool, mut increment: impl FnMut() -> bool) -> Work {
    let busy = busy_time();
    let mut increments = 0;
    'work: loop {
        for _ in 0..BURST {
            if !increment() {
                break 'work;
            }
            increments += 1;
        }
        // After the first burst, so that a thread that begins late has also done some work.
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    Work { increments, busy: busy_time().saturating_sub(busy) }
}

/// A panic of the thread goes on in this one.
fn join<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// How long processors have worked for this thread.
fn busy_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn samples(name: &str, counted: u64, works: Vec<Work>, time: Duration) -> Result<Vec<Sample>> {
    let increments: u64 = works.iter().map(|work| work.increments).sum();
    if counted != increments {
        let why = format!("the counter is {counted} after {increments} increments");
        return Err(Error::WrongAnswer { store: name.to_owned(), why });
    }
    let busy: Duration = works.iter().map(|work| work.busy).sum();
    let cpu_ns = busy.as_nanos() as f64 / increments.max(1) as f64;
    Ok(vec![Sample::throughput(increments, time), Sample::new("cpu", "ns/op", cpu_ns)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_increment_is_counted_once() {
        for threads in 1..=3 {
            for measure in [mutex, messages] {
                let samples = measure(threads, Duration::from_millis(5)).unwrap();
                assert!(samples.iter().all(|sample| sample.value > 0.0), "{samples:?}");
            }
        }
    }

    #[test]
    fn a_lost_increment_is_an_error() {
        let work = Work { increments: 3, busy: Duration::from_nanos(30) };
        let error = samples("mutex", 2, vec![work], Duration::from_secs(1)).unwrap_err();
        assert!(error.to_string().contains("the counter is 2 after 3 increments"), "{error}");
    }
}

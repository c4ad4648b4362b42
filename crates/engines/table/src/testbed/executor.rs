//! The executor: clients hand calls over and go on, and a worker for each partition runs them in groups.
//!
//! ```text
//!  submit ─► check ─► queue of the first partition ─► worker: run, commit deferred ─┐ until the queue is empty,
//!     │               (its bound: `depth` calls)        ▲                           │ or `group` has passed
//!     ▼                                                 └───────────────────────────┤
//!  Pending ◄────────────── acknowledge all of the group ◄─── wait for the tickets ◄─┘
//! ```
//!
//! A call's first partition is the least that its procedure names; a call that uses others too waits for their locks in the
//! worker. The calls with the same first partition run in the order in which they were submitted. A worker keeps the results
//! of a group back until all that its calls changed and read is durable. A call that fails has nothing to wait for, and its
//! error goes to its caller at once. If a group cannot be made durable, each of its calls gets that error.
//!
//! The panic of a procedure's body is its caller's error. Any other panic ends the worker, and no caller waits for a worker
//! that has ended: the ends of the channels go with it.
//!
//! Costs: a group of any number of calls takes one sync of each partition that they use, where a call by itself takes one of
//! each of its own. Calls over several partitions take the syncs of their decisions besides (`commit.rs`). A call takes a
//! channel for its answer, a copy of its arguments, and up to two wake-ups: the worker's and the caller's. A worker has a
//! thread, a queue and a histogram of some 36 KiB.

use std::collections::BTreeMap;
use std::mem;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use halite_sim::locks::Mutex;
use hdrhistogram::Histogram;

use super::procedure::Call;
use super::{Records, Testbed};
use crate::method::Ticket;
use crate::{Error, Result, ValueRef};

/// The longest latency that is told from longer ones: an hour, in nanoseconds.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// Digits of a latency that are kept: it is exact to a hundredth.
const LATENCY_DIGITS: u8 = 2;

/// Options of an executor.
#[derive(Debug, Clone, Copy)]
pub struct ExecutorOptions {
    /// The most calls that wait for a worker. With 0, a call is handed over when the worker is ready to take it.
    pub depth: usize,
    /// The time after which a group takes no more calls, counted from when its first one begins to run.
    pub group: Duration,
}

impl Default for ExecutorOptions {
    fn default() -> Self {
        Self { depth: 128, group: Duration::from_millis(5) }
    }
}

/// The times from the submission of calls to their acknowledgements. Calls that failed are not in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Latencies {
    /// The number of calls.
    pub count: u64,
    /// Half of the calls took up to this time.
    pub p50: Duration,
    /// 95 of 100 took up to this time.
    pub p95: Duration,
    /// 99 of 100 took up to this time.
    pub p99: Duration,
    /// 999 of 1000 took up to this time.
    pub p999: Duration,
}

/// Workers that run calls. Dropping it runs and acknowledges the calls that wait, and ends the workers; in the body of a
/// transaction of the store, it does not wait for that.
pub struct Executor {
    testbed: Arc<Testbed>,
    /// Those of the partitions, in their order.
    workers: Vec<Worker>,
}

/// The executor's end of a worker.
struct Worker {
    queue: SyncSender<Submitted>,
    latencies: Arc<Mutex<Histogram<u64>>>,
    thread: JoinHandle<()>,
}

/// A call in a queue.
struct Submitted {
    call: Call,
    since: Instant,
    answer: SyncSender<Result<Records>>,
}

/// A call that was submitted. If this is dropped, the call runs all the same.
#[must_use = "the call's result is known when it was waited for"]
pub struct Pending {
    testbed: Weak<Testbed>,
    partition: usize,
    answer: Receiver<Result<Records>>,
}

/// Calls that have run, and that nobody was told of.
#[derive(Default)]
struct Group {
    calls: Vec<(Records, Instant, SyncSender<Result<Records>>)>,
    /// The last ticket of each partition.
    tickets: BTreeMap<usize, Ticket>,
}

impl Executor {
    /// Starts a worker for each partition of a store.
    ///
    /// # Errors
    /// That of the operating system for a thread that it does not start.
    pub fn new(testbed: Arc<Testbed>, options: ExecutorOptions) -> Result<Self> {
        let mut executor = Self { testbed, workers: Vec::new() };
        for partition in 0..executor.testbed.partitions() {
            let worker = Worker::start(&executor.testbed, partition, options)?;
            executor.workers.push(worker);
        }
        Ok(executor)
    }

    /// Submits a call of a procedure. It waits while the queue is full.
    ///
    /// # Errors
    /// [`Error::UnknownProcedure`], [`Error::ArgumentCount`], [`Error::Argument`], [`Error::Partitions`];
    /// [`Error::Panicked`] from the procedure's choice of partitions; [`Error::Recursion`] in the body of a transaction of
    /// the store; [`Error::WorkerEnded`].
    pub fn submit(&self, name: &str, arguments: &[ValueRef<'_>]) -> Result<Pending> {
        let (worker, submitted, pending) = self.check(name, arguments)?;
        let sent = worker.queue.send(submitted);
        sent.map_err(|_| Error::WorkerEnded { partition: pending.partition })?;
        Ok(pending)
    }

    /// Submits a call of a procedure, if the queue has room for it.
    ///
    /// # Errors
    /// [`Error::Busy`], if it has none; those of [`Executor::submit`].
    pub fn try_submit(&self, name: &str, arguments: &[ValueRef<'_>]) -> Result<Pending> {
        let (worker, submitted, pending) = self.check(name, arguments)?;
        let partition = pending.partition;
        match worker.queue.try_send(submitted) {
            Ok(()) => Ok(pending),
            Err(TrySendError::Full(_)) => Err(Error::Busy { partition }),
            Err(TrySendError::Disconnected(_)) => Err(Error::WorkerEnded { partition }),
        }
    }

    /// The latencies of all calls that were acknowledged.
    #[must_use]
    pub fn latencies(&self) -> Latencies {
        let mut all = histogram();
        for worker in &self.workers {
            all.add(&*worker.latencies.lock()).expect("the bounds are the same");
        }
        let at = |quantile| Duration::from_nanos(all.value_at_quantile(quantile));
        let count = all.len();
        Latencies { count, p50: at(0.5), p95: at(0.95), p99: at(0.99), p999: at(0.999) }
    }

    /// A call that can be sent to its worker, and its answer's end.
    fn check(
        &self,
        name: &str,
        arguments: &[ValueRef<'_>],
    ) -> Result<(&Worker, Submitted, Pending)> {
        let since = Instant::now();
        let call = self.testbed.prepare(name, arguments)?;
        // A call without partitions may run anywhere.
        let partition = call.partitions.first().copied().unwrap_or(0);
        let max = self.workers.len() as u64;
        let worker = self.workers.get(partition);
        let worker = worker.ok_or(Error::Partitions { asked: partition as u64 + 1, max })?;
        let (answer, answered) = sync_channel(1);
        let testbed = Arc::downgrade(&self.testbed);
        let pending = Pending { testbed, partition, answer: answered };
        Ok((worker, Submitted { call, since, answer }, pending))
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        // A worker ends when its queue is empty and has no sender.
        let threads: Vec<_> = self.workers.drain(..).map(|worker| worker.thread).collect();
        if self.testbed.check_outside("the end of an executor").is_ok() {
            for thread in threads {
                // Callers of a worker that panicked have their errors.
                let _ = thread.join();
            }
        }
    }
}

impl Worker {
    fn start(testbed: &Arc<Testbed>, partition: usize, options: ExecutorOptions) -> Result<Self> {
        let (queue, submitted) = sync_channel(options.depth);
        let latencies = Arc::new(Mutex::new(histogram()));
        let (own, testbed) = (Arc::clone(&latencies), Arc::clone(testbed));
        let builder = thread::Builder::new().name(format!("partition {partition}"));
        let spawned = builder.spawn(move || work(&testbed, &submitted, options.group, &own));
        let thread = spawned.map_err(|source| {
            let (path, action) = ("the executor".into(), "start a thread for");
            halite_alloc::Error::from(halite_pmem::Error::Io { path, action, source })
        })?;
        Ok(Self { queue, latencies, thread })
    }
}

/// Runs the calls of a queue until nobody can submit one any more.
fn work(
    testbed: &Testbed,
    queue: &Receiver<Submitted>,
    time: Duration,
    latencies: &Mutex<Histogram<u64>>,
) {
    let mut group = Group::default();
    while let Ok(first) = queue.recv() {
        let begun = Instant::now();
        group.run(testbed, first);
        while begun.elapsed() < time
            && let Ok(next) = queue.try_recv()
        {
            group.run(testbed, next);
        }
        group.acknowledge(testbed, latencies);
    }
}

impl Group {
    fn run(&mut self, testbed: &Testbed, Submitted { call, since, answer }: Submitted) {
        match testbed.run_call(&call) {
            Ok((records, tickets)) => {
                // The tickets of a partition only grow.
                self.tickets.extend(tickets);
                self.calls.push((records, since, answer));
            }
            // The caller may not wait for it.
            Err(error) => drop(answer.send(Err(error))),
        }
    }

    fn acknowledge(&mut self, testbed: &Testbed, latencies: &Mutex<Histogram<u64>>) {
        let durable = testbed.wait_for(&mem::take(&mut self.tickets).into_iter().collect());
        if durable.is_ok() {
            let mut latencies = latencies.lock();
            for (_, since, _) in &self.calls {
                let nanos = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
                latencies.saturating_record(nanos);
            }
        }
        for (records, _, answer) in self.calls.drain(..) {
            // The caller may not wait for it.
            let _ = answer.send(durable.clone().map(|()| records));
        }
    }
}

impl Pending {
    /// Returns the call's result when all that it changed and read is durable.
    ///
    /// # Errors
    /// Those of [`Testbed::call`]; [`Error::WorkerEnded`]; [`Error::Recursion`] in the body of a transaction of the store,
    /// and the call runs all the same.
    pub fn wait(self) -> Result<Records> {
        if let Some(testbed) = self.testbed.upgrade() {
            testbed.check_outside("a wait for a call")?;
        }
        let ended = Error::WorkerEnded { partition: self.partition };
        self.answer.recv().map_err(|_| ended).flatten()
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_max(LATENCY_NS_MAX, LATENCY_DIGITS).expect("constant bounds")
}

//! The terminals of TPC-C, and what they measure.
//!
//! Each thread is a terminal: it draws a transaction, waits for the keys to be typed if it is asked to, runs the
//! transaction, and thinks. Deliveries go into a queue (§2.7.2), from which one more thread takes them; their latency
//! is that from the queue on, and the run lasts until the queue is empty. Without waits the load is higher than the
//! specification permits.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::inputs::{Delivery, Inputs};
use super::load::{Loaded, now};
use super::mix::{Choice, Chooser, Kind, Mix};
use super::procedures::{count_low_stock, deliver, order, pay, status};
use super::random::Constants;
use super::scale::Scale;
use crate::store::{Ended, Homes, Outcome, Store};
use crate::{Error, Result};

mod report;
mod waits;

pub use report::{Measured, Report};
use waits::{key_time, think_time, wait_until};

/// Deliveries that may wait in the queue; a terminal waits for a place.
const QUEUE: usize = 1000;

/// When a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// After this time.
    After(Duration),
    /// After so many transactions.
    Transactions(u64),
}

/// How a run is driven.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Terminals, each a thread.
    pub threads: u32,
    /// When the run ends.
    pub end: End,
    /// The shares of the transactions.
    pub mix: Mix,
    /// How they are drawn.
    pub choice: Choice,
    /// Whether terminals type and think (§5.2.5). Ten terminals a warehouse are then those of the specification.
    pub waits: bool,
    /// The seed of the inputs.
    pub seed: u64,
}

impl Default for RunOptions {
    /// One terminal for ten seconds, with a deck of cards, without waits.
    fn default() -> Self {
        Self {
            threads: 1,
            end: End::After(Duration::from_secs(10)),
            mix: Mix::default(),
            choice: Choice::default(),
            waits: false,
            seed: 1,
        }
    }
}

/// How a run goes on: takes the transactions that were begun, and says whether to go on.
pub type RunProgress<'a> = &'a (dyn Fn(u64) -> bool + Sync);

/// Runs transactions on a loaded database. `progress` can break the run off: the report is of what was run until then,
/// and deliveries that wait in the queue are not run.
///
/// # Errors
/// [`Error::Zero`]; as [`Loaded::open`]; the first error of a transaction, which ends the run.
pub fn run(store: &dyn Store, options: &RunOptions, progress: RunProgress<'_>) -> Result<Report> {
    if options.threads == 0 {
        return Err(Error::Zero { what: "the number of threads" });
    }
    let limits = match options.end {
        End::After(time) => (time.as_nanos() > 0, "the time of the run"),
        End::Transactions(count) => (count > 0, "the number of transactions"),
    };
    if !limits.0 {
        return Err(Error::Zero { what: limits.1 });
    }
    let loaded = Loaded::open(store)?;
    let constants = Constants::for_run(&mut Rng::with_seed(options.seed), loaded.last_constant);
    let driver = Driver {
        store,
        options,
        progress,
        scale: loaded.scale,
        inputs: Inputs::new(loaded.scale, constants),
        began: Instant::now(),
        drawn: AtomicU64::new(0),
        is_stopped: AtomicBool::new(false),
    };
    let measured = driver.run()?;
    Ok(Report {
        measured,
        elapsed: driver.began.elapsed(),
        scale: loaded.scale,
        waits: options.waits,
        is_broken_off: driver.is_stopped.into_inner(),
    })
}

/// A delivery in the queue, and when it got there.
type Queued = (Delivery, Instant);

struct Driver<'a> {
    store: &'a dyn Store,
    options: &'a RunOptions,
    progress: RunProgress<'a>,
    scale: Scale,
    inputs: Inputs,
    began: Instant,
    drawn: AtomicU64,
    /// A transaction failed, or the run is broken off.
    is_stopped: AtomicBool,
}

impl Driver<'_> {
    fn run(&self) -> Result<Measured> {
        thread::scope(|scope| {
            let (queue, queued) = sync_channel(QUEUE);
            let deliverer =
                scope.spawn(move || self.stopping_at_failure(|| self.deliver_all(&queued)));
            let terminals = (0..self.options.threads).map(|terminal| {
                let queue = queue.clone();
                scope.spawn(move || self.stopping_at_failure(|| self.terminal(terminal, &queue)))
            });
            let threads: Vec<_> = terminals.collect();
            // The deliverer ends with the last terminal.
            drop(queue);
            let mut all = Measured::default();
            for thread in threads.into_iter().chain([deliverer]) {
                all.add(&thread.join().map_err(|_| Error::Panicked)??);
            }
            Ok(all)
        })
    }

    fn stopping_at_failure(&self, run: impl FnOnce() -> Result<Measured>) -> Result<Measured> {
        run().inspect_err(|_| self.is_stopped.store(true, Ordering::Relaxed))
    }

    /// Whether the run ends early; `drawn` transactions were begun.
    fn is_stopped(&self, drawn: u64) -> bool {
        if !(self.progress)(drawn) {
            self.is_stopped.store(true, Ordering::Relaxed);
        }
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// Whether another transaction may begin.
    fn goes_on(&self) -> bool {
        let drawn = self.drawn.fetch_add(1, Ordering::Relaxed);
        let is_before_end = match self.options.end {
            End::After(time) => self.began.elapsed() < time,
            End::Transactions(count) => drawn < count,
        };
        is_before_end && !self.is_stopped(drawn)
    }

    /// When a waiting terminal stops waiting.
    fn is_over(&self) -> bool {
        let is_late = match self.options.end {
            End::After(time) => self.began.elapsed() >= time,
            End::Transactions(_) => false,
        };
        is_late || self.is_stopped(self.drawn.load(Ordering::Relaxed))
    }

    fn terminal(&self, terminal: u32, queue: &SyncSender<Queued>) -> Result<Measured> {
        let Scale { warehouses, districts, .. } = self.scale;
        let mut random = Rng::with_seed(self.options.seed ^ (u64::from(terminal) + 1) << 32);
        let mut chooser = Chooser::new(self.options.mix, self.options.choice);
        let mut measured = Measured::default();
        let own = terminal % warehouses + 1;
        // Without waits, the warehouses are shared out among the threads.
        let step = if self.options.waits { warehouses } else { self.options.threads };
        let count = (warehouses - own) / step + 1;
        let district = terminal / warehouses % districts + 1;
        while self.goes_on() {
            let kind = chooser.next(&mut random);
            let warehouse = own + step * random.u32(..count);
            if self.options.waits {
                wait_until(Instant::now() + key_time(kind), || self.is_over());
            }
            let began = Instant::now();
            if kind == Kind::Delivery {
                // A deliverer that failed or was stopped has closed the queue; an error of it is the run's.
                let delivery = self.inputs.delivery(&mut random, warehouse);
                if queue.send((delivery, began)).is_err() {
                    break;
                }
            } else {
                let ended =
                    self.transaction(kind, &mut random, [warehouse, district], &mut measured)?;
                measured.note(kind, began.elapsed(), ended);
            }
            if self.options.waits {
                let thought = think_time(kind, &mut random);
                wait_until(Instant::now() + thought, || self.is_over());
            }
        }
        Ok(measured)
    }

    fn transaction(
        &self,
        kind: Kind,
        random: &mut Rng,
        [warehouse, district]: [u32; 2],
        measured: &mut Measured,
    ) -> Result<Ended> {
        let (store, home) = (self.store, [warehouse]);
        match kind {
            Kind::NewOrder => {
                let input = self.inputs.new_order(random, warehouse);
                let remote = input.lines.iter().filter(|line| line.supplier != warehouse).count();
                measured.lines += input.lines.len() as u64;
                measured.remote_lines += remote as u64;
                store.run(Homes::Of(&input.warehouses()), &mut |tx| {
                    Ok(match order(tx, &input, now())? {
                        Some(_) => Outcome::Commit,
                        None => Outcome::Rollback,
                    })
                })
            }
            Kind::Payment => {
                let input = self.inputs.payment(random, warehouse);
                let is_remote = input.customer_warehouse != warehouse;
                measured.remote_payments += u64::from(is_remote);
                store.run(Homes::Of(&input.warehouses()), &mut |tx| {
                    pay(tx, &input, now()).map(|_| Outcome::Commit)
                })
            }
            Kind::OrderStatus => {
                let input = self.inputs.order_status(random, warehouse);
                store.run(Homes::Of(&home), &mut |tx| status(tx, &input).map(|_| Outcome::Commit))
            }
            Kind::StockLevel => {
                let input = self.inputs.stock_level(random, warehouse, district);
                store.run(Homes::Of(&home), &mut |tx| {
                    count_low_stock(tx, &input).map(|_| Outcome::Commit)
                })
            }
            Kind::Delivery => unreachable!("a delivery goes into the queue"),
        }
    }

    fn deliver_all(&self, queued: &Receiver<Queued>) -> Result<Measured> {
        let mut measured = Measured::default();
        for (input, since) in queued {
            // The terminals may have ended before.
            if self.is_stopped(self.drawn.load(Ordering::Relaxed)) {
                break;
            }
            let mut delivered = Default::default();
            let ended = self.store.run(Homes::Of(&[input.warehouse]), &mut |tx| {
                delivered = deliver(tx, &input, self.scale.districts, now())?;
                Ok(Outcome::Commit)
            })?;
            measured.note_delivery(since.elapsed(), ended, &delivered);
        }
        Ok(measured)
    }
}

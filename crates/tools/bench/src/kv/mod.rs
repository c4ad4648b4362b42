//! The key-value workloads: YCSB's core, `PiBench`'s mixes and single operations, on any [`Store`].
//!
//! [`kv`] runs each workload as one comparison of [`Run`]: in each repeat the stores take turns, each in a fresh
//! folder, which is removed afterwards. A turn is a load phase, a warm-up and a measured phase (`phase`), whose threads
//! are workers (`worker`). They draw kinds and records from the workload (`workload`, `distribution`), and compare
//! every answer with the values that were written (`records`), so that no store is fast by being wrong.

pub(crate) mod distribution;
mod halite_store;
pub(crate) mod inserted;
mod killed;
mod options;
pub(crate) mod phase;
pub(crate) mod process;
pub(crate) mod records;
mod store;
pub(crate) mod worker;
pub(crate) mod workload;
pub(crate) mod zipfian;

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

pub use distribution::Distribution;
pub use halite_store::HaliteStore;
pub(crate) use halite_store::SpaceSession;
pub use killed::{ChildCommand, load_and_wait};
pub(crate) use killed::{spawn_and_kill, tell_and_wait};
pub use options::{KvOptions, Length};
pub use store::{Counters, Memory, Pair, Session, Store, StoreError, StoreResult};
pub use workload::{Kind, Mix, Workload};

use fastrand::Rng;

use crate::mix::mix;
use crate::run::{Contender, Run};
use crate::scratch::Home;
use crate::{Error, Result, Sample};
use distribution::Chooser;
use inserted::Inserted;
use killed::load_and_kill;
use phase::{Measured, Pace, WarmUp, run};
use records::Records;
use worker::{Source, Worker};
use workload::Kind::Insert;

/// Runs the workloads on every store. `child` starts the process that is killed.
///
/// # Errors
/// An invalid option; the errors of a store; a store that answers wrongly; [`Error::Interrupted`].
pub fn kv(
    options: &KvOptions,
    stores: &mut [Box<dyn Store>],
    child: ChildCommand<'_>,
    run: &mut Run<'_>,
) -> Result<()> {
    options.check()?;
    options.check_space(&run.options.folder)?;
    let turns = stores.len() as u64 * u64::from(run.options.repeats);
    run.plan(options.workloads.len() as u64 * turns);
    let folder = run.options.folder.clone();
    let durabilities: Vec<_> =
        stores.iter_mut().map(|store| durability(&mut **store, &folder)).collect::<Result<_>>()?;
    let (seed, interrupted) = (run.options.seed, run.interrupted());
    for workload in &options.workloads {
        let mut contenders: Vec<_> = stores
            .iter_mut()
            .zip(&durabilities)
            .map(|(store, durability)| {
                let mut turn = Turn {
                    options,
                    workload: *workload,
                    seed,
                    child,
                    interrupted,
                    folder: &folder,
                };
                let contender =
                    Contender::new(store.name().to_owned(), move || turn.take(&mut **store));
                contender.with_param("durability", durability.clone().into())
            })
            .collect();
        run.compare(&workload.experiment(), &options.params(*workload), &mut contenders)?;
    }
    Ok(())
}

/// Loads a store with all records of a workload.
pub(crate) fn load(
    options: &KvOptions,
    workload: Workload,
    seed: u64,
    store: &mut dyn Store,
    interrupted: &AtomicBool,
) -> Result<Measured> {
    let inserted = Inserted::new(options.records, options.threads);
    let pace = Pace { length: None, rate: None, warm_up: WarmUp::Tenth };
    measure(options, workload, seed, store, interrupted, &inserted, pace, &Source::Load)
}

/// The durability of a store's puts in that folder, which the store reports once it has been open there.
fn durability(store: &mut dyn Store, folder: &Path) -> Result<String> {
    let home = Home::new(folder)?;
    let name = store.name().to_owned();
    store.open(home.path()).map_err(Error::of_store(&name, "open"))?;
    store.close().map_err(Error::of_store(&name, "close"))?;
    Ok(store.durability())
}

/// One store's turn at a workload.
struct Turn<'a> {
    options: &'a KvOptions,
    workload: Workload,
    seed: u64,
    child: ChildCommand<'a>,
    interrupted: &'a AtomicBool,
    folder: &'a Path,
}

impl Turn<'_> {
    fn take(&mut self, store: &mut dyn Store) -> Result<Vec<Sample>> {
        let home = Home::new(self.folder)?;
        process::forget_peak();
        let outcome = self.measure(store, home.path());
        // No store stays open, even after an error.
        let closed = store.close();
        let samples = outcome?;
        closed.map_err(Error::of_store(store.name(), "close"))?;
        Ok(samples)
    }

    fn measure(&self, store: &mut dyn Store, folder: &Path) -> Result<Vec<Sample>> {
        let name = store.name().to_owned();
        if self.workload == Workload::Kill {
            load_and_kill(self.child, &name, folder, self.interrupted)?;
            return self.open(store, folder);
        }
        store.open(folder).map_err(Error::of_store(&name, "open"))?;
        let loaded = load(self.options, self.workload, self.seed, store, self.interrupted)?;
        match self.workload {
            Workload::Load => {
                self.check(store, Some(0))?;
                Ok(loaded.samples())
            }
            Workload::Reopen => {
                store.close().map_err(Error::of_store(&name, "close"))?;
                self.open(store, folder)
            }
            _ => {
                let measured = self.run(store)?;
                let Sample { unit, value, .. } =
                    Sample::throughput(loaded.operations, loaded.duration);
                let mut samples = measured.samples();
                samples.push(Sample::new("load-throughput", unit, value));
                Ok(samples)
            }
        }
    }

    /// The measured phase on a loaded store.
    fn run(&self, store: &mut dyn Store) -> Result<Measured> {
        let options = self.options;
        let inserted = Inserted::new(options.records, options.threads);
        let pace = |length| Pace { length, rate: options.rate, warm_up: WarmUp::Tenth };
        let (pace, source) = match self.workload.mix(&options.mix) {
            None => (pace(None), Source::Overwrite),
            Some(mix) => {
                let to_come = match options.length {
                    Length::Operations(operations) => operations as f64 * mix.share(Insert) * 2.0,
                    Length::Time(_) => options.records as f64 * mix.share(Insert),
                };
                let distribution = options.distribution(self.workload);
                let (skew, ycsb) = (options.skew(self.workload), self.workload.is_ycsb());
                let chooser =
                    Chooser::new(distribution, skew, options.records, to_come as u64, ycsb);
                let scans = self.workload.scan_length();
                (pace(Some(options.length)), Source::Mix { mix, chooser, scans })
            }
        };
        let (workload, seed, interrupted) = (self.workload, self.seed, self.interrupted);
        let measured =
            measure(options, workload, seed, store, interrupted, &inserted, pace, &source)?;
        let deletes = matches!(&source, Source::Mix { mix, .. } if mix.has(Kind::Delete));
        if !deletes {
            self.check(store, None)?;
        }
        Ok(measured)
    }

    /// Opens a store that has all records.
    fn open(&self, store: &mut dyn Store, folder: &Path) -> Result<Vec<Sample>> {
        let start = Instant::now();
        store.open(folder).map_err(Error::of_store(store.name(), "open"))?;
        let duration = start.elapsed();
        self.check(store, Some(0))?;
        let found = store.count().map_err(Error::of_store(store.name(), "count"))?;
        if let Some(found) = found.filter(|found| *found != self.options.records) {
            let records = self.options.records;
            let why = format!("{found} of {records} records after opening");
            return Err(Error::WrongAnswer { store: store.name().to_owned(), why });
        }
        let rate =
            self.options.records as f64 / duration.max(Duration::from_nanos(1)).as_secs_f64();
        Ok(vec![
            Sample::new("throughput", "record/s", rate),
            Sample::new("open", "ns", duration.as_nanos() as f64),
        ])
    }

    /// Makes sure that a thousand of the loaded records are there, the first and the last among them;
    /// with that version, if one is given.
    fn check(&self, store: &dyn Store, version: Option<u64>) -> Result<()> {
        let options = self.options;
        let inserted = Inserted::new(options.records, 1);
        let worker = worker(options, self.workload, self.seed, store, &inserted, &Source::Load, 0);
        let mut worker = worker?;
        let step = (options.records / 1000).max(1) as usize;
        for number in (0..options.records).step_by(step).chain([options.records - 1]) {
            match worker.version(number)? {
                None => return Err(worker.wrong(format!("record {number} is missing"))),
                Some(found) if version.is_some_and(|version| version != found) => {
                    let why = format!("record {number} is not as it was put");
                    return Err(worker.wrong(why));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}

#[expect(clippy::too_many_arguments, reason = "the two callers differ in the last three")]
fn measure(
    options: &KvOptions,
    workload: Workload,
    seed: u64,
    store: &dyn Store,
    interrupted: &AtomicBool,
    inserted: &Inserted,
    pace: Pace,
    source: &Source,
) -> Result<Measured> {
    run(store, options.threads, pace, interrupted, &|thread| {
        worker(options, workload, seed, store, inserted, source, thread)
    })
}

fn worker<'s>(
    options: &KvOptions,
    workload: Workload,
    seed: u64,
    store: &'s dyn Store,
    inserted: &'s Inserted,
    source: &Source,
    thread: usize,
) -> Result<Worker<'s>> {
    let session = store.session().map_err(Error::of_store(store.name(), "open a session"))?;
    let records = Records::new(options.key_form(workload), options.value_len(workload), seed);
    let random = Rng::with_seed(mix(seed) ^ mix(thread as u64));
    let (threads, name) = (options.threads, store.name());
    Ok(Worker::new(
        (thread, threads),
        (name, session),
        records,
        random,
        source.clone(),
        (inserted, options.records),
    ))
}

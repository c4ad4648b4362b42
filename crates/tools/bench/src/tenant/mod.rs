//! A store in a place of its own, where it stays from one turn to the next.

mod page_cache;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::kv::distribution::{Chooser, Distribution};
use crate::kv::inserted::Inserted;
use crate::kv::phase::{self, Measured, Pace, WarmUp};
use crate::kv::records::Records;
use crate::kv::worker::{Source, Worker};
use crate::kv::workload::ScanLength;
use crate::kv::{Kind, Length, Mix, Pair, Store, process};
use crate::mix::mix;
use crate::scratch::Home;
use crate::{Contender, Error, Params, Result, Run, Sample};
pub(crate) use page_cache::{NoPageCache, drop_pages};

/// Measurements from this on are warmed up for a tenth of it.
const LONG: Duration = Duration::from_secs(120);

/// Where tenants live, and how they are asked.
#[derive(Debug, Clone)]
pub(crate) struct Lodging {
    /// The folder on an SSD.
    pub(crate) disk: PathBuf,
    /// The folder in persistent memory.
    pub(crate) pmem: PathBuf,
    /// Threads that ask.
    pub(crate) threads: usize,
    /// Whether the kernel may keep the files of the SSD in its page cache.
    pub(crate) page_cache: bool,
    pub(crate) seed: u64,
}

/// A folder on the SSD, and one of the same name in persistent memory, which a store makes if it needs it.
pub(crate) struct Place {
    disk: Home,
    pmem: PathBuf,
}

impl Place {
    pub(crate) fn new(lodging: &Lodging) -> Result<Self> {
        let disk = Home::new(&lodging.disk)?;
        let name = disk.path().file_name().unwrap_or_default();
        let pmem = lodging.pmem.join(name);
        Ok(Self { disk, pmem })
    }

    /// The folder that a store is opened in.
    pub(crate) fn path(&self) -> &Path {
        self.disk.path()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.pmem != self.disk.path() {
            // The rest is in a temporary folder, and an error cannot be reported here.
            let _ = std::fs::remove_dir_all(&self.pmem);
        }
    }
}

/// A store with a database that stays.
pub(crate) struct Tenant<'a> {
    pub(crate) store: Box<dyn Store>,
    pub(crate) place: Place,
    /// The durability of a put, which is known once the store has been open.
    pub(crate) durability: String,
    /// Records that are there.
    pub(crate) records: u64,
    threads: usize,
    values: Records,
    seed: u64,
    page_cache: bool,
    interrupted: &'a AtomicBool,
}

impl<'a> Tenant<'a> {
    /// The store, empty, for records that are made so.
    pub(crate) fn new(
        store: Box<dyn Store>,
        values: Records,
        lodging: &Lodging,
        interrupted: &'a AtomicBool,
    ) -> Result<Self> {
        let mut tenant = Self {
            store,
            place: Place::new(lodging)?,
            durability: String::new(),
            records: 0,
            threads: lodging.threads,
            values,
            seed: lodging.seed,
            page_cache: lodging.page_cache,
            interrupted,
        };
        tenant.durability = tenant.visit(|store, _| Ok(store.durability()))?;
        Ok(tenant)
    }

    /// Opens the store, runs `ask` with its folder, and closes it.
    pub(crate) fn visit<R>(
        &mut self,
        ask: impl FnOnce(&dyn Store, &Path) -> Result<R>,
    ) -> Result<R> {
        let store = &mut *self.store;
        let folder = self.place.path();
        let _without = (!self.page_cache).then(|| NoPageCache::of(folder));
        store.open(folder).map_err(Error::of_store(store.name(), "open"))?;
        let outcome = ask(store, folder);
        let closed = store.close();
        let outcome = outcome?;
        closed.map_err(Error::of_store(store.name(), "close"))?;
        Ok(outcome)
    }

    /// Puts records until there are so many, several at a time. Returns how long that took, without what the store does
    /// behind the last one.
    pub(crate) fn load(&mut self, up_to: u64) -> Result<Duration> {
        let (from, interrupted) = (self.records, self.interrupted);
        let mut records = self.values();
        let took = self.visit(|store, _| {
            let start = Instant::now();
            load(store, &mut records, from, up_to, interrupted)?;
            let took = start.elapsed();
            settle(interrupted);
            Ok(took)
        })?;
        self.records = self.records.max(up_to);
        Ok(took)
    }

    /// The database, as records.
    pub(crate) fn values(&self) -> Records {
        self.values.clone()
    }

    /// Opens the store and lets all threads run the mix, for as long before the measurement as in it: the store was
    /// opened with empty caches.
    pub(crate) fn measure(
        &mut self,
        mix: &Mix,
        distribution: Distribution,
        scans: ScanLength,
        length: Length,
    ) -> Result<Measured> {
        let known = self.records;
        let to_come = (known as f64 * mix.share(Kind::Insert)) as u64;
        let skew = distribution.default_skew();
        let chooser = Chooser::new(distribution, skew, known, to_come, true);
        let source = Source::Mix { mix: mix.clone(), chooser, scans };
        let inserted = Inserted::new(known, self.threads);
        let warm_up = match length {
            Length::Time(time) if time >= LONG => WarmUp::Tenth,
            _ => WarmUp::AsLong,
        };
        let pace = Pace { length: Some(length), rate: None, warm_up };
        let outcome = self.run(&source, &inserted, known, pace);
        self.records = inserted.known();
        outcome
    }

    /// Opens the store, which is empty, and lets all threads put records durably, one at a time: up to
    /// so many.
    pub(crate) fn measure_load(&mut self, up_to: u64, length: Length) -> Result<Measured> {
        let inserted = Inserted::new(0, self.threads);
        let pace = Pace { length: Some(length), rate: None, warm_up: WarmUp::Tenth };
        self.run(&Source::Load, &inserted, up_to, pace)
    }

    fn run(
        &mut self,
        source: &Source,
        inserted: &Inserted,
        loaded: u64,
        pace: Pace,
    ) -> Result<Measured> {
        let (threads, seed, interrupted) = (self.threads, self.seed, self.interrupted);
        let records = self.values();
        self.visit(|store, _| {
            let mut measured = phase::run(store, threads, pace, interrupted, &|thread| {
                let name = store.name();
                let session = store.session().map_err(Error::of_store(name, "open a session"))?;
                let random = Rng::with_seed(mix(seed) ^ mix(thread as u64));
                Ok(Worker::new(
                    (thread, threads),
                    (name, session),
                    records.clone(),
                    random,
                    source.clone(),
                    (inserted, loaded),
                ))
            })?;
            // Writes that the store has put off count, and are not left to the next turn.
            let written = || (process::disk_written_bytes(), phase::all_written(store));
            let at_end = written();
            settle(interrupted);
            let settled = written();
            let more = |before: Option<u64>, after: Option<u64>| {
                before.zip(after).map_or(0, |(before, after)| after - before)
            };
            measured.add_written(more(at_end.0, settled.0), more(at_end.1, settled.1));
            Ok(measured)
        })
    }
}

/// The stores, each empty and in a place of its own.
pub(crate) fn tenants<'a>(
    stores: Vec<Box<dyn Store>>,
    values: &Records,
    lodging: &Lodging,
    run: &Run<'a>,
) -> Result<Vec<Tenant<'a>>> {
    let interrupted = run.interrupted();
    let tenant = |store| Tenant::new(store, values.clone(), lodging, interrupted);
    stores.into_iter().map(tenant).collect()
}

/// Compares the tenants, each measured in that way.
pub(crate) fn compare(
    run: &mut Run<'_>,
    experiment: &str,
    params: &Params,
    tenants: &mut [Tenant<'_>],
    measure: impl Fn(&mut Tenant<'_>) -> Result<Vec<Sample>>,
) -> Result<()> {
    let measure = &measure;
    let contender = |tenant| {
        let tenant: &mut Tenant<'_> = tenant;
        let (name, durability) = (tenant.store.name().to_owned(), tenant.durability.clone());
        let contender = Contender::new(name, move || measure(tenant));
        contender.with_param("durability", durability.into())
    };
    let mut contenders: Vec<_> = tenants.iter_mut().map(contender).collect();
    run.compare(experiment, params, &mut contenders)
}

/// How long the disk is idle once a store has no pending background writes.
const QUIET: Duration = Duration::from_millis(500);

/// How long a store may take for its pending background writes.
const SETTLING_MAX: Duration = Duration::from_secs(120);

/// Waits until the disk is idle: the records are merged as far as the store would ever merge them.
pub(crate) fn settle(interrupted: &AtomicBool) {
    let written_now = || process::disk_written_bytes().zip(process::call_written_bytes());
    let start = Instant::now();
    let (mut written, mut since) = (written_now(), start);
    while written.is_some() && since.elapsed() < QUIET && start.elapsed() < SETTLING_MAX {
        if interrupted.load(Relaxed) {
            return;
        }
        thread::sleep(QUIET / 10);
        let now = written_now();
        if now != written {
            (written, since) = (now, Instant::now());
        }
    }
}

/// Bytes that are put together while loading.
const BATCH_BYTES: usize = 256 << 10;

/// Puts the records of these numbers.
pub(crate) fn load(
    store: &dyn Store,
    records: &mut Records,
    from: u64,
    up_to: u64,
    interrupted: &AtomicBool,
) -> Result<()> {
    let mut session = store.session().map_err(Error::of_store(store.name(), "open a session"))?;
    let mut batch: Vec<Pair> = Vec::new();
    let mut bytes = 0;
    for number in from..up_to {
        let (key, value) = records.pair(number, 0);
        bytes += key.len() + value.len();
        batch.push((key.to_vec(), value.to_vec()));
        if bytes >= BATCH_BYTES || number + 1 == up_to {
            if interrupted.load(Relaxed) {
                return Err(Error::Interrupted);
            }
            session.put_all(&batch).map_err(Error::of_store(store.name(), "load"))?;
            batch.clear();
            bytes = 0;
        }
    }
    Ok(())
}

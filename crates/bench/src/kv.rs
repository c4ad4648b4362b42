//! The key-value workload: one thread, small records.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::killed::load_and_kill;
use crate::records::{Random, Records};
use crate::report::{Measured, Report};
use crate::{ChildCommand, Counters, Error, KvOptions, Phase, Result, Store};

/// What a caller can add to a run.
#[derive(Default)]
pub struct Hooks<'a> {
    /// How to start the process that is killed; without it, nothing is opened after a kill.
    pub child: Option<ChildCommand<'a>>,
    /// Called with a line for people before each phase of each store.
    pub progress: Option<&'a dyn Fn(&str)>,
}

/// Runs the workload on every store, in fresh folders below `folder`, which are removed again.
///
/// Within a repeat, the stores take turns in each phase; from repeat to repeat, another one begins.
///
/// # Errors
/// An option that makes no sense; what a store returns; a store that answers wrongly.
pub fn kv(
    options: &KvOptions,
    folder: &Path,
    stores: &mut [Box<dyn Store>],
    hooks: &Hooks<'_>,
) -> Result<Report> {
    options.check()?;
    let mut phases = vec![Phase::Load];
    phases.extend(options.overwrite.then_some(Phase::Overwrite));
    phases.extend([Phase::Get, Phase::Scan, Phase::Reopen]);
    phases.extend(hooks.child.map(|_| Phase::ReopenAfterKill));

    let mut report = Report::new(options);
    for repeat in 0..options.repeats as usize {
        let home = new_home(folder, repeat)?;
        let outcome = (|| -> Result<()> {
            for store in &mut *stores {
                let name = store.name().to_owned();
                let place = home.0.join(&name);
                store.open(&place).map_err(Error::of_store(&name, "open"))?;
            }
            for &phase in &phases {
                for turn in 0..stores.len() {
                    let store = &mut *stores[(repeat + turn) % stores.len()];
                    if let Some(progress) = hooks.progress {
                        let of = options.repeats;
                        progress(&format!("{}/{of} {}: {phase}", repeat + 1, store.name()));
                    }
                    let measured = measure(options, store, phase, &home.0, hooks)?;
                    report.add(store, phase, measured);
                }
            }
            Ok(())
        })();
        // Whatever happened, no store stays open.
        for store in &mut *stores {
            let name = store.name().to_owned();
            let closed = store.close().map_err(Error::of_store(&name, "close"));
            if outcome.is_ok() {
                closed?;
            }
        }
        outcome?;
    }
    Ok(report)
}

/// A folder that goes away when it is dropped.
struct Home(PathBuf);

impl Drop for Home {
    fn drop(&mut self) {
        // What is left is in a folder for temporary things; there is no one to tell.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn new_home(folder: &Path, repeat: usize) -> Result<Home> {
    let name = format!("halite-bench-{}-{repeat}", std::process::id());
    let path = folder.join(name);
    std::fs::create_dir_all(&path)
        .map_err(|source| Error::Folder { path: path.clone(), source })?;
    Ok(Home(path))
}

fn measure(
    options: &KvOptions,
    store: &mut dyn Store,
    phase: Phase,
    home: &Path,
    hooks: &Hooks<'_>,
) -> Result<Measured> {
    match phase {
        Phase::Load => counted(store, |store| load(options, store)),
        Phase::Overwrite => counted(store, |store| overwrite(options, store)),
        Phase::Get => counted(store, |store| get(options, store)),
        Phase::Scan => counted(store, |store| scan(options, store)),
        Phase::Reopen => {
            let name = store.name().to_owned();
            store.close().map_err(Error::of_store(&name, "close"))?;
            counted_open(options, store, &home.join(name))
        }
        Phase::ReopenAfterKill => {
            let name = store.name().to_owned();
            store.close().map_err(Error::of_store(&name, "close"))?;
            let folder = home.join(format!("{name}-killed"));
            if let Some(child) = hooks.child {
                load_and_kill(child, &name, &folder)?;
            }
            counted_open(options, store, &folder)
        }
    }
}

/// Operations and how long they took.
type Timed = (u64, Duration);

fn counted(
    store: &mut dyn Store,
    phase: impl FnOnce(&mut dyn Store) -> Result<Timed>,
) -> Result<Measured> {
    let before = store.counters();
    let (operations, duration) = phase(store)?;
    let after = store.counters();
    let traffic = before.zip(after).map(|(before, after)| after.traffic - before.traffic);
    Ok(Measured { operations, duration, traffic, counters: after })
}

/// Opens the store and makes sure that it has every record.
fn counted_open(options: &KvOptions, store: &mut dyn Store, folder: &Path) -> Result<Measured> {
    let name = store.name().to_owned();
    let start = Instant::now();
    store.open(folder).map_err(Error::of_store(&name, "open"))?;
    let duration = start.elapsed();
    let counters = store.counters();
    let version = if folder.ends_with(&name) { latest_version(options) } else { 0 };
    let mut records = Records::new(options);
    for number in spread(options.records) {
        expect(store, &mut records, number, version)?;
    }
    let wrong = |counters: Counters| counters.records != options.records;
    if let Some(counters) = counters.filter(|counters| wrong(*counters)) {
        let why = format!("{} of {} records after opening", counters.records, options.records);
        return Err(Error::WrongAnswer { store: name, why });
    }
    Ok(Measured { operations: options.records, duration, traffic: None, counters })
}

/// A thousand numbers below `records`, the first and the last among them.
fn spread(records: u64) -> impl Iterator<Item = u64> {
    (0..records).step_by((records / 1_000).max(1) as usize).chain([records - 1])
}

/// Durable puts of every record once, in random order of the keys.
pub(crate) fn load(options: &KvOptions, store: &mut dyn Store) -> Result<Timed> {
    put_all(options, store, 0, 0..options.records)
}

/// Durable puts of every record once more, in an order that has nothing to do with the first.
fn overwrite(options: &KvOptions, store: &mut dyn Store) -> Result<Timed> {
    // A prime that does not divide the number of records: its multiples meet each record once.
    let strides = [1_000_000_007_u64, 998_244_353];
    let stride = strides.into_iter().find(|prime| !options.records.is_multiple_of(*prime));
    let stride = stride.unwrap_or(1) % options.records;
    let step = move |at: &u64| Some((at + stride) % options.records);
    let numbers = std::iter::successors(Some(0), step).take(options.records as usize);
    put_all(options, store, 1, numbers)
}

fn put_all(
    options: &KvOptions,
    store: &mut dyn Store,
    version: u64,
    numbers: impl Iterator<Item = u64>,
) -> Result<Timed> {
    let mut records = Records::new(options);
    let mut count = 0;
    let start = Instant::now();
    for number in numbers {
        let (key, value) = records.pair(number, version);
        if let Err(source) = store.put(key, value) {
            return Err(Error::of_store(store.name(), "put")(source));
        }
        count += 1;
    }
    Ok((count, start.elapsed()))
}

fn latest_version(options: &KvOptions) -> u64 {
    u64::from(options.overwrite)
}

/// Gets of random existing records, each compared with what was put.
fn get(options: &KvOptions, store: &mut dyn Store) -> Result<Timed> {
    let mut records = Records::new(options);
    let mut random = Random::new(options.seed ^ 2);
    let version = latest_version(options);
    let start = Instant::now();
    for _ in 0..options.gets {
        expect(store, &mut records, random.below(options.records), version)?;
    }
    Ok((options.gets, start.elapsed()))
}

#[inline]
fn expect(store: &mut dyn Store, records: &mut Records, number: u64, version: u64) -> Result<()> {
    let mut right = false;
    let (key, value) = records.pair(number, version);
    if let Err(source) = store.get(key, &mut |found| right = found == value) {
        return Err(Error::of_store(store.name(), "get")(source));
    }
    if right {
        return Ok(());
    }
    let why = format!("record {number} is missing or has another value");
    Err(Error::WrongAnswer { store: store.name().to_owned(), why })
}

/// Scans from random existing keys; what is counted is the pairs.
fn scan(options: &KvOptions, store: &mut dyn Store) -> Result<Timed> {
    let mut records = Records::new(options);
    let mut random = Random::new(options.seed ^ 3);
    let mut pairs = 0;
    let start = Instant::now();
    for _ in 0..options.scans {
        let first = records.key(random.below(options.records));
        let mut last = Vec::with_capacity(first.len());
        let mut found = 0;
        let mut right = true;
        let scanned = store.scan(first, options.scan_len, &mut |key, value| {
            right &= value.len() == options.value_len
                && if found == 0 { key == first } else { *key > last[..] };
            last.clear();
            last.extend_from_slice(key);
            found += 1;
        });
        if let Err(source) = scanned {
            return Err(Error::of_store(store.name(), "scan")(source));
        }
        if !right || found == 0 || found > options.scan_len {
            let why = format!("a scan of {found} pairs from an existing key is out of order");
            return Err(Error::WrongAnswer { store: store.name().to_owned(), why });
        }
        pairs += found;
    }
    Ok((pairs, start.elapsed()))
}

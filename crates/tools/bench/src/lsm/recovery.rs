//! Recovery (Yan §4.6, Fig. 18): a process that has loaded a store is killed, and the store is opened.
//!
//! The store with persistent memory has all of its records in there; the others have them in memory and in a log that
//! they replay. The engine's log is as long as a memtable may be; RocksDB's has all records. So the time for each
//! recovered GiB is reported, too. Logs are dropped from the page cache before, as stores with direct I/O have none
//! there.
//!
//! `first-answer` is the time from opening to the first right answer to a get, `full-speed` that to the first hundredth
//! of a second with at least 90 % of the answered gets of a window at the end.

use std::path::Path;
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::json;

use super::host_memory::touch;
use super::setting::{KEY_LEN, Setting, VALUE_LEN, records, records_of, xp, xs};
use super::stores::{XP, XS};
use crate::kv::{Memory, Store, spawn_and_kill, tell_and_wait};
use crate::tenant::{Place, drop_pages, load};
use crate::{Contender, Error, Result, Run, RunOptions, Sample};

pub(super) const NAME: &str = "lsm.recovery";

const ROCKSDB: &str = "rocksdb";

const GIB: f64 = (1_u64 << 30) as f64;

/// The longest log that the engine has: its largest memtable.
const LOG_MAX: u64 = 224 << 20;

/// The largest memtable.
const MEMTABLE_MAX: u64 = 256 << 20;

/// Memory that is touched before, beside a fourth of the recovered bytes: more than stores fill when they are opened.
const TOUCHED_MIN: u64 = 512 << 20;

/// Repeats at most: a store is loaded in each.
const REPEATS_MAX: u32 = 3;

/// The window in which gets are counted.
const WINDOW: Duration = Duration::from_millis(10);

/// How long gets are counted at least: so many windows.
const WINDOWS_MIN: u32 = 50;

/// The contenders, and the bytes that each has to recover.
fn subjects(setting: &Setting<'_>) -> Vec<(&'static str, u64)> {
    let bytes = setting.recovery_bytes;
    let mut subjects = vec![(XP, bytes), (XS, bytes.min(LOG_MAX))];
    if setting.peer(ROCKSDB).is_some() {
        subjects.push((ROCKSDB, bytes));
    }
    subjects
}

/// The store of that name, which keeps so many bytes in memory.
fn store(
    setting: &Setting<'_>,
    name: &str,
    bytes: u64,
    run: &RunOptions,
) -> Result<Box<dyn Store>> {
    // Memory that is far from full, so that no memtable is flushed and no writer is slowed.
    let room = bytes * 2 + (64 << 20);
    match name {
        XP => {
            let mut store = xp(room, run);
            store.options.global_index_bytes = Some(room);
            Ok(Box::new(store))
        }
        XS => {
            let mut store = xs(room, run);
            store.set_memory(Memory { write_buffer: MEMTABLE_MAX, cache: room });
            Ok(Box::new(store))
        }
        _ => {
            let store = setting.peer(name);
            let mut store =
                store.ok_or_else(|| Error::unknown("store", name, [XP, XS, ROCKSDB]))?;
            store.set_memory(Memory { write_buffer: room, cache: room });
            Ok(store)
        }
    }
}

pub(super) fn plan(setting: &Setting<'_>, run: &Run<'_>) -> u64 {
    subjects(setting).len() as u64 * u64::from(run.options.repeats.min(REPEATS_MAX))
}

pub(super) fn run(setting: &Setting<'_>, run: &mut Run<'_>) -> Result<()> {
    let params = setting.params(
        setting.recovery_bytes,
        [("key-len", json!(KEY_LEN)), ("value-len", json!(VALUE_LEN))],
    );
    let (options, interrupted) = (run.options.clone(), run.interrupted());
    let contender = |(name, bytes): (&'static str, u64)| {
        let options = &options;
        let measure = move || {
            let place = Place::new(&setting.lodging(options))?;
            spawn_and_kill(setting.child(name, place.path()), name, interrupted)?;
            if !setting.options.page_cache {
                drop_pages(place.path());
            }
            let touched = setting.recovery_bytes / 4 + if options.quick { 0 } else { TOUCHED_MIN };
            touch(&options.folder, touched);
            let mut store = store(setting, name, bytes, options)?;
            let outcome = recovered(&mut *store, place.path(), bytes, setting, options.seed);
            let closed = store.close();
            let samples = outcome?;
            closed.map_err(Error::of_store(name, "close"))?;
            Ok(samples)
        };
        Contender::new(name, measure).with_param("recovered", bytes.into())
    };
    let mut contenders: Vec<_> = subjects(setting).into_iter().map(contender).collect();
    let repeats = run.options.repeats;
    run.options.repeats = repeats.min(REPEATS_MAX);
    let outcome = run.compare(NAME, &params, &mut contenders);
    run.options.repeats = repeats;
    outcome
}

/// See [`super::load_and_wait`].
pub(super) fn load_and_wait(
    setting: &Setting<'_>,
    name: &str,
    folder: &Path,
    run: &Run<'_>,
) -> Result<()> {
    let bytes = subjects(setting).into_iter().find(|(known, _)| *known == name);
    let bytes = bytes.map_or(setting.recovery_bytes, |(_, bytes)| bytes);
    let mut store = store(setting, name, bytes, &run.options)?;
    store.open(folder).map_err(Error::of_store(name, "open"))?;
    let mut values = records(VALUE_LEN, run.options.seed);
    let up_to = records_of(bytes as f64, VALUE_LEN);
    load(&*store, &mut values, 0, up_to, run.interrupted())?;
    tell_and_wait(name)
}

/// Opens the store, and asks it until it answers as fast as it ever does.
fn recovered(
    store: &mut dyn Store,
    folder: &Path,
    bytes: u64,
    setting: &Setting<'_>,
    seed: u64,
) -> Result<Vec<Sample>> {
    let count = records_of(bytes as f64, VALUE_LEN);
    let mut values = records(VALUE_LEN, seed);
    let mut random = Rng::with_seed(seed);
    let name = store.name().to_owned();
    let start = Instant::now();
    store.open(folder).map_err(Error::of_store(&name, "open"))?;
    let mut session = store.session().map_err(Error::of_store(&name, "open a session"))?;
    let mut ask = |number: u64| -> Result<()> {
        values.key(number);
        let mut found = None;
        let read = &mut |value: &[u8]| found = values.version(values.last_key(), value);
        session.get(values.last_key(), read).map_err(Error::of_store(&name, "get"))?;
        if found.is_none() {
            let why = format!("record {number} is missing or changed after a kill");
            return Err(Error::WrongAnswer { store: name.clone(), why });
        }
        Ok(())
    };
    // The last record is the first that would be lost.
    ask(count - 1)?;
    let first = start.elapsed();
    let mut windows = Vec::new();
    let asking = setting.time.max(WINDOW * WINDOWS_MIN);
    let begun = Instant::now();
    while begun.elapsed() < asking {
        let (window, mut answers) = (Instant::now(), 0_u64);
        while window.elapsed() < WINDOW {
            ask(random.u64(..count))?;
            answers += 1;
        }
        windows.push((answers as f64 / window.elapsed().as_secs_f64(), start.elapsed()));
    }
    let full = full_speed(&windows).unwrap_or(first);
    let gib = bytes as f64 / GIB;
    let ns = |time: Duration| time.as_nanos() as f64;
    Ok(vec![
        Sample::new("first-answer", "ns", ns(first)),
        Sample::new("full-speed", "ns", ns(full)),
        Sample::new("first-answer-per-gib", "ns", ns(first) / gib),
        Sample::new("full-speed-per-gib", "ns", ns(full) / gib),
    ])
}

/// Returns when the first window ended whose rate is 90 % of the median of the last half of them.
fn full_speed(windows: &[(f64, Duration)]) -> Option<Duration> {
    let rates: Vec<f64> = windows[windows.len() / 2..].iter().map(|(rate, _)| *rate).collect();
    let steady = crate::Summary::of(&rates)?.median;
    windows.iter().find(|(rate, _)| *rate >= 0.9 * steady).map(|(_, end)| *end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_speed_is_that_of_the_end() {
        let at = |ms| Duration::from_millis(ms);
        let windows =
            [(1.0, at(10)), (50.0, at(20)), (91.0, at(30)), (100.0, at(40)), (100.0, at(50))];
        assert_eq!(full_speed(&windows), Some(at(30)));
        assert_eq!(full_speed(&[]), None);
    }
}

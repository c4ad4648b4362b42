//! The memtable (Yan §4.2, Fig. 14): inserts, lookups and scans of 8-byte keys and 32-byte values, in sequence and at
//! random, without merges and without writes to the levels.
//!
//! Fifty records are inserted at once, as in the paper, so that the cost of commits is small. Each insert is of a new
//! record. Lookups and scans are of records that exist, at random where inserts are. The peer is a skip list in DRAM,
//! which is not durable.

use std::sync::Barrier;
use std::time::Instant;

use serde_json::{Value, json};

use super::setting::{Setting, xp};
use super::stores::{LsmStore, XP};
use crate::kv::{Memory, Pair, Store};
use crate::mix::mix;
use crate::tenant::Place;
use crate::{Contender, Error, Params, Result, Run, RunOptions, Sample};

/// The experiment.
pub(super) const NAME: &str = "lsm.memtable";

/// Bytes of a key.
const KEY_LEN: usize = 8;

/// Bytes of a value.
const VALUE_LEN: usize = 32;

/// Records that are inserted at once.
const BATCH: u64 = 50;

/// Records: a tenth of the paper's, which fit the largest memtable.
const RECORDS: u64 = 3_000_000;
const RECORDS_QUICK: u64 = 20_000;

const PEERS: [&str; 1] = ["crossbeam-skiplist"];

const THREADS: [u64; 2] = [1, 2];

const ORDERS: [&str; 2] = ["sequential", "random"];

/// Pairs of a scan, and scans for how many records there is one.
const PAIRS: u64 = 100;
const SCANNED: u64 = 200;

const MEMTABLE: u64 = 256 << 20;

pub(super) fn plan(setting: &Setting<'_>, run: &Run<'_>) -> u64 {
    let contenders = 1 + setting.peers_of(&PEERS);
    (THREADS.len() * ORDERS.len()) as u64 * contenders * u64::from(run.options.repeats)
}

pub(super) fn run(setting: &Setting<'_>, run: &mut Run<'_>) -> Result<()> {
    let options = run.options.clone();
    let pool_bytes = setting.pmem.max(4 * MEMTABLE);
    for order in ORDERS {
        for threads in THREADS {
            let records = if options.quick { RECORDS_QUICK } else { RECORDS };
            let params = setting.params(
                pool_bytes,
                [
                    ("key-len", json!(KEY_LEN)),
                    ("value-len", json!(VALUE_LEN)),
                    ("records", json!(records)),
                    ("batch", json!(BATCH)),
                    ("order", json!(order)),
                    ("threads", json!(threads)),
                ],
            );
            let mut subjects = vec![XP];
            subjects.extend(PEERS.iter().filter(|name| setting.peer(name).is_some()));
            let contender = |name: &'static str| {
                let (options, params) = (&options, &params);
                Contender::new(name, move || {
                    let place = Place::new(&setting.lodging(options))?;
                    let mut store: Box<dyn Store> = match setting.peer(name) {
                        Some(peer) => peer,
                        None => Box::new(alone(setting, options)),
                    };
                    store.open(place.path()).map_err(Error::of_store(name, "open"))?;
                    let samples = measured(&*store, params);
                    store.close().map_err(Error::of_store(name, "close"))?;
                    samples
                })
            };
            let mut contenders: Vec<_> = subjects.into_iter().map(contender).collect();
            run.compare(NAME, &params, &mut contenders)?;
        }
    }
    Ok(())
}

/// The engine with a memtable that has room for all records.
fn alone(setting: &Setting<'_>, run: &RunOptions) -> LsmStore {
    let mut store = xp(setting.pmem, run);
    let memory = Memory { write_buffer: MEMTABLE, cache: 1 << 20 };
    store.set_pool(setting.pmem.max(4 * MEMTABLE), memory);
    store
}

/// The key of a record's number: as it is, or anywhere among all keys.
fn key_of(number: u64, is_random: bool) -> [u8; KEY_LEN] {
    let word = if is_random { mix(number + 1) } else { number };
    word.to_be_bytes()
}

/// A value begins with its key.
fn is_of(value: &[u8], key: &[u8]) -> bool {
    value.len() == VALUE_LEN && value.starts_with(key)
}

/// Inserts, looks up and scans the records of a comparison in a store that is empty.
fn measured(store: &dyn Store, params: &Params) -> Result<Vec<Sample>> {
    let subject = store.name();
    let number = |name: &str| params.get(name).and_then(Value::as_u64);
    let (records, threads) = number("records").zip(number("threads")).expect("they say how many");
    let is_random = params.get("order").and_then(Value::as_str) == Some("random");
    let failed = |action| Error::of_store(subject, action);
    let wrong = |why: &str| Error::WrongAnswer { store: subject.to_owned(), why: why.to_owned() };

    let session = || store.session().map_err(failed("open a session"));
    let inserts = timed(threads, records.div_ceil(BATCH), |batches| {
        let mut session = session()?;
        let mut batch: Vec<Pair> = Vec::new();
        for number in batches {
            batch.resize(BATCH.min(records - number * BATCH) as usize, Pair::default());
            for (record, pair) in (number * BATCH..records).zip(&mut batch) {
                let key = key_of(record, is_random);
                pair.0.clear();
                pair.0.extend_from_slice(&key);
                pair.1.clear();
                pair.1.extend_from_slice(&key);
                pair.1.resize(VALUE_LEN, 7);
            }
            session.put_all(&batch).map_err(failed("insert"))?;
        }
        Ok(())
    })?;
    let lookups = timed(threads, records, |numbers| {
        let mut session = session()?;
        for at in numbers {
            let number = if is_random { mix(at) % records } else { at };
            let (key, mut found) = (key_of(number, is_random), false);
            let read = &mut |value: &[u8]| found = is_of(value, &key);
            session.get(&key, read).map_err(failed("get"))?;
            if !found {
                return Err(wrong("a record is missing"));
            }
        }
        Ok(())
    })?;
    let count = (records / SCANNED).max(1);
    let scans = timed(threads, count, |numbers| {
        let mut session = session()?;
        for at in numbers {
            let number = if is_random { mix(at) % records } else { at * SCANNED };
            let (start, mut found, mut proved) = (key_of(number, is_random), 0, true);
            let read = &mut |key: &[u8], value: &[u8]| {
                proved &= is_of(value, key) && key >= &start[..];
                found += 1;
            };
            session.scan(&start, PAIRS, read).map_err(failed("scan"))?;
            if !proved || found == 0 || found > PAIRS {
                return Err(wrong("a scan has wrong pairs"));
            }
        }
        Ok(())
    })?;
    let rate = |count: u64, seconds: f64| count as f64 / seconds;
    Ok(vec![
        Sample::new("insert-throughput", "op/s", rate(records, inserts)),
        Sample::new("lookup-throughput", "op/s", rate(records, lookups)),
        Sample::new("scan-throughput", "scan/s", rate(count, scans)),
    ])
}

/// Seconds that threads take for numbers below `count`, of which each has its share, in order.
fn timed(
    threads: u64,
    count: u64,
    work: impl Fn(&mut dyn Iterator<Item = u64>) -> Result<()> + Sync,
) -> Result<f64> {
    let (begin, work) = (&Barrier::new(threads as usize), &work);
    let spans = std::thread::scope(|scope| {
        let one = |thread: u64| {
            begin.wait();
            let start = Instant::now();
            work(&mut (thread..count).step_by(threads as usize))?;
            Ok((start, Instant::now()))
        };
        let handles: Vec<_> = (0..threads).map(|thread| scope.spawn(move || one(thread))).collect();
        let join = |handle: std::thread::ScopedJoinHandle<'_, Result<(Instant, Instant)>>| {
            handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        handles.into_iter().map(join).collect::<Result<Vec<_>>>()
    })?;
    let start = spans.iter().map(|span| span.0).min();
    let end = spans.iter().map(|span| span.1).max();
    let time = start.zip(end).map_or(0.0, |(start, end)| (end - start).as_secs_f64());
    Ok(time.max(1e-9))
}

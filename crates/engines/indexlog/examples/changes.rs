//! The cost of a change log: the same updates with records that are the log, and with a change log beside them
//! (Lersch §5.6.4), each durable by itself, in this process.
//!
//!     cargo run --release -p halite-indexlog --example changes -- /dev/shm 1000000
//!
//! Arguments: a folder for the pools, and the number of keys. With a change log a durable write is an entry
//! behind the log's end; its record follows by the cache, and is written back with others.

use std::path::Path;
use std::time::Instant;

use halite_contract::{Durability, Engine, EngineOptions, KeySpaceId, Op, Result};
use halite_indexlog::IndexLog;

const LENS: [usize; 3] = [100, 1000, 10_000];

/// Bytes of changes that are retained.
const RETAINED: u64 = 256 << 20;

/// Every pair of rounds compares both; the medians of all are printed.
const ROUNDS: usize = 5;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let folder = args.first().map_or("/dev/shm", String::as_str);
    let keys = args.get(1).and_then(|text| text.parse().ok()).unwrap_or(1_000_000_u64);
    println!(
        "{:>6} {:>10} | {:>7} {:>7} {:>8} {:>8} {:>8} {:>9}",
        "value", "log", "fences", "lines", "cpu ns", "p50 ns", "p99 ns", "p99.9 ns"
    );
    for len in LENS {
        let keys = keys.min((4 << 30) / len as u64);
        let store = |changes| Store::new(folder.as_ref(), changes, len);
        let mut stores = [store(None)?, store(Some(RETAINED))?];
        for store in &stores {
            store.fill(keys)?;
        }
        let mut measured = [const { Vec::new() }; 2];
        for _ in 0..ROUNDS {
            for (store, measured) in stores.iter_mut().zip(&mut measured) {
                measured.push(store.update(keys)?);
            }
        }
        for (name, measured) in ["records", "change log"].into_iter().zip(measured) {
            let median = |of: usize| {
                let mut figures: Vec<f64> = measured.iter().map(|figures| figures[of]).collect();
                figures.sort_by(f64::total_cmp);
                figures[ROUNDS / 2]
            };
            println!(
                "{len:>6} {name:>10} | {:>7.3} {:>7.2} {:>8.0} {:>8.0} {:>8.0} {:>9.0}",
                median(0),
                median(1),
                median(2),
                median(3),
                median(4),
                median(5),
            );
        }
    }
    Ok(())
}

struct Store {
    engine: IndexLog,
    space: KeySpaceId,
    value: Vec<u8>,
    _folder: tempfile::TempDir,
    random: u64,
}

impl Store {
    fn new(folder: &Path, changes: Option<u64>, len: usize) -> Result<Self> {
        let folder = tempfile::tempdir_in(folder).expect("the folder can be written to");
        let mut options = EngineOptions::new(folder.path().join("pool"));
        options.change_log = changes;
        let engine = IndexLog::open(&options)?;
        let space = engine.key_space("bench")?;
        Ok(Self { engine, space, value: vec![b'v'; len], _folder: folder, random: 1 })
    }

    fn put(&self, number: u64, durability: Durability) -> Result<()> {
        let key = format!("user{number:020}");
        let put = Op::Put { space: self.space, key: key.as_bytes(), value: &self.value };
        self.engine.write(&[put], durability)
    }

    fn fill(&self, keys: u64) -> Result<()> {
        (0..keys).try_for_each(|number| self.put(number, Durability::Deferred))?;
        self.engine.sync()
    }

    /// Updates random keys, and returns fences, lines and processor time of an update, and quantiles of its
    /// latency.
    fn update(&mut self, keys: u64) -> Result<[f64; 6]> {
        let updates = 100_000;
        let mut took = Vec::with_capacity(updates);
        let (before, begun) = (self.engine.stats(), cpu_ns());
        for _ in 0..updates {
            self.random =
                self.random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let begun = Instant::now();
            self.put((self.random >> 33) % keys, Durability::Immediate)?;
            took.push(begun.elapsed().as_nanos() as f64);
        }
        let (ns, after) = (cpu_ns() - begun, self.engine.stats());
        took.sort_by(f64::total_cmp);
        let per_update = |count: u64| count as f64 / updates as f64;
        let quantile = |share: f64| took[(updates as f64 * share) as usize];
        Ok([
            per_update(after.traffic.fences - before.traffic.fences),
            per_update(after.traffic.lines - before.traffic.lines),
            per_update(ns),
            quantile(0.5),
            quantile(0.99),
            quantile(0.999),
        ])
    }
}

/// Nanoseconds that this thread has run for, without those of other threads and processes.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or_default()
}

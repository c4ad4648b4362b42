//! The cost of collection: a store whose space is limited is filled, updated until its blocks are as they stay, and
//! measured under updates alone, in this process.
//!
//!     cargo run --release -p halite-indexlog --example collection -- /dev/shm 256
//!
//! Arguments: a folder for the pool, MiB of the pool, and optionally the length of values, `uniform` or
//! `zipfian`, and operations before a sync (1: each is durable by itself). The first line of a table is a
//! store that hardly collects: the difference to it is the cost of collection.

use std::path::Path;
use std::time::Instant;

use halite_contract::{Durability, Engine, EngineOptions, KeySpaceId, Op, Result, Stats};
use halite_indexlog::IndexLog;

/// Bytes of the pool that are live, in percent. The first is the one that the others are compared with.
const FILLS: [u64; 4] = [30, 70, 80, 90];

/// Updates of each record before it is measured.
const ROUNDS: u64 = 4;

/// The skew of YCSB's zipfian distribution.
const THETA: f64 = 0.99;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let folder = args.first().map_or("/dev/shm", String::as_str);
    let number = |at: usize, default: u64| {
        args.get(at).and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let (pool_bytes, only_len) = (number(1, 256) << 20, number(2, 0));
    let group = number(4, 1).max(1);
    println!("pool {pool_bytes} B, {group} operations a fence");
    println!(
        "{:>5} {:>8} {:>4} {:>7} | {:>6} {:>5} {:>6} {:>6} {:>6} | {:>7} {:>6} {:>6} {:>6} {:>7} {:>8} {:>9}",
        "value",
        "keys",
        "fill",
        "live",
        "amplif",
        "least",
        "lines",
        "fences",
        "loads",
        "cpu ns",
        "drop",
        "p50",
        "p99",
        "p99.9",
        "p99.99",
        "max ns"
    );
    for value_len in [100, 1000].into_iter().filter(|len| only_len == 0 || *len == only_len) {
        for skewed in [false, true] {
            let name = if skewed { "zipfian" } else { "uniform" };
            if args.get(3).is_some_and(|only| only != "both" && only != name) {
                continue;
            }
            let mut first = None;
            let mut test = Test::new(folder.as_ref(), pool_bytes, value_len as usize, skewed)?;
            for fill in FILLS {
                test.fill(fill)?;
                let measured = test.measure(group)?;
                let base = *first.get_or_insert(measured.ns);
                measured.print(value_len, name, fill, base);
            }
        }
    }
    Ok(())
}

struct Test {
    engine: IndexLog,
    _folder: tempfile::TempDir,
    space: KeySpaceId,
    value: Vec<u8>,
    records: u64,
    keys: Keys,
}

struct Measured {
    live: f64,
    amplification: f64,
    lines: f64,
    fences: f64,
    loads: f64,
    ns: f64,
    quantiles: [u64; 5],
}

impl Test {
    fn new(folder: &Path, pool_bytes: u64, value_len: usize, skewed: bool) -> Result<Self> {
        let folder = tempfile::tempdir_in(folder).expect("the folder can be written to");
        let mut options = EngineOptions::new(folder.path().join("pool"));
        options.pool_options.size_max = pool_bytes;
        options.pool_options.size_initial = pool_bytes;
        let engine = IndexLog::open(&options)?;
        let space = engine.key_space("bench")?;
        let value = vec![b'v'; value_len];
        let keys =
            Keys { random: fastrand::Rng::with_seed(1), zipfian: skewed.then(|| Zipfian::new(2)) };
        Ok(Self { engine, _folder: folder, space, value, records: 0, keys })
    }

    fn put(&self, number: u64, durability: Durability) -> Result<()> {
        // Records are not in the order of their keys.
        let key = format!("user{:020}", mix(number));
        let put = Op::Put { space: self.space, key: key.as_bytes(), value: &self.value };
        self.engine.write(&[put], durability)
    }

    /// Inserts records until so many percent of the pool are live, and updates them.
    fn fill(&mut self, percent: u64) -> Result<()> {
        for rounds in [0, ROUNDS, 0] {
            let stats = self.engine.stats();
            let record = match self.records {
                0 => self.value.len() as f64 * 2.0 + 128.0,
                records => stats.live_bytes as f64 / records as f64,
            };
            let wanted = (stats.pool_bytes_max * percent) as f64 / 100.0 / record;
            while self.records < wanted as u64 {
                self.put(self.records, Durability::Deferred)?;
                self.records += 1;
            }
            self.keys.grow(self.records);
            for _ in 0..rounds * self.records {
                let number = self.keys.next(self.records);
                self.put(number, Durability::Deferred)?;
            }
            self.engine.sync()?;
        }
        Ok(())
    }

    fn measure(&mut self, group: u64) -> Result<Measured> {
        let updates = 300_000;
        let before = self.engine.stats();
        let mut took = Vec::with_capacity(updates as usize);
        let begun = cpu_ns();
        let mut last = Instant::now();
        for at in 1..=updates {
            let number = self.keys.next(self.records);
            let durability = if group == 1 { Durability::Immediate } else { Durability::Deferred };
            self.put(number, durability)?;
            if group > 1 && at % group == 0 {
                self.engine.sync()?;
            }
            let now = Instant::now();
            took.push((now - last).as_nanos() as u64);
            last = now;
        }
        let ns = (cpu_ns() - begun) as f64 / updates as f64;
        let after = self.engine.stats();
        took.sort_unstable();
        let quantile = |share: f64| took[((took.len() - 1) as f64 * share) as usize];
        let per_update = |count: &dyn Fn(&Stats) -> u64| {
            (count(&after) - count(&before)) as f64 / updates as f64
        };
        let record = after.live_bytes as f64 / after.records as f64;
        Ok(Measured {
            live: after.live_bytes as f64 / after.pool_bytes_max as f64,
            amplification: 1.0 + per_update(&|stats| stats.collected_bytes_moved) / record,
            lines: per_update(&|stats| stats.traffic.lines),
            fences: per_update(&|stats| stats.traffic.fences),
            loads: per_update(&|stats| stats.traffic.loads),
            ns,
            quantiles: [0.5, 0.99, 0.999, 0.9999, 1.0].map(quantile),
        })
    }
}

impl Measured {
    fn print(&self, value_len: u64, keys: &str, fill: u64, base: f64) {
        let Self { live, amplification, lines, fences, loads, ns, quantiles } = self;
        let [p50, p99, p999, p9999, max] = quantiles;
        println!(
            "{value_len:>5} {keys:>8} {fill:>4} {:>6.2}% | {amplification:>6.2} {:>5.2} {lines:>6.2} \
             {fences:>6.3} {loads:>6.2} | {ns:>7.0} {:>5.1}% {p50:>6} {p99:>6} {p999:>7} {p9999:>8} \
             {max:>9}",
            100.0 * live,
            greedy(*live),
            100.0 * (1.0 - base / ns),
        );
    }
}

/// Nanoseconds that this thread has run for, without those of other threads and processes.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or_default()
}

/// Records written for each that is updated, by greedy collection of uniform updates: `1 / (1 - u)`, where
/// `u = exp(-(1 - u) / fill)` (Desnoyers, SYSTOR 2012).
fn greedy(fill: f64) -> f64 {
    let mut live = 0.0_f64;
    for _ in 0..10_000 {
        live = (-(1.0 - live) / fill).exp();
    }
    1.0 / (1.0 - live)
}

/// Which records are updated.
struct Keys {
    random: fastrand::Rng,
    zipfian: Option<Zipfian>,
}

impl Keys {
    fn grow(&mut self, records: u64) {
        if let Some(zipfian) = &mut self.zipfian {
            *zipfian = Zipfian::new(records);
        }
    }

    fn next(&mut self, records: u64) -> u64 {
        match &self.zipfian {
            // The likely ones are all over the records.
            Some(zipfian) => mix(zipfian.item(self.random.f64())) % records,
            None => self.random.u64(..records),
        }
    }
}

/// The zipfian distribution by Gray et al. (SIGMOD 1994), as YCSB draws it.
struct Zipfian {
    items: f64,
    zeta: f64,
    eta: f64,
}

impl Zipfian {
    fn new(items: u64) -> Self {
        let zeta: f64 = (1..=items).map(|item| (item as f64).powf(-THETA)).sum();
        let zeta_2 = 1.0 + 0.5_f64.powf(THETA);
        let items = items as f64;
        let eta = (1.0 - (2.0 / items).powf(1.0 - THETA)) / (1.0 - zeta_2 / zeta);
        Self { items, zeta, eta }
    }

    /// The item of a random number in [0, 1).
    fn item(&self, fraction: f64) -> u64 {
        let scaled = fraction * self.zeta;
        if scaled < 1.0 {
            0
        } else if scaled < 1.0 + 0.5_f64.powf(THETA) {
            1
        } else {
            let power = (self.eta * fraction - self.eta + 1.0).powf(1.0 / (1.0 - THETA));
            (self.items * power) as u64
        }
    }
}

/// A bijection of 64-bit numbers (the finalizer of SplitMix64).
fn mix(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

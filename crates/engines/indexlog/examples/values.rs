//! The cost of values of several lengths: a store whose space is limited is filled, updated, and measured under
//! updates alone, each durable by itself, in this process.
//!
//!     cargo run --release -p halite-indexlog --example values -- /dev/shm 256
//!
//! Arguments: a folder for the pool, MiB of the pool, and optionally one length of values in bytes. The first
//! line of a length is a store that hardly collects. Space is what the engine says that a pair takes;
//! amplification is bytes written for each byte of a pair, collection included. DRAM is how much the anonymous memory of
//! this process has grown by since the store was opened, for each pair.

use halite_contract::{Durability, Engine, EngineOptions, KeySpaceId, Op, Result, SpaceManagement};
use halite_indexlog::IndexLog;

const LENS: [usize; 11] = [
    1000,
    (2 << 10) + 1,
    3 << 10,
    4 << 10,
    (4 << 10) + 1,
    8 << 10,
    9 << 10,
    14 << 10,
    17 << 10,
    33 << 10,
    300 << 10,
];

/// Bytes of the pool that pairs take, in percent.
const FILLS: [u64; 3] = [30, 80, 90];

const KEY_LEN: usize = 24;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let folder = args.first().map_or("/dev/shm", String::as_str);
    let number = |at: usize| args.get(at).and_then(|text| text.parse::<u64>().ok());
    let pool_bytes = number(1).unwrap_or(256) << 20;
    println!(
        "{:>7} {:>4} {:>7} | {:>7} {:>6} {:>7} {:>7} {:>6} {:>8} {:>7}",
        "value", "fill", "live", "space", "waste", "fences", "lines", "amplif", "cpu ns", "DRAM"
    );
    for len in LENS.into_iter().filter(|&len| number(2).is_none_or(|only| only == len as u64)) {
        let folder = tempfile::tempdir_in(folder).expect("the folder can be written to");
        let mut options = EngineOptions::new(folder.path().join("pool"));
        options.pool_options.size_max = pool_bytes;
        options.pool_options.size_initial = pool_bytes;
        let engine = IndexLog::open(&options)?;
        let space = engine.key_space("bench")?;
        let (value, dram) = (vec![b'v'; len], dram_bytes());
        let mut test = Test { engine, space, value, pairs: 0, random: 1, dram };
        for fill in FILLS {
            if let Err(error) = test.run(fill) {
                println!("{len:>7} {fill:>4} {error}");
                break;
            }
        }
    }
    Ok(())
}

struct Test {
    engine: IndexLog,
    space: KeySpaceId,
    value: Vec<u8>,
    pairs: u64,
    random: u64,
    /// Anonymous memory of the process when the store was empty.
    dram: u64,
}

impl Test {
    fn put(&self, number: u64, durability: Durability) -> Result<()> {
        let key = format!("user{number:020}");
        let put = Op::Put { space: self.space, key: key.as_bytes(), value: &self.value };
        self.engine.write(&[put], durability)
    }

    fn update(&mut self, durability: Durability) -> Result<()> {
        self.random =
            self.random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        self.put((self.random >> 33) % self.pairs, durability)
    }

    fn run(&mut self, fill: u64) -> Result<()> {
        let pair = self.engine.space_of(KEY_LEN, self.value.len());
        let wanted = self.engine.stats().pool_bytes_max * fill / 100 / pair;
        while self.pairs < wanted {
            self.put(self.pairs, Durability::Deferred)?;
            self.pairs += 1;
        }
        for _ in 0..3 * self.pairs {
            self.update(Durability::Deferred)?;
        }
        self.engine.sync()?;
        let updates = (4 * self.pairs).min(100_000);
        let (before, begun) = (self.engine.stats(), cpu_ns());
        for _ in 0..updates {
            self.update(Durability::Immediate)?;
        }
        let (ns, after) = (cpu_ns() - begun, self.engine.stats());
        let per_update = |count: u64| count as f64 / updates as f64;
        let written = (KEY_LEN + self.value.len()) as f64;
        println!(
            "{:>7} {fill:>4} {:>6.2}% | {pair:>7} {:>5.1}% {:>7.3} {:>7.2} {:>6.2} {:>8.0} {:>7.0}",
            self.value.len(),
            100.0 * after.live_bytes as f64 / after.pool_bytes_max as f64,
            100.0 * (pair as f64 / written - 1.0),
            per_update(after.traffic.fences - before.traffic.fences),
            per_update(after.traffic.lines - before.traffic.lines),
            1.0 + per_update(after.collected_bytes_moved - before.collected_bytes_moved) / written,
            per_update(ns),
            dram_bytes().saturating_sub(self.dram) as f64 / self.pairs as f64,
        );
        Ok(())
    }
}

/// Nanoseconds that this thread has run for, without those of other threads and processes.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or_default()
}

/// Anonymous memory of this process: a pool on tmpfs is not in it.
fn dram_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or_default() << 10
}

//! Bytes and nanoseconds of each index at keys of 24 bytes that arrive in random order: `user` and 20
//! random digits, and 16 fields each of users with 12 random digits, which partial keys tell apart
//! badly.
//!
//! `cargo run --release -p halite-index --example memory [keys] [rounds]`. Full keys lie in one array, in the
//! order of insertion, so to read one is a cache miss, as it is in persistent memory. `get` reads the
//! full key in every index, as a store does, which must read the record.

use std::cell::Cell;
use std::convert::Infallible;
use std::hint::black_box;
use std::time::{Duration, Instant};

use halite_index::{FullKeys, HashIndex, PartialKeyTree, PartialLen};

const KEY_LEN: usize = 24;

struct Keys {
    keys: Vec<Key>,
    make: fn(u64) -> Key,
    reads: Cell<u64>,
}

impl FullKeys for Keys {
    type Error = Infallible;

    fn with_key<R>(&self, entry: u64, read: impl FnOnce(&[u8]) -> R) -> Result<R, Infallible> {
        self.reads.set(self.reads.get() + 1);
        Ok(read(&self.keys[entry as usize]))
    }

    fn prefetch(&self, entry: u64) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch changes no byte and does not fault.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch(self.keys.as_ptr().wrapping_add(entry as usize).cast(), _MM_HINT_T0);
        }
    }
}

fn mix(number: u64) -> u64 {
    let mixed = (number ^ number >> 31).wrapping_mul(0x7fb5_d329_728e_a185);
    (mixed ^ mixed >> 27).wrapping_mul(0x81da_def4_bc2d_d44d) ^ mixed >> 33
}

type Key = [u8; KEY_LEN];

/// Keys that spread.
fn spread(number: u64) -> Key {
    let mut key = *b"user00000000000000000000";
    key[4..].copy_from_slice(format!("{:020}", mix(number)).as_bytes());
    key
}

/// Keys that come in groups. The multiplier is odd, so that the first 2^24 numbers differ.
fn grouped(number: u64) -> Key {
    let scattered = number.wrapping_mul(0x9e_3779) & 0xff_ffff;
    let (user, field) = (mix(scattered / 16) % 1_000_000_000_000, scattered % 16);
    let mut key = *b"user000000000000/field00";
    key.copy_from_slice(format!("user{user:012}/field{field:02}").as_bytes());
    key
}

/// The operations that are measured on an index.
trait Index {
    fn insert(&mut self, key: &[u8], entry: u64, keys: &Keys);
    fn find(&self, key: &[u8], keys: &Keys) -> Option<u64>;
    fn heap_len(&self) -> usize;
    fn walk(&self) -> u64;
}

impl Index for PartialKeyTree {
    fn insert(&mut self, key: &[u8], entry: u64, keys: &Keys) {
        let Ok(_) = self.insert(key, entry, keys);
    }

    fn find(&self, key: &[u8], keys: &Keys) -> Option<u64> {
        let Ok(entry) = self.get_candidate(key, keys);
        entry
    }

    fn heap_len(&self) -> usize {
        self.heap_len()
    }

    fn walk(&self) -> u64 {
        self.iter().fold(0, u64::wrapping_add)
    }
}

impl Index for HashIndex {
    fn insert(&mut self, key: &[u8], entry: u64, keys: &Keys) {
        let Ok(_) = self.insert(key, entry, keys);
    }

    fn find(&self, key: &[u8], keys: &Keys) -> Option<u64> {
        let Ok(entry) = self.get_candidate(key, keys);
        entry
    }

    fn heap_len(&self) -> usize {
        self.heap_len()
    }

    fn walk(&self) -> u64 {
        self.iter().fold(0, u64::wrapping_add)
    }
}

/// The figures of one round of one index.
struct Measured {
    bytes: f64,
    /// The most bytes a record while the index doubled.
    bytes_max: f64,
    insert_ns: f64,
    insert_reads: f64,
    get_ns: f64,
    get_reads: f64,
    walk_ns: f64,
}

fn measure(mut index: impl Index, keys: &Keys) -> Measured {
    let count = keys.keys.len();
    let take_reads = || keys.reads.replace(0) as f64 / count as f64;
    let mut bytes_max: f64 = 0.0;
    let mut insert_time = Duration::ZERO;
    let step = (count / 64).max(1);
    for (first, keys_of_step) in (0..).step_by(step).zip(keys.keys.chunks(step)) {
        let start = Instant::now();
        for (number, key) in (first..).zip(keys_of_step) {
            index.insert(key, number, keys);
        }
        insert_time += start.elapsed();
        let len = first as usize + keys_of_step.len();
        if len >= count / 2 {
            bytes_max = bytes_max.max(index.heap_len() as f64 / len as f64);
        }
    }
    let insert_reads = take_reads();
    let order: Vec<u32> = (0..count as u64).map(|at| (mix(at) % count as u64) as u32).collect();
    let start = Instant::now();
    for &at in &order {
        // The key of a request arrives from elsewhere; made here, because to read it from the array
        // would bring the record's key into the cache.
        let key = (keys.make)(at.into());
        let Some(entry) = index.find(&key, keys) else { panic!("{at} is there") };
        assert_eq!(keys.keys[entry as usize], key);
    }
    let get_time = start.elapsed();
    let get_reads = take_reads();
    let start = Instant::now();
    order.iter().for_each(|&at| {
        black_box((keys.make)(at.into()));
    });
    let key_time = start.elapsed();
    let start = Instant::now();
    black_box(index.walk());
    let ns = |time: Duration| time.as_nanos() as f64 / count as f64;
    Measured {
        bytes: index.heap_len() as f64 / count as f64,
        bytes_max,
        insert_ns: ns(insert_time),
        insert_reads,
        get_ns: ns(get_time.saturating_sub(key_time)),
        get_reads,
        walk_ns: ns(start.elapsed()),
    }
}

fn median(rounds: &[Measured], value: impl Fn(&Measured) -> f64) -> f64 {
    let mut values: Vec<f64> = rounds.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let mut args = std::env::args().skip(1).filter_map(|arg| arg.parse().ok());
    let count = args.next().unwrap_or(1_000_000);
    let rounds = args.next().unwrap_or(5) as usize;
    println!("medians of {rounds} rounds; max: while the number of keys doubled;");
    println!("reads: of full keys, without that of the found record");
    for (name, make) in [("spread", spread as fn(u64) -> Key), ("grouped", grouped)] {
        println!("\n{count} {name} keys");
        let keys = Keys { keys: (0..count).map(make).collect(), make, reads: Cell::new(0) };
        compare(&keys, rounds);
    }
}

fn compare(keys: &Keys, rounds: usize) {
    type Contender = (&'static str, fn(&Keys) -> Measured);
    let contenders: [Contender; 5] = [
        ("partial keys, 0 B", |keys| measure(PartialKeyTree::new(PartialLen::Zero), keys)),
        ("partial keys, 2 B", |keys| measure(PartialKeyTree::new(PartialLen::Two), keys)),
        ("partial keys, 4 B", |keys| measure(PartialKeyTree::new(PartialLen::Four), keys)),
        ("partial keys, 8 B", |keys| measure(PartialKeyTree::new(PartialLen::Eight), keys)),
        ("hash", |keys| measure(HashIndex::new([1, 2]), keys)),
    ];
    let mut measured: Vec<Vec<Measured>> = contenders.iter().map(|_| Vec::new()).collect();
    for _ in 0..rounds {
        for ((_, measure), measured) in contenders.iter().zip(&mut measured) {
            measured.push(measure(keys));
        }
    }
    println!(
        "{:<20}{:>10}{:>8}{:>11}{:>8}{:>9}{:>8}{:>9}",
        "", "B/record", "max", "insert/ns", "reads", "get/ns", "reads", "walk/ns"
    );
    for ((name, _), rounds) in contenders.iter().zip(&measured) {
        println!(
            "{name:<20}{:>10.1}{:>8.1}{:>11.0}{:>8.2}{:>9.0}{:>8.3}{:>9.1}",
            median(rounds, |round| round.bytes),
            median(rounds, |round| round.bytes_max),
            median(rounds, |round| round.insert_ns),
            median(rounds, |round| round.insert_reads),
            median(rounds, |round| round.get_ns),
            median(rounds, |round| round.get_reads),
            median(rounds, |round| round.walk_ns),
        );
    }
}

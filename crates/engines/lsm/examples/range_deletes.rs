//! The cost of removals of ranges for readers:
//! `cargo run --release -p halite-lsm --example range_deletes -- [folder] [removals]`.
//!
//! A key space is filled and removed as FLUSHDB does, so often that each removal is one of a range. Then its gets, its
//! scans and its removals are timed.

use std::path::PathBuf;
use std::time::Instant;

use halite_contract::{Direction, Durability, Engine, EngineOptions, KeyRange, Op};
use halite_lsm::{Durable, Lsm, LsmOptions};
use halite_pmem::PoolOptions;

const KEYS: u64 = 300;

const GETS: u64 = 1_000_000;

const SCANS: u64 = 1_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let folder = PathBuf::from(args.next().unwrap_or_else(|| "/dev/shm".into()));
    let removals: u64 = args.next().map_or(Ok(2_000), |removals| removals.parse())?;
    let folder = tempfile::tempdir_in(folder)?;
    let mut pool_options = PoolOptions::default();
    pool_options.size_max = 4 << 30;
    let lsm = LsmOptions {
        durable: Durable::Pool,
        memtable_bytes: Some(1 << 30),
        ..LsmOptions::default()
    };
    let pool = folder.path().join("pool");
    let engine =
        Lsm::open(&EngineOptions { pool_options, own: lsm.into(), ..EngineOptions::new(pool) })?;
    let space = engine.key_space("space")?;
    let keys: Vec<[u8; 8]> = (0..KEYS).map(u64::to_be_bytes).collect();
    let fill = || {
        let ops: Vec<_> = keys.iter().map(|key| Op::Put { space, key, value: b"value" }).collect();
        engine.write(&ops, Durability::Deferred)
    };
    let began = Instant::now();
    for _ in 0..removals {
        fill()?;
        engine.write(&[Op::DeleteRange { space, start: b"", end: None }], Durability::Deferred)?;
    }
    let micros = began.elapsed().as_micros() / u128::from(removals.max(1));
    println!("{removals} times {KEYS} puts and their removal: {micros} µs each");
    fill()?;
    let began = Instant::now();
    for get in 0..GETS {
        if engine.get(space, &keys[(get % KEYS) as usize])?.is_none() {
            return Err("a key is missing".into());
        }
    }
    println!("{:.0} gets a second", GETS as f64 / began.elapsed().as_secs_f64());
    let began = Instant::now();
    for _ in 0..SCANS {
        if engine.scan(space, KeyRange::all(), Direction::Forward)?.count() as u64 != KEYS {
            return Err("a scan lacks keys".into());
        }
    }
    println!("{:.0} scans of {KEYS} pairs a second", SCANS as f64 / began.elapsed().as_secs_f64());
    Ok(())
}

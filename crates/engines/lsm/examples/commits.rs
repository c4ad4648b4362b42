//! How long commits take: `cargo run --release -p halite-lsm --example commits -- [folder] [threads] [batch] [value length]`.

use std::path::PathBuf;
use std::time::Instant;

use halite_contract::{Durability, Engine, EngineOptions, Op};
use halite_lsm::{Lsm, LsmOptions};
use halite_pmem::PoolOptions;

const COMMITS: u64 = 1_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let folder = PathBuf::from(args.next().unwrap_or_else(|| "/dev/shm".into()));
    let threads: u64 = args.next().map_or(Ok(1), |threads| threads.parse())?;
    let batch: u64 = args.next().map_or(Ok(1), |batch| batch.parse())?;
    let value_len: usize = args.next().map_or(Ok(24), |len| len.parse())?;
    let folder = tempfile::tempdir_in(folder)?;
    let mut pool_options = PoolOptions::default();
    pool_options.size_max = 4 << 30;
    let lsm = LsmOptions { memtable_bytes: Some(1 << 30), ..LsmOptions::default() };
    let pool = folder.path().join("pool");
    let engine =
        Lsm::open(&EngineOptions { pool_options, own: lsm.into(), ..EngineOptions::new(pool) })?;
    let space = engine.key_space("commits")?;
    let began = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let engine = &engine;
            scope.spawn(move || {
                let value = vec![7; value_len];
                for commit in 0..COMMITS / threads / batch {
                    let number = |nth: u64| {
                        (thread << 56 | (commit * batch + nth)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
                    };
                    let keys: Vec<[u8; 8]> =
                        (0..batch).map(|nth| number(nth).to_be_bytes()).collect();
                    let ops: Vec<_> =
                        keys.iter().map(|key| Op::Put { space, key, value: &value }).collect();
                    engine.write(&ops, Durability::Immediate).expect("there is room");
                }
            });
        }
    });
    let ns = began.elapsed().as_nanos() as u64;
    println!(
        "{threads} threads, batches of {batch}: {} ns a put, {} puts/s",
        ns / COMMITS,
        COMMITS * 1_000_000_000 / ns
    );
    let stats = engine.stats();
    println!("{:?}", stats.traffic);
    Ok(())
}

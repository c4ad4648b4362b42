//! How long opening takes: `cargo run --release -p halite-lsm --example opens -- [folder] [MiB] [value length]`.

use std::path::PathBuf;

use halite_contract::{Durability, Engine, EngineOptions, Op};
use halite_lsm::{Lsm, LsmOptions};
use halite_pmem::PoolOptions;

const OPENS: usize = 6;

const BATCH: u64 = 50;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let folder = PathBuf::from(args.next().unwrap_or_else(|| "/dev/shm".into()));
    let bytes = args.next().map_or(Ok(1024), |mib| mib.parse::<u64>())? << 20;
    let value_len: usize = args.next().map_or(Ok(500), |len| len.parse())?;
    let folder = tempfile::tempdir_in(folder)?;
    let pool = folder.path().join("pool");
    let options = || {
        let mut pool_options = PoolOptions::default();
        pool_options.size_max = 2 * bytes + (1 << 30);
        let global_index_bytes = Some(2 * bytes);
        let lsm = LsmOptions { global_index_bytes, ..LsmOptions::default() };
        EngineOptions { pool_options, own: lsm.into(), ..EngineOptions::new(&pool) }
    };
    let count = bytes / (32 + value_len as u64).next_multiple_of(8);
    let engine = Lsm::open(&options())?;
    let space = engine.key_space("records")?;
    let value = vec![7; value_len];
    for first in (0..count).step_by(BATCH as usize) {
        let number = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        let keys: Vec<[u8; 8]> = (first..first + BATCH).map(number).collect();
        let ops: Vec<_> = keys.iter().map(|key| Op::Put { space, key, value: &value }).collect();
        engine.write(&ops, Durability::Immediate)?;
    }
    drop(engine);
    for _ in 0..OPENS {
        let recovery = Lsm::open(&options())?.stats().recovery;
        println!("{} records in {:?}", recovery.records_read, recovery.duration);
    }
    Ok(())
}

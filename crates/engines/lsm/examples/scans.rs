//! How long scans take: `cargo run --release -p halite-lsm --example scans -- [folder] [records] [memtable MiB] [value]
//! [trees]`.

use std::path::PathBuf;
use std::time::Instant;

use halite_contract::{Direction, Durability, Engine, EngineOptions, KeyRange, Op, Partitioning};
use halite_lsm::{Lsm, LsmOptions};
use halite_pmem::PoolOptions;

/// Pairs of a scan, and scans of a round.
const PAIRS: usize = 100;
const SCANS: u64 = 20_000;

const ROUNDS: usize = 5;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let folder = PathBuf::from(args.next().unwrap_or_else(|| "/dev/shm".into()));
    let records: u64 = args.next().map_or(Ok(1_000_000), |records| records.parse())?;
    let memtable: u64 = args.next().map_or(Ok(256), |memtable| memtable.parse())?;
    let value: usize = args.next().map_or(Ok(32), |value| value.parse())?;
    let trees: usize = args.next().map_or(Ok(1), |trees| trees.parse())?;
    let mix = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    for order in ["sequential", "random"] {
        let folder = tempfile::tempdir_in(&folder)?;
        let mut pool_options = PoolOptions::default();
        pool_options.size_max = 2 << 30;
        let lsm = LsmOptions { memtable_bytes: Some(memtable << 20), ..LsmOptions::default() };
        let pool = folder.path().join("pool");
        let engine = Lsm::open(&EngineOptions {
            pool_options,
            partitioning: Some(Partitioning::Hash(trees)),
            own: lsm.into(),
            ..EngineOptions::new(pool)
        })?;
        let space = engine.key_space("scans")?;
        let key_of = |number: u64| {
            let number = if order == "random" { mix(number) } else { number };
            number.to_be_bytes()
        };
        let value = vec![7; value];
        for batch in 0..records / 50 {
            let keys: Vec<_> = (batch * 50..batch * 50 + 50).map(key_of).collect();
            let ops: Vec<_> =
                keys.iter().map(|key| Op::Put { space, key, value: &value }).collect();
            engine.write(&ops, Durability::Immediate)?;
        }
        let mut best = f64::MAX;
        for _ in 0..ROUNDS {
            let (began, mut pairs) = (Instant::now(), 0);
            for scan in 0..SCANS {
                let first = if order == "random" { mix(scan) } else { scan * 200 } % records;
                let range = KeyRange::new(key_of(first), None);
                for pair in engine.scan(space, range, Direction::Forward)?.take(PAIRS) {
                    let (key, found) = pair?;
                    assert!(key.len() == 8 && found.len() == value.len());
                    pairs += 1;
                }
            }
            best = best.min(began.elapsed().as_nanos() as f64 / f64::from(pairs));
        }
        println!("{order}: {best:.0} ns a pair at best");
    }
    Ok(())
}

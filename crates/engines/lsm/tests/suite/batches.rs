//! A batch is seen whole or not at all, also while it is on its way from a memtable to the global index.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use halite_contract::{Durability, Engine, EngineOptions, Op};
use halite_lsm::{Lsm, LsmOptions};
use halite_pmem::PoolOptions;

/// More keys than a removal of a range removes one by one.
const KEYS: u16 = 400;

#[test]
fn no_reader_sees_a_range_without_what_was_put_into_it_again() {
    let mut pool_options = PoolOptions::default();
    (pool_options.size_max, pool_options.in_memory) = (256 << 20, true);
    let lsm = LsmOptions { memtable_bytes: Some(4 << 10), ..LsmOptions::default() };
    let options = EngineOptions { pool_options, own: lsm.into(), ..EngineOptions::new("pool") };
    let engine = Lsm::open(&options).unwrap();
    let space = engine.key_space("space").unwrap();
    let keys: Vec<[u8; 2]> = (0..KEYS).map(u16::to_be_bytes).collect();
    let write = |round: u64| {
        let value = round.to_le_bytes();
        let mut ops = vec![Op::DeleteRange { space, start: b"", end: None }];
        ops.extend(keys.iter().map(|key| Op::Put { space, key, value: &value }));
        engine.write(&ops, Durability::Deferred).unwrap();
    };
    write(0);
    let stopped = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..12 {
            let (engine, stopped, keys) = (&engine, &stopped, &keys);
            scope.spawn(move || {
                let mut at = thread;
                while !stopped.load(Ordering::Relaxed) {
                    at = (at + 7) % keys.len();
                    let found = engine.get(space, &keys[at]).unwrap();
                    if found.is_none() {
                        stopped.store(true, Ordering::Relaxed);
                        panic!("key {at} is gone, though each batch puts it again");
                    }
                }
            });
        }
        let begun = Instant::now();
        for round in 1.. {
            if stopped.load(Ordering::Relaxed) || begun.elapsed() > Duration::from_secs(3) {
                break;
            }
            write(round);
        }
        stopped.store(true, Ordering::Relaxed);
    });
}

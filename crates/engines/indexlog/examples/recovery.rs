//! How long a store takes to open that was not closed: `cargo run --release -p halite-indexlog --example
//! recovery [records] [partitions] [rounds] [folder] [snapshot]`, with keys of 24 bytes in random order and
//! values of 100 bytes. With `snapshot`, one of the index is taken when all of them are there; its cost is
//! printed, and the time that a put takes meanwhile.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use halite_contract::{
    Durability, Engine, EngineOptions, IndexSnapshots, KeySpaceId, Op, Partitioned, Partitioning,
    Result,
};
use halite_indexlog::{IndexLog, IndexLogOptions};
use halite_pmem::PoolOptions;

const VALUE: [u8; 100] = [b'v'; 100];

/// Records of a batch of the load.
const BATCH: u64 = 64;

fn options(pool: &Path, partitions: usize) -> EngineOptions {
    let mut pool_options = PoolOptions::default();
    pool_options.size_max = 64 << 30;
    let partitioning = Some(Partitioning::Hash(partitions));
    // None is taken but those that are asked for.
    let own = IndexLogOptions { index_snapshot: Some(u64::MAX), ..IndexLogOptions::default() };
    let options = EngineOptions::new(pool);
    EngineOptions { pool_options, partitioning, on_demand: true, own: own.into(), ..options }
}

fn mix(number: u64) -> u64 {
    let mixed = (number ^ number >> 31).wrapping_mul(0x7fb5_d329_728e_a185);
    (mixed ^ mixed >> 27).wrapping_mul(0x81da_def4_bc2d_d44d) ^ mixed >> 33
}

fn key(number: u64) -> Vec<u8> {
    format!("user{:020}", mix(number)).into_bytes()
}

/// Loads a store and leaves its pool as a killed process does.
fn load(pool: &Path, records: u64, partitions: usize, snapshot: bool) -> Result<()> {
    let store = IndexLog::open(&options(pool, partitions))?;
    let space = store.key_space("db0")?;
    let mut batches: Vec<Vec<Vec<u8>>> = vec![Vec::new(); partitions];
    let write = |keys: &mut Vec<Vec<u8>>| {
        let ops: Vec<_> = keys.iter().map(|key| Op::Put { space, key, value: &VALUE }).collect();
        store.write(&ops, Durability::Deferred)?;
        keys.clear();
        Ok::<_, halite_contract::Error>(())
    };
    for number in 0..records {
        let key = key(number);
        let batch = &mut batches[store.partition_of(&key)];
        batch.push(key);
        if batch.len() as u64 == BATCH {
            write(batch)?;
        }
    }
    batches.iter_mut().try_for_each(write)?;
    store.sync()?;
    if snapshot {
        take_snapshot(&store, space, records)?;
    }
    // Leaves the store as a killed process does: nothing is closed.
    std::mem::forget(store);
    Ok(())
}

/// Takes a snapshot of the index alone, then one while records are put anew, and then one for the opening.
fn take_snapshot(store: &IndexLog, space: KeySpaceId, records: u64) -> Result<()> {
    let timed = || {
        let started = Instant::now();
        assert!(store.snapshot_index()?);
        Ok::<_, halite_contract::Error>(started.elapsed())
    };
    let alone = timed()?;
    let bytes = store.stats().figure("index_snapshot_bytes").unwrap();
    println!(
        "snapshot: {} ms, {bytes} bytes, {:.1} a record",
        alone.as_millis(),
        bytes as f64 / records as f64
    );
    let stop = AtomicBool::new(false);
    let put = |name: &str| {
        let mut times = Vec::new();
        let mut number = 0;
        while !stop.load(Ordering::Relaxed) && times.len() < 300_000 {
            number = mix(number + 1) % records;
            let started = Instant::now();
            let op = Op::Put { space, key: &key(number), value: &VALUE };
            store.write(&[op], Durability::Immediate)?;
            times.push(started.elapsed());
        }
        let sum: Duration = times.iter().sum();
        times.sort_unstable();
        let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
        println!(
            "{} puts {name}: mean {} ns, p50 {:?}, p99 {:?}, p99.9 {:?}, max {:?}",
            times.len(),
            sum.as_nanos() / times.len().max(1) as u128,
            at(0.5),
            at(0.99),
            at(0.999),
            at(1.0)
        );
        Ok::<_, halite_contract::Error>(())
    };
    put("without a snapshot")?;
    let meanwhile = std::thread::scope(|scope| {
        let puts = scope.spawn(|| put("while a snapshot is taken"));
        let meanwhile = timed();
        stop.store(true, Ordering::Relaxed);
        puts.join().expect("no put panics")?;
        meanwhile
    })?;
    println!("snapshot while records are put: {} ms", meanwhile.as_millis());
    timed().map(drop)
}

/// Processor time of this process so far, in hundredths of a second.
fn processor_time() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
}

/// Opens the store that was left, and asks it.
fn open(pool: &Path, records: u64, partitions: usize) -> Result<()> {
    let started = Instant::now();
    let store = IndexLog::open(&options(pool, partitions))?;
    let opened = started.elapsed();
    let space = store.key_space("db0")?;
    let found = store.get(space, &key(records / 2))?;
    let first = started.elapsed();
    assert_eq!(found.as_deref(), Some(&VALUE[..]));
    assert_eq!(store.len(space)?, records);
    let all = started.elapsed();
    let ms = |time: Duration| time.as_millis();
    println!(
        "open {} ms, first answer {} ms, all {} ms, processor time {} ms, {} records read",
        ms(opened),
        ms(first),
        ms(all),
        10 * processor_time(),
        store.stats().recovery.records_read
    );
    // Leaves the store as a killed process does: nothing is closed.
    std::mem::forget(store);
    Ok(())
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |at: usize, default: u64| args.get(at).and_then(|arg| arg.parse().ok()).unwrap_or(default);
    let (records, partitions) = (number(0, 1_000_000), number(1, 2) as usize);
    match (args.get(4).map(String::as_str), args.get(5)) {
        (Some(what @ ("load" | "snapshot")), Some(pool)) => {
            return load(Path::new(pool), records, partitions, what == "snapshot");
        }
        (Some(_), Some(pool)) => return open(Path::new(pool), records, partitions),
        _ => {}
    }
    let folder = args.get(3).map_or_else(|| PathBuf::from("/dev/shm"), PathBuf::from);
    let pool = folder.join(format!("halite-recovery-{}", std::process::id()));
    let program = std::env::current_exe().expect("this program has a path");
    let child = |what: &str| {
        let status = std::process::Command::new(&program)
            .args([&records.to_string(), &partitions.to_string(), "0", "-", what])
            .arg(&pool)
            .status();
        assert!(status.is_ok_and(|status| status.success()), "{what}");
    };
    child(if args.get(4).is_some_and(|what| what == "snapshot") { "snapshot" } else { "load" });
    for _ in 0..number(2, 3) {
        child("open");
    }
    let _ = fs::remove_file(pool);
    Ok(())
}

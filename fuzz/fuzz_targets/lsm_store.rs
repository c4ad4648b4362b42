//! A store of the LSM engine whose pool is damaged, or whose log has batches of a stranger, opens and answers, is
//! repaired, or is refused with an error: no panic, no hang.
#![no_main]

use std::fs::{self, File};
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::OnceLock;

use halite_alloc::Segments;
use halite_contract::{Direction, Durability, Engine, EngineOptions, KeyRange, Op, Partitioning};
use halite_disk::Disk;
use halite_lsm::{Durable, Lsm, LsmOptions};
use halite_pmem::PoolOptions;
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bytes of the pool.
const POOL: u64 = 16 << 20;

fn options(folder: &Path, durable: Durable, disk: &Disk) -> EngineOptions {
    let mut pool_options = PoolOptions::default();
    pool_options.size_max = POOL;
    let lsm = LsmOptions { durable, ..LsmOptions::default() };
    let partitioning = Some(Partitioning::Hash(2));
    EngineOptions {
        pool_options,
        disk: Some(disk.clone()),
        own: lsm.into(),
        partitioning,
        ..EngineOptions::new(folder.join("pool"))
    }
}

/// A pool, and the files beside it.
struct Image {
    pool: Vec<u8>,
    uuid: [u8; 16],
    files: Vec<(String, Vec<u8>)>,
}

fn read_all(disk: &Disk) -> Vec<(String, Vec<u8>)> {
    let files = disk.list().unwrap().into_iter().map(|(name, len)| {
        let mut bytes = vec![0; len as usize];
        disk.open(&name).unwrap().read_at(0, &mut bytes).unwrap();
        (name, bytes)
    });
    files.collect()
}

/// A small store with everything in it, as a kill leaves it.
fn image(durable: Durable) -> Image {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let disk = Disk::in_memory();
    let engine = Lsm::open(&options(folder.path(), durable, &disk)).unwrap();
    let space = engine.key_space("space").unwrap();
    let write = |op: Op<'_>| engine.write(&[op], Durability::Immediate).unwrap();
    for number in 0..64_u8 {
        let value = vec![number; number as usize * 4];
        write(Op::Put { space, key: &[number % 48], value: &value });
    }
    write(Op::Put { space, key: b"large", value: &[7; 200_000] });
    write(Op::Delete { space, key: &[3] });
    write(Op::DeleteRange { space, start: &[10], end: Some(&[20]) });
    let options = options(folder.path(), durable, &disk);
    let (pool, files) = (fs::read(&options.pool).unwrap(), read_all(&disk));
    drop(engine);
    let uuid = Segments::open(&options.pool, &options.pool_options).unwrap().uuid();
    Image { pool, uuid, files }
}

fn images() -> &'static [Image; 2] {
    static IMAGES: OnceLock<[Image; 2]> = OnceLock::new();
    IMAGES.get_or_init(|| [image(Durable::Pool), image(Durable::Log)])
}

/// Of a record: kind, key, value, and the lengths that it states beside the true ones.
type Record = (u8, Vec<u8>, Vec<u8>, Option<(u32, u32)>);

/// Of a batch: how far it is from the sequence that should follow, how many records it says it has beside the truth,
/// and the trees and records of its fragments.
type Batch = (Option<u64>, Option<u32>, Vec<(u8, Vec<Record>)>);

/// Regions of a pool that matter: superblock copies, allocation table, objects and zones.
const REGIONS: [(u64, u64); 5] =
    [(0, 1024), (32 << 10, 1024), (64 << 10, 256), (2 << 20, 4096), (4 << 20, 32 << 10)];

/// A record as `record.rs` has it, without a check: the log vouches for it.
fn push_record(record: &Record, to: &mut Vec<u8>) {
    let (kind, key, value, lie) = record;
    let lens = lie.unwrap_or((value.len() as u32, key.len() as u32));
    to.extend(u64::from(*kind).to_le_bytes());
    to.extend([0; 4]);
    to.extend(lens.0.to_le_bytes());
    to.extend(lens.1.to_le_bytes());
    to.extend(key);
    to.extend(value);
    to.resize(to.len().next_multiple_of(8), 0);
}

/// A batch with a right check, as `wal.rs` has it. `next` is the sequence that should follow.
fn push_batch(batch: &Batch, seed: u64, next: &mut u64, to: &mut Vec<u8>) {
    let (gap, records, trees) = batch;
    let count = trees.iter().map(|(_, records)| records.len() as u32).sum();
    let records = records.unwrap_or(count);
    let sequence = next.wrapping_add(gap.unwrap_or(0));
    let mut fragments = Vec::new();
    for (tree, records) in trees {
        let mut payload = Vec::new();
        records.iter().for_each(|record| push_record(record, &mut payload));
        fragments.extend(u32::from(*tree).to_le_bytes());
        fragments.extend((payload.len() as u32).to_le_bytes());
        fragments.extend(payload);
    }
    let mut bytes = vec![0; 8];
    bytes.extend(sequence.to_le_bytes());
    bytes.extend(records.to_le_bytes());
    bytes.extend((fragments.len() as u32).to_le_bytes());
    bytes.extend(fragments);
    let check = xxh3_64_with_seed(&bytes[8..], seed);
    bytes[..8].copy_from_slice(&check.to_le_bytes());
    to.extend(bytes);
    *next = sequence.wrapping_add(records.into());
}

/// The sequence behind a log's last batch.
fn end_of(mut log: &[u8]) -> u64 {
    let mut end = 1;
    while let Some(head) = log.first_chunk::<24>() {
        let word = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().unwrap());
        let half = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().unwrap());
        end = word(8) + u64::from(half(16));
        let Some(rest) = log.get(24 + half(20) as usize..) else { break };
        log = rest;
    }
    end
}

/// Places of the pool by region, and bytes for them.
type Edits = Vec<(u8, u16, [u8; 8])>;

// Whether there is a log; the changes in the pool and in the log; the batches behind them.
fuzz_target!(|input: (bool, Edits, Vec<(u16, u8)>, Vec<Batch>)| {
    let (is_logged, edits, flips, batches) = input;
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| tempfile::tempdir_in("/dev/shm").unwrap());
    let image = &images()[usize::from(is_logged)];
    let disk = Disk::in_memory();
    let durable = if is_logged { Durable::Log } else { Durable::Pool };
    let options = options(folder.path(), durable, &disk);
    fs::write(&options.pool, &image.pool).unwrap();
    let file = File::options().write(true).open(&options.pool).unwrap();
    for (region, at, bytes) in &edits {
        let (start, len) = REGIONS[usize::from(*region) % REGIONS.len()];
        file.write_all_at(bytes, start + u64::from(*at) % len).unwrap();
    }
    drop(file);
    for (name, bytes) in &image.files {
        let mut bytes = bytes.clone();
        if let Some(number) = name.strip_prefix("LOG-") {
            let seed = xxh3_64_with_seed(&image.uuid, 0) ^ number.parse::<u64>().unwrap();
            let mut next = end_of(&bytes);
            for (at, byte) in &flips {
                let at = usize::from(*at) % bytes.len();
                bytes[at] = *byte;
            }
            for batch in &batches {
                push_batch(batch, seed, &mut next, &mut bytes);
            }
        }
        let mut writer = disk.create(name).unwrap();
        writer.write(&bytes).unwrap();
        writer.finish().unwrap();
    }
    if use_it(&options).is_err() && Lsm::repair(&options).is_ok() {
        let _ = use_it(&options);
    }
});

fn use_it(options: &EngineOptions) -> halite_contract::Result<()> {
    let engine = Lsm::open(options)?;
    for (_, space) in engine.key_spaces()? {
        for direction in [Direction::Forward, Direction::Reverse] {
            engine.scan(space, KeyRange::all(), direction)?.for_each(drop);
        }
        let put = Op::Put { space, key: b"new", value: b"value" };
        let _ = engine.write(&[put], Durability::Immediate);
        let _ = (engine.get(space, b"new"), engine.get(space, b"large"));
    }
    engine.verify(&mut |_, _| ControlFlow::Continue(()))?;
    Ok(())
}

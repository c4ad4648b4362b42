//! A damaged pool opens and answers, or is refused with an error: no panic, no hang.
#![no_main]

use std::fs::{self, File};
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::OnceLock;

use halite_contract::{Direction, Durability, Engine, EngineOptions, KeyRange, Op};
use halite_indexlog::IndexLog;
use halite_pmem::PoolOptions;
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

fn options(folder: &Path) -> EngineOptions {
    let mut pool_options = PoolOptions::default();
    pool_options.size_max = 16 << 20;
    EngineOptions { pool_options, ..EngineOptions::new(folder.join("pool")) }
}

/// A small store with everything in it, as a kill leaves it.
fn image() -> &'static [u8] {
    static IMAGE: OnceLock<Vec<u8>> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let engine = IndexLog::open(&options(folder.path())).unwrap();
        let space = engine.key_space("space").unwrap();
        let write = |op: Op<'_>| engine.write(&[op], Durability::Immediate).unwrap();
        for number in 0..64_u8 {
            write(Op::Put {
                space,
                key: &[number % 48],
                value: &vec![number; number as usize * 4],
            });
        }
        write(Op::Put { space, key: b"large", value: &[7; 200_000] });
        write(Op::Delete { space, key: &[3] });
        write(Op::DeleteRange { space, start: &[10], end: Some(&[20]) });
        fs::read(folder.path().join("pool")).unwrap()
    })
}

/// Places that matter: superblock copies, allocation table, block map, the first block of records.
const REGIONS: [(u64, u64); 5] =
    [(0, 1024), (32 << 10, 1024), (64 << 10, 64), (2 << 20, 256), (4 << 20, 16 << 10)];

fuzz_target!(|edits: Vec<(u8, u16, [u8; 8])>| {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| tempfile::tempdir_in("/dev/shm").unwrap());
    let options = options(folder.path());
    fs::write(&options.pool, image()).unwrap();
    let file = File::options().write(true).open(&options.pool).unwrap();
    for (region, at, bytes) in edits {
        let (start, len) = REGIONS[usize::from(region) % REGIONS.len()];
        file.write_all_at(&bytes, start + u64::from(at) % len).unwrap();
    }
    drop(file);
    let Ok(engine) = IndexLog::open(&options) else { return };
    for (_, space) in engine.key_spaces().unwrap_or_default() {
        for direction in [Direction::Forward, Direction::Reverse] {
            engine.scan(space, KeyRange::all(), direction).unwrap().for_each(drop);
        }
        let _ =
            engine.write(&[Op::Put { space, key: b"new", value: b"value" }], Durability::Immediate);
    }
    let _ = engine.verify(&mut |_, _| ControlFlow::Continue(()));
});

//! A mirror of the Bε-tree engine whose pool and leaves are damaged opens and answers, is repaired, or is refused with
//! an error: no panic, no hang; and what is damaged on one leaf alone is read right.
#![no_main]

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::OnceLock;

use halite_betree::{Betree, BetreeOptions};
use halite_contract::{Direction, Durability, Engine, EngineOptions, KeyRange, Op};
use halite_disk::{Access, Disk};
use halite_pmem::PoolOptions;
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

/// Bytes of the pool.
const POOL: u64 = 16 << 20;

fn options(folder: &Path, disk: &Disk) -> EngineOptions {
    let mut pool_options = PoolOptions::default();
    pool_options.size_max = POOL;
    let own = BetreeOptions {
        topology: Some("mirror file:leaf-0 file:leaf-1".parse().unwrap()),
        large_value_bytes: Some(4000),
        ..BetreeOptions::for_lab()
    };
    EngineOptions {
        pool_options,
        disk: Some(disk.clone()),
        own: own.into(),
        ..EngineOptions::new(folder.join("pool"))
    }
}

/// A pool, and the files beside it.
struct Image {
    pool: Vec<u8>,
    files: Vec<(String, Vec<u8>)>,
}

/// A small store, as a kill leaves it.
fn image() -> &'static Image {
    static IMAGE: OnceLock<Image> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let disk = Disk::in_memory();
        let engine = Betree::open(&options(folder.path(), &disk)).unwrap();
        let space = engine.key_space("space").unwrap();
        for number in 0..96_u8 {
            let value = vec![number; number as usize * 50];
            let put = Op::Put { space, key: &[number % 64], value: &value };
            engine.write(&[put], Durability::Immediate).unwrap();
            if number == 40 {
                engine.create_snapshot(space, "early").unwrap();
            }
        }
        engine.objects("shelf").unwrap().create(b"object").unwrap().write_at(9, b"bytes").unwrap();
        engine.scrub(&mut |_, _| ControlFlow::Continue(())).unwrap();
        let files = disk.list().unwrap().into_iter().map(|(name, len)| {
            let mut bytes = vec![0; len as usize];
            disk.open(&name).unwrap().read_at(0, &mut bytes).unwrap();
            (name, bytes)
        });
        Image { files: files.collect(), pool: fs::read(folder.path().join("pool")).unwrap() }
    })
}

// Which file, where, and the bytes there.
fuzz_target!(|edits: Vec<(u8, u32, [u8; 8])>| {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| tempfile::tempdir_in("/dev/shm").unwrap());
    let image = image();
    let disk = Disk::in_memory();
    let options = options(folder.path(), &disk);
    let spoil = |bytes: &[u8], number: usize| {
        let mut bytes = bytes.to_vec();
        for (file, at, edit) in &edits {
            let at = *at as usize % (bytes.len() - 8).max(1);
            if usize::from(*file) % (image.files.len() + 1) == number && bytes.len() > 8 {
                bytes[at..at + 8].copy_from_slice(edit);
            }
        }
        bytes
    };
    fs::write(&options.pool, spoil(&image.pool, image.files.len())).unwrap();
    for (number, (name, bytes)) in image.files.iter().enumerate() {
        let file = disk.create_positioned(name, Access::Direct).unwrap();
        file.preallocate(bytes.len() as u64).unwrap();
        file.write_at(0, &spoil(bytes, number)).unwrap();
        file.sync().unwrap();
    }
    let _ = use_it(&options);
});

fn use_it(options: &EngineOptions) -> halite_contract::Result<()> {
    let engine = Betree::open(options)?;
    for (_, space) in engine.key_spaces()? {
        for direction in [Direction::Forward, Direction::Reverse] {
            engine.scan(space, KeyRange::all(), direction)?.for_each(drop);
        }
        let put = Op::Put { space, key: b"new", value: b"value" };
        let _ = engine.write(&[put], Durability::Immediate);
        let _ = engine.open_snapshot(space, "early");
        for number in 0..64_u8 {
            if let Ok(Some(value)) = engine.get(space, &[number]) {
                let last = if number < 32 { number + 64 } else { number };
                assert!(*value == vec![last; last as usize * 50], "a wrong value of {number}");
            }
        }
    }
    engine.verify(&mut |_, _| ControlFlow::Continue(()))?;
    engine.scrub(&mut |_, _| ControlFlow::Continue(()))?;
    Ok(())
}

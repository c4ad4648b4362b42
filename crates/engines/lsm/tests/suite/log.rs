//! The batches that the log gives back, and the errors where it, or the levels, are not as they were.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use halite_contract::{Durability, Engine, EngineOptions, Op, Partitioned, Partitioning};
use halite_disk::{Disk, DiskModel};
use halite_lsm::{Compression, Durable, Lsm, LsmOptions};
use halite_pmem::{Domain, Medium, PoolOptions};

/// A store with two trees and a log on a modelled medium, where it has no threads.
fn open(medium: &Medium) -> Arc<dyn Engine> {
    let mut pool_options = PoolOptions::default();
    pool_options.size_max = 32 << 20;
    pool_options.medium = Some(medium.clone());
    let lsm = LsmOptions {
        durable: Durable::Log,
        memtable_bytes: Some(4 << 10),
        ..LsmOptions::default()
    };
    let partitioning = Some(Partitioning::Hash(2));
    let options = EngineOptions {
        pool_options,
        disk: Some(Disk::model(&DiskModel::of(medium.machine()))),
        own: lsm.into(),
        partitioning,
        ..EngineOptions::new("pool")
    };
    Arc::new(Lsm::open(&options).unwrap())
}

#[test]
fn what_the_levels_of_one_tree_have_is_not_replayed_for_the_other() {
    let medium = Medium::new(Domain::Memory, 32 << 20).unwrap();
    let engine = open(&medium);
    let space = engine.key_space("space").unwrap();
    let key_of = |tree: usize| {
        let keys = (0..100).map(|number| format!("key {number}"));
        keys.into_iter().find(|key| engine.partition_of(key.as_bytes()) == tree).unwrap()
    };
    let (here, there) = (key_of(0), key_of(1));
    let put = |key: &'static str, value| Op::Put { space, key: key.as_bytes(), value };
    let (here, there): (&'static str, &'static str) = (here.leak(), there.leak());
    let write = |ops: &[Op<'_>]| engine.write(ops, Durability::Immediate).unwrap();
    write(&[put(here, b"old"), put(there, b"old")]);
    write(&[put(here, b"new")]);
    // The memtable with both is full, and goes to the levels; that of the other tree does not.
    let filler = vec![7; 8 << 10];
    for number in 100..200 {
        let key = format!("key {number}");
        if engine.partition_of(key.as_bytes()) == 0 {
            write(&[Op::Put { space, key: key.as_bytes(), value: &filler }]);
            break;
        }
    }
    assert!(engine.collect_ahead(0).unwrap());
    drop(engine);
    let engine = open(&medium);
    assert!(engine.stats().recovery.records_replayed > 0);
    assert_eq!(engine.get(space, here.as_bytes()).unwrap().as_deref(), Some(&b"new"[..]));
    assert_eq!(engine.get(space, there.as_bytes()).unwrap().as_deref(), Some(&b"old"[..]));
}

fn level_bytes(engine: &Lsm) -> u64 {
    engine.stats().figure("level_bytes").expect("there are levels")
}

/// Options of a store in a folder that goes to the levels with little.
fn in_folder(folder: &Path, durable: Durable) -> EngineOptions {
    let mut pool_options = PoolOptions::default();
    pool_options.size_max = 64 << 20;
    let lsm = LsmOptions { durable, memtable_bytes: Some(4 << 10), ..LsmOptions::default() };
    EngineOptions { pool_options, own: lsm.into(), ..EngineOptions::new(folder.join("pool")) }
}

/// A store with values in its log, that was closed.
fn closed(folder: &Path, values: u32) {
    let mut options = in_folder(folder, Durable::Log);
    options.own.get_mut::<LsmOptions>().memtable_bytes = None;
    let engine = Lsm::open(&options).unwrap();
    let space = engine.key_space("space").unwrap();
    for number in 0..values {
        let (key, value) = (number.to_be_bytes(), [7; 100]);
        let put = Op::Put { space, key: &key, value: &value };
        engine.write(&[put], Durability::Immediate).unwrap();
    }
}

fn values_of(engine: &Lsm) -> u32 {
    // The creation of the key space is in the log, too.
    let Some(&(_, space)) = engine.key_spaces().unwrap().first() else { return 0 };
    let count = engine.len(space).unwrap() as u32;
    let is_there = |number: u32| {
        engine.get(space, &number.to_be_bytes()).unwrap().is_some_and(|v| v.len() == 100)
    };
    assert!((0..count).all(is_there), "they are the first");
    count
}

#[test]
fn damage_to_the_log_of_a_store_that_was_closed_is_told_and_repaired() {
    const VALUES: u32 = 200;
    let break_log: [fn(&Path); 4] = [
        |log| {
            let mut bytes = fs::read(log).unwrap();
            let at = bytes.len() / 2;
            bytes[at] ^= 1;
            fs::write(log, bytes).unwrap();
        },
        |log| {
            let bytes = fs::read(log).unwrap();
            fs::write(log, &bytes[..bytes.len() / 3]).unwrap();
        },
        |log| fs::write(log, b"").unwrap(),
        |log| fs::remove_file(log).unwrap(),
    ];
    for (at, break_log) in break_log.into_iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        closed(folder.path(), VALUES);
        let log = folder.path().join("levels/LOG-000001");
        break_log(&log);
        let broken = fs::read(&log).ok();
        let options = in_folder(folder.path(), Durable::Log);
        for _ in 0..2 {
            let error = Lsm::open(&options).err().expect("it is damaged");
            let damage = error.damage().expect("an error that tells damage");
            assert_eq!(damage.what, "levels/LOG-000001", "{error}");
            assert_eq!(fs::read(&log).ok(), broken, "nothing of it is cut");
        }
        let found = Lsm::examine(&options).unwrap();
        assert_eq!(found.lost.len(), 1);
        assert_eq!(fs::read(&log).ok(), broken, "it only says what it would do");
        let repaired = Lsm::repair(&options).unwrap();
        assert_eq!(repaired, found);
        // Where nothing follows the readable part, there is nothing to set aside.
        assert_eq!(repaired.set_aside.len(), usize::from(at < 2));
        if let Some(aside) = repaired.set_aside.first() {
            assert_eq!(fs::read(folder.path().join(aside)).ok(), broken);
        }
        let engine = Lsm::open(&options).unwrap();
        let left = values_of(&engine);
        assert!(left < VALUES && (left > VALUES / 4 || at > 1), "{left} are left");
        drop(engine);
        assert!(Lsm::repair(&options).unwrap().is_whole());
        assert_eq!(values_of(&Lsm::open(&options).unwrap()), left);
    }
}

#[test]
fn a_log_goes_on_behind_a_hole_that_a_repair_left() {
    let folder = tempfile::tempdir().unwrap();
    let partitioning = Some(Partitioning::Hash(2));
    let mut options = EngineOptions { partitioning, ..in_folder(folder.path(), Durable::Log) };
    options.own.get_mut::<LsmOptions>().memtable_bytes = Some(64 << 10);
    let put = |engine: &Lsm, key: &[u8], value: &[u8]| {
        let space = engine.key_space("space").unwrap();
        engine.write(&[Op::Put { space, key, value }], Durability::Immediate).unwrap();
    };
    let engine = Lsm::open(&options).unwrap();
    let of_tree = |tree: usize| {
        let key = |number: u32| format!("key {number}").into_bytes();
        (0..).map(key).find(|key| engine.partition_of(key) == tree).expect("there are more")
    };
    let (often, seldom) = (of_tree(0), of_tree(1));
    // One tree goes to the levels, and the other keeps the log.
    put(&engine, &seldom, b"seldom");
    let log = |number: u32| folder.path().join(format!("levels/LOG-{number:06}"));
    // With more of the log, the other tree's memtable would be flushed, too.
    for _ in 0..4 {
        put(&engine, &often, &[7; 100_000]);
    }
    while level_bytes(&engine) == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(engine);
    assert!(log(1).exists());
    let mut bytes = fs::read(log(2)).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(log(2), bytes).unwrap();
    assert!(Lsm::open(&options).is_err());
    assert!(!Lsm::repair(&options).unwrap().is_whole());
    for round in [&b"first"[..], b"second", b"third"] {
        let engine = Lsm::open(&options).unwrap();
        put(&engine, b"behind", round);
        drop(engine);
        assert!(Lsm::repair(&options).unwrap().is_whole());
        let engine = Lsm::open(&options).unwrap();
        let space = engine.key_space("space").unwrap();
        assert_eq!(engine.get(space, b"behind").unwrap().as_deref(), Some(round));
        assert_eq!(engine.get(space, &seldom).unwrap().as_deref(), Some(&b"seldom"[..]));
    }
}

#[test]
fn a_repair_touches_nothing_of_another_store() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for folder in [&one, &other] {
        let engine = Lsm::open(&in_folder(folder.path(), Durable::Log)).unwrap();
        let space = engine.key_space("space").unwrap();
        let put = Op::Put { space, key: b"key", value: b"value" };
        engine.write(&[put], Durability::Immediate).unwrap();
    }
    let levels = other.path().join("levels");
    let files = || {
        let files = fs::read_dir(&levels).unwrap().map(|file| file.unwrap().path());
        let mut files: Vec<_> = files.map(|file| (fs::read(&file).unwrap(), file)).collect();
        files.sort();
        files
    };
    let before = files();
    let mut options = in_folder(one.path(), Durable::Log);
    options.own.get_mut::<LsmOptions>().levels = Some(levels.clone());
    for _ in 0..2 {
        assert!(Lsm::repair(&options).is_err(), "they are another's");
        assert!(files() == before);
    }
}

#[test]
fn older_copies_of_the_levels_are_told() {
    for durable in [Durable::Pool, Durable::Log] {
        let folder = tempfile::tempdir().unwrap();
        let mut options = in_folder(folder.path(), durable);
        options.own.get_mut::<LsmOptions>().global_index_bytes = Some(1);
        let fill = |seed: u32| {
            let engine = Lsm::open(&options).unwrap();
            let space = engine.key_space("space").unwrap();
            let before = level_bytes(&engine);
            for number in 0.. {
                let (key, value) = ((seed + number).to_be_bytes(), vec![number as u8; 100_000]);
                let put = Op::Put { space, key: &key, value: &value };
                engine.write(&[put], Durability::Immediate).unwrap();
                if level_bytes(&engine) > before {
                    break;
                }
            }
        };
        let (levels, copy) = (folder.path().join("levels"), folder.path().join("copy"));
        fill(0);
        fs::create_dir(&copy).unwrap();
        for file in fs::read_dir(&levels).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), copy.join(file.file_name())).unwrap();
        }
        fill(1_000_000);
        let older = EngineOptions {
            own: LsmOptions { levels: Some(copy.clone()), ..LsmOptions::of(&options) }.into(),
            ..options.clone()
        };
        let error = Lsm::open(&older).err().expect("it is an older copy");
        assert!(error.to_string().contains("older copy"), "{error}");
        // The store's own are there still, and in force.
        drop(Lsm::open(&options).unwrap());
        // A repair of these finds nothing to do, and the older ones are refused as before.
        assert!(Lsm::repair(&options).unwrap().is_whole());
        assert!(Lsm::open(&older).is_err());
        // A repair of the older copy goes on with it, and reports that.
        let found = Lsm::examine(&older).unwrap();
        // The log lies there, too.
        assert_eq!(found.lost.len(), if durable == Durable::Log { 2 } else { 1 });
        assert_eq!(found.lost[0].what, "levels/CURRENT");
        assert!(found.lost[0].why.contains("older copy"), "{found:?}");
        assert!(Lsm::open(&older).is_err());
        assert_eq!(Lsm::repair(&older).unwrap(), found);
        drop(Lsm::open(&older).unwrap());
        assert!(Lsm::repair(&older).unwrap().is_whole());
    }
}

#[test]
fn levels_that_were_moved_are_found_when_they_were_named_once() {
    let folder = tempfile::tempdir().unwrap();
    let (here, there) = (folder.path().join("here"), folder.path().join("there"));
    let options = in_folder(folder.path(), Durable::Log);
    let named = |levels: &Path| EngineOptions {
        own: LsmOptions { levels: Some(levels.to_owned()), ..LsmOptions::of(&options) }.into(),
        ..options.clone()
    };
    drop(Lsm::open(&named(&here)).unwrap());
    fs::rename(&here, &there).unwrap();
    assert!(Lsm::open(&options).is_err(), "the link leads nowhere");
    drop(Lsm::open(&named(&there)).unwrap());
    drop(Lsm::open(&options).unwrap());
    assert_eq!(fs::read_link(folder.path().join("levels")).unwrap(), there);
}

#[test]
fn a_tree_that_nobody_writes_to_does_not_keep_the_log() {
    let medium = Medium::new(Domain::Memory, 32 << 20).unwrap();
    let engine = open(&medium);
    let space = engine.key_space("space").unwrap();
    let of_tree = |tree: usize| {
        let key = |number: u32| format!("key {number}").into_bytes();
        (0..).map(key).find(|key| engine.partition_of(key) == tree).expect("there are more")
    };
    let put = |key: &[u8], value: &[u8]| {
        engine.write(&[Op::Put { space, key, value }], Durability::Immediate).unwrap();
        while engine.collect_ahead(0).unwrap() || engine.collect_ahead(1).unwrap() {}
    };
    // Once, then never again.
    put(&of_tree(1), b"seldom");
    let often = of_tree(0);
    for number in 0..200_u32 {
        put(&often, &[number as u8; 5000]);
    }
    let logs = Disk::model(&DiskModel::of(medium.machine())).list().unwrap();
    let logs = logs.iter().filter(|(name, _)| name.starts_with("LOG-")).count();
    assert!(logs <= 20, "{logs} files of the log are there");
    assert_eq!(engine.get(space, &of_tree(1)).unwrap().as_deref(), Some(&b"seldom"[..]));
}

#[test]
fn what_is_not_synced_keeps_no_memory_where_there_is_a_log() {
    let medium = Medium::new(Domain::Memory, 32 << 20).unwrap();
    let engine = open(&medium);
    let space = engine.key_space("space").unwrap();
    // Three times as much as the pool has room for.
    for number in 0..100_u32 {
        let put = Op::Put { space, key: &number.to_be_bytes(), value: &vec![7; 1_000_000] };
        engine.write(&[put], Durability::Deferred).unwrap();
    }
    assert_eq!(engine.len(space).unwrap(), 100);
}

#[test]
fn a_batch_that_cannot_fit_takes_no_room_from_others() {
    let mut pool_options = PoolOptions::default();
    (pool_options.size_max, pool_options.in_memory) = (32 << 20, true);
    let partitioning = Some(Partitioning::Hash(2));
    let options = EngineOptions { pool_options, partitioning, ..EngineOptions::new("pool") };
    let engine = Lsm::open(&options).unwrap();
    let space = engine.key_space("space").unwrap();
    let of_tree = |tree: usize| {
        let key = |number: u32| format!("key {number}").into_bytes();
        (0..).map(key).find(|key| engine.partition_of(key) == tree).expect("there are more")
    };
    let put = |key: &[u8], value: &[u8]| {
        engine.write(&[Op::Put { space, key, value }], Durability::Immediate)
    };
    let huge = vec![7; 40 << 20];
    for _ in 0..3 {
        assert!(put(&of_tree(0), &huge).is_err());
        put(&of_tree(1), b"small").unwrap();
    }
}

#[cfg(not(feature = "zstd"))]
#[test]
fn compression_that_this_build_is_without_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = in_folder(folder.path(), Durable::Log);
    options.own.get_mut::<LsmOptions>().compression = Compression::Zstd;
    let Err(refused) = Lsm::open(&options) else { panic!("it opens") };
    let refused_by = halite_lsm::Error::of(&refused);
    let is_named =
        matches!(refused_by, Some(halite_lsm::Error::NotBuiltIn { feature: "zstd", .. }));
    assert!(is_named, "{refused}");
    assert!(refused.to_string().contains("--features zstd"), "{refused}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn tables_are_compressed_as_it_was_said() {
    let written = |compression| {
        let folder = tempfile::tempdir().unwrap();
        let mut options = in_folder(folder.path(), Durable::Log);
        options.own.get_mut::<LsmOptions>().compression = compression;
        let engine = Lsm::open(&options).unwrap();
        let space = engine.key_space("space").unwrap();
        let text: Vec<u8> =
            (0..3000_u32).flat_map(|n| (n * n % 97).to_string().into_bytes()).collect();
        for number in 0..2000_u32 {
            let put = Op::Put { space, key: &number.to_be_bytes(), value: &text[..1000] };
            engine.write(&[put], Durability::Deferred).unwrap();
        }
        engine.sync().unwrap();
        let begun = Instant::now();
        while level_bytes(&engine) == 0 && begun.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(5));
        }
        // Of a closed store, no compaction removes a table that the test reads.
        drop(engine);
        let files = fs::read_dir(folder.path().join("levels")).unwrap().map(|file| file.unwrap());
        let tables = files.filter(|file| file.file_name().to_string_lossy().ends_with(".sst"));
        let table = tables.map(|file| fs::read(file.path()).unwrap()).next().expect("a table");
        table.windows(100).any(|window| window == &text[500..600])
    };
    assert!(written(Compression::None));
    assert!(!written(Compression::Lz4));
    if cfg!(feature = "zstd") {
        assert!(!written(Compression::Zstd));
    }
}

#[test]
fn the_bytes_that_are_told_are_those_of_the_files() {
    let medium = Medium::new(Domain::Memory, 32 << 20).unwrap();
    let of_files = || {
        let files = Disk::model(&DiskModel::of(medium.machine())).list().unwrap();
        files.iter().filter(|(name, _)| name.starts_with("LOG-")).map(|(_, len)| len).sum::<u64>()
    };
    let (mut most, mut removed) = (0, 0);
    for _ in 0..3 {
        let engine = open(&medium);
        let told = || engine.stats().figure("log_bytes").unwrap();
        assert_eq!(told(), of_files());
        let space = engine.key_space("space").unwrap();
        for number in 0..60_u64 {
            let (key, value) = (number.to_be_bytes(), [7; 500]);
            let op = Op::Put { space, key: &key, value: &value };
            engine.write(&[op], Durability::Immediate).unwrap();
            assert_eq!(told(), of_files());
            most = most.max(told());
            let before = told();
            while number % 10 == 9 && (0..2).any(|tree| engine.collect_ahead(tree).unwrap()) {}
            assert_eq!(told(), of_files());
            removed += before - told();
        }
    }
    assert!(most > 5_000 && removed > most, "{most} {removed}");
}

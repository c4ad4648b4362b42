//! Damaged stores: a named error or the right data, never wrong data, a panic or a hang.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use halite_alloc::SEGMENT;
use halite_contract::conformance::temporary_folder;
use halite_contract::{
    Direction, Durability, Engine, EngineOptions, Error, KeyRange, KeySpaceId, Op, Result,
};
use halite_indexlog::IndexLog;
use halite_pmem::PoolOptions;
use proptest::prelude::*;

const KEYS: u32 = 300;

fn options(folder: &Path) -> EngineOptions {
    let mut pool_options = PoolOptions::default();
    pool_options.size_max = 64 << 20;
    EngineOptions { pool_options, ..EngineOptions::new(folder.join("pool")) }
}

fn key(number: u32) -> Vec<u8> {
    format!("key-{number:05}").into_bytes()
}

fn value(number: u32) -> Vec<u8> {
    // Every thirtieth has blocks of its own.
    let len = if number % 30 == 7 { 40_000 } else { number as usize % 200 };
    format!("{number}-").into_bytes().into_iter().cycle().take(len).collect()
}

/// A store with updates, deletes, a deleted range, values in blocks of their own, one key space.
fn fill(engine: &IndexLog) -> KeySpaceId {
    let space = engine.key_space("space").unwrap();
    let write = |op: Op<'_>| engine.write(&[op], Durability::Immediate).unwrap();
    for number in 0..KEYS + 50 {
        write(Op::Put { space, key: &key(number), value: b"an older version" });
    }
    write(Op::DeleteRange { space, start: &key(KEYS), end: None });
    write(Op::Delete { space, key: &key(0) });
    for number in 0..KEYS {
        write(Op::Put { space, key: &key(number), value: &value(number) });
    }
    space
}

/// Every value that the store returns must be the one that was put.
fn check_answers(engine: &IndexLog, space: KeySpaceId, missing_at_most: u32) -> Result<()> {
    let mut missing = 0;
    for number in 0..KEYS {
        match engine.get(space, &key(number))? {
            Some(found) if found == value(number) => {}
            Some(found) if found == b"an older version" => missing += 1,
            Some(_) => panic!("a wrong value of key {number}"),
            None => missing += 1,
        }
    }
    assert!(missing <= missing_at_most, "{missing} of {KEYS} keys are missing");
    for pair in engine.scan(space, KeyRange::all(), Direction::Forward)? {
        let (found, _) = pair?;
        assert!(*found < *key(KEYS), "a deleted key is back: {found:?}");
    }
    Ok(())
}

fn check(folder: &Path, missing_at_most: u32) -> std::result::Result<(), Error> {
    let engine = IndexLog::open(&options(folder))?;
    let space = engine.key_spaces()?;
    let [(name, space)] = &space[..] else { panic!("the key space is gone: {space:?}") };
    assert_eq!(name, "space");
    check_answers(&engine, *space, missing_at_most)
}

/// Places with something to damage: superblock, table, map, the first two blocks of records.
fn place() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..700_u64,
        (32 << 10)..(32 << 10) + 700_u64,
        (64 << 10)..(64 << 10) + 64_u64,
        SEGMENT..SEGMENT + 160,
        2 * SEGMENT..2 * SEGMENT + (256 << 10),
        0..3 * SEGMENT,
    ]
}

#[derive(Debug, Clone)]
enum Fault {
    Flip { at: u64, bit: u8 },
    Zero { at: u64, len: u64 },
    Garbage { at: u64, seed: u8 },
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        (place(), 0..8_u8).prop_map(|(at, bit)| Fault::Flip { at, bit }),
        (place(), prop::sample::select(vec![8, 64, 256, 4096]))
            .prop_map(|(at, len)| Fault::Zero { at: at / len * len, len }),
        (place(), any::<u8>()).prop_map(|(at, seed)| Fault::Garbage { at: at / 64 * 64, seed }),
    ]
}

impl Fault {
    /// Lines that are struck, so at least as many records.
    fn lines(&self) -> u32 {
        match self {
            Self::Zero { len, .. } => (*len as u32).div_ceil(64),
            Self::Flip { .. } | Self::Garbage { .. } => 1,
        }
    }

    fn strike(&self, pool: &Path) {
        let file = File::options().read(true).write(true).open(pool).unwrap();
        match *self {
            Self::Flip { at, bit } => {
                let mut byte = [0];
                file.read_exact_at(&mut byte, at).unwrap();
                file.write_all_at(&[byte[0] ^ 1 << bit], at).unwrap();
            }
            Self::Zero { at, len } => file.write_all_at(&vec![0; len as usize], at).unwrap(),
            Self::Garbage { at, seed } => {
                let garbage: Vec<u8> = (0..64).map(|i: u8| i.wrapping_mul(167) ^ seed).collect();
                file.write_all_at(&garbage, at).unwrap();
            }
        }
    }
}

fn is_named(error: &Error) -> bool {
    error.damage().is_some()
        || matches!(
            error,
            Error::Alloc(
                halite_alloc::Error::Foreign { .. } | halite_alloc::Error::FutureVersion { .. }
            ) | Error::OtherEngine { .. }
        )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(if halite_contract::lab::is_deep("indexlog") { 400 } else { 60 }) })]

    #[test]
    fn a_closed_store_answers_rightly_or_names_what_is_damaged(
        faults in prop::collection::vec(fault(), 1..4)
    ) {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        fill(&IndexLog::open(&options(folder.path())).unwrap());
        faults.iter().for_each(|fault| fault.strike(&folder.path().join("pool")));
        if let Err(error) = check(folder.path(), 0) {
            prop_assert!(is_named(&error), "{error}");
        }
    }

    #[test]
    fn a_killed_store_loses_at_most_damaged_last_writes(fault in fault()) {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let engine = IndexLog::open(&options(folder.path())).unwrap();
        fill(&engine);
        let (pool, image) = (folder.path().join("pool"), folder.path().join("image"));
        fs::copy(&pool, &image).unwrap();
        drop(engine);
        fs::rename(&image, &pool).unwrap();
        fault.strike(&pool);
        // No later record proves that the log's last one was there.
        if let Err(error) = check(folder.path(), fault.lines()) {
            prop_assert!(is_named(&error), "{error}");
        }
    }

    #[test]
    fn damage_under_an_open_store_is_seen_when_it_is_read(fault in fault()) {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let engine = IndexLog::open(&options(folder.path())).unwrap();
        let space = fill(&engine);
        fault.strike(&folder.path().join("pool"));
        let mut failed = false;
        for number in 0..KEYS {
            match engine.get(space, &key(number)) {
                Ok(found) => prop_assert_eq!(found.unwrap(), value(number)),
                Err(error) => {
                    prop_assert!(error.damage().is_some(), "{error}");
                    failed = true;
                }
            }
        }
        let report = engine.verify(&mut |_, _| std::ops::ControlFlow::Continue(())).unwrap();
        prop_assert!(!failed || !report.damage.is_empty(), "verify finds what reading found");
    }
}

#[test]
fn a_damaged_record_is_named_by_its_key() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    fill(&IndexLog::open(&options(folder.path())).unwrap());
    let pool = folder.path().join("pool");
    let bytes = fs::read(&pool).unwrap();
    let text = b"an older version";
    let at = bytes.windows(text.len()).position(|window| window == text).unwrap();
    Fault::Flip { at: at as u64, bit: 3 }.strike(&pool);
    let error = IndexLog::open(&options(folder.path())).err().unwrap();
    let text = error.to_string();
    assert!(text.contains("key-00000") && text.contains("checksum"), "{text}");
}

/// The pool of a store that was killed after it wrote `batches` of keys, each key its own value.
fn killed_after(folder: &Path, batches: &[&[&[u8]]]) -> Vec<u8> {
    let engine = IndexLog::open(&options(folder)).unwrap();
    let space = engine.key_space("space").unwrap();
    for batch in batches {
        let ops: Vec<_> = batch.iter().map(|key| Op::Put { space, key, value: key }).collect();
        engine.write(&ops, Durability::Immediate).unwrap();
    }
    fs::read(folder.join("pool")).unwrap()
}

fn find(bytes: &[u8], text: &[u8]) -> usize {
    bytes.windows(text.len()).position(|window| window == text).unwrap()
}

#[test]
fn a_damaged_batch_at_the_start_of_an_open_block_is_named() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let _ = IndexLog::open(&options(folder.path())).unwrap().key_space("space").unwrap();
    // The value is in a block of its own; the write behind it proves that it was durable.
    let mut pool = killed_after(folder.path(), &[&[b"first of two", b"second of two"], &[b"next"]]);
    let at = find(&pool, b"second of two");
    pool[at] ^= 1;
    fs::write(folder.path().join("pool"), pool).unwrap();
    let error = IndexLog::open(&options(folder.path())).err().unwrap();
    assert!(error.damage().is_some(), "{error}");
}

#[test]
fn a_record_in_place_of_another_one_of_its_block_is_named() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    drop(killed_after(folder.path(), &[&[b"one"], &[b"two"]]));
    let mut pool = fs::read(folder.path().join("pool")).unwrap();
    let [one, two] = [&b"oneone"[..], b"twotwo"].map(|text| find(&pool, text) / 64 * 64);
    pool.copy_within(one..one + 64, two);
    fs::write(folder.path().join("pool"), pool).unwrap();
    let error = IndexLog::open(&options(folder.path())).err().unwrap();
    assert!(error.damage().is_some(), "{error}");
}

#[test]
fn a_file_that_grew_without_the_store_is_no_damage() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let space = fill(&IndexLog::open(&options(folder.path())).unwrap());
    let file = File::options().write(true).open(folder.path().join("pool")).unwrap();
    file.set_len(file.metadata().unwrap().len() + SEGMENT).unwrap();
    for _ in 0..2 {
        let engine = IndexLog::open(&options(folder.path())).unwrap();
        check_answers(&engine, space, 0).unwrap();
    }
}

#[test]
fn a_store_of_another_engine_is_named() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let options = options(folder.path());
    let segments = halite_alloc::Segments::create(&options.pool, &options.pool_options).unwrap();
    segments.install().unwrap();
    drop(segments);
    let error = IndexLog::open(&options).err().unwrap();
    assert!(matches!(error, Error::OtherEngine { .. }), "{error}");
}

/// A store whose recovery fails reports an error, not that it has no key spaces.
#[test]
fn names_that_cannot_be_recovered_are_an_error() {
    let folder = temporary_folder();
    let options = EngineOptions { on_demand: true, ..options(folder.path()) };
    // The opening reads only the first record of the block that was sealed first.
    let space = fill(&IndexLog::open(&options).unwrap());
    let put = Op::Put { space, key: &key(0), value: &value(0) };
    IndexLog::open(&options).unwrap().write(&[put], Durability::Immediate).unwrap();
    let file = File::options().read(true).write(true).open(&options.pool).unwrap();
    let mut refused = 0;
    for at in (2 * SEGMENT + 4096..2 * SEGMENT + (256 << 10)).step_by(4096) {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[!byte[0]], at).unwrap();
        if let Ok(engine) = IndexLog::open(&options) {
            match engine.key_spaces() {
                Ok(spaces) => assert_eq!(spaces.len(), 1),
                Err(error) => {
                    assert!(is_named(&error), "{error}");
                    refused += 1;
                }
            }
        }
        file.write_all_at(&byte, at).unwrap();
    }
    assert!(refused > 0, "every damage was found before the store was open");
}

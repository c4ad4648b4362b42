//! A full disk, below the engine lsm: no acknowledged write is lost, errors name the cause, reads go on, and so do
//! writes when there is room again.
//!
//! The disk is a file system in memory, mounted in a private mount namespace; where that is not allowed, the tests
//! print so, and pass.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use halite::{Database, Durable, EngineError, Error, KeySpace, LsmError, LsmOptions};

/// The folder of the file system, for the test that is run again in it.
const FOLDER: &str = "HALITE_SMALL_DISK";

/// Runs a test again, with a disk of 12 MiB.
fn on_small_disk(test: &str, run: impl FnOnce(&Path)) {
    if let Some(folder) = env::var_os(FOLDER) {
        return run(Path::new(&folder));
    }
    let folder = tempfile::tempdir().unwrap();
    let mounted = |args: &[&str]| {
        let script = format!("mount -t tmpfs -o size=12m none \"${FOLDER}\" && exec \"$@\"");
        let mut command = Command::new("unshare");
        command.args(["-Urm", "sh", "-c", &script, "sh"]).args(args).env(FOLDER, folder.path());
        command.status().is_ok_and(|status| status.success())
    };
    if !mounted(&["true"]) {
        eprintln!("skipped: `unshare -Urm` cannot mount a file system here");
        return;
    }
    let program = env::current_exe().unwrap();
    assert!(mounted(&[program.to_str().unwrap(), "--exact", test, "--nocapture"]), "{test} failed");
}

/// Makes the disk larger.
fn make_room(folder: &Path) {
    let mut command = Command::new("mount");
    let status = command.args(["-o", "remount,size=256m"]).arg(folder).status().unwrap();
    assert!(status.success());
}

/// A database whose pool and levels are in these folders.
fn open(pool: &Path, levels: PathBuf, durable: Durable) -> Result<Database, Error> {
    let (memtable_bytes, table_bytes) = (Some(2 << 20), Some(1 << 20));
    let levels = Some(levels);
    let lsm = LsmOptions { durable, levels, memtable_bytes, table_bytes, ..LsmOptions::default() };
    Database::builder().engine("lsm").max_size(24 << 20).lsm(lsm).open(pool)
}

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

fn value(number: u32) -> Vec<u8> {
    // Not to be compressed.
    let mut word = u64::from(number) + 1;
    let mut next = || {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        (word >> 32) as u8
    };
    (0..4_000).map(|_| next()).collect()
}

/// Puts keys from `first` on until one fails: its number, and why.
fn put_until_it_fails(space: &KeySpace, first: u32) -> (u32, Error) {
    (first..)
        .find_map(|number| Some((number, space.put(key(number), value(number)).err()?)))
        .unwrap()
}

/// Whether the disk of the levels, or of the log, had no room for a batch.
fn is_refused_by_disk(error: &Error) -> bool {
    matches!(error.own(), Some(LsmError::NoRoomBelow { .. } | LsmError::LogFull { .. }))
}

/// Puts a key once there is room again: the flusher that makes room may notice that later than the writer.
fn put_in_time(space: &KeySpace, number: u32) {
    for _ in 0..100 {
        match space.put(key(number), value(number)) {
            Err(error) if is_refused_by_disk(&error) => {
                std::thread::sleep(Duration::from_millis(100))
            }
            put => return put.unwrap(),
        }
    }
    panic!("there is room");
}

/// Checks that keys up to `end` are there, and no key behind `end + unknown`.
fn compare(space: &KeySpace, end: u32, unknown: u32) {
    for number in 0..end {
        assert_eq!(space.get(key(number)).unwrap().unwrap(), value(number), "{number}");
    }
    let len = space.iter().unwrap().inspect(|pair| assert!(pair.is_ok())).count() as u32;
    assert!((end..=end + unknown).contains(&len), "{len} of {end}");
}

fn is_whole(db: &Database) -> bool {
    let report = db.verify(&mut |_, _| std::ops::ControlFlow::Continue(())).unwrap();
    report.complete && report.damage.is_empty()
}

#[test]
fn writes_wait_for_the_levels_and_go_on_when_there_is_room() {
    on_small_disk("writes_wait_for_the_levels_and_go_on_when_there_is_room", |folder| {
        let pool = tempfile::tempdir().unwrap();
        let open = || open(pool.path(), folder.join("levels"), Durable::Pool);
        let db = open().unwrap();
        let space = db.key_space("space").unwrap();
        let (mut end, error) = put_until_it_fails(&space, 0);
        assert!(matches!(error.own(), Some(LsmError::NoRoomBelow { .. })), "{error}");
        assert!(error.to_string().contains("no space left on the device"), "{error}");
        compare(&space, end, 0);
        // Again and again.
        for _ in 0..3 {
            let (next, error) = put_until_it_fails(&space, end);
            assert!(matches!(error.own(), Some(LsmError::NoRoomBelow { .. })), "{error}");
            end = next;
        }
        compare(&space, end, 0);
        // The state that another process finds when it opens the store meanwhile.
        drop((db, space));
        let db = open().unwrap();
        let space = db.key_space("space").unwrap();
        compare(&space, end, 0);
        let (mut end, error) = put_until_it_fails(&space, end);
        assert!(matches!(error.own(), Some(LsmError::NoRoomBelow { .. })), "{error}");

        make_room(folder);
        for _ in 0..10_000 {
            put_in_time(&space, end);
            end += 1;
        }
        compare(&space, end, 0);
        assert!(is_whole(&db));
        drop((db, space));
        let db = open().unwrap();
        compare(&db.key_space("space").unwrap(), end, 0);
    });
}

#[test]
fn a_log_that_cannot_grow_says_so_and_goes_on() {
    on_small_disk("a_log_that_cannot_grow_says_so_and_goes_on", |folder| {
        let pool = tempfile::tempdir().unwrap();
        let open = || open(pool.path(), folder.join("levels"), Durable::Log);
        let db = open().unwrap();
        let space = db.key_space("space").unwrap();
        let mut end = 0;
        // Again and again.
        for _ in 0..3 {
            let (next, error) = put_until_it_fails(&space, end);
            assert!(is_refused_by_disk(&error), "{error}");
            assert!(error.to_string().contains("no space left on the device"), "{error}");
            end = next;
            compare(&space, end, 0);
        }
        drop((db, space));

        let db = open().unwrap();
        let space = db.key_space("space").unwrap();
        compare(&space, end, 0);
        let (mut end, error) = put_until_it_fails(&space, end);
        assert!(is_refused_by_disk(&error), "{error}");

        make_room(folder);
        for _ in 0..10_000 {
            put_in_time(&space, end);
            end += 1;
        }
        compare(&space, end, 0);
        assert!(is_whole(&db));
        drop((db, space));
        compare(&open().unwrap().key_space("space").unwrap(), end, 0);
    });
}

#[test]
fn a_pool_that_cannot_grow_says_so() {
    on_small_disk("a_pool_that_cannot_grow_says_so", |folder| {
        let open = || open(folder, folder.join("levels"), Durable::Pool);
        let db = open().unwrap();
        let space = db.key_space("space").unwrap();
        let (end, error) = put_until_it_fails(&space, 0);
        assert!(matches!(error.own(), Some(LsmError::NoRoomBelow { .. })), "{error}");
        assert!(error.to_string().contains("no space left on the device"), "{error}");
        compare(&space, end, 0);
        make_room(folder);
        let all = end + 5_000;
        for number in end..all {
            put_in_time(&space, number);
        }
        compare(&space, all, 0);
    });
}

#[test]
fn what_is_read_takes_no_room_from_writers_where_the_pool_cannot_grow() {
    on_small_disk("what_is_read_takes_no_room_from_writers_where_the_pool_cannot_grow", |folder| {
        let levels = tempfile::tempdir().unwrap();
        let levels = Some(levels.path().to_owned());
        let (memtable_bytes, cache_bytes) = (Some(2 << 20), 0);
        let lsm = LsmOptions { levels, memtable_bytes, cache_bytes, ..LsmOptions::default() };
        // The pool may be larger than the disk.
        let db = Database::builder().engine("lsm").max_size(64 << 20).lsm(lsm);
        let db = db.open(folder.join("pool")).unwrap();
        let space = db.key_space("space").unwrap();
        for round in 1..5 {
            for number in (round - 1) * 4_000..round * 4_000 {
                space.put(key(number), value(number)).unwrap();
            }
            compare(&space, round * 4_000, 0);
        }
    });
}

#[test]
fn a_batch_that_no_pool_has_room_for_is_refused_and_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path(), folder.path().join("levels"), Durable::Pool).unwrap();
    let space = db.key_space("space").unwrap();
    space.put("key", "value").unwrap();
    let mut batch = db.batch();
    for number in 0..10_000 {
        batch.put(&space, key(number), value(number));
    }
    let error = batch.commit().unwrap_err();
    assert!(
        matches!(
            error,
            Error::Engine(EngineError::Full { .. } | EngineError::BatchTooLarge { .. })
        ),
        "{error}"
    );
    space.put("other", "value").unwrap();
    assert_eq!(space.len().unwrap(), 2);
    assert!(is_whole(&db));
}

//! Objects: limits, wrong inputs, handles that outlive their objects, times, and streams.

use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use halite_betree::object::{
    ATOMIC_LEN_MAX, AccessPattern, CHUNK_LEN, NAME_LEN_MAX, OBJECT_LEN_MAX, ObjectStore,
    Preference, STORE_NAME_LEN_MAX,
};
use halite_betree::{Betree, BetreeOptions, Error as BetreeError};
use halite_contract::{Durability, Engine, EngineOptions, Error, KeyRange, Op, Result};

use halite_pmem::Domain;

use crate::conformance::small;

/// Opens the engine in a folder.
pub(crate) fn open(folder: &Path, own: BetreeOptions) -> Betree {
    let options = EngineOptions { own: own.into(), ..EngineOptions::new(folder.join("pool")) };
    Betree::open(&options).unwrap()
}

/// The engine's own error.
fn own(error: &Error) -> &BetreeError {
    match error {
        Error::Own(own) => own.downcast_ref().expect("an error of this engine"),
        error => panic!("{error:?}"),
    }
}

pub(crate) fn is_no_such_object(error: &Error) -> bool {
    matches!(own(error), BetreeError::NoSuchObject { .. })
}

fn error<T>(result: Result<T>) -> BetreeError {
    own(&result.err().expect("it is refused")).clone()
}

fn with_objects(own: BetreeOptions, test: impl FnOnce(&Betree, ObjectStore)) {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path(), own);
    test(&engine, engine.objects("store").unwrap());
}

#[test]
fn names_and_keys_have_limits_and_may_be_as_long_as_these() {
    with_objects(small(), |engine, store| {
        let longest = vec![0xff; NAME_LEN_MAX];
        let too_long = vec![0; NAME_LEN_MAX + 1];
        for name in [&b""[..], &too_long] {
            let len = name.len();
            let is_refused =
                |error| matches!(error, BetreeError::ObjectName { len: l } if l == len);
            assert!(is_refused(error(store.create(name))) && is_refused(error(store.open(name))));
            assert!(is_refused(error(store.open_or_create(name))));
            assert!(is_refused(error(store.exists(name))) && is_refused(error(store.info(name))));
            assert!(
                is_refused(error(store.delete(name)))
                    && is_refused(error(store.rename(name, b"b")))
            );
            assert!(is_refused(error(store.rename_replacing(b"b", name))));
        }
        let object = store.create(&longest).unwrap();
        object.set_metadata(&longest, b"value").unwrap();
        object.set_metadata(b"", b"of the empty key").unwrap();
        let key = error(object.set_metadata(&too_long, b""));
        assert!(matches!(key, BetreeError::ObjectMetadataKey { .. }), "{key}");
        assert!(object.metadata(&too_long).is_err() && object.delete_metadata(&too_long).is_err());
        assert_eq!(object.list_metadata().unwrap().len(), 2);
        assert_eq!(store.iter(&longest).unwrap().count(), 1);
        for name in ["", &"n".repeat(STORE_NAME_LEN_MAX + 1)] {
            assert!(matches!(error(engine.objects(name)), BetreeError::ObjectStoreName { .. }));
        }
        engine.objects(&"n".repeat(STORE_NAME_LEN_MAX)).unwrap();
    });
}

#[test]
fn nothing_is_written_behind_the_longest_object() {
    with_objects(small(), |_, store| {
        let object = store.create(b"long").unwrap();
        let is_refused = |error| matches!(error, BetreeError::ObjectTooLong);
        let two = [1; 2];
        assert!(is_refused(error(object.write_at(OBJECT_LEN_MAX - 1, &two))));
        assert!(is_refused(error(object.write_at(u64::MAX, &two))));
        assert!(is_refused(error(object.truncate(OBJECT_LEN_MAX + 1))));
        assert_eq!(object.size().unwrap(), 0, "the part that has room was not written");
        object.write_at(OBJECT_LEN_MAX - 2, &two).unwrap();
        assert_eq!(object.size().unwrap(), OBJECT_LEN_MAX);
        let mut read = [7; 5];
        assert_eq!(object.read_at(OBJECT_LEN_MAX - 4, &mut read).unwrap(), 4);
        assert_eq!(read, [0, 0, 1, 1, 7]);
        assert_eq!(object.read_at(OBJECT_LEN_MAX, &mut read).unwrap(), 0);
        assert_eq!(object.read_at(u64::MAX, &mut read).unwrap(), 0);
        object.truncate(3).unwrap();
        assert_eq!((object.read_at(1, &mut read).unwrap(), read), (2, [0, 0, 1, 1, 7]));
        object.truncate(OBJECT_LEN_MAX).unwrap();
        assert_eq!(object.read_at(OBJECT_LEN_MAX - 4, &mut read).unwrap(), 4);
        assert_eq!(read, [0, 0, 0, 0, 7], "what was cut does not come back");
    });
}

#[test]
fn a_handle_of_a_deleted_object_is_refused_and_brings_nothing_back() {
    with_objects(small(), |engine, store| {
        let object = store.create(b"name").unwrap();
        let other = store.open(b"name").unwrap();
        object.write_at(0, &vec![1; 3 * CHUNK_LEN]).unwrap();
        object.set_metadata(b"key", b"value").unwrap();
        store.delete(b"name").unwrap();
        let again = store.create(b"name").unwrap();
        assert_ne!(again.id(), object.id());
        for object in [&object, &other, &other.clone()] {
            let results = [
                object.write_at(0, b"bytes"),
                object.write_at(0, &vec![1; 2 * CHUNK_LEN]),
                object.write_at(0, b""),
                object.truncate(0),
                object.truncate(9),
                object.set_metadata(b"key", b"value"),
                object.delete_metadata(b"key"),
                object.set_preference(Preference::Fast),
                object.set_access_pattern(AccessPattern::Random),
                object.read_at(0, &mut [0]).map(drop),
                object.info().map(drop),
                object.metadata(b"key").map(drop),
                object.list_metadata().map(drop),
            ];
            for result in results {
                assert!(is_no_such_object(&result.unwrap_err()));
            }
            assert_eq!(object.cursor().read(&mut [0]).unwrap_err().kind(), ErrorKind::NotFound);
        }
        assert_eq!((again.size().unwrap(), again.list_metadata().unwrap().len()), (0, 0));
        again.write_at(0, b"new").unwrap();
        assert!(is_no_such_object(&store.delete(b"none").unwrap_err()));
        assert!(is_no_such_object(&store.open(b"none").err().unwrap()));
        assert!(is_no_such_object(&store.rename(b"none", b"name").unwrap_err()));
        assert!(is_no_such_object(&store.info(b"none").unwrap_err()));
        assert!(matches!(error(store.create(b"name")), BetreeError::ObjectExists { .. }));
        assert!(engine.key_spaces().unwrap().is_empty());
    });
}

#[test]
fn a_handle_follows_its_object_through_renames_until_it_is_replaced() {
    with_objects(small(), |_, store| {
        let a = store.create(b"a").unwrap();
        let b = store.create(b"b").unwrap();
        a.write_at(0, b"of a").unwrap();
        assert!(matches!(error(store.rename(b"a", b"b")), BetreeError::ObjectExists { .. }));
        store.rename(b"a", b"c").unwrap();
        a.write_at(4, b", renamed").unwrap();
        assert_eq!(store.info(b"c").unwrap(), a.info().unwrap());
        assert!(!store.exists(b"a").unwrap());
        store.rename(b"c", b"c").unwrap();
        store.rename_replacing(b"c", b"b").unwrap();
        assert!(is_no_such_object(&b.write_at(0, b"x").unwrap_err()));
        let mut read = [0; 20];
        assert_eq!(store.open(b"b").unwrap().read_at(0, &mut read).unwrap(), 13);
        assert_eq!(&read[..13], b"of a, renamed");
        assert_eq!(store.iter(b"").unwrap().count(), 1);
    });
}

#[test]
fn the_time_of_a_change_is_the_clocks_and_never_goes_back() {
    let folder = tempfile::tempdir().unwrap();
    let time = Arc::new(AtomicU64::new(100));
    let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    let engine = open(folder.path(), small());
    let objects = |engine: &Betree| {
        let time = Arc::clone(&time);
        engine.objects("store").unwrap().with_clock(move || at(time.load(Ordering::Relaxed)))
    };
    let object = objects(&engine).create(b"name").unwrap();
    assert_eq!(object.mtime().unwrap(), at(100));
    time.store(50, Ordering::Relaxed);
    object.write_at(0, b"earlier").unwrap();
    assert_eq!(object.mtime().unwrap(), at(100));
    time.store(200, Ordering::Relaxed);
    object.set_metadata(b"key", b"value").unwrap();
    object.set_preference(Preference::Slowest).unwrap();
    object.set_access_pattern(AccessPattern::ReadMostly).unwrap();
    assert_eq!(object.mtime().unwrap(), at(100), "the bytes did not change");
    object.truncate(3).unwrap();
    time.store(60, Ordering::Relaxed);
    object.truncate(5).unwrap();
    drop((object, engine));
    let engine = open(folder.path(), small());
    let object = objects(&engine).open(b"name").unwrap();
    assert_eq!((object.mtime().unwrap(), object.size().unwrap()), (at(200), 5));
    assert_eq!(object.preference().unwrap(), Preference::Slowest);
    assert_eq!(object.access_pattern().unwrap(), AccessPattern::ReadMostly);
    object.write_at(0, b"x").unwrap();
    assert_eq!(object.mtime().unwrap(), at(200));
}

#[test]
fn an_object_is_a_stream() {
    with_objects(BetreeOptions::default(), |_, store| {
        let store = store.with_durability(Durability::Deferred);
        let object = store.create(b"stream").unwrap();
        let bytes: Vec<u8> = (0..ATOMIC_LEN_MAX + CHUNK_LEN + 9).map(|n| (n / 7) as u8).collect();
        let mut cursor = object.cursor();
        assert_eq!(cursor.write(&bytes).unwrap(), ATOMIC_LEN_MAX);
        cursor.write_all(&bytes[ATOMIC_LEN_MAX..]).unwrap();
        cursor.flush().unwrap();
        assert_eq!(cursor.seek(SeekFrom::End(-9)).unwrap(), bytes.len() as u64 - 9);
        let mut end = Vec::new();
        cursor.read_to_end(&mut end).unwrap();
        assert_eq!(end, bytes[bytes.len() - 9..]);
        assert_eq!(cursor.seek(SeekFrom::Current(-5)).unwrap(), bytes.len() as u64 - 5);
        for to in [SeekFrom::Current(i64::MIN), SeekFrom::End(i64::MIN)] {
            assert_eq!(cursor.seek(to).unwrap_err().kind(), ErrorKind::InvalidInput);
        }
        assert_eq!(cursor.stream_position().unwrap(), bytes.len() as u64 - 5, "it stays");
        cursor.seek(SeekFrom::Start(u64::MAX)).unwrap();
        assert_eq!(cursor.seek(SeekFrom::Current(1)).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(cursor.write(b"x").unwrap_err().kind(), ErrorKind::FileTooLarge);
        assert_eq!(cursor.read(&mut [0]).unwrap(), 0);
        cursor.rewind().unwrap();
        let mut all = Vec::new();
        cursor.read_to_end(&mut all).unwrap();
        assert!(all == bytes);
        object.sync().unwrap();
    });
}

#[test]
fn a_write_of_whole_chunks_brings_references_and_no_bytes_to_the_log_and_the_memtable() {
    with_objects(BetreeOptions::default(), |engine, store| {
        let object = store.create(b"large").unwrap();
        let logged = || engine.stats().figure("log_bytes").unwrap();
        let before = (logged(), engine.stats().volatile_bytes);
        object.write_at(0, &vec![5; 64 * CHUNK_LEN]).unwrap();
        let bytes = logged() - before.0;
        assert!((64 * 12..64 * 100).contains(&bytes), "{bytes} bytes of log");
        assert!(engine.stats().volatile_bytes - before.1 < 64 << 10);
    });
}

#[test]
fn a_write_of_many_chunks_fits_the_log_also_where_chunks_are_no_large_values() {
    for domain in [Domain::PageCache, Domain::Process] {
        let folder = tempfile::tempdir().unwrap();
        let own = BetreeOptions { large_value_bytes: Some(1 << 20), ..BetreeOptions::default() };
        let mut options =
            EngineOptions { own: own.into(), ..EngineOptions::new(folder.path().join("pool")) };
        options.pool_options.assume_domain = Some(domain);
        let engine = Betree::open(&options).unwrap();
        let object = engine.objects("store").unwrap().create(b"many").unwrap();
        let bytes: Vec<u8> = (0..2 * ATOMIC_LEN_MAX + 77).map(|n| (n / 9) as u8).collect();
        object.write_at(7, &bytes).unwrap();
        let mut read = vec![0; bytes.len() + 7];
        assert_eq!(object.read_at(0, &mut read).unwrap(), read.len());
        assert!(read[7..] == bytes && read[..7] == [0; 7]);
    }
}

#[test]
fn a_chunk_of_scattered_bytes_has_room_in_a_run() {
    with_objects(small(), |_, store| {
        let store = store.with_durability(Durability::Deferred);
        let object = store.create(b"scattered").unwrap();
        object.truncate(CHUNK_LEN as u64).unwrap();
        for at in (0..CHUNK_LEN as u64 / 32).map(|at| 2 * at) {
            object.write_at(at, &[at as u8 | 1]).unwrap();
        }
        let mut read = vec![0; CHUNK_LEN];
        object.read_at(0, &mut read).unwrap();
        let expected =
            |at: usize| if at.is_multiple_of(2) && at < CHUNK_LEN / 16 { at as u8 | 1 } else { 0 };
        assert!(read.iter().enumerate().all(|(at, byte)| *byte == expected(at)));
    });
}

#[test]
fn key_spaces_and_object_stores_do_not_see_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path(), small());
    let a = engine.objects("a").unwrap();
    let b = engine.objects("a/meta").unwrap();
    a.create(b"one").unwrap().write_at(0, b"of a").unwrap();
    b.create(b"one").unwrap().write_at(0, b"of b, longer").unwrap();
    let space = engine.key_space("a").unwrap();
    engine.write(&[Op::Put { space, key: b"k", value: b"v" }], Durability::Immediate).unwrap();
    assert_eq!(engine.key_spaces().unwrap().len(), 1);
    for name in ["\0objects/", "\0objects/a/meta", "\0objects/a/chunks"] {
        assert!(matches!(error(engine.key_space(name)), BetreeError::OwnName));
    }
    for id in 0..space.0 {
        let id = halite_contract::KeySpaceId(id);
        assert!(engine.get(id, b"k").is_err() && engine.len(id).is_err());
        assert!(engine.drop_key_space(id).is_err());
        assert!(engine.write(&[Op::Delete { space: id, key: b"" }], Durability::Deferred).is_err());
        assert!(engine.scan(id, KeyRange::all(), halite_contract::Direction::Forward).is_err());
    }
    assert_eq!(engine.object_stores(), ["a", "a/meta"]);
    let object = a.open(b"one").unwrap();
    engine.drop_objects("a").unwrap();
    assert!(matches!(error(object.write_at(0, b"x")), BetreeError::NoSuchObjectStore { .. }));
    assert!(matches!(error(a.exists(b"one")), BetreeError::NoSuchObjectStore { .. }));
    assert!(matches!(error(engine.drop_objects("a")), BetreeError::NoSuchObjectStore { .. }));
    assert!(!engine.objects("a").unwrap().exists(b"one").unwrap());
    assert_eq!(b.info(b"one").unwrap().size, 12);
    drop(engine);
    assert!(matches!(error(b.exists(b"one")), BetreeError::Closed));
    assert!(matches!(error(object.write_at(0, b"x")), BetreeError::Closed));
    let engine = open(folder.path(), small());
    assert_eq!(engine.object_stores(), ["a", "a/meta"]);
    assert_eq!(engine.objects("a/meta").unwrap().info(b"one").unwrap().size, 12);
}

#[test]
fn ids_are_never_given_twice() {
    let folder = tempfile::tempdir().unwrap();
    let mut ids = Vec::new();
    for round in 0..4 {
        let engine = open(folder.path(), small());
        let store = engine.objects("store").unwrap();
        for number in 0..5 {
            let name = [round, number];
            ids.push(store.create(&name).unwrap().id());
            store.delete(&name).unwrap();
        }
    }
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
}

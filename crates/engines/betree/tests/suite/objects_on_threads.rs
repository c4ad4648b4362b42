//! Objects that several threads use: handles share one state, and no change is lost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use halite_betree::object::{CHUNK_LEN, Object};
use halite_contract::Durability;

use crate::conformance::small;
use crate::objects::{is_no_such_object, open};

fn read_all(object: &Object) -> Vec<u8> {
    let mut bytes = vec![0; object.size().unwrap() as usize];
    let read = object.read_at(0, &mut bytes).unwrap();
    bytes.truncate(read);
    bytes
}

#[test]
fn threads_that_write_different_chunks_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path(), small());
    let store = engine.objects("store").unwrap().with_durability(Durability::Deferred);
    store.create(b"name").unwrap();
    thread::scope(|scope| {
        for thread in 0..2_u8 {
            let store = &store;
            scope.spawn(move || {
                let object = store.open(b"name").unwrap();
                for round in 0..20_u64 {
                    let chunk = 2 * round + u64::from(thread);
                    let at = chunk * CHUNK_LEN as u64;
                    let len = if round % 3 == 0 { CHUNK_LEN } else { 5_000 + round as usize };
                    object.write_at(at, &vec![chunk as u8 + 1; len]).unwrap();
                    assert!(object.size().unwrap() >= at + len as u64);
                }
            });
        }
    });
    drop((store, engine));
    let engine = open(folder.path(), small());
    let bytes = read_all(&engine.objects("store").unwrap().open(b"name").unwrap());
    for (chunk, bytes) in bytes.chunks(CHUNK_LEN).enumerate() {
        let round = chunk / 2;
        let len = if round % 3 == 0 { CHUNK_LEN } else { 5_000 + round };
        assert!(bytes[..len].iter().all(|byte| *byte == chunk as u8 + 1), "chunk {chunk}");
        assert!(bytes[len..].iter().all(|byte| *byte == 0), "chunk {chunk}");
    }
}

/// An insert of a chunk's beginning that takes it for the end of the object must not hide what another thread has
/// written behind it meanwhile.
#[test]
fn threads_that_grow_one_chunk_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path(), small());
    let store = engine.objects("store").unwrap().with_durability(Durability::Deferred);
    for round in 0..60_u8 {
        let object = store.create(&[round]).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| object.write_at(0, &[1; 2_000]).unwrap());
            scope.spawn(|| object.write_at(2_000, &[2; 2_000]).unwrap());
        });
        let bytes = read_all(&object);
        assert!(bytes == [[1; 2_000], [2; 2_000]].concat(), "round {round}");
    }
}

#[test]
fn a_reader_sees_every_write_whole_and_a_delete_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path(), small());
    let store = engine.objects("store").unwrap().with_durability(Durability::Deferred);
    let object = store.create(b"name").unwrap();
    object.write_at(0, &vec![0; 2 * CHUNK_LEN]).unwrap();
    let is_deleted = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..30_u8 {
                let written = object.write_at(0, &vec![round; 2 * CHUNK_LEN]);
                if let Err(error) = written {
                    assert!(is_no_such_object(&error));
                    return;
                }
                assert!(!is_deleted.load(Ordering::SeqCst) || round < 29);
            }
        });
        scope.spawn(|| {
            for round in 0..40 {
                if round == 30 {
                    store.delete(b"name").unwrap();
                    is_deleted.store(true, Ordering::SeqCst);
                }
                let mut bytes = vec![0xff; 2 * CHUNK_LEN];
                match object.read_at(0, &mut bytes) {
                    Ok(len) => {
                        assert!(round < 30 && len == bytes.len());
                        assert!(bytes.iter().all(|byte| *byte == bytes[0]), "{round}");
                    }
                    Err(error) => assert!(round >= 30 && is_no_such_object(&error)),
                }
            }
        });
    });
    assert!(!store.exists(b"name").unwrap());
    assert!(is_no_such_object(&object.write_at(0, b"x").unwrap_err()));
}

#[test]
fn of_threads_that_take_one_name_one_gets_it() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path(), small());
    let store = engine.objects("store").unwrap().with_durability(Durability::Deferred);
    for round in 0..30_u8 {
        let (a, b) = ([round, 0], [round, 1]);
        store.create(&a).unwrap();
        store.create(&b).unwrap();
        let (one, other) = thread::scope(|scope| {
            let one = scope.spawn(|| store.rename(&a, b"target").is_ok());
            let other = scope.spawn(|| store.rename(&b, b"target").is_ok());
            (one.join().unwrap(), other.join().unwrap())
        });
        assert!(one != other, "one of them is first");
        assert_eq!((store.exists(&a).unwrap(), store.exists(&b).unwrap()), (!one, !other));
        let created = thread::scope(|scope| {
            let create = || store.create(&[round]).is_ok();
            let (one, other) = (scope.spawn(create), scope.spawn(create));
            [one.join().unwrap(), other.join().unwrap()]
        });
        assert_eq!(created.iter().filter(|created| **created).count(), 1);
        store.delete(b"target").unwrap();
    }
    assert_eq!(store.iter(b"").unwrap().count(), 60);
}

#[test]
fn the_engine_closes_while_threads_write_and_keeps_what_they_were_told() {
    for _ in 0..5 {
        let folder = tempfile::tempdir().unwrap();
        let engine = open(folder.path(), small());
        let store = engine.objects("store").unwrap();
        let object = store.create(b"name").unwrap();
        let writer = thread::spawn(move || {
            let mut written = 0_u64;
            while object.write_at(written * 100, &[written as u8 | 1; 100]).is_ok() {
                written += 1;
            }
            written
        });
        thread::sleep(std::time::Duration::from_millis(20));
        drop(engine);
        let written = writer.join().unwrap();
        let engine = open(folder.path(), small());
        let bytes = read_all(&engine.objects("store").unwrap().open(b"name").unwrap());
        assert_eq!(bytes.len() as u64, written * 100);
        let expected = |at: usize| (at / 100) as u8 | 1;
        assert!(bytes.iter().enumerate().all(|(at, byte)| *byte == expected(at)));
    }
}

//! Pages that are updated in place: every reader sees whole versions, and what is persisted is counted and there.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use halite_pmem::{Domain, Frames, Medium, Pool, PoolOptions, Traffic, UNIT};
use halite_sim::{How, Trace, What};
use proptest::prelude::*;
use tempfile::TempDir;

const FRAME: u64 = 512;
const FRAMES: u64 = 4;

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    (folder, path)
}

fn options(medium: Option<&Medium>) -> PoolOptions {
    let mut options = PoolOptions::default();
    options.size_max = UNIT;
    options.medium = medium.cloned();
    options
}

fn new_pool(path: &Path, medium: Option<&Medium>) -> Pool {
    let pool = Pool::create(path, &options(medium)).unwrap();
    pool.install().unwrap();
    pool
}

/// A few frames that do not begin where the pool does.
fn frames(pool: &Pool) -> Frames {
    pool.claim(4096, FRAMES * FRAME).unwrap().into_frames(FRAME)
}

#[derive(Debug, Clone)]
enum Op {
    Write(u64, u64, Vec<u8>),
    Words(u64, u64, Vec<u64>),
    Persist(u64, u64, u64),
    Reopen,
}

fn op() -> impl Strategy<Value = Op> {
    let frame = 0..FRAMES;
    let bytes = prop::collection::vec(any::<u8>(), 0..100);
    prop_oneof![
        6 => (frame.clone(), 0..FRAME - 100, bytes).prop_map(|(frame, at, bytes)| Op::Write(frame, at, bytes)),
        3 => (frame.clone(), 0..FRAME / 8 - 5, prop::collection::vec(any::<u64>(), 1..5))
            .prop_map(|(frame, word, words)| Op::Words(frame, word * 8, words)),
        2 => (frame, 0..FRAME, 0..FRAME).prop_map(|(frame, a, b)| Op::Persist(frame, a.min(b), a.max(b))),
        1 => Just(Op::Reopen),
    ]
}

/// Compares a frame, read in every way, with the bytes that it should have.
fn check(frames: &Frames, frame: u64, expected: &[u8]) {
    let word = |at: u64| u64::from_le_bytes(*expected[at as usize..].first_chunk().unwrap());
    let shared = frames.shared(frame);
    assert_eq!(shared.bytes(), expected);
    for at in (0..FRAME).step_by(8) {
        assert_eq!(shared.words().load(at), Some(word(at)));
    }
    // Beside a reader that holds the latch, too.
    let read = frames.read_optimistic(frame, |words| {
        let mut bytes = vec![0; FRAME as usize];
        words.copy(0, &mut bytes).map(|()| bytes)
    });
    assert_eq!(read.flatten().as_deref(), Some(expected));
    drop(shared);
    for (at, len) in [(0, 1), (1, 7), (3, 5), (5, 3), (7, 1), (7, 2), (9, 100), (FRAME - 9, 9)] {
        let mut bytes = vec![0; len as usize];
        frames.read_optimistic(frame, |words| words.copy(at, &mut bytes)).flatten().unwrap();
        assert_eq!(bytes, expected[at as usize..][..len as usize], "{at}..+{len}");
    }
    let words = frames.words(frame).load_many::<3>(16).unwrap();
    assert_eq!(words, [16, 24, 32].map(word));
}

fn run(path: &Path, medium: Option<&Medium>, ops: &[Op]) {
    let mut frames = frames(&new_pool(path, medium));
    let mut model = vec![vec![0_u8; FRAME as usize]; FRAMES as usize];
    for op in ops {
        match op {
            Op::Write(frame, at, bytes) => {
                let before = frames.version(*frame);
                let mut writer = frames.exclusive(*frame);
                writer.write(*at, bytes);
                model[*frame as usize][*at as usize..][..bytes.len()].copy_from_slice(bytes);
                assert_eq!(writer.bytes(), model[*frame as usize]);
                drop(writer);
                assert_ne!(frames.version(*frame), before);
            }
            Op::Words(frame, at, words) => {
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                let mut writer = frames.exclusive(*frame);
                writer.write_words(*at, words);
                writer.store(FRAME - 8, words[0]);
                let model = &mut model[*frame as usize];
                model[*at as usize..][..bytes.len()].copy_from_slice(&bytes);
                model[FRAME as usize - 8..].copy_from_slice(&words[0].to_le_bytes());
            }
            Op::Persist(frame, from, to) => {
                frames.exclusive(*frame).persist(*from..*to).unwrap();
                frames.shared(*frame).persist(*from..*to).unwrap();
            }
            Op::Reopen => {
                drop(frames);
                frames = self::frames(&Pool::open(path, &options(medium)).unwrap());
            }
        }
        for (frame, expected) in (0..).zip(&model) {
            check(&frames, frame, expected);
        }
    }
}

proptest! {
    #[test]
    fn every_reader_sees_what_was_written(ops in prop::collection::vec(op(), 1..40)) {
        let (_folder, path) = folder();
        run(&path, None, &ops);
        run(&path, Some(&Medium::new(Domain::Memory, UNIT).unwrap()), &ops);
    }
}

#[test]
fn readers_without_the_latch_see_whole_versions_beside_a_writer() {
    let (_folder, path) = folder();
    let medium = Medium::new(Domain::Memory, UNIT).unwrap();
    for medium in [None, Some(&medium)] {
        let pool = new_pool(&path, medium);
        let (frames, is_over) = (frames(&pool), AtomicBool::new(false));
        let (frames, is_over) = (&frames, &is_over);
        thread::scope(|scope| {
            let read = |frame| {
                let words = frames.read_optimistic(frame, |words| words.load_many::<64>(0));
                let words = words?.unwrap();
                assert_eq!(words, [words[0]; 64]);
                Some(words[0])
            };
            let readers = [(); 2].map(|()| {
                scope.spawn(move || {
                    let mut newest = 0;
                    while !is_over.load(Ordering::Relaxed) {
                        let seen = read(1).unwrap_or(newest);
                        assert!(seen >= newest, "{seen} after {newest}");
                        newest = seen;
                        let shared = frames.shared(1);
                        assert!(shared.bytes().chunks(8).all(|word| word == &shared.bytes()[..8]));
                    }
                })
            });
            for number in 1..2000_u64 {
                let mut writer = frames.exclusive(1);
                match number % 2 {
                    0 => writer.write(0, &[number; 64].map(u64::to_le_bytes).concat()),
                    _ => writer.write_words(0, &[number; 64]),
                }
            }
            is_over.store(true, Ordering::Relaxed);
            for reader in readers {
                reader.join().unwrap();
            }
            assert_eq!(read(1), Some(1999));
        });
    }
}

#[test]
fn two_writers_lose_no_change() {
    let (_folder, path) = folder();
    let frames = &frames(&new_pool(&path, None));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(move || {
                for _ in 0..5000 {
                    let mut writer = frames.exclusive(2);
                    let word = writer.words().load(40).unwrap();
                    writer.store(40, word + 1);
                }
            });
        }
    });
    assert_eq!(frames.words(2).load(40), Some(10_000));
}

#[test]
fn a_latch_has_one_writer_or_many_readers_and_a_version_that_a_writer_can_insist_on() {
    let (_folder, path) = folder();
    let frames = frames(&new_pool(&path, None));
    assert_eq!(
        (frames.count(), frames.frame_len(), frames.offset(2)),
        (FRAMES, FRAME, 4096 + 1024)
    );
    let version = frames.version(0).unwrap();
    let writer = frames.exclusive(0);
    assert!(frames.try_exclusive(0).is_none() && frames.try_shared(0).is_none());
    assert!(frames.version(0).is_none() && !frames.is_current(0, version));
    assert!(frames.read_optimistic(0, |_| ()).is_none());
    // Another frame has another latch.
    assert!(frames.try_exclusive(1).is_some());
    drop(writer);
    assert!(frames.try_exclusive_at(0, version).is_none());
    let version = frames.version(0).unwrap();
    let readers = [frames.shared(0), frames.shared(0)];
    assert!(frames.try_exclusive(0).is_none() && frames.try_exclusive_at(0, version).is_none());
    assert!(frames.is_current(0, version));
    drop(readers);
    drop(frames.try_exclusive_at(0, version).unwrap());
    assert!(!frames.is_current(0, version));
    // A writer that comes while an optimistic reader reads takes its result away.
    assert!(frames.read_optimistic(3, |_| drop(frames.exclusive(3))).is_none());
}

#[test]
fn an_offset_that_leads_out_of_the_frame_is_none() {
    let (_folder, path) = folder();
    let frames = frames(&new_pool(&path, None));
    let words = frames.words(FRAMES - 1);
    for at in [FRAME, FRAME - 4, 4, u64::MAX, u64::MAX - 7] {
        assert_eq!((words.load(at), words.load_many::<2>(at)), (None, None), "{at}");
        words.prefetch(at);
    }
    assert_eq!(words.load_many::<2>(FRAME - 8), None);
    for (at, len) in [(FRAME, 1), (FRAME - 1, 2), (u64::MAX, 2), (0, FRAME as usize + 1)] {
        let mut bytes = vec![7; len];
        assert_eq!(words.copy(at, &mut bytes), None, "{at}..+{len}");
        assert_eq!(bytes, vec![7; len]);
    }
    assert_eq!(words.copy(FRAME, &mut []), Some(()));
}

#[test]
#[should_panic(expected = "no bytes, or no words, of a frame of 512 bytes")]
fn a_write_outside_the_frame_is_refused() {
    let (_folder, path) = folder();
    frames(&new_pool(&path, None)).exclusive(0).write(FRAME - 1, &[0; 2]);
}

#[test]
#[should_panic(expected = "outside a frame of 512 bytes")]
fn a_flush_outside_the_frame_is_refused() {
    let (_folder, path) = folder();
    let _ = frames(&new_pool(&path, None)).exclusive(0).flush(FRAME - 1..FRAME + 1);
}

#[test]
fn updates_flush_nothing_and_persist_writes_its_lines_back_with_one_fence() {
    let (_folder, path) = folder();
    let frames = frames(&new_pool(&path, None));
    let pool = frames.pool().clone();
    let traffic = |act: &dyn Fn()| {
        let before = pool.traffic();
        act();
        pool.traffic() - before
    };
    let updated = traffic(&|| {
        for number in 0..100 {
            let mut writer = frames.exclusive(number % FRAMES);
            writer.write(number, b"changed");
            writer.store(8, number);
            writer.write_words(16, &[1, 2, 3]);
        }
    });
    assert_eq!(updated, Traffic { stores: 300, ..Traffic::default() });
    let read = traffic(&|| {
        frames.read_optimistic(0, |words| words.load_many::<8>(0)).unwrap();
        assert!(!frames.shared(0).bytes().is_empty());
    });
    assert_eq!(read, Traffic { loads: 2, ..Traffic::default() });
    let persisted = traffic(&|| _ = frames.exclusive(0).persist(60..130).unwrap());
    let lines = |flushes, lines, media_blocks, fences| Traffic {
        flushes,
        lines,
        media_blocks,
        fences,
        ..Traffic::default()
    };
    assert_eq!(persisted, lines(1, 3, 1, 1));
    let persisted = traffic(&|| _ = frames.shared(3).persist(0..FRAME).unwrap());
    assert_eq!(persisted, lines(1, 8, 2, 1));
    // Of several frames, one fence waits for all, without their latches.
    let fenced = traffic(&|| {
        let flushed: Vec<_> = (0..FRAMES).map(|frame| frames.shared(frame).flush(0..64)).collect();
        assert!((0..FRAMES).all(|frame| frames.try_exclusive(frame).is_some()));
        pool.fence_all(&flushed).unwrap();
    });
    assert_eq!(fenced, lines(4, 4, 4, 1));
}

#[test]
fn a_model_sees_every_store_flush_and_fence_in_order() {
    let medium = Medium::new(Domain::Memory, UNIT).unwrap();
    let frames = frames(&new_pool(Path::new("pool"), Some(&medium)));
    let mut trace = Trace::default();
    medium.machine().take_trace(&mut trace);
    let mut writer = frames.exclusive(1);
    writer.write(3, b"unaligned");
    writer.write_words(16, &[1, 2]);
    writer.persist(0..32).unwrap();
    drop(writer);
    let _ = frames.shared(1).flush(64..128);
    medium.machine().take_trace(&mut trace);
    let start = frames.offset(1);
    let stored = |what: What, how: How| match what {
        What::Store { at, len, bytes, streamed: false, in_order } => {
            assert_eq!(in_order, how == How::InOrder);
            (at - start, trace.stored(bytes, len).to_vec())
        }
        other => panic!("{other:?}"),
    };
    let events: Vec<_> = trace.events.iter().map(|event| event.what).collect();
    assert_eq!(stored(events[0], How::Copied), (3, b"unaligned".to_vec()));
    let words = [1_u64.to_le_bytes(), 2_u64.to_le_bytes()].concat();
    assert_eq!(stored(events[1], How::InOrder), (16, words));
    assert_eq!(events[2], What::Flush { at: start, len: 32 });
    let What::Fence { first, count } = events[3] else { panic!("{events:?}") };
    assert_eq!(trace.fenced(first, count), [(start, 32)]);
    assert_eq!(events[4..], [What::Flush { at: start + 64, len: 64 }]);
    assert!(trace.events.iter().all(|event| event.site.file() == file!()));
    // Without power no store counts, and nothing becomes durable.
    medium.machine().cut_power();
    let mut writer = frames.exclusive(1);
    writer.store(16, 7);
    assert!(writer.persist(0..32).is_err());
    assert_eq!(writer.words().load(16), Some(1));
}

//! The guarantees of a pool.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use halite_pmem::{Domain, Error, GRAIN, LINE, Medium, Parcels, Pool, PoolOptions, Traffic, UNIT};
use proptest::prelude::*;
use tempfile::TempDir;

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    (folder, path)
}

fn options() -> PoolOptions {
    let mut options = PoolOptions::default();
    options.size_max = 64 << 20;
    options
}

fn new_pool(path: &Path, options: &PoolOptions) -> Pool {
    let pool = Pool::create(path, options).unwrap();
    pool.install().unwrap();
    pool
}

#[test]
fn what_is_fenced_is_there_after_reopening() {
    let (_folder, path) = folder();
    let pool = new_pool(&path, &options());
    let mut fresh = pool.claim(4096, 4096).unwrap();
    fresh.write(10, b"stored");
    let streamed = fresh.write_stream(100, &[7; 1000]);
    pool.fence([fresh.flush(10..16), streamed]).unwrap();
    drop((fresh, pool));
    let pool = Pool::open(&path, &options()).unwrap();
    let fresh = pool.claim(4096, 4096).unwrap();
    assert_eq!(fresh.bytes()[10..16], *b"stored");
    assert_eq!(fresh.bytes()[100..1100], [7; 1000]);
}

#[test]
fn growth_keeps_addresses_and_brings_zeros() {
    let (_folder, path) = folder();
    let pool = new_pool(&path, &options());
    let mut first = pool.claim(0, UNIT).unwrap();
    first.write(0, b"before");
    let address = first.bytes().as_ptr();
    pool.grow(1).unwrap();
    pool.grow(UNIT).unwrap();
    assert_eq!(pool.len(), 3 * UNIT);
    assert_eq!(fs::metadata(&path).unwrap().len(), 3 * UNIT);
    assert_eq!(first.bytes().as_ptr(), address);
    assert_eq!(address.addr() % UNIT as usize, 0);
    assert_eq!(first.bytes()[..6], *b"before");
    assert!(pool.claim(UNIT, 2 * UNIT).unwrap().bytes().iter().all(|&byte| byte == 0));
    let limit = pool.grow(64 << 20).unwrap_err();
    assert!(matches!(limit, Error::SizeLimit { limit, .. } if limit == 64 << 20), "{limit}");
    assert_eq!(pool.len(), 3 * UNIT);
}

#[test]
fn a_full_device_is_an_error_and_the_pool_stays_as_it_was() {
    let (_folder, path) = folder();
    let mut options = options();
    options.size_max = 1 << 45;
    let pool = new_pool(&path, &options);
    let full = pool.grow(1 << 44).unwrap_err();
    assert!(matches!(full, Error::NoSpace { .. }), "{full}");
    assert_eq!(fs::metadata(&path).unwrap().len(), UNIT);
    pool.grow(UNIT).unwrap();
}

#[test]
fn a_pool_has_one_holder() {
    let (_folder, path) = folder();
    let pool = new_pool(&path, &options());
    assert!(matches!(Pool::open(&path, &options()), Err(Error::Locked { .. })));
    assert!(matches!(Pool::create(&path, &options()), Err(Error::Exists { .. })));
    let claimed = pool.claim(0, 64).unwrap();
    drop(pool);
    assert!(matches!(Pool::open(&path, &options()), Err(Error::Locked { .. })), "still claimed");
    drop(claimed);
    Pool::open(&path, &options()).unwrap();
}

#[test]
fn a_pool_that_is_not_installed_leaves_nothing_in_its_place() {
    let (_folder, path) = folder();
    drop(Pool::create(&path, &options()).unwrap());
    assert!(matches!(Pool::open(&path, &options()), Err(Error::Missing { .. })));
    let first = Pool::create(&path, &options()).unwrap();
    let second = Pool::create(&path, &options()).unwrap();
    first.install().unwrap();
    assert!(matches!(second.install(), Err(Error::Exists { .. })));
    assert!(matches!(Pool::create(&path, &options()), Err(Error::Exists { .. })));
}

#[test]
#[should_panic(expected = "the proof is about other bytes")]
fn a_proof_is_about_bytes_as_they_were() {
    let (_folder, path) = folder();
    let mut fresh = new_pool(&path, &options()).claim(0, 64).unwrap();
    fresh.write(0, b"proven");
    let [proof] = fresh.pool().fence([fresh.flush(0..64)]).unwrap();
    fresh.write(0, b"changed");
    let _ = fresh.publish(&proof);
}

#[test]
#[should_panic(expected = "published by the proof")]
fn what_was_streamed_is_not_shown_before_its_fence() {
    let (_folder, path) = folder();
    let mut appender = new_pool(&path, &options()).claim(0, 64).unwrap().into_appender(0);
    drop(appender.write_stream(b"streamed"));
    appender.reveal();
}

#[test]
fn absurd_sizes_are_errors() {
    let (_folder, path) = folder();
    let mut options = options();
    (options.size_initial, options.size_max) = (u64::MAX, u64::MAX);
    assert!(Pool::create(&path, &options).is_err());
    options.size_max = 3 << 20;
    let pool = new_pool(&path, &options);
    assert_eq!((pool.len(), pool.len_max()), (UNIT, UNIT));
    pool.grow(0).unwrap();
    assert!(matches!(pool.grow(u64::MAX), Err(Error::SizeLimit { .. })));
}

#[test]
fn threads_that_map_memory_meanwhile_are_not_disturbed() {
    let folder = tempfile::tempdir().unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let mut memory = vec![1_u8; 3 << 20];
                memory[1 << 20] = 2;
                assert_eq!(
                    memory.iter().map(|&byte| usize::from(byte)).sum::<usize>(),
                    (3 << 20) + 1
                );
            }
        });
        for number in 0..40 {
            let path = folder.path().join(number.to_string());
            drop(new_pool(&path, &options()));
            drop(Pool::open(&path, &options()).unwrap());
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn what_is_not_a_pool_is_named() {
    let (folder, path) = folder();
    let open = || Pool::open(&path, &options()).err().unwrap();
    assert!(matches!(open(), Error::Missing { .. }));
    File::create(&path).unwrap();
    assert!(matches!(open(), Error::TooShort { len: 0, .. }));
    fs::write(&path, vec![1; UNIT as usize - 1]).unwrap();
    assert!(matches!(open(), Error::TooShort { .. }));
    fs::write(&path, vec![1; UNIT as usize]).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    assert!(matches!(open(), Error::ReadOnly { .. }));
    let not_a_file = Pool::open(folder.path(), &options()).err().unwrap();
    assert!(matches!(not_a_file, Error::NotAFile { .. }));
}

#[test]
fn holes_are_filled_before_they_are_mapped() {
    use std::os::unix::fs::MetadataExt;
    let (_folder, path) = folder();
    File::create(&path).unwrap().set_len(4 * UNIT).unwrap();
    let pool = Pool::open(&path, &options()).unwrap();
    assert!(fs::metadata(&path).unwrap().blocks() * 512 >= pool.len());
}

#[test]
fn readers_see_what_was_published_and_the_space_comes_back() {
    let (_folder, path) = folder();
    let pool = new_pool(&path, &options());
    let mut appender = pool.claim(0, 4096).unwrap().into_appender(0);
    let published = appender.published().clone();
    let range = appender.write(b"first");
    assert!(published.pin(0..5).is_none(), "not yet");
    let [proof] = pool.fence([appender.flush(range)]).unwrap();
    appender.publish(&proof);
    let pinned = published.pin(0..5).unwrap();
    assert!(published.pin(0..6).is_none());
    assert_eq!(*pinned.clone().slice(1..3), *b"ir");
    drop(appender.write_stream(b"second"));
    assert_eq!(*pinned, *b"first");
    drop(appender);
    let published = published.reclaim().err().expect("a reader holds it");
    assert!(matches!(pool.claim(0, 1), Err(Error::Claimed { .. })));
    drop(pinned);
    let fresh = published.reclaim().ok().expect("the last holder");
    assert_eq!(fresh.bytes()[..11], *b"firstsecond");
}

#[test]
#[should_panic(expected = "the proof is about other bytes")]
fn a_proof_is_about_its_own_bytes() {
    let (_folder, path) = folder();
    let pool = new_pool(&path, &options());
    let mut appender = pool.claim(0, 4096).unwrap().into_appender(0);
    let first = appender.write(b"first");
    appender.write(b"second");
    let [proof] = pool.fence([appender.flush(first)]).unwrap();
    appender.publish(&proof);
}

#[test]
#[should_panic(expected = "the proof is about other bytes")]
fn a_proof_is_not_about_what_is_appended_later() {
    let (_folder, path) = folder();
    let pool = new_pool(&path, &options());
    let fresh = pool.claim(0, 64).unwrap();
    let [proof] = pool.fence([fresh.flush(0..64)]).unwrap();
    let mut appender = fresh.into_appender(0);
    drop(appender.write_stream(b"streamed"));
    appender.publish(&proof);
}

#[test]
#[should_panic(expected = "the proof is about other bytes")]
fn a_proof_is_not_about_what_is_granted_later() {
    let (_folder, path) = folder();
    let pool = new_pool(&path, &options());
    let mut fresh = pool.claim(0, 64).unwrap();
    fresh.write(0, &[1; 64]);
    let [proof] = pool.fence([fresh.flush(0..64)]).unwrap();
    let appender = fresh.into_shared_appender(0);
    let mut grant = appender.grant(64).unwrap();
    drop(grant.write_stream(0, &[2; 64]));
    grant.publish(&proof);
}

#[test]
fn volatile_memory_is_its_owners_until_it_is_dropped() {
    struct Told(Arc<AtomicBool>, Pool);
    impl Drop for Told {
        fn drop(&mut self) {
            assert!(self.1.claim(4096, 64).is_ok(), "the range was given back before");
            self.0.store(true, Ordering::Relaxed);
        }
    }
    for options in kinds_of_pool() {
        let (_folder, path) = folder();
        let pool = new_pool(&path, &options);
        let told = Arc::new(AtomicBool::new(false));
        let scratch = pool.claim(4096, 8192).unwrap().into_scratch();
        let scratch = scratch.kept_by(Told(told.clone(), pool.clone()));
        assert!(matches!(pool.claim(8192, 64), Err(Error::Claimed { .. })));
        let before = pool.traffic();
        let bytes = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                // SAFETY: the range is the test's alone, and as long.
                unsafe { scratch.address().as_ptr().write_bytes(7, scratch.len()) };
                // SAFETY: as above, and no thread writes it any more.
                unsafe { std::slice::from_raw_parts(scratch.address().as_ptr(), scratch.len()) }
            });
            writer.join().unwrap()
        });
        assert_eq!(bytes, [7; 8192]);
        assert_eq!(pool.traffic(), before, "it is not counted");
        drop(scratch);
        assert!(told.load(Ordering::Relaxed));
        assert_eq!(pool.claim(4096, 8192).unwrap().len(), 8192);
    }
}

/// Pools of all kinds that may treat stores in their own way.
fn kinds_of_pool() -> Vec<PoolOptions> {
    let mut modelled = PoolOptions::default();
    modelled.medium = Some(Medium::new(Domain::Memory, 4 << 20).unwrap());
    let mut in_memory = options();
    in_memory.in_memory = true;
    vec![options(), profiled(FAST), modelled, in_memory]
}

#[test]
fn what_is_granted_is_read_when_it_is_finished_in_any_order() {
    for options in kinds_of_pool() {
        let (_folder, path) = folder();
        let pool = new_pool(&path, &options);
        let mut fresh = pool.claim(4096, 1 << 20).unwrap();
        fresh.write(0, &[9; 128]);
        let appender = fresh.into_shared_appender(128);
        let published = appender.published().clone();
        assert_eq!((published.len(), appender.tail()), (128, 128));
        let mut first = appender.grant(64).unwrap();
        let mut second = appender.grant(128).unwrap();
        let mut third = appender.grant(64).unwrap();
        assert_eq!((first.at(), second.at(), second.len(), third.at()), (128, 192, 128, 320));
        second.write(0, &[2; 100]);
        let [proof] = pool.fence([second.flush(0..128)]).unwrap();
        second.publish(&proof);
        first.write(0, &[1; 64]);
        third.write(0, &[3; 64]);
        assert_eq!(published.read(192..292).unwrap(), [2; 100]);
        for range in [128..192, 127..129, 191..193, 192..321, 128..320, 320..384, 384..384] {
            assert!(published.read(range.clone()).is_none(), "{range:?}");
            assert!(published.pin(range).is_none());
        }
        let pinned = published.pin(192..320).unwrap();
        third.reveal();
        assert_eq!(published.len(), 128, "the first is not finished");
        assert_eq!(published.read(319..384).unwrap()[1..], [3; 64]);
        pool.fence([published.flush(320..384)]).unwrap();
        first.reveal();
        assert_eq!(published.len(), 384);
        assert_eq!(published.bytes()[..192], [[9; 128].as_slice(), &[1; 64]].concat()[..]);
        drop(appender);
        let published = published.reclaim().err().expect("a reader holds it");
        assert_eq!(pinned[..100], [2; 100]);
        drop(pinned);
        let fresh = published.reclaim().ok().expect("the last holder");
        assert_eq!(fresh.read(320, 64), [3; 64]);
    }
}

#[test]
fn what_is_streamed_in_several_calls_has_one_proof() {
    for options in kinds_of_pool() {
        let (_folder, path) = folder();
        let pool = new_pool(&path, &options);
        let appender = pool.claim(0, 4096).unwrap().into_shared_appender(0);
        let before = pool.traffic();
        let mut grant = appender.grant(512).unwrap();
        grant.write(0, b"header");
        drop(grant.write_stream(64, &[1; 100]));
        drop(grant.write_stream(164, &[2; 92]));
        drop(grant.stream_entry(256, &[3; 150], || [4; 16]));
        drop(grant.write_stream(448, &[5; 64]));
        let [proof] = pool.fence([grant.flush(0..64)]).unwrap();
        grant.publish(&proof);
        if pool.domain() != Domain::Volatile {
            let cost = pool.traffic() - before;
            assert_eq!((cost.stores, cost.flushes, cost.fences), (5, 5, 1));
            assert_eq!(cost.lines, 1 + 2 + 2 + 3 + 1);
        }
        let expected = [
            (b"header".as_slice(), 0..6),
            (&[1; 100], 64..164),
            (&[2; 92], 164..256),
            (&[4; 16], 256..272),
            (&[3; 150], 272..422),
            (&[0; 26], 422..448),
            (&[5; 64], 448..512),
        ];
        for (bytes, range) in expected {
            assert_eq!(appender.published().read(range).unwrap(), bytes);
        }
        assert_eq!(appender.remaining(), 4096 - 512);
        assert!(appender.grant(4096 - 448).is_none() && appender.grant(u64::MAX - 63).is_none());
        assert_eq!(appender.grant(4096 - 512).unwrap().at(), 512);
        assert!(appender.grant(64).is_none());
        assert_eq!(appender.published().len(), 512, "the last one was dropped");
    }
}

#[test]
fn a_grant_is_finished_with_a_proof_about_its_bytes_as_they_are() {
    let (_folder, path) = folder();
    let pool = new_pool(&path, &options());
    let appender = pool.claim(0, 1 << 20).unwrap().into_shared_appender(0);
    let refused = |what: &str, finish: &dyn Fn()| {
        let panicked = catch_unwind(AssertUnwindSafe(finish)).expect_err(what);
        let why = panicked.downcast::<&str>().expect("a plain message");
        assert!(why.contains("proof"), "{what}: {why}");
    };
    refused("a gap was not flushed", &|| {
        let mut grant = appender.grant(192).unwrap();
        drop(grant.write_stream(0, &[1; 64]));
        let [proof] = pool.fence([grant.write_stream(128, &[1; 64])]).unwrap();
        grant.publish(&proof);
    });
    refused("what was written since was not flushed", &|| {
        let mut grant = appender.grant(64).unwrap();
        grant.write(0, &[1; 64]);
        let [proof] = pool.fence([grant.flush(0..64)]).unwrap();
        grant.write(8, &[2; 8]);
        grant.publish(&proof);
    });
    refused("what was written over is not written back", &|| {
        let mut grant = appender.grant(128).unwrap();
        drop(grant.write_stream(0, &[1; 64]));
        grant.write(8, &[2; 8]);
        let [proof] = pool.fence([grant.write_stream(64, &[1; 64])]).unwrap();
        grant.publish(&proof);
    });
    refused("another's proof", &|| {
        let mut grant = appender.grant(64).unwrap();
        grant.write(0, &[1; 64]);
        let [proof] = pool.fence([grant.flush(0..64)]).unwrap();
        let mut other = appender.grant(64).unwrap();
        other.write(0, &[1; 64]);
        other.publish(&proof);
    });
    refused("streamed and not fenced", &|| {
        let mut grant = appender.grant(64).unwrap();
        drop(grant.write_stream(0, &[1; 64]));
        grant.reveal();
    });
    for (what, finish) in [
        ("not whole lines", &(|| drop(appender.grant(65))) as &dyn Fn()),
        ("no line", &|| drop(appender.grant(0))),
        ("outside", &|| appender.grant(64).unwrap().write(1, &[1; 64])),
        ("outside", &|| drop(appender.grant(64).unwrap().flush(0..65))),
        ("overflow", &|| drop(appender.grant(64).unwrap().write_stream(u64::MAX, &[1; 2]))),
        ("no line", &|| drop(appender.grant(64).unwrap().stream_entry(8, &[], || [1; 8]))),
    ] {
        assert!(catch_unwind(AssertUnwindSafe(finish)).is_err(), "{what}");
    }
    assert!(appender.published().is_empty());
    assert!((0..appender.tail()).all(|at| appender.published().read(at..at + 1).is_none()));
}

#[test]
fn threads_append_and_read_what_others_have_finished() {
    const THREADS: u64 = 4;
    let (_folder, path) = folder();
    let pool = new_pool(&path, &options());
    let appender = pool.claim(0, 1 << 20).unwrap().into_shared_appender(0);
    let places = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (pool, appender, places) = (&pool, &appender, &places);
            scope.spawn(move || {
                for number in (0..).map(|number: u64| number * THREADS + thread) {
                    let len = 64 * (1 + number % 5);
                    let Some(mut grant) = appender.grant(len) else { return };
                    let (at, byte) = (grant.at(), number as u8 | 1);
                    match number % 3 {
                        0 => {
                            let bytes = vec![byte; len as usize];
                            let [proof] = pool.fence([grant.write_stream(0, &bytes)]).unwrap();
                            grant.publish(&proof);
                        }
                        _ => {
                            grant.write(0, &vec![byte; len as usize]);
                            grant.reveal();
                        }
                    }
                    let mut places = places.lock().unwrap();
                    places.push((at, len, byte));
                    for &(at, len, byte) in places.iter().rev().take(8) {
                        let read = appender.published().read(at..at + len).expect("finished");
                        assert!(read.iter().all(|&read| read == byte));
                    }
                    let end = appender.published().len();
                    assert!(appender.published().bytes().iter().all(|&byte| byte != 0), "{end}");
                }
            });
        }
    });
    let mut places = places.into_inner().unwrap();
    places.sort_unstable();
    let end = places.iter().fold(0, |end, &(at, len, _)| {
        assert_eq!(at, end, "every byte is granted once");
        at + len
    });
    assert_eq!((appender.tail(), appender.published().len()), (end, end));
}

#[test]
fn words_change_atomically() {
    let (_folder, path) = folder();
    let pool = new_pool(&path, &options());
    let words = pool.claim(64, 64).unwrap().into_words();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..1000 {
                    let mut seen = words.load(8);
                    while let Err(now) = words.compare_exchange(8, seen, seen + 1) {
                        seen = now;
                    }
                }
            });
        }
    });
    assert_eq!(words.load(8), 4000);
    pool.fence([words.flush(8..16)]).unwrap();
    drop(words);
    assert_eq!(pool.claim(72, 8).unwrap().bytes(), 4000_u64.to_le_bytes());
}

#[test]
fn many_words_are_loaded_at_once() {
    let (_folder, path) = folder();
    let pool = new_pool(&path, &options());
    let words = pool.claim(64, 64).unwrap().into_words();
    (0..8).for_each(|number| words.store(8 * number, 100 + number));
    let before = pool.traffic().loads;
    assert_eq!(words.load_many(0), [100, 101, 102, 103, 104, 105, 106, 107]);
    assert_eq!(words.load_many(40), [105, 106]);
    assert_eq!(pool.traffic().loads - before, 2);
    for (at, why) in [(48, "beyond the end"), (4, "not a word")] {
        let load = || words.load_many::<3>(at);
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(load)).is_err(), "{why}");
    }
}

#[test]
fn traffic_counts_lines_and_blocks() {
    let (_folder, path) = folder();
    let pool = new_pool(&path, &options());
    let mut fresh = pool.claim(0, UNIT).unwrap();
    let before = pool.traffic();
    fresh.write(60, &[1; 8]);
    let a = fresh.flush(60..68);
    let b = fresh.write_stream(1024, &[1; 512]);
    pool.fence([a, b]).unwrap();
    let expected = Traffic {
        loads: 0,
        stores: 2,
        flushes: 2,
        fences: 1,
        lines: 2 + 512 / LINE,
        media_blocks: 3,
    };
    assert_eq!(pool.traffic() - before, expected);
}

#[test]
fn an_emulated_medium_counts_the_lines_that_its_cache_has_not_and_the_bytes_stored() {
    let (_folder, path) = folder();
    let pool = new_pool(&path, &options());
    assert_eq!(pool.medium_traffic(), None);
    drop(pool);
    let mut options = options();
    options.profile = Some("read=1,persist=1".parse().unwrap());
    let pool = Pool::open(&path, &options).unwrap();
    let mut fresh = pool.claim(0, UNIT).unwrap();
    let traffic = || pool.medium_traffic().unwrap();
    let start = traffic();
    fresh.write(60, &[1; 8]);
    drop((fresh.write_stream(1024, &[1; 512]), fresh.zero(2048..2050)));
    assert_eq!((traffic() - start).bytes_stored, 8 + 512 + 2);
    let before = traffic();
    assert_eq!(fresh.read(4096, 65).len(), 65);
    assert_eq!((traffic() - before).lines_read, 2);
    // Both are in the cache now, as is what was stored through it; what was stored past it is not.
    assert_eq!((fresh.read(4100, 8)[0], fresh.read(60, 8)[0], fresh.read(1024, 8)[0]), (0, 1, 1));
    assert_eq!((traffic() - before).lines_read, 3);
}

#[test]
fn an_ordinary_file_is_made_durable_by_the_kernel() {
    let (_folder, path) = folder();
    let mut options = options();
    options.assume_domain = Some(Domain::PageCache);
    let pool = new_pool(&path, &options);
    pool.grow(UNIT).unwrap();
    let mut fresh = pool.claim(0, 2 * UNIT).unwrap();
    let near = [fresh.write_stream(5000, &[1; 100]), fresh.write_stream(0, &[2; 1])];
    pool.fence(near).unwrap();
    let far = [fresh.write_stream(5000, &[3; 100]), fresh.write_stream(UNIT, &[4; 1])];
    pool.fence_all(&far).unwrap();
    assert_eq!(pool.domain(), Domain::PageCache);
    assert_eq!(fs::read(&path).unwrap()[5000..5100], [3; 100]);
}

proptest! {
    #[test]
    fn stores_of_any_kind_leave_what_a_byte_array_would_hold(
        ops in prop::collection::vec((0_u64..8000, 0_usize..300, any::<u8>(), 0..4_u8), 1..40)
    ) {
        let (_folder, path) = folder();
        let pool = new_pool(&path, &options());
        let mut model = vec![0; 8400];
        let mut fresh = pool.claim(128, 8400).unwrap();
        for (at, len, byte, kind) in ops {
            let range = at as usize..at as usize + len;
            let value = if kind == 2 { 0 } else { byte };
            match kind {
                0 => { fresh.write(at, &vec![byte; len]); }
                1 => drop(fresh.write_stream(at, &vec![byte; len])),
                2 => drop(fresh.zero(at..at + len as u64)),
                _ => {
                    fresh.write(at, &vec![byte; len]);
                    pool.fence([fresh.flush(at..at + len as u64)]).unwrap();
                }
            }
            model[range].fill(value);
        }
        prop_assert_eq!(fresh.bytes(), &model[..]);
        drop((fresh, pool));
        let pool = Pool::open(&path, &options()).unwrap();
        let fresh = pool.claim(128, 8400).unwrap();
        prop_assert_eq!(fresh.bytes(), &model[..]);
    }
}

#[test]
fn streamed_stores_are_one_fence_and_their_lines() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool = Pool::create(&folder.path().join("p"), &PoolOptions::default()).unwrap();
    let mut fresh = pool.claim(0, UNIT).unwrap();
    let before = pool.traffic();
    let read = fresh.persist_stream(|stream| {
        stream.write(0, &[1; 64]);
        stream.write(4096, &[2; 130]);
        stream.write(100, &[]);
        let mut read = [0];
        stream.read_to(4096, &mut read);
        read
    });
    assert_eq!(read.unwrap(), [2]);
    let traffic = pool.traffic() - before;
    let expected =
        Traffic { loads: 1, stores: 3, flushes: 2, fences: 1, lines: 4, media_blocks: 2 };
    assert_eq!(traffic, expected);
    assert_eq!(fresh.read(4095, 3), [0, 2, 2]);
}

#[test]
fn an_entry_is_its_header_its_payload_and_zeros() {
    fn check<const N: usize>(pool: &Pool) {
        let mut fresh = pool.claim(64, 1024).unwrap();
        let payload: Vec<u8> = (0..300).map(|number| (number % 251) as u8 + 1).collect();
        for len in 0..payload.len() {
            fresh.write(0, &[0xee; 1024]);
            let before = pool.traffic();
            let header = [0xff - len as u8; N];
            fresh.persist_entry(64, &payload[..len], || header).unwrap();
            let cost = pool.traffic() - before;
            let lines = (N + len).div_ceil(64);
            assert_eq!((cost.stores, cost.flushes, cost.fences), (1, 1, 1));
            assert_eq!(cost.lines, lines as u64, "{N} {len}");
            let mut expected = vec![0xee; 1024];
            expected[64..64 + 64 * lines].fill(0);
            expected[64..64 + N].copy_from_slice(&header);
            expected[64 + N..64 + N + len].copy_from_slice(&payload[..len]);
            assert!(fresh.bytes() == expected, "{N} {len}");
        }
    }
    let mut modelled = PoolOptions::default();
    modelled.medium = Some(Medium::new(Domain::Memory, 4 << 20).unwrap());
    for options in [options(), profiled(FAST), modelled] {
        let (_folder, path) = folder();
        let pool = new_pool(&path, &options);
        check::<8>(&pool);
        check::<12>(&pool);
        check::<16>(&pool);
    }
}

#[test]
#[should_panic(expected = "an entry begins with a line")]
fn an_entry_does_not_begin_inside_a_line() {
    let (_folder, path) = folder();
    let mut fresh = new_pool(&path, &options()).claim(0, UNIT).unwrap();
    let _ = fresh.persist_entry(8, &[], || [1; 8]);
}

#[test]
fn streamed_stores_count_even_if_the_rest_panics() {
    let (_folder, path) = folder();
    let pool = new_pool(&path, &options());
    let mut fresh = pool.claim(0, UNIT).unwrap();
    let before = pool.traffic();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _ = fresh.persist_stream(|stream| {
            stream.write(0, &[1; 64]);
            stream.write(UNIT, &[1]);
        });
    }));
    assert!(panicked.is_err());
    let traffic = pool.traffic() - before;
    assert_eq!((traffic.stores, traffic.lines, traffic.fences), (1, 1, 0));
    assert_eq!(fresh.read(0, 64), [1; 64]);
}

#[test]
#[should_panic(expected = "a modelled medium has no time")]
fn a_model_is_not_probed() {
    let mut options = PoolOptions::default();
    options.medium = Some(Medium::new(Domain::Memory, 4 << 20).unwrap());
    let pool = Pool::create(&PathBuf::from("p"), &options).unwrap();
    halite_pmem::probe::persist_stream(&mut pool.claim(0, UNIT).unwrap(), &[1; 64], &[0]);
}

#[test]
fn words_are_stored_in_their_order_and_little_endian() {
    let medium = Medium::new(Domain::Memory, 4 << 20).unwrap();
    let mut options = PoolOptions::default();
    options.medium = Some(medium.clone());
    let pool = Pool::create(&PathBuf::from("p"), &options).unwrap();
    let mut fresh = pool.claim(0, UNIT).unwrap();
    fresh.write_words(8, &[1, 2 << 56]);
    assert_eq!(fresh.read(8, 16), [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
}

fn profiled(profile: &str) -> PoolOptions {
    let mut options = options();
    options.profile = Some(profile.parse().unwrap());
    options
}

/// So fast that only the code path costs time.
const FAST: &str = "read=1,persist=1,read-bw=1000GB,write-bw=1000GB,block=256";

#[test]
fn a_profile_that_makes_no_sense_opens_no_pool() {
    let (_folder, path) = folder();
    let mut options = profiled("optane");
    assert_eq!(new_pool(&path, &options).profile().map(|profile| profile.read_ns), Some(300));
    options.profile.as_mut().unwrap().write_bytes_per_s = 0;
    let error = Pool::open(&path, &options).err().unwrap();
    assert!(matches!(error, Error::Profile { .. }), "{error}");
    let other = path.with_extension("other");
    assert!(matches!(Pool::create(&other, &options), Err(Error::Profile { .. })));
    assert!(!other.exists());
}

#[test]
fn probes_store_and_read_what_they_say() {
    use halite_pmem::probe::{self, Way};
    for options in [options(), profiled(FAST)] {
        let (_folder, path) = folder();
        let pool = new_pool(&path, &options);
        let mut fresh = pool.claim(4096, 65536).unwrap();
        let before = pool.traffic();
        let _ = probe::read_dependent(&fresh, &[64, 1024, 65_528]);
        assert_eq!(pool.traffic(), before);
        for (number, way) in Way::PERSISTENT.into_iter().enumerate() {
            if way.is_available() {
                let at = 4096 * (number as u64 + 1);
                probe::persist(&mut fresh, way, &[at, at + 128]);
                probe::write(&mut fresh, way, &[at + 512, at + 1024], 256);
                let stored = |at, len| fresh.read(at, len).iter().all(|&byte| byte == 0xa5);
                assert!(stored(at, 64) && stored(at + 128, 64) && stored(at + 512, 256));
                assert!(stored(at + 1024, 256) && fresh.read(at + 64, 64) == [0; 64]);
            }
        }
        probe::persist_stream(&mut fresh, b"bytes", &[40_000, 40_010]);
        assert_eq!(fresh.read(40_000, 15), b"bytes\0\0\0\0\0bytes");
        let _ = probe::read(&fresh, &[0, 4096, 64], 128);
    }
}

proptest! {
    #[test]
    fn a_profiled_pool_holds_the_same_bytes(
        steps in proptest::collection::vec((0..6_u8, 0..8000_u64, 0..2000_usize, any::<u8>()), 1..60),
        block in prop_oneof![Just(64), Just(256)],
    ) {
        const LEN: u64 = 16384;
        let fast = format!("read=1,persist=1,read-bw=1000GB,write-bw=1000GB,block={block}");
        let pools = [options(), profiled(&fast)].map(|options| {
            let (folder, path) = folder();
            (new_pool(&path, &options), folder)
        });
        let mut seen = Vec::new();
        for (pool, _) in &pools {
            let mut fresh = pool.claim(0, LEN).unwrap();
            let mut reads = Vec::new();
            for &(what, at, len, byte) in &steps {
                let (end, bytes) = (at + len as u64, vec![byte; len]);
                match what {
                    0 => fresh.write(at, &bytes),
                    1 => {
                        let flushed = fresh.write_stream(at, &bytes);
                        pool.fence([flushed]).unwrap();
                    }
                    2 => reads.push(fresh.read(at, len as u64).to_vec()),
                    3 => {
                        pool.fence([fresh.flush(at..end)]).unwrap();
                        fresh.prefetch(at);
                    }
                    4 => {
                        let _ = fresh.zero(at..end);
                    }
                    _ => fresh
                        .persist_stream(|stream| {
                            stream.write(at, &bytes);
                            stream.write(end, &bytes);
                        })
                        .unwrap(),
                }
            }
            let words = fresh.into_words();
            words.store(8, 77);
            reads.push(words.load(8).to_le_bytes().to_vec());
            reads.push(words.compare_exchange(8, 77, 78).unwrap().to_le_bytes().to_vec());
            drop(words);
            let fresh = pool.claim(0, LEN).unwrap();
            let proof = pool.fence([fresh.flush(0..LEN)]).unwrap();
            let published = fresh.publish(&proof[0]);
            reads.push(published.pin(0..LEN).unwrap().to_vec());
            seen.push((reads, pool.traffic()));
        }
        prop_assert!(seen[0] == seen[1]);
    }
}

#[test]
fn a_pool_in_memory_grows_and_leaves_nothing() {
    let (folder, path) = folder();
    let mut options = options();
    options.in_memory = true;
    assert!(!Pool::exists(&path, &options));
    let pool = new_pool(&path, &options);
    // A pool in memory has no file, so two of one path do not conflict.
    let other = new_pool(&path, &options);
    assert_eq!(pool.domain(), Domain::Volatile);
    let mut first = pool.claim(0, UNIT).unwrap();
    let flushed = first.write_stream(100, &[7; 1000]);
    pool.fence([flushed, first.flush(0..100)]).unwrap();
    pool.grow(UNIT).unwrap();
    pool.sync_file().unwrap();
    let mut second = pool.claim(UNIT, UNIT).unwrap();
    assert!(second.bytes().iter().all(|&byte| byte == 0));
    second.persist_stream(|stream| stream.write(0, &[8; 200])).unwrap();
    assert_eq!(first.bytes()[100..1100], [7; 1000]);
    assert_eq!(second.bytes()[..200], [8; 200]);
    assert_eq!(other.claim(0, UNIT).unwrap().bytes()[100], 0);
    let limit = pool.grow(64 << 20).unwrap_err();
    assert!(matches!(limit, Error::SizeLimit { limit, .. } if limit == 64 << 20), "{limit}");
    assert_eq!(pool.len(), 2 * UNIT);
    let expected = Traffic { loads: 3, stores: 2, ..Traffic::default() };
    assert_eq!(pool.traffic(), expected);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    drop((first, second, pool));
    assert!(matches!(Pool::open(&path, &options), Err(Error::Missing { .. })));
}

/// A pool of four segments, and parcels of its second one.
fn parcels(path: &Path) -> (Pool, Arc<Parcels>) {
    let mut options = options();
    options.size_initial = 4 * UNIT;
    let pool = new_pool(path, &options);
    let parcels = pool.claim_parcels(UNIT, UNIT).unwrap();
    (pool, parcels)
}

#[test]
fn two_parcels_over_the_same_bytes_are_refused() {
    let (_folder, path) = folder();
    let (pool, parcels) = parcels(&path);
    assert!(matches!(pool.claim(2 * UNIT - 1, 2), Err(Error::Claimed { .. })));
    assert!(matches!(pool.claim_parcels(0, 2 * UNIT), Err(Error::Claimed { .. })));
    let owned = parcels.take(4 * GRAIN, 3000).unwrap();
    parcels.take(4 * GRAIN + 3072, 1).unwrap().write(&[1]);
    for (at, len) in [(0, 2048), (4 * GRAIN, 1), (15 * GRAIN, 10), (0, UNIT), (5 * GRAIN + 3072, 1)]
    {
        assert!(matches!(parcels.take(at, len), Err(Error::Claimed { .. })), "{at}, {len}");
    }
    for (at, len) in [(1, 5000), (UNIT, 1), (UNIT - GRAIN, 1), (0, 0), (GRAIN, u64::MAX)] {
        assert!(matches!(parcels.take(at, len), Err(Error::OutOfBounds { .. })), "{at}, {len}");
    }
    assert!(!parcels.end(), "there are parcels");
    drop(owned);
    assert!(parcels.take(4 * GRAIN, 3000).is_ok(), "the parcel was given back");
    assert!(parcels.reclaim(4 * GRAIN + 3072));
    let before = Arc::clone(&parcels);
    assert!(parcels.end() && !parcels.end());
    assert!(matches!(before.take(0, 1), Err(Error::Claimed { .. })), "another may have the range");
    let again = pool.claim(UNIT, UNIT).unwrap();
    drop((before, parcels));
    assert!(pool.claim(UNIT, 1).is_err(), "the range is given back once");
    drop(again);
    assert!(pool.claim(UNIT, 1).is_ok());
}

#[test]
fn a_parcel_is_read_when_it_is_kept_and_reused_when_it_is_not_pinned() {
    let (_folder, path) = folder();
    let (pool, parcels) = parcels(&path);
    let value = [7; 5000];
    let (in_flight, flushed) = parcels.take(GRAIN, 5000).unwrap().stream(&value);
    assert!(parcels.pin(GRAIN, 5000).is_none() && !parcels.reclaim(GRAIN), "it is fresh");
    let [proof] = pool.fence([flushed]).unwrap();
    in_flight.keep(&proof);
    for (at, len) in [(0, 1), (2 * GRAIN, 1), (GRAIN, 5121), (1, 1), (u64::MAX, 1)] {
        assert!(parcels.pin(at, len).is_none(), "{at}, {len}");
    }
    let pinned = parcels.pin(GRAIN, 5000).unwrap();
    let copy = pinned.clone().slice(10..20);
    assert_eq!((&pinned[..], &copy[..]), (&value[..], &value[..10]));
    drop(pinned);
    assert!(!parcels.reclaim(GRAIN) && parcels.take(GRAIN, 1).is_err(), "a part of it is pinned");
    drop((copy, parcels.flush(GRAIN, 5000)));
    assert!(parcels.reclaim(GRAIN) && !parcels.reclaim(GRAIN) && parcels.pin(GRAIN, 1).is_none());
    // Parcels that were streamed and not fenced are given back.
    let (in_flight, _) = parcels.take(0, 5000).unwrap().stream(&value);
    drop(in_flight);
    assert!(parcels.end());
}

#[test]
#[should_panic(expected = "the proof is about other bytes")]
fn a_parcel_is_not_kept_by_the_proof_of_another() {
    let (_folder, path) = folder();
    let (pool, parcels) = parcels(&path);
    let (_first, flushed) = parcels.take(0, 3000).unwrap().stream(&[1; 3000]);
    let (second, _) = parcels.take(UNIT / 2, 3000).unwrap().stream(&[2; 3000]);
    let [proof] = pool.fence([flushed]).unwrap();
    second.keep(&proof);
}

#[test]
fn a_parcel_is_taken_kept_read_and_reclaimed_by_many_threads() {
    let (_folder, path) = folder();
    let (_pool, parcels) = parcels(&path);
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let parcels = &parcels;
            scope.spawn(move || {
                let mut kept = 0;
                for round in 0..2000_u64 {
                    let at = (round * 7 + thread * 3) % 64 * 4 * GRAIN;
                    let len = 2048 + round % 3000;
                    if let Ok(parcel) = parcels.take(at, len) {
                        parcel.write(&vec![thread as u8 + 1; len as usize]);
                        kept += 1;
                    }
                    let other = (round * 11) % 64 * 4 * GRAIN;
                    if let Some(pinned) = parcels.pin(other, 2048) {
                        let first = pinned[0];
                        assert!(first > 0 && pinned.iter().all(|&byte| byte == first));
                    }
                    parcels.reclaim((round * 13) % 64 * 4 * GRAIN);
                }
                assert!(kept > 0);
            });
        }
    });
    for number in 0..64 {
        parcels.reclaim(number * 4 * GRAIN);
    }
    assert!(parcels.end());
}

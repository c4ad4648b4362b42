//! The guarantees of object pools, zones and the allocator over them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use halite_alloc::{
    Address, COMMITTED_ZONE_LEN, CommittedZonePool, Device, Error, HALLOC_LEN_MAX, Halloc,
    OBJECT_LEN_MAX, Object, ObjectPool, SEGMENT, ScratchPool, Segments,
};
use halite_pmem::{Fresh, PoolOptions, Traffic};
use proptest::prelude::*;
use tempfile::TempDir;

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    (folder, path)
}

fn options(segments: u64) -> PoolOptions {
    let mut options = PoolOptions::default();
    options.size_max = segments * SEGMENT;
    options
}

fn create(path: &Path, max: u64) -> Arc<Segments> {
    let segments = Segments::create(path, &options(max)).unwrap();
    segments.install().unwrap();
    segments
}

fn reopen(path: &Path) -> Arc<Segments> {
    Segments::open(path, &options(64)).unwrap()
}

/// Writes a stamp to an object, durably.
fn write(fresh: &mut Fresh, stamp: u64) {
    fresh.write(0, &stamp.to_le_bytes());
    fresh.pool().fence([fresh.flush(0..8)]).unwrap();
}

fn stamp(fresh: &Fresh) -> u64 {
    u64::from_le_bytes(*fresh.read(0, 8).first_chunk().unwrap())
}

fn put(pool: &ObjectPool, stamp: u64) -> u64 {
    let mut object = pool.get().unwrap();
    write(&mut object, stamp);
    let index = object.index();
    object.commit().unwrap();
    index
}

#[test]
fn what_is_committed_is_there_after_reopening_and_the_rest_is_free() {
    let (_folder, path) = folder();
    let segments = create(&path, 64);
    let pool = ObjectPool::open(&segments.device(5), 192).unwrap();
    assert_eq!((pool.capacity(), pool.available()), (0, 0));
    let kept = put(&pool, 7);
    let released = put(&pool, 8);
    assert!(pool.check(kept).unwrap() && pool.check(released).unwrap());
    assert!(!pool.check(released + 1).unwrap() && !pool.check(u64::MAX).unwrap());
    pool.release(released).unwrap();
    let forgotten = pool.get().unwrap();
    assert_eq!(forgotten.index(), released);
    assert_eq!(pool.available() + 2, pool.capacity());
    drop(forgotten);
    drop(pool);
    drop(segments);
    let segments = reopen(&path);
    let pool = ObjectPool::open(&segments.device(5), 192).unwrap();
    assert_eq!(pool.committed().unwrap(), [kept]);
    assert_eq!(stamp(&pool.claim(kept).unwrap()), 7);
    assert_eq!(pool.available() + 1, pool.capacity());
    assert_eq!(pool.generation(kept).unwrap(), Some(1));
    assert_eq!(put(&pool, 9), released);
    assert_eq!(pool.generation(released).unwrap(), Some(2), "another object than before");
    assert_eq!(pool.generation(u64::MAX).unwrap(), None);
}

#[test]
fn an_allocation_of_any_size_is_one_flush_and_one_fence() {
    let (_folder, path) = folder();
    let segments = create(&path, 64);
    for (device, len) in (1..).zip([64, 128, 4096, 16 << 10, OBJECT_LEN_MAX]) {
        let pool = ObjectPool::open(&segments.device(device), len).unwrap();
        drop(pool.get().unwrap());
        let before = segments.pool().traffic();
        let object = pool.get().unwrap();
        let index = object.index();
        drop(object.commit().unwrap());
        let Traffic { stores, flushes, fences, lines, .. } = segments.pool().traffic() - before;
        assert_eq!((stores, flushes, fences, lines), (1, 1, 1, 1), "{len}");
        let before = segments.pool().traffic();
        pool.release(index).unwrap();
        let Traffic { stores, flushes, fences, lines, .. } = segments.pool().traffic() - before;
        assert_eq!((stores, flushes, fences, lines), (1, 1, 1, 1), "{len}");
    }
}

#[test]
fn a_pool_grows_until_the_file_may_not() {
    let (_folder, path) = folder();
    let segments = create(&path, 4);
    let pool = ObjectPool::open(&segments.device(0), 500 << 10).unwrap();
    let indexes: Vec<_> = (0..12).map(|number| put(&pool, number)).collect();
    assert_eq!(indexes, (0..12).collect::<Vec<_>>());
    let full = pool.get().err().unwrap();
    assert!(matches!(full, Error::Full { .. }), "{full}");
    pool.release(5).unwrap();
    assert_eq!(put(&pool, 50), 5);
    drop((pool, segments));
    let segments = reopen(&path);
    let pool = ObjectPool::open(&segments.device(0), 500 << 10).unwrap();
    for index in 0..12 {
        let expected = if index == 5 { 50 } else { index };
        assert_eq!(stamp(&pool.claim(index).unwrap()), expected);
    }
}

#[test]
fn an_object_has_one_owner() {
    let (_folder, path) = folder();
    let segments = create(&path, 64);
    let pool = ObjectPool::open(&segments.device(0), 128).unwrap();
    let index = put(&pool, 1);
    let claimed = pool.claim(index).unwrap();
    assert!(matches!(pool.claim(index), Err(Error::Pool(halite_pmem::Error::Claimed { .. }))));
    assert!(matches!(pool.release(index), Err(Error::Pool(halite_pmem::Error::Claimed { .. }))));
    assert!(pool.check(index).unwrap());
    drop(claimed);
    pool.release(index).unwrap();
    for nothing in [index, index + 1, u64::MAX, pool.capacity()] {
        assert!(matches!(pool.release(nothing), Err(Error::Damaged { .. })));
        assert!(matches!(pool.claim(nothing), Err(Error::Damaged { .. })));
    }
}

fn opened(path: &Path, device: u16, len: u64) -> Result<u64, Error> {
    Ok(ObjectPool::open(&reopen(path).device(device), len)?.committed()?.len() as u64)
}

#[test]
fn what_is_damaged_or_foreign_is_named() {
    let (_folder, path) = folder();
    let segments = create(&path, 64);
    let pool = ObjectPool::open(&segments.device(3), 256).unwrap();
    put(&pool, 1);
    let zone = CommittedZonePool::new(&segments.device(4)).create(0).unwrap();
    segments.device(5).get(0).unwrap().commit().unwrap();
    let object_at = pool.claim(0).unwrap().offset();
    let segment_at = object_at / SEGMENT * SEGMENT;
    drop((pool, zone, segments));
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    assert_eq!(opened(&path, 3, 256).unwrap(), 1);
    for (device, len) in [(3, 320), (4, 256), (5, 256)] {
        let error = opened(&path, device, len).unwrap_err();
        assert!(matches!(error, Error::NotObjects { .. }), "{error}");
        let message = error.to_string();
        assert!(message.contains(&format!("device {device}, segment 0")), "{message}");
    }
    let segments = reopen(&path);
    for device in [3, 5] {
        let error = CommittedZonePool::new(&segments.device(device)).open(0).err().unwrap();
        assert!(matches!(error, Error::NotObjects { .. }), "{error}");
    }
    let error = CommittedZonePool::new(&segments.device(4)).open(1).err().unwrap();
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
    drop(segments);
    // Each byte of the header's line, without padding, and of the words.
    for at in (0..40).chain([64, 65, 66, 70, 71, 72, 200]) {
        let mut byte = [0];
        file.read_exact_at(&mut byte, segment_at + at).unwrap();
        file.write_all_at(&[byte[0] ^ 0x10], segment_at + at).unwrap();
        let error = opened(&path, 3, 256).unwrap_err();
        let is_named = matches!(error, Error::Damaged { .. } | Error::NotObjects { .. });
        assert!(is_named, "{at}: {error}");
        file.write_all_at(&byte, segment_at + at).unwrap();
    }
    // A zeroed line of words is not taken for free objects.
    let mut line = [0; 64];
    file.read_exact_at(&mut line, segment_at + 128).unwrap();
    file.write_all_at(&[0; 64], segment_at + 128).unwrap();
    assert!(matches!(opened(&path, 3, 256), Err(Error::Damaged { .. })));
    file.write_all_at(&line, segment_at + 128).unwrap();
    assert_eq!(opened(&path, 3, 256).unwrap(), 1);
}

#[test]
fn a_segment_that_is_missing_is_named() {
    let (_folder, path) = folder();
    let segments = create(&path, 64);
    let device = segments.device(3);
    let pool = ObjectPool::open(&device, 1 << 20).unwrap();
    (0..3).for_each(|number| assert_eq!(put(&pool, number), number));
    drop(pool);
    device.release(1).unwrap();
    let error = ObjectPool::open(&device, 1 << 20).err().unwrap();
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
}

#[test]
fn threads_get_different_objects() {
    let (_folder, path) = folder();
    let segments = create(&path, 64);
    let pool = ObjectPool::open(&segments.device(1), 64 << 10).unwrap();
    let kept: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4_u64)
            .map(|thread| {
                let pool = &pool;
                scope.spawn(move || {
                    let mut kept = Vec::new();
                    for number in 0..300 {
                        let index = put(pool, thread << 32 | number);
                        assert_eq!(stamp(&pool.claim(index).unwrap()), thread << 32 | number);
                        if number % 4 == 0 {
                            kept.push(index);
                        } else {
                            pool.release(index).unwrap();
                        }
                    }
                    kept
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let all: BTreeSet<u64> = kept.iter().flatten().copied().collect();
    assert_eq!(all.len(), 300);
    assert_eq!(pool.committed().unwrap(), all.iter().copied().collect::<Vec<_>>());
    assert_eq!(pool.available() + 300, pool.capacity());
}

/// A test's operation on a pool.
#[derive(Debug, Clone)]
enum Step {
    Put,
    Get,
    Forget(usize),
    Commit(usize),
    Release(usize),
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => Just(Step::Put),
        3 => Just(Step::Get),
        1 => any::<usize>().prop_map(Step::Forget),
        2 => any::<usize>().prop_map(Step::Commit),
        4 => any::<usize>().prop_map(Step::Release),
        1 => Just(Step::Reopen),
    ]
}

fn check_model(pool: &ObjectPool, model: &BTreeMap<u64, u64>, got: &[Object<'_>]) {
    let committed = pool.committed().unwrap();
    assert_eq!(committed, model.keys().copied().collect::<Vec<_>>());
    for (&index, &expected) in model {
        assert_eq!(stamp(&pool.claim(index).unwrap()), expected);
    }
    let used = committed.len() + got.len();
    assert_eq!(
        pool.available() + used as u64,
        pool.capacity(),
        "none is lost, none is there twice"
    );
}

/// Takes steps until the pool is to be reopened; returns the number of steps taken.
fn live(device: &Device, len: u64, steps: &[Step], model: &mut BTreeMap<u64, u64>) -> usize {
    let pool = ObjectPool::open(device, len).unwrap();
    let mut got: Vec<Object<'_>> = Vec::new();
    check_model(&pool, model, &got);
    for (number, step) in steps.iter().enumerate() {
        let fresh_stamp = (number as u64) << 8 | 1;
        match *step {
            Step::Put => assert!(model.insert(put(&pool, fresh_stamp), fresh_stamp).is_none()),
            Step::Get => got.push(pool.get().unwrap()),
            Step::Forget(which) if !got.is_empty() => drop(got.swap_remove(which % got.len())),
            Step::Commit(which) if !got.is_empty() => {
                let mut object = got.swap_remove(which % got.len());
                write(&mut object, fresh_stamp);
                assert!(model.insert(object.index(), fresh_stamp).is_none());
                drop(object.commit().unwrap());
            }
            Step::Release(which) if !model.is_empty() => {
                let index = *model.keys().nth(which % model.len()).unwrap();
                model.remove(&index);
                pool.release(index).unwrap();
            }
            Step::Reopen => return number + 1,
            Step::Forget(_) | Step::Commit(_) | Step::Release(_) => {}
        }
        check_model(&pool, model, &got);
    }
    steps.len()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_pool_holds_what_a_map_would(
        steps in prop::collection::vec(step(), 1..80),
        len in prop_oneof![Just(300 << 10), Just(900 << 10)],
    ) {
        let (_folder, path) = folder();
        let mut segments = create(&path, 64);
        let mut model = BTreeMap::new();
        let mut rest = &steps[..];
        while !rest.is_empty() {
            let lived = live(&segments.device(9), len, rest, &mut model);
            rest = &rest[lived..];
            drop(segments);
            segments = reopen(&path);
        }
        live(&segments.device(9), len, &[], &mut model);
    }
}

#[test]
fn a_zone_keeps_what_was_published_without_a_gap() {
    let (_folder, path) = folder();
    let segments = create(&path, 64);
    let zones = CommittedZonePool::new(&segments.device(1));
    let zone = zones.create(3).unwrap();
    assert!(zones.open(3).is_err(), "it is open");
    let publish = |mut grant: halite_pmem::Grant<'_>, byte: u8| {
        let bytes = vec![byte; grant.len() as usize];
        let [proof] = segments.pool().fence([grant.write_stream(0, &bytes)]).unwrap();
        grant.publish(&proof);
    };
    assert_eq!(zone.commit().unwrap(), 0);
    let (first, second) = (zone.get(64).unwrap(), zone.get(128).unwrap());
    publish(second, 2);
    assert_eq!(zone.commit().unwrap(), 0, "there is a gap");
    publish(first, 1);
    let before = segments.pool().traffic();
    assert_eq!(zone.commit().unwrap(), 192);
    let cost = segments.pool().traffic() - before;
    assert_eq!((cost.flushes, cost.fences, cost.lines), (1, 1, 1));
    publish(zone.get(64).unwrap(), 3);
    assert!(zone.get(COMMITTED_ZONE_LEN).is_none());
    assert_eq!(zone.remaining(), COMMITTED_ZONE_LEN - 256);
    drop((zone, zones, segments));

    let segments = reopen(&path);
    let zones = CommittedZonePool::new(&segments.device(1));
    assert_eq!(zones.numbers(), [3]);
    let zone = zones.open(3).unwrap();
    assert_eq!(zone.number(), 3);
    let expected = [[1; 64].as_slice(), &[2; 128]].concat();
    assert_eq!(zone.published().bytes(), expected, "the last was not committed");
    let reading = zone.published().pin(0..64).unwrap();
    drop(zone);
    assert!(zones.release(3).is_err(), "somebody reads in it");
    drop(reading);
    zones.release(3).unwrap();
    assert!(zones.numbers().is_empty());
    assert_eq!(zones.create(3).unwrap().published().len(), 0);
}

#[test]
fn a_zone_with_a_damaged_end_is_named() {
    let (_folder, path) = folder();
    let segments = create(&path, 64);
    drop(CommittedZonePool::new(&segments.device(1)).create(0).unwrap());
    let at = segments.device(1).claim(0, 0, 64).unwrap().offset() + 64;
    drop(segments);
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    for end in [0, 64 << 16, u64::MAX] {
        file.write_all_at(&end.to_le_bytes(), at).unwrap();
        let error = CommittedZonePool::new(&reopen(&path).device(1)).open(0).err().unwrap();
        assert!(matches!(error, Error::Damaged { .. }), "{error}");
    }
}

#[test]
fn an_allocator_gives_what_is_asked_for_and_finds_it_again() {
    let (_folder, path) = folder();
    let segments = create(&path, 64);
    let halloc = Halloc::open(&segments, 1).unwrap();
    let mut model = BTreeMap::new();
    for len in (0..=HALLOC_LEN_MAX).step_by(97).chain([1, 128, 129, HALLOC_LEN_MAX]) {
        let mut allocation = halloc.get(len).unwrap().unwrap();
        let got = allocation.bytes().len();
        assert!(got >= len.max(1), "{len}");
        assert!(len < 256 || (got - len) * 5 <= got, "{len} wastes more than a fifth of {got}");
        write(allocation.bytes(), len);
        let address = allocation.address();
        drop(allocation.commit().unwrap());
        assert!(halloc.check(address).unwrap());
        assert!(model.insert(address, len).is_none());
    }
    assert!(halloc.get(HALLOC_LEN_MAX + 1).unwrap().is_none());
    drop(halloc.get(500).unwrap());
    let (&released, _) = model.iter().nth(50).unwrap();
    model.remove(&released);
    halloc.release(released).unwrap();
    let zone = halloc.zones().create(0).unwrap();
    let volatile = halloc.scratch().get(SEGMENT).unwrap();
    let available = segments.available();
    drop((zone, volatile, halloc, segments));
    let segments = reopen(&path);
    let halloc = Halloc::open(&segments, 1).unwrap();
    assert_eq!(halloc.committed().unwrap(), model.keys().copied().collect::<Vec<_>>());
    assert_eq!(halloc.zones().numbers(), [0]);
    assert_eq!(segments.available(), available + 1, "volatile memory is free again");
    for (&address, &len) in &model {
        assert_eq!(stamp(&halloc.claim(address).unwrap()), len);
    }
    for nothing in [released, Address(u64::MAX), Address(27 << 56), Address(255 << 56 | 1)] {
        assert!(!halloc.check(nothing).unwrap());
        assert!(matches!(halloc.claim(nothing), Err(Error::Damaged { .. })));
        assert!(matches!(halloc.release(nothing), Err(Error::Damaged { .. })));
    }
}

#[test]
fn volatile_memory_is_cut_from_zones_that_are_free_when_all_of_it_is() {
    let (_folder, path) = folder();
    let segments = create(&path, 8);
    let available = segments.available();
    let device = segments.device(2);
    let memory = ScratchPool::new(&device).unwrap();
    let parts: Vec<_> = (0..5).map(|_| memory.get(512 << 10).unwrap()).collect();
    let page = memory.get(SEGMENT).unwrap();
    let small = memory.get(64).unwrap();
    assert_eq!(segments.available(), available - 3);
    assert!(page.address().addr().get().is_multiple_of(SEGMENT as usize));
    let mut ranges: Vec<_> = parts.iter().chain([&page, &small]).collect();
    ranges.sort_by_key(|range| range.address());
    for pair in ranges.windows(2) {
        let end = pair[0].address().addr().get() + pair[0].len();
        assert!(end <= pair[1].address().addr().get(), "ranges overlap");
    }
    let mut parts = parts.into_iter();
    drop(parts.next());
    assert_eq!(segments.available(), available - 3, "others are in its zone");
    drop(parts.by_ref().take(3).collect::<Vec<_>>());
    assert_eq!(segments.available(), available - 2, "the first zone is free");
    drop(memory);
    drop((parts, small));
    assert_eq!(segments.available(), available - 1);
    let keeps = page.kept_by(String::from("anything")).kept_by(7);
    drop((segments, device));
    assert_eq!(keeps.len() as u64, SEGMENT);
    drop(keeps);
    let segments = reopen(&path);
    assert_eq!(segments.available(), 63, "nothing of it was committed");
}

#[test]
fn zones_that_can_be_spared_are_free_ones_beyond_those_of_others() {
    let (_folder, path) = folder();
    let segments = create(&path, 8);
    let available = segments.available();
    let memory = ScratchPool::new(&segments.device(2)).unwrap();
    let get = || memory.get_spare(1).unwrap();
    while segments.free() < 2 {
        drop([memory.get(SEGMENT), memory.get(SEGMENT)]);
    }
    let len = segments.pool().len();
    let zones: Vec<_> = std::iter::from_fn(get).collect();
    assert_eq!((segments.free(), segments.pool().len()), (1, len), "the pool does not grow for it");
    let zone = zones.into_iter().next().expect("there was one to spare");
    let mut grant = zone.appender().grant(128).unwrap();
    grant.write(64, &[7; 64]);
    grant.reveal();
    assert_eq!(zone.appender().published().read(64..128), Some(&[7; 64][..]));
    drop(zone);
    assert_eq!(segments.available(), available);
    drop((memory, segments));
    assert_eq!(reopen(&path).available(), 63, "nothing of it was committed");
}

#[test]
fn a_pool_without_room_for_volatile_memory_says_so() {
    let (_folder, path) = folder();
    let segments = create(&path, 4);
    let memory = ScratchPool::new(&segments.device(2)).unwrap();
    let ranges: Vec<_> = (0..3).map(|_| memory.get(SEGMENT).unwrap()).collect();
    for len in [64, SEGMENT] {
        let full = memory.get(len).unwrap_err();
        assert!(matches!(full, Error::Full { .. }), "{full}");
    }
    drop(ranges);
    memory.get(SEGMENT).unwrap();
    segments.device(3).get(1).unwrap().commit().unwrap();
    let error = ScratchPool::new(&segments.device(3)).err().unwrap();
    assert!(matches!(error, Error::NotObjects { .. }), "{error}");
}

#[test]
fn threads_share_volatile_memory() {
    let (_folder, path) = folder();
    let segments = create(&path, 64);
    let available = segments.available();
    let memory = ScratchPool::new(&segments.device(2)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let memory = &memory;
            scope.spawn(move || {
                let mut kept = Vec::new();
                for number in 0..200 {
                    kept.push(memory.get(64 << 10 << (number % 6)).unwrap());
                    if number % 7 == thread {
                        kept.clear();
                    }
                }
            });
        }
    });
    drop(memory);
    assert_eq!(segments.available(), available);
}

//! A log on a pool gives back what was appended, names damage, and keeps its room.

use std::collections::BTreeMap;
use std::sync::Arc;

use halite_alloc::{Device, Segments};
use halite_pmem::PoolOptions;
use halite_wal::pool_log::{PoolFound, PoolKnown, PoolLog, PoolShape};
use halite_wal::{Error, Identity, Stopped};
use proptest::prelude::*;

const IDENTITY: Identity = Identity { store_id: 7, sequence_max: 1 << 40 };
const SMALL: PoolShape = PoolShape { segment_bytes: 1024, spare: 1, kept: 3 };

fn pool(bytes_max: u64) -> Arc<Segments> {
    let mut options = PoolOptions::default();
    (options.in_memory, options.size_max) = (true, bytes_max);
    Segments::create("memory".as_ref(), &options).unwrap()
}

/// The batches of a log, by the sequence of their first record.
type Batches = BTreeMap<u64, (u32, Vec<u8>)>;

fn read(device: &Device, known: PoolKnown, shape: PoolShape) -> (PoolFound, Batches) {
    let mut batches = Batches::new();
    let found = PoolFound::read(device, IDENTITY, known, shape, |batch| {
        let payload = batch.payload.to_vec();
        assert_eq!(payload.len(), batch.place.len as usize);
        batches.insert(batch.sequence, (batch.records, payload));
        Ok::<(), ()>(())
    });
    match found {
        Ok(found) => (found, batches),
        Err(Stopped::Log(error)) => panic!("{error}"),
        Err(Stopped::Replay(())) => unreachable!("the replay has no errors"),
    }
}

fn open(device: &Device, known: PoolKnown, shape: PoolShape) -> (PoolLog, Batches) {
    let (found, batches) = read(device, known, shape);
    (PoolLog::open(found).unwrap(), batches)
}

fn payload(sequence: u64, len: usize) -> Vec<u8> {
    (0..len).map(|at| (sequence as usize * 31 + at * 7 + (at >> 8)) as u8).collect()
}

fn append(log: &PoolLog, sequence: u64, records: u32, len: usize, waits: bool) -> Vec<u8> {
    let bytes = payload(sequence, len);
    log.grow(len, 0).unwrap();
    let place = log.append(sequence, records, waits, |to| to.extend_from_slice(&bytes)).unwrap();
    assert_eq!(log.read(place).as_ref(), Some(&bytes));
    match log.pin(place) {
        Some(pinned) => assert_eq!(*pinned, *bytes),
        None => assert!(log.pieces(place).count() != 1),
    }
    bytes
}

#[derive(Clone, Debug)]
enum Step {
    Append {
        records: u32,
        len: usize,
        waits: bool,
    },
    Sync,
    /// Everything so far is checkpointed, and the log trimmed.
    Checkpoint,
    /// The log is closed, or the process ends, and it is opened again.
    Reopen {
        closes: bool,
    },
    Grow {
        left: usize,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let len = prop_oneof![4 => 0..200_usize, 2 => 800..1100_usize, 1 => 1100..5000_usize];
    let append = (1..4_u32, len, any::<bool>());
    let append = append.prop_map(|(records, len, waits)| Step::Append { records, len, waits });
    let step = prop_oneof![
        10 => append,
        1 => Just(Step::Sync),
        2 => Just(Step::Checkpoint),
        2 => any::<bool>().prop_map(|closes| Step::Reopen { closes }),
        1 => (0..4_usize).prop_map(|left| Step::Grow { left }),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_log_gives_back_its_batches_from_the_last_checkpoint_on(steps in steps()) {
        let segments = pool(1 << 30);
        let device = segments.device(3);
        let (mut known, mut model, mut next) = (PoolKnown::default(), Batches::new(), 1);
        let (mut log, _) = open(&device, known, SMALL);
        for step in steps {
            match step {
                Step::Append { records, len, waits } => {
                    let bytes = append(&log, next, records, len, waits);
                    model.insert(next, (records, bytes));
                    next += u64::from(records);
                    prop_assert_eq!(log.next(), next);
                    prop_assert!(!waits || log.durable() == next);
                }
                Step::Sync => {
                    log.sync().unwrap();
                    prop_assert_eq!(log.durable(), log.next());
                }
                Step::Checkpoint => {
                    log.sync().unwrap();
                    known = PoolKnown { first: log.end().0, sequence: next, end: (0, 0) };
                    log.release(known.first).unwrap();
                    model.clear();
                    prop_assert_eq!(log.bytes().0, SMALL.segment_bytes);
                    prop_assert!(log.bytes().1 <= device.logical_segments().len() as u64 * 1024);
                }
                Step::Reopen { closes } => {
                    if closes {
                        known.end = log.close().unwrap();
                    }
                    drop(log);
                    let found;
                    (log, found) = open(&device, known, SMALL);
                    known.end = (0, 0);
                    let needed: Batches = found.into_iter().filter(|(at, _)| *at >= known.sequence).collect();
                    prop_assert_eq!(&needed, &model);
                    prop_assert!(log.next() == next || model.is_empty() && log.next() == 0);
                }
                Step::Grow { left } => {
                    log.grow(0, left).unwrap();
                    prop_assert!(!log.lacks(0, left));
                }
            }
        }
        log.close().unwrap();
        let held = device.logical_segments().len();
        drop(log);
        let (log, _) = open(&device, known, SMALL);
        prop_assert!(device.logical_segments().len() <= held);
        prop_assert!(log.bytes().1 / 1024 <= SMALL.spare as u64);
    }
}

/// A log of some segments; returns its batches, and where it ended.
fn written(device: &Device) -> (Batches, (u32, u64)) {
    let mut model = Batches::new();
    let (mut log, _) = open(device, PoolKnown::default(), SMALL);
    let mut next = 1;
    for (round, len) in [30, 500, 600, 1500, 0, 2600, 100, 40].into_iter().enumerate() {
        if round == 6 {
            log.sync().unwrap();
            drop(log);
            (log, _) = open(device, PoolKnown::default(), SMALL);
        }
        let bytes = append(&log, next, 2, len, round % 3 != 1);
        model.insert(next, (2, bytes));
        next += 2;
    }
    log.sync().unwrap();
    (model, log.end())
}

#[test]
fn a_damaged_byte_is_named_or_takes_the_batches_of_the_last_fence_alone() {
    let segments = pool(64 << 20);
    let device = segments.device(3);
    let (model, (last, end)) = written(&device);
    let (_, whole) = read(&device, PoolKnown::default(), SMALL);
    assert_eq!(whole, model);
    let (mut named, mut right, mut short) = (0, 0, 0);
    for segment in 1..=last {
        let bytes = if segment == last { end } else { SMALL.segment_bytes };
        for at in 0..bytes {
            let flip = || {
                let mut space = device.claim(segment, at, 1).unwrap();
                let byte = space.bytes()[0] ^ 1 << (at % 8);
                space.write(0, &[byte]);
            };
            flip();
            let (found, batches) = read(&device, PoolKnown::default(), SMALL);
            let is_prefix = batches.iter().all(|(at, batch)| model.get(at) == Some(batch))
                && batches.keys().eq(model.keys().take(batches.len()));
            assert!(is_prefix, "wrong data: byte {at} of segment {segment}");
            let broken = found.broken().cloned();
            drop(found);
            match broken {
                Some(Error::Damaged { .. }) => named += 1,
                Some(error) => panic!("{error}"),
                None if batches.len() == model.len() => right += 1,
                None => {
                    // The last batch, durable by its own fence.
                    assert_eq!(batches.len(), model.len() - 1, "byte {at} of segment {segment}");
                    short += 1;
                    let known = PoolKnown { end: (last, end), ..PoolKnown::default() };
                    let (found, _) = read(&device, known, SMALL);
                    assert!(matches!(found.broken(), Some(Error::Damaged { .. })), "it was closed");
                }
            }
            flip();
        }
    }
    assert!(named > 5000 && right > 100 && short > 50, "{named} {right} {short}");
}

#[test]
fn a_missing_segment_is_named() {
    for gone in 1..=4 {
        let segments = pool(64 << 20);
        let device = segments.device(3);
        let (_, (last, _)) = written(&device);
        assert!(last > 4);
        device.release(gone).unwrap();
        let known = PoolKnown { first: 1, ..PoolKnown::default() };
        let (found, _) = read(&device, known, SMALL);
        assert!(matches!(found.broken(), Some(Error::Missing { .. })), "{:?}", found.broken());
        assert!(PoolLog::open(found).is_err());
    }
}

#[test]
fn another_store_and_an_impossible_sequence_are_refused() {
    let segments = pool(64 << 20);
    let device = segments.device(3);
    written(&device);
    for identity in [Identity { store_id: 8, ..IDENTITY }, Identity { sequence_max: 5, ..IDENTITY }]
    {
        let found =
            PoolFound::read(&device, identity, PoolKnown::default(), SMALL, |_| Ok::<(), ()>(()));
        let Ok(found) = found else { panic!("it is found") };
        assert!(matches!(found.broken(), Some(Error::Damaged { .. })));
    }
}

#[test]
fn an_append_waits_for_one_fence_and_writes_its_lines_back() {
    let segments = pool_of_tmpfs();
    let device = segments.1.device(3);
    let (log, _) = open(&device, PoolKnown::default(), PoolShape::default());
    log.grow(0, 2).unwrap();
    let pool = segments.1.pool();
    let mut next = 1;
    let mut costs = |len: usize, waits| {
        let before = pool.traffic();
        log.append(next, 1, waits, |to| to.extend(vec![7; len])).unwrap();
        next += 1;
        let after = pool.traffic();
        (after.lines - before.lines, after.fences - before.fences)
    };
    assert_eq!([costs(32, true), costs(33, true), costs(1000, true)], [(1, 1), (2, 1), (17, 1)]);
    assert_eq!([costs(1000, false), costs(100, true)], [(0, 0), (17 + 3, 1)]);
    assert_eq!(costs(1000, false), (0, 0));
    let before = pool.traffic();
    log.sync().unwrap();
    log.sync().unwrap();
    let after = pool.traffic();
    assert_eq!((after.lines - before.lines, after.fences - before.fences), (17, 1));
    // A long batch: the headers of two frames and of a segment, and a salt.
    let len = 3 << 20;
    assert_eq!(costs(len, true), (len as u64 / 64 + 3, 1));
}

/// A pool whose lines are counted, and the folder that it lies in.
fn pool_of_tmpfs() -> (tempfile::TempDir, Arc<Segments>) {
    let folder = tempfile::tempdir().unwrap();
    let mut options = PoolOptions::default();
    options.assume_domain = Some(halite_pmem::Domain::Memory);
    options.size_max = 64 << 20;
    let segments = Segments::create(&folder.path().join("pool"), &options).unwrap();
    (folder, segments)
}

#[test]
fn in_a_full_pool_a_placed_batch_is_appended_and_the_spare_segments_are_left_for_removals() {
    // The segment of the table, and six more.
    let segments = pool(14 << 20);
    let device = segments.device(3);
    let (log, _) = open(&device, PoolKnown::default(), SMALL);
    let mut next = 1;
    let refused = loop {
        match log.grow(860, log.spare()) {
            Ok(()) => {}
            Err(error) => break error,
        }
        log.append(next, 1, true, |to| to.extend(vec![1; 860])).unwrap();
        next += 1;
    };
    assert!(matches!(refused, Error::NoSegment(_)), "{refused}");
    assert_eq!((next, log.missing_spare()), (6, 0));
    log.grow(860, 0).unwrap();
    log.append(next, 1, true, |to| to.extend(vec![1; 860])).unwrap();
    assert_eq!(log.missing_spare(), 1);
    log.release(log.end().0).unwrap();
    assert_eq!((log.missing_spare(), segments.free()), (0, 2));
}

#[test]
fn pinned_bytes_outlive_the_release_of_their_segment() {
    let segments = pool(64 << 20);
    let device = segments.device(3);
    let (log, _) = open(&device, PoolKnown::default(), SMALL);
    log.grow(860, 0).unwrap();
    let place = log.append(1, 1, true, |to| to.extend(vec![5; 700])).unwrap();
    let pinned = log.pin(place).unwrap();
    for sequence in 2..9 {
        append(&log, sequence, 1, 900, true);
    }
    log.release(log.end().0).unwrap();
    assert!(log.pin(place).is_none() && log.read(place).is_none());
    for sequence in 9..20 {
        append(&log, sequence, 1, 900, true);
        log.release(log.end().0).unwrap();
    }
    assert!(device.logical_segments().contains(&1));
    assert_eq!(*pinned, [5; 700]);
    drop(pinned);
    log.release(log.end().0).unwrap();
    assert!(!device.logical_segments().contains(&1));
}

#[test]
fn a_log_goes_on_behind_a_checkpoint_that_has_more_records_than_the_log() {
    let segments = pool(64 << 20);
    let device = segments.device(3);
    let (model, _) = written(&device);
    let known = PoolKnown { first: 1, sequence: 100, end: (0, 0) };
    let (log, _) = open(&device, known, SMALL);
    assert_eq!((log.next(), log.durable()), (100, 100));
    let bytes = append(&log, 100, 1, 70, true);
    drop(log);
    let (log, mut batches) = open(&device, known, SMALL);
    assert_eq!((log.next(), batches.remove(&100)), (101, Some((1, bytes))));
    assert_eq!(batches, model);
}

#[test]
fn readers_see_whole_batches_while_threads_append_in_turns() {
    let segments = pool(256 << 20);
    let device = segments.device(3);
    let (log, _) = open(&device, PoolKnown::default(), SMALL);
    let turn = std::sync::Mutex::new((1_u64, Vec::new()));
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (log, turn) = (&log, &turn);
            scope.spawn(move || {
                for round in 0..40 {
                    let mut turn = turn.lock().unwrap();
                    let (sequence, len) = (turn.0, (thread * 100 + round * 17) % 900);
                    log.grow(len, 0).unwrap();
                    let bytes = payload(sequence, len);
                    let append = |to: &mut Vec<u8>| to.extend_from_slice(&bytes);
                    let place = log.append(sequence, 1, round % 4 == 0, append).unwrap();
                    turn.0 += 1;
                    turn.1.push((sequence, place));
                    let seen = turn.1.clone();
                    drop(turn);
                    if round % 5 == 0 {
                        log.sync().unwrap();
                        assert!(log.durable() > sequence);
                    }
                    for (sequence, place) in seen {
                        assert_eq!(log.read(place), Some(payload(sequence, place.len as usize)));
                    }
                }
            });
        }
    });
    assert_eq!(log.next(), 121);
}

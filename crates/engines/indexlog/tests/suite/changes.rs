//! The change log, read as a stream.

use std::path::Path;

use crate::power::Power;
use halite_contract::conformance::temporary_folder;
use halite_contract::{
    Change, ChangeFeed, ChangeOp, Durability, Engine, EngineOptions, Error, IndexSnapshots,
    KeySpaceId, Op, Partitioned, Partitioning, WriteBatch,
};
use halite_indexlog::{IndexLog, IndexLogOptions};
use halite_pmem::{Medium, PoolOptions};

const RETAIN: u64 = 64 << 20;

fn options(folder: &Path, change_log: Option<u64>) -> EngineOptions {
    let mut pool_options = PoolOptions::default();
    pool_options.size_max = 256 << 20;
    EngineOptions { pool_options, change_log, ..EngineOptions::new(folder.join("pool")) }
}

fn open(folder: &Path) -> IndexLog {
    IndexLog::open(&options(folder, Some(RETAIN))).unwrap()
}

fn read(engine: &IndexLog, partition: usize, from: u64) -> Vec<Change> {
    engine.changes(partition, from).unwrap().collect::<Result<_, _>>().unwrap()
}

fn put(engine: &IndexLog, space: KeySpaceId, key: &[u8], value: &[u8]) {
    engine.write(&[Op::Put { space, key, value }], Durability::Immediate).unwrap();
}

#[test]
fn changes_come_in_order_and_positions_survive_reopening() {
    let folder = temporary_folder();
    let engine = open(folder.path());
    let space = engine.key_space("one").unwrap();
    put(&engine, space, b"a", b"1");
    let mut batch = WriteBatch::new();
    batch.put(space, b"b", b"2");
    batch.delete(space, b"a");
    batch.delete_prefix(space, b"b");
    engine.write(&batch.ops(), Durability::Immediate).unwrap();

    let (a, b) = (b"a".to_vec(), b"b".to_vec());
    let made = ChangeOp::CreateKeySpace { space, name: "one".to_owned() };
    let expected = vec![
        Change { position: 2, ops: vec![made] },
        Change {
            position: 3,
            ops: vec![ChangeOp::Put { space, key: a.clone(), value: b"1".to_vec() }],
        },
        Change {
            position: 6,
            ops: vec![
                ChangeOp::Put { space, key: b.clone(), value: b"2".to_vec() },
                ChangeOp::Delete { space, key: a },
                ChangeOp::DeleteRange { space, start: b, end: Some(b"c".to_vec()) },
            ],
        },
    ];
    assert_eq!(read(&engine, 0, 0), expected);
    assert_eq!(read(&engine, 0, 3), expected[2..]);
    assert_eq!(engine.change_positions(0).unwrap(), 1..6);
    assert!(matches!(
        engine.changes(0, 7).map(drop),
        Err(Error::NoChangePosition { position: 7, end: 6, .. })
    ));
    let inside = engine.changes(0, 4).unwrap().next();
    assert!(matches!(inside, Some(Err(Error::NoChangePosition { position: 4, .. }))));

    // A write that is not durable yet does not show; then the same reader goes on.
    let mut reader = engine.changes(0, 6).unwrap();
    assert!(reader.next().is_none());
    engine.write(&[Op::Put { space, key: b"c", value: b"3" }], Durability::Deferred).unwrap();
    assert!(reader.next().is_none());
    engine.sync().unwrap();
    assert_eq!(reader.next().unwrap().unwrap().position, 7);
    assert!(reader.next().is_none());

    drop((reader, engine));
    for _ in 0..3 {
        let engine = open(folder.path());
        assert_eq!(read(&engine, 0, 0)[..3], expected);
        let end = engine.change_positions(0).unwrap().end;
        put(&engine, space, b"d", b"4");
        assert_eq!(read(&engine, 0, end).len(), 1, "the log goes on where it ended");
    }
    engine_verifies(&open(folder.path()));
}

fn engine_verifies(engine: &IndexLog) {
    let report = engine.verify(&mut |_, _| std::ops::ControlFlow::Continue(())).unwrap();
    assert!(report.damage.is_empty() && report.complete, "{report:?}");
}

#[test]
fn a_batch_longer_than_a_segment_is_one_change() {
    let folder = temporary_folder();
    let engine = open(folder.path());
    let space = engine.key_space("one").unwrap();
    let value = |nth: u32| vec![nth as u8; 2_000];
    let mut batch = WriteBatch::new();
    (0..4000_u32).for_each(|nth| batch.put(space, &nth.to_be_bytes(), &value(nth)));
    for durability in [Durability::Immediate, Durability::Deferred] {
        engine.write(&batch.ops(), durability).unwrap();
    }
    engine.sync().unwrap();
    let check = |engine: &IndexLog| {
        let changes = read(engine, 0, 2);
        assert_eq!(changes.len(), 2);
        for change in &changes {
            assert_eq!(change.ops.len(), 4000);
            for (nth, op) in (0_u32..).zip(&change.ops) {
                let expected =
                    ChangeOp::Put { space, key: nth.to_be_bytes().to_vec(), value: value(nth) };
                assert!(*op == expected, "operation {nth}");
            }
        }
    };
    check(&engine);
    drop(engine);
    check(&open(folder.path()));
}

#[test]
fn a_large_value_is_read_while_it_is_there() {
    let folder = temporary_folder();
    let engine = open(folder.path());
    let space = engine.key_space("one").unwrap();
    let large = vec![7; 3 << 20];
    put(&engine, space, b"a", &large);
    let log = engine.stats().figure("change_log_bytes").unwrap();
    assert!(log <= 4 << 20, "the value is in the log, which takes {log} bytes");
    let expected = ChangeOp::Put { space, key: b"a".to_vec(), value: large };
    assert!(read(&engine, 0, 2)[0].ops == [expected]);
    put(&engine, space, b"a", b"small");
    // Until the blocks are used for something else.
    for nth in 0..120_u8 {
        put(&engine, space, b"b", &vec![nth; 3 << 20]);
    }
    let gone = ChangeOp::Superseded { space, key: b"a".to_vec() };
    assert!(read(&engine, 0, 2)[0].ops == [gone]);
}

#[test]
fn released_positions_are_named() {
    let folder = temporary_folder();
    let retaining = |bytes| IndexLog::open(&options(folder.path(), Some(bytes))).unwrap();
    let engine = retaining(4 << 20);
    let space = engine.key_space("one").unwrap();
    for nth in 0..10_000_u32 {
        put(&engine, space, &nth.to_be_bytes(), &[1; 2_000]);
    }
    let oldest = engine.change_positions(0).unwrap().start;
    assert!((5_000..8_500).contains(&oldest), "the oldest of 10000 that is kept is {oldest}");
    let released = engine.changes(0, 1).map(drop);
    assert!(
        matches!(released, Err(Error::ChangesReleased { position: 1, oldest: o, .. }) if o == oldest)
    );
    assert_eq!(read(&engine, 0, oldest).len() as u64, 10_002 - oldest);
    // A reader that is overtaken is told, too.
    let mut reader = engine.changes(0, oldest).unwrap();
    reader.next().unwrap().unwrap();
    for nth in 0..10_000_u32 {
        put(&engine, space, &nth.to_be_bytes(), &[2; 2_000]);
    }
    assert!(matches!(reader.next(), Some(Err(Error::ChangesReleased { .. }))));
    drop((reader, engine));
    // Another number of bytes counts from then on.
    let engine = retaining(0);
    (0..2_500_u32).for_each(|nth| put(&engine, space, &nth.to_be_bytes(), &[3; 2_000]));
    assert!(engine.stats().figure("change_log_bytes").unwrap() <= 6 << 20);
}

#[test]
fn only_a_new_store_is_given_a_change_log() {
    let folder = temporary_folder();
    let engine = IndexLog::open(&options(folder.path(), None)).unwrap();
    assert!(matches!(engine.changes(0, 0).map(drop), Err(Error::NoChangeLog)));
    assert!(matches!(engine.change_positions(0), Err(Error::NoChangeLog)));
    drop(engine);
    let given = IndexLog::open(&options(folder.path(), Some(0)));
    let refused = given.map(drop).expect_err("a change log");
    let refused = halite_indexlog::Error::of(&refused);
    assert!(matches!(refused, Some(halite_indexlog::Error::ChangeLogAtCreation)));

    let other = temporary_folder();
    drop(open(other.path()));
    let engine = IndexLog::open(&options(other.path(), None)).unwrap();
    assert!(engine.changes(0, 0).is_ok(), "it has one without being asked");
}

#[test]
fn every_partition_has_its_changes() {
    let folder = temporary_folder();
    let mut options = options(folder.path(), Some(RETAIN));
    options.partitioning = Some(Partitioning::Hash(3));
    let engine = IndexLog::open(&options).unwrap();
    let space = engine.key_space("one").unwrap();
    let mut batch = WriteBatch::new();
    (0..90_u8).for_each(|nth| batch.put(space, &[nth], &[nth]));
    engine.write(&batch.ops(), Durability::Immediate).unwrap();
    let mut seen = Vec::new();
    for partition in 0..3 {
        for change in read(&engine, partition, 0) {
            for op in change.ops {
                if let ChangeOp::Put { key, .. } = op {
                    assert_eq!(engine.partition_of(&key), partition);
                    seen.push(key[0]);
                }
            }
        }
    }
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..90));
}

#[test]
fn a_full_store_deletes_while_other_partitions_take_what_is_freed() {
    let folder = temporary_folder();
    let mut options = options(folder.path(), Some(0));
    options.pool_options.size_max = 40 << 20;
    options.partitioning = Some(Partitioning::Hash(3));
    let engine = IndexLog::open(&options).unwrap();
    let space = engine.key_space("one").unwrap();
    let put = |number: u32| {
        let op = Op::Put { space, key: &number.to_be_bytes(), value: &[1; 40] };
        engine.write(&[op], Durability::Deferred)
    };
    let mut keys = Vec::new();
    let mut refused = [0; 3];
    for number in 0.. {
        match put(number) {
            Ok(()) => keys.push(number),
            Err(Error::Full { .. }) => refused[engine.partition_of(&number.to_be_bytes())] += 1,
            Err(error) => panic!("{error}"),
        }
        if refused.iter().all(|&refused| refused > 50) {
            break;
        }
    }
    // A delete of one takes an entry of its change log, and all of them take many segments.
    for (nth, number) in keys.iter().enumerate() {
        let op = Op::Delete { space, key: &number.to_be_bytes() };
        engine.write(&[op], Durability::Deferred).unwrap();
        // Puts take the freed space again, as long as there are more keys to delete.
        if nth % 3 > 0 && matches!(put(u32::MAX - nth as u32), Ok(())) {
            let op =
                Op::Put { space, key: &(u32::MAX - nth as u32).to_be_bytes(), value: &[2; 40] };
            let _ = engine.write(&[op], Durability::Deferred);
        }
    }
    for partition in 0..3 {
        assert!(engine.change_positions(partition).unwrap().start > 1, "none of its segments went");
    }
    drop(engine);
    let engine = IndexLog::open(&options).unwrap();
    assert!(keys.iter().all(|key| engine.get(space, &key.to_be_bytes()).unwrap().is_none()));
}

/// Options for a store on a medium whose power may be cut.
fn options_on(medium: &Medium, change_log: u64) -> EngineOptions {
    let mut pool_options = PoolOptions::default();
    pool_options.size_max = medium.capacity();
    pool_options.medium = Some(medium.clone());
    EngineOptions { pool_options, change_log: Some(change_log), ..EngineOptions::new("pool") }
}

/// Segments of 2 MiB fill up with entries that no sync has reached, behind one that ends at the last synced entry.
#[test]
fn the_log_never_gives_up_its_last_durable_entry() {
    let begin = || {
        let power = Power::new(32 << 20, |_| false);
        let engine = IndexLog::open(&options_on(&power.medium, 1)).unwrap();
        let space = engine.key_space("one").unwrap();
        (power, engine, space)
    };
    let write = |engine: &IndexLog, space, number: u32| {
        // Nothing dies: a collection would make everything durable.
        let op = Op::Put { space, key: &number.to_be_bytes(), value: &[1; 2_000] };
        engine.write(&[op], Durability::Deferred).unwrap();
    };
    // A log begins with two segments. With this write it enters a third.
    let (_power, engine, space) = begin();
    let before = engine.stats().figure("change_log_bytes").unwrap();
    let entering = (0..).find(|&number| {
        write(&engine, space, number);
        engine.stats().figure("change_log_bytes").unwrap() > before
    });
    let entering = entering.unwrap();
    assert!(entering > 1_500, "two segments have {entering} entries");
    for durable in entering - 3..entering + 2 {
        let (mut power, engine, space) = begin();
        for number in 0..=durable {
            write(&engine, space, number);
        }
        engine.sync().unwrap();
        let end = engine.change_positions(0).unwrap().end;
        // More than a segment, and fewer bytes than make a write sync by itself.
        for number in 1..entering * 3 / 4 {
            write(&engine, space, durable + number);
            let positions = engine.change_positions(0).unwrap();
            assert!(positions.start <= positions.end, "{positions:?}, synced at {durable}");
        }
        assert_eq!(engine.change_positions(0).unwrap().end, end, "nothing else is durable");
        let left = power.cut();
        let left = IndexLog::open(&options_on(&left, 1));
        let left = left.unwrap_or_else(|error| panic!("{error}, synced at {durable}"));
        let found = left.get(space, &durable.to_be_bytes()).unwrap();
        assert!(found.is_some(), "what was synced at {durable} is lost");
        assert!(left.change_positions(0).unwrap().end >= end, "its changes are lost");
        let changes = read(&left, 0, end - 1);
        assert_eq!(changes.first().map(|change| change.position), Some(end));
    }
}

/// A power cut takes the records that were not fenced; all of their entries happen to be durable.
#[test]
fn a_full_store_replays_its_records_wherever_the_power_is_cut() {
    for (len_max, batch_max, partitions) in [
        (900, 2_000, 1),
        (9_000, 60, 1),
        (30_000, 140, 1),
        (20_000, 200, 2),
        (100_000, 20, 1),
        (400_000, 5, 2),
    ] {
        // Large values, too: without them the log would end before the records that refer to them.
        let mut power = Power::new(30 << 20, |site| {
            ["change_log.rs", "overflow.rs"].iter().any(|file| site.file().ends_with(file))
        });
        let options = |medium: &Medium| {
            let partitioning = Some(Partitioning::Hash(partitions));
            EngineOptions { partitioning, ..options_on(medium, 0) }
        };
        let engine = IndexLog::open(&options(&power.medium)).unwrap();
        let space = engine.key_space("one").unwrap();
        let value = |number: u32| vec![number as u8; (number as usize * 7919) % len_max];
        let check = |power: &mut Power, keys: std::ops::Range<u32>| {
            let left = power.cut();
            let left = IndexLog::open(&options(&left));
            let left = left.unwrap_or_else(|error| panic!("{error}, values up to {len_max}"));
            for number in keys.clone() {
                let found = left.get(space, &number.to_be_bytes()).unwrap();
                assert!(found.is_some_and(|found| *found == value(number)), "key {number}");
            }
            // It can be emptied.
            for number in keys {
                let op = Op::Delete { space, key: &number.to_be_bytes() };
                left.write(&[op], Durability::Deferred).unwrap();
            }
        };
        let (mut number, mut refused) = (0_u32, 0);
        while refused < 3 {
            // Batches make the records of a block or more wait together.
            let count = if number % 5 == 0 { batch_max } else { 1 };
            let pairs: Vec<_> =
                (number..number + count).map(|at| (at.to_be_bytes(), value(at))).collect();
            let mut batch = WriteBatch::new();
            pairs.iter().for_each(|(key, value)| batch.put(space, key, value));
            match engine.write(&batch.ops(), Durability::Deferred) {
                Ok(()) => number += count,
                Err(Error::Full { .. }) => refused += 1,
                Err(error) => panic!("{error}"),
            }
            power.follow();
            if count > 1 || refused > 0 {
                check(&mut power, 0..number);
            }
        }
        // The reserves for deletes are there, too, when these are replayed.
        for deleted in 0..number {
            let op = Op::Delete { space, key: &deleted.to_be_bytes() };
            engine.write(&[op], Durability::Deferred).unwrap();
            power.follow();
            if deleted % (number / 4) == number / 5 {
                check(&mut power, deleted + 1..number);
            }
        }
    }
}

/// A record that only an entry that is cut off proves durable is proved otherwise before space is used again.
#[test]
fn a_value_may_be_overwritten_though_the_proof_of_its_record_was_cut_off() {
    // Records and changes, and not values.
    let power = Power::new(30 << 20, |site| {
        ["log/tail.rs", "change_log.rs"].iter().any(|file| site.file().ends_with(file))
    });
    let engine = IndexLog::open(&options_on(&power.medium, 0)).unwrap();
    let space = engine.key_space("one").unwrap();
    let put = |engine: &IndexLog, key: &[u8], fill| {
        let op = Op::Put { space, key, value: &[fill; 100_000] };
        engine.write(&[op], Durability::Deferred).unwrap();
    };
    put(&engine, b"dead", 1);
    engine.write(&[Op::Delete { space, key: b"dead" }], Durability::Immediate).unwrap();
    // Its entry says that the others are durable, and is there; its value is not.
    put(&engine, b"torn", 2);
    let mut power = power.cut_and_go_on(|site| site.file().ends_with("overflow.rs"));
    drop(engine);
    let engine = IndexLog::open(&options_on(&power.medium, 0)).unwrap();
    assert!(engine.get(space, b"torn").unwrap().is_none());
    put(&engine, b"where the dead one was", 3);
    let left = power.cut();
    let engine = IndexLog::open(&options_on(&left, 0)).unwrap();
    assert_eq!(engine.key_spaces().unwrap().len(), 1);
}

#[test]
fn a_batch_that_is_refused_leaves_the_log_as_it_was() {
    for partitions in [1, 3] {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let mut options = options(folder.path(), Some(0));
        options.pool_options.size_max = 64 << 20;
        options.partitioning = Some(Partitioning::Hash(partitions));
        let engine = IndexLog::open(&options).unwrap();
        let space = engine.key_space("one").unwrap();
        for number in 0..600_u32 {
            put(&engine, space, &number.to_be_bytes(), &[1; 30_000]);
        }
        let before = engine.stats().figure("change_log_bytes").unwrap();
        let mut batch = WriteBatch::new();
        (0..1_500_u32).for_each(|nth| batch.put(space, &nth.to_be_bytes(), &[2; 30_000]));
        let refused = engine.write(&batch.ops(), Durability::Immediate);
        assert!(matches!(refused, Err(Error::Full { .. })), "{refused:?}");
        let after = engine.stats().figure("change_log_bytes").unwrap();
        assert!(
            after <= before.max(partitions as u64 * (4 << 20)),
            "{after} bytes, {before} before"
        );
        // The space that was given back serves others.
        for number in 600..900_u32 {
            put(&engine, space, &number.to_be_bytes(), &[1; 30_000]);
        }
    }
}

#[test]
fn readers_of_changes_do_not_keep_a_full_store_from_deleting() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut options = options(folder.path(), Some(0));
    options.pool_options.size_max = 16 << 20;
    let engine = IndexLog::open(&options).unwrap();
    let space = engine.key_space("one").unwrap();
    let mut keys = 0_u32;
    let full = loop {
        let op = Op::Put { space, key: &keys.to_be_bytes(), value: &[1; 100] };
        match engine.write(&[op], Durability::Deferred) {
            Ok(()) => keys += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(full, Error::Full { .. }), "{full}");
    engine.sync().unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    let oldest = engine.change_positions(0).unwrap().start;
                    let Ok(changes) = engine.changes(0, oldest) else { continue };
                    for change in changes.take(1000) {
                        match change {
                            Ok(_) | Err(Error::ChangesReleased { .. }) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
            });
        }
        let mut delete = |number: u32| {
            let op = Op::Delete { space, key: &number.to_be_bytes() };
            let again = Op::Put { space, key: &number.to_be_bytes(), value: &[2; 60] };
            engine.write(&[op], Durability::Deferred)?;
            match engine.write(&[again], Durability::Deferred) {
                Err(Error::Full { .. }) => Ok(()),
                written => written,
            }
        };
        let deleted = (0..keys).try_for_each(&mut delete);
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        deleted.unwrap();
    });
}

/// Segments of the log that readers may want stay as long as something else can go.
#[test]
fn snapshots_of_the_index_go_before_changes_do() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut options = options(folder.path(), Some(1 << 30));
    options.pool_options.size_max = 48 << 20;
    options.own.get_mut::<IndexLogOptions>().index_snapshot = Some(u64::MAX);
    let engine = IndexLog::open(&options).unwrap();
    let space = engine.key_space("one").unwrap();
    // One snapshot is a segment, and so are the changes that follow.
    put(&engine, space, b"first", b"value");
    assert!(engine.snapshot_index().unwrap());
    let mut log = 0;
    // Few keys: it is the log that takes the space.
    for number in 0_u32.. {
        put(&engine, space, &[number as u8 % 16], &[1; 1_900]);
        if engine.change_positions(0).unwrap().start > 1 {
            break;
        }
        log = engine.stats().figure("change_log_bytes").unwrap();
    }
    assert!(log > 24 << 20, "the log takes {log} bytes");
    drop(engine);
    let engine = IndexLog::open(&options).unwrap();
    assert!(engine.get(space, b"first").unwrap().is_some());
    assert_eq!(engine.stats().figure("index_snapshot_bytes").unwrap(), 0, "the snapshot is there");
}

/// A log that is to retain more than the pool has takes all of it, but for the space that deletes need.
#[test]
fn a_full_store_whose_log_takes_all_that_is_free_deletes() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut options = options(folder.path(), Some(1 << 30));
    options.pool_options.size_max = 32 << 20;
    let mut engine = IndexLog::open(&options).unwrap();
    let space = engine.key_space("one").unwrap();
    let mut keys: Vec<u32> = Vec::new();
    for round in 0..4_u32 {
        for number in round * 100_000.. {
            let op = Op::Put { space, key: &number.to_be_bytes(), value: &[round as u8; 1000] };
            match engine.write(&[op], Durability::Deferred) {
                Ok(()) => keys.push(number),
                Err(Error::Full { .. }) => break,
                Err(error) => panic!("{error}"),
            }
        }
        for number in keys.drain(..keys.len() / 2) {
            let op = Op::Delete { space, key: &number.to_be_bytes() };
            engine.write(&[op], Durability::Deferred).unwrap();
        }
        drop(engine);
        engine = IndexLog::open(&options).unwrap();
    }
}

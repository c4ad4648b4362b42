//! Storage classes: where data is placed, and how it moves.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use halite_betree::object::{CHUNK_LEN, ObjectStore};
use halite_betree::{Betree, BetreeOptions, Error, Migration, Placement, Policy, Preference};
use halite_codec::Compression;
use halite_contract::{Direction, Durability, Engine, EngineOptions, KeyRange, KeySpaceId, Op};
use halite_disk::Disk;
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

/// A pool of files in memory.
struct Pool {
    folder: TempDir,
    disk: Disk,
    own: BetreeOptions,
}

impl Pool {
    fn new(topology: &str) -> Self {
        let own = BetreeOptions {
            topology: Some(topology.parse().unwrap()),
            memtable_bytes: Some(64 << 10),
            buffer_bytes: Some(32 << 10),
            leaf_bytes: Some(32 << 10),
            part_bytes: Some(4 << 10),
            fanout: Some(4),
            runs_max: Some(3),
            large_value_bytes: Some(16 << 10),
            // So that what is read is read from a device.
            cache_bytes: 64 << 10,
            compression: Compression::None,
            ..BetreeOptions::default()
        };
        Self { folder: tempfile::tempdir().unwrap(), disk: Disk::in_memory(), own }
    }

    fn two() -> Self {
        Self::new("file:fast@64M ; file:slow@256M")
    }

    fn try_open(&self) -> halite_contract::Result<Betree> {
        let mut options = EngineOptions::new(self.folder.path().join("pool"));
        (options.disk, options.own) = (Some(self.disk.clone()), self.own.clone().into());
        Betree::open(&options)
    }

    fn open(&self) -> Betree {
        self.try_open().unwrap()
    }
}

fn on(_: u64, _: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Bytes in use in each class, behind a flush of everything; the bitmaps are right.
fn used(betree: &Betree) -> Vec<u64> {
    let report = betree.verify(&mut on).unwrap();
    assert!(report.damage.is_empty(), "{:?}", report.damage);
    betree.pool_status().classes.iter().map(|class| class.used).collect()
}

fn key(number: usize) -> Vec<u8> {
    format!("key {number:06}").into_bytes()
}

fn value(number: usize, len: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(number as u64);
    std::iter::repeat_with(|| random.u8(..)).take(len).collect()
}

fn fill(betree: &Betree, space: KeySpaceId, numbers: impl Iterator<Item = usize>, len: usize) {
    for number in numbers {
        let (key, value) = (key(number), value(number, len));
        let put = Op::Put { space, key: &key, value: &value };
        betree.write(&[put], Durability::Deferred).unwrap();
    }
}

fn check(betree: &Betree, space: KeySpaceId, count: usize, len: usize) {
    let scan = betree.scan(space, KeyRange::all(), Direction::Forward).unwrap();
    let mut found = 0;
    for (number, pair) in scan.enumerate() {
        let (found_key, found_value) = pair.unwrap();
        assert!(*found_key == key(number)[..] && *found_value == value(number, len)[..]);
        found += 1;
    }
    assert_eq!(found, count);
}

fn own_error(error: &halite_contract::Error) -> Option<&Error> {
    match error {
        halite_contract::Error::Own(own) => own.downcast_ref(),
        _ => None,
    }
}

#[test]
fn each_kind_of_data_goes_to_its_class() {
    let mut pool = Pool::new("file:a@64M ; file:b@64M ; file:c@64M ; file:d@64M");
    pool.own.placement =
        Placement { metadata: 0, buffers: 1, leaves: 2, large_values: 3, small_bytes: 0 };
    let betree = pool.open();
    let space = betree.key_space("space").unwrap();
    fill(&betree, space, 0..3000, 1000);
    let classes = used(&betree);
    assert!(classes[2] > 2 * MIB && classes[3] == 0, "{classes:?}");
    assert!((1..MIB).contains(&classes[0]) && classes[1] < 2 * MIB, "{classes:?}");
    fill(&betree, space, 5000..5020, 100_000);
    let classes = used(&betree);
    assert!((2_000_000..3_000_000).contains(&classes[3]), "{classes:?}");
    drop(betree);
    // The option counts for what is written from then on.
    pool.own.placement = Placement { large_values: 1, ..Placement::default() };
    let betree = pool.open();
    fill(&betree, space, 5020..5040, 100_000);
    let later = used(&betree);
    assert!(later[1] >= 2_000_000 && later[3] == classes[3], "{later:?}");
}

#[test]
fn internal_data_lies_in_the_fast_class_and_leaves_in_the_slow_one() {
    let mut pool = Pool::two();
    pool.own.placement = Placement { leaves: 1, large_values: 1, ..Placement::default() };
    let betree = pool.open();
    let space = betree.key_space("space").unwrap();
    fill(&betree, space, 0..4000, 1000);
    let classes = used(&betree);
    assert!(classes[1] > 3 * MIB && classes[0] < 2 * MIB, "{classes:?}");
    check(&betree, space, 4000, 1000);
}

#[test]
fn small_leaves_and_values_go_with_the_metadata() {
    let mut pool = Pool::two();
    pool.own.placement =
        Placement { leaves: 1, large_values: 1, small_bytes: 24 << 10, ..Placement::default() };
    let betree = pool.open();
    let space = betree.key_space("space").unwrap();
    fill(&betree, space, 0..20, 20 << 10);
    assert_eq!(used(&betree)[1], 0);
    fill(&betree, space, 20..40, 30 << 10);
    let classes = used(&betree);
    assert!((20 * (30 << 10)..MIB).contains(&classes[1]), "{classes:?}");
}

#[test]
fn a_placement_in_a_class_that_there_is_not_is_refused_at_opening() {
    let mut pool = Pool::two();
    pool.own.placement.leaves = 2;
    let error = pool.try_open().err().unwrap();
    assert!(
        matches!(own_error(&error), Some(Error::NoSuchClass { class: 2, classes: 2, .. })),
        "{error}"
    );
    pool.own.placement.leaves = 1;
    drop(pool.open());
    pool.own.placement.buffers = 3;
    let error = pool.try_open().err().unwrap();
    assert!(matches!(own_error(&error), Some(Error::NoSuchClass { class: 3, .. })), "{error}");
    pool.own.placement.buffers = 0;
    let of =
        |threshold_percent, period| Migration { threshold_percent, period, ..Migration::default() };
    for wrong in
        [of(0, Duration::from_secs(1)), of(101, Duration::from_secs(1)), of(95, Duration::ZERO)]
    {
        pool.own.migration = Some(wrong);
        let error = pool.try_open().err().unwrap();
        assert!(matches!(own_error(&error), Some(Error::MigrationOption { .. })), "{error}");
    }
}

#[test]
fn a_dataset_lies_where_it_prefers_also_behind_an_opening() {
    let pool = Pool::two();
    let betree = pool.open();
    let [slow, other] = ["slow", "other"].map(|name| betree.key_space(name).unwrap());
    betree.set_preference(slow, Preference::Slowest).unwrap();
    fill(&betree, slow, 0..1500, 1000);
    let classes = used(&betree);
    assert!(classes[0] < MIB && classes[1] > MIB, "{classes:?}");
    drop(betree);
    let betree = pool.open();
    assert_eq!(betree.preference(slow).unwrap(), Preference::Slowest);
    assert_eq!(betree.preference(other).unwrap(), Preference::None);
    fill(&betree, slow, 1500..3000, 1000);
    fill(&betree, slow, 9000..9010, 100_000);
    let classes = used(&betree);
    assert!(classes[0] < MIB && classes[1] > 4_000_000, "{classes:?}");
    fill(&betree, other, 0..1500, 1000);
    let behind = used(&betree);
    assert!(behind[0] > classes[0] + MIB && behind[1] <= classes[1] + MIB / 2, "{behind:?}");
    betree.set_preference(slow, Preference::None).unwrap();
    assert_eq!(betree.preference(slow).unwrap(), Preference::None);
    assert!(betree.preference(KeySpaceId(77)).is_err());
}

fn write_object(objects: &ObjectStore, name: &str, preference: Preference, len: usize) {
    let object = objects.open_or_create(name.as_bytes()).unwrap();
    object.set_preference(preference).unwrap();
    object.write_at(0, &value(len, len)).unwrap();
}

#[test]
fn an_object_lies_where_it_prefers_also_behind_an_opening() {
    let pool = Pool::two();
    let betree = pool.open();
    let objects = betree.objects("objects").unwrap();
    write_object(&objects, "slow", Preference::Slow, 20 * CHUNK_LEN);
    write_object(&objects, "fast", Preference::Fastest, 10 * CHUNK_LEN);
    let classes = used(&betree);
    assert!((20 * CHUNK_LEN as u64..22 * CHUNK_LEN as u64).contains(&classes[1]), "{classes:?}");
    assert!(classes[0] >= 10 * CHUNK_LEN as u64, "{classes:?}");
    drop((objects, betree));
    let betree = pool.open();
    let objects = betree.objects("objects").unwrap();
    let slow = objects.open(b"slow").unwrap();
    assert_eq!(slow.preference().unwrap(), Preference::Slow);
    slow.write_at(20 * CHUNK_LEN as u64, &value(1, 10 * CHUNK_LEN)).unwrap();
    let behind = used(&betree);
    assert!(behind[1] >= classes[1] + 10 * CHUNK_LEN as u64, "{behind:?}");
    // Its preference goes with it, and its space comes back.
    objects.delete(b"slow").unwrap();
    assert!(used(&betree)[1] < 4 * CHUNK_LEN as u64);
    write_object(&objects, "slow", Preference::None, 10 * CHUNK_LEN);
    assert!(used(&betree)[0] >= 20 * CHUNK_LEN as u64);
}

#[test]
fn leaves_of_small_objects_end_where_the_preference_changes() {
    let mut pool = Pool::two();
    pool.own.large_value_bytes = Some(256 << 10);
    let betree = pool.open();
    let objects = betree.objects("objects").unwrap();
    for number in 0..20 {
        let preference = if number < 10 { Preference::Slowest } else { Preference::Fastest };
        write_object(&objects, &format!("{number}"), preference, CHUNK_LEN - 1 - number);
    }
    let classes = used(&betree);
    let half = 10 * CHUNK_LEN as u64;
    assert!(classes[1] > half / 2 && classes[0] > half / 2, "{classes:?}");
    for number in 0..20 {
        let (len, mut found) = (CHUNK_LEN - 1 - number, vec![0; CHUNK_LEN]);
        let read = objects.open(format!("{number}").as_bytes()).unwrap().read_at(0, &mut found);
        assert!(read.unwrap() == len && found[..len] == value(len, len));
    }
}

#[test]
fn keys_and_objects_move_down_and_up_and_stay_the_same() {
    let pool = Pool::two();
    let betree = pool.open();
    let space = betree.key_space("space").unwrap();
    fill(&betree, space, 0..2000, 1000);
    fill(&betree, space, 2000..2020, 1000);
    let objects = betree.objects("objects").unwrap();
    write_object(&objects, "object", Preference::None, 20 * CHUNK_LEN);
    betree.create_snapshot(space, "before").unwrap();
    let before = used(&betree);
    assert_eq!(before[1], 0);
    let mut seen = Vec::new();
    let down = betree.migrate(space, &KeyRange::all(), 1, &mut |at, all| {
        seen.push((at, all));
        ControlFlow::Continue(())
    });
    let down = down.unwrap();
    assert!(down.is_complete && down.moved_bytes > 2_000_000, "{down:?}");
    assert!(seen.last().is_some_and(|(at, all)| at == all), "{seen:?}");
    let classes = used(&betree);
    assert_eq!(classes[1], down.moved_bytes);
    assert!(classes[0] >= before[0], "the snapshot has it where it was");
    check(&betree, space, 2020, 1000);
    assert_eq!(betree.open_snapshot(space, "before").unwrap().len(space).unwrap(), 2020);
    let again = betree.migrate(space, &KeyRange::all(), 1, &mut on).unwrap();
    assert_eq!((again.moved_bytes, again.is_complete), (0, true));
    betree.delete_snapshot(space, "before").unwrap();
    let alone = used(&betree);
    assert!(alone[0] + 2_000_000 < classes[0], "{alone:?}");

    let moved = betree.migrate_object("objects", b"object", 1, &mut on).unwrap();
    assert!(moved.moved_bytes >= 20 * CHUNK_LEN as u64, "{moved:?}");
    drop((objects, betree));
    let betree = pool.open();
    check(&betree, space, 2020, 1000);
    let objects = betree.objects("objects").unwrap();
    let mut found = vec![0; 20 * CHUNK_LEN];
    objects.open(b"object").unwrap().read_at(0, &mut found).unwrap();
    assert!(found == value(found.len(), found.len()));
    let status = betree.pool_status();
    assert!(status.classes[1].reads > 0 && status.classes[1].read_bytes > 2_000_000);
    for up in [
        betree.migrate(space, &KeyRange::all(), 0, &mut on).unwrap(),
        betree.migrate_object("objects", b"object", 0, &mut on).unwrap(),
    ] {
        assert!(up.is_complete && up.moved_bytes > 2_000_000, "{up:?}");
    }
    let status = betree.pool_status();
    assert!(status.classes[0].migrated_in > 4_000_000);
    assert_eq!(status.classes[0].migrated_in, status.classes[1].migrated_out);
    // The runs that refer to the chunks were written anew.
    assert!(used(&betree)[1] < 64 << 10, "{:?}", used(&betree));
    check(&betree, space, 2020, 1000);
}

#[test]
fn a_part_of_the_keys_moves_and_a_migration_that_is_stopped_goes_on() {
    let pool = Pool::two();
    let betree = pool.open();
    let space = betree.key_space("space").unwrap();
    fill(&betree, space, 0..2000, 1000);
    used(&betree);
    let range = KeyRange::new(key(500), Some(key(1000)));
    let part = betree.migrate(space, &range, 1, &mut on).unwrap();
    assert!((400_000..1_200_000).contains(&part.moved_bytes), "{part:?}");
    fill(&betree, space, 2000..2400, 100_000);
    let mut rounds = 0;
    loop {
        let report =
            betree.migrate(space, &KeyRange::all(), 1, &mut |_, _| ControlFlow::Break(())).unwrap();
        rounds += 1;
        if report.is_complete {
            break;
        }
        assert!(report.moved_bytes > 0, "{report:?}");
    }
    assert!(rounds > 1, "40 MB are more than a slice");
    assert!(used(&betree)[0] < 2 * MIB);
}

#[test]
fn wrong_classes_datasets_and_objects_are_refused() {
    let pool = Pool::two();
    let betree = pool.open();
    let space = betree.key_space("space").unwrap();
    let error = betree.migrate(space, &KeyRange::all(), 2, &mut on).unwrap_err();
    assert!(matches!(own_error(&error), Some(Error::NoSuchClass { class: 2, .. })), "{error}");
    assert!(betree.migrate(KeySpaceId(99), &KeyRange::all(), 1, &mut on).is_err());
    let error = betree.migrate_object("objects", b"object", 1, &mut on).unwrap_err();
    assert!(matches!(own_error(&error), Some(Error::NoSuchObjectStore { .. })), "{error}");
    betree.objects("objects").unwrap();
    let error = betree.migrate_object("objects", b"object", 1, &mut on).unwrap_err();
    assert!(matches!(own_error(&error), Some(Error::NoSuchObject { .. })), "{error}");
    let error = betree.migrate_now().unwrap_err();
    assert!(matches!(own_error(&error), Some(Error::MigrationOff)), "{error}");
    let empty = betree.migrate(space, &KeyRange::all(), 1, &mut on).unwrap();
    assert!(empty.is_complete && empty.moved_bytes == 0);
}

#[test]
fn a_full_class_ends_a_migration_and_nothing_is_lost() {
    let mut pool = Pool::new("file:fast@24M ; file:slow@256M");
    pool.own.placement = Placement { leaves: 1, large_values: 1, ..Placement::default() };
    let betree = pool.open();
    let space = betree.key_space("space").unwrap();
    fill(&betree, space, 0..300, 60_000);
    let before = used(&betree);
    let error = betree.migrate(space, &KeyRange::all(), 0, &mut on).unwrap_err();
    assert!(matches!(own_error(&error), Some(Error::ClassFull { class: 0 })), "{error}");
    assert!(error.lacks_space());
    let behind = used(&betree);
    assert!(behind[0] > before[0] && behind[0] < 24 * MIB, "{behind:?}");
    check(&betree, space, 300, 60_000);
    fill(&betree, space, 300..320, 60_000);
    drop(betree);
    check(&pool.open(), space, 320, 60_000);
}

#[test]
fn what_moves_beside_writers_is_what_they_have_written() {
    let mut pool = Pool::two();
    pool.own.migration = Some(Migration {
        grace: Duration::ZERO,
        period: Duration::from_millis(1),
        threshold_percent: 2,
        ..Migration::default()
    });
    let betree = pool.open();
    let space = betree.key_space("space").unwrap();
    let is_over = AtomicBool::new(false);
    let models: Vec<BTreeMap<Vec<u8>, Vec<u8>>> = std::thread::scope(|scope| {
        let migrator = scope.spawn(|| {
            let mut moved = 0;
            for class in [1, 0].into_iter().cycle() {
                if is_over.load(Ordering::Relaxed) {
                    return moved;
                }
                match betree.migrate(space, &KeyRange::all(), class, &mut on) {
                    Ok(report) => moved += report.moved_bytes,
                    Err(error) => assert!(error.lacks_space(), "{error}"),
                }
            }
            unreachable!("it goes on until it is over")
        });
        let writers: Vec<_> = (0..2)
            .map(|of| {
                let betree = &betree;
                scope.spawn(move || {
                    let (mut model, mut random) = (BTreeMap::new(), fastrand::Rng::with_seed(of));
                    for number in 0..3000 {
                        let key = format!("{of} {:04}", random.usize(..1000)).into_bytes();
                        let len = if random.u8(..) < 8 { 30_000 } else { random.usize(..800) };
                        let value = value(number, len);
                        let put = Op::Put { space, key: &key, value: &value };
                        betree.write(&[put], Durability::Deferred).unwrap();
                        if number % 7 == 0 {
                            assert_eq!(
                                betree.get(space, &key).unwrap().as_deref(),
                                Some(&value[..])
                            );
                        }
                        model.insert(key, value);
                    }
                    model
                })
            })
            .collect();
        let models = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(migrator.join().unwrap() > MIB);
        models
    });
    let expected: BTreeMap<_, _> = models.into_iter().flatten().collect();
    drop(betree);
    for _ in 0..2 {
        let betree = pool.open();
        let scan = betree.scan(space, KeyRange::all(), Direction::Forward).unwrap();
        let found: BTreeMap<_, _> = scan
            .map(|pair| pair.unwrap())
            .map(|(key, value)| (key.to_vec(), value.to_vec()))
            .collect();
        assert!(found == expected);
        used(&betree);
    }
}

/// Reads by Zipf's law with 0.99, and returns the share of reads that the fast class has served.
fn read_skewed(betree: &Betree, space: KeySpaceId, sums: &[f64], reads: usize) -> f64 {
    let of_slow = || betree.pool_status().classes[1].reads;
    let (before, mut random) = (of_slow(), fastrand::Rng::with_seed(reads as u64));
    for _ in 0..reads {
        let at = random.f64() * sums.last().unwrap();
        let rank = sums.partition_point(|sum| *sum <= at).min(sums.len() - 1);
        // Ranks are spread over the keys.
        let number = rank * 7919 % sums.len();
        assert!(betree.get(space, &key(number)).unwrap().is_some());
    }
    1.0 - (of_slow() - before) as f64 / reads as f64
}

#[test]
fn skewed_reads_are_served_by_the_fast_class_when_policies_have_moved_data() {
    const VALUES: usize = 2000;
    let mut sum = 0.0;
    let sums: Vec<f64> = (1..=VALUES)
        .map(|rank| {
            sum += (rank as f64).powf(-0.99);
            sum
        })
        .collect();
    for policy in [Policy::Lfu, Policy::Reinforcement] {
        // 32 MiB of values, of which the fast class takes a fifth.
        let mut pool = Pool::new("file:fast@24M ; file:slow@256M");
        pool.own.migration = Some(Migration {
            policy,
            grace: Duration::from_secs(3600),
            threshold_percent: 28,
            budget_bytes_per_round: 2 * MIB,
            ..Migration::default()
        });
        let betree = pool.open();
        let space = betree.key_space("space").unwrap();
        fill(&betree, space, 0..VALUES, 16 << 10);
        let classes = used(&betree);
        assert!(classes[0] < 9 * MIB && classes[1] > 24 * MIB, "{classes:?}");
        let before = read_skewed(&betree, space, &sums, 4001);
        let (mut up, mut down) = (0, 0);
        for round in 0..16 {
            read_skewed(&betree, space, &sums, 4002 + round);
            let report = betree.migrate_now().unwrap();
            assert!(report.promoted_bytes + report.demoted_bytes <= 2 * MIB, "{report:?}");
            // A run that was written anew for the values that went down does not come up in the same round.
            assert!(!report.ended_early && report.skipped_bytes < MIB / 4, "{report:?}");
            (up, down) = (up + report.promoted_bytes, down + report.demoted_bytes);
        }
        let after = read_skewed(&betree, space, &sums, 4001);
        println!("{policy:?}: {before:.3} to {after:.3}; {up} up, {down} down");
        assert!(after >= 1.3 * before, "{policy:?}: {before} to {after}");
        let classes = used(&betree);
        assert!(classes[0] < 9 * MIB, "{classes:?}");
        check(&betree, space, VALUES, 16 << 10);
        let late = betree.migrate_now().unwrap();
        assert!(late.promoted_bytes < MIB / 2, "it settles: {late:?}");
    }
}

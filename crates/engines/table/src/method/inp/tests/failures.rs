//! A full disk, full memory, and calls of the kernel that fail.

use halite_disk::Error as DiskError;
use halite_sim::Failures;

use super::*;

#[test]
fn a_full_disk_refuses_commits_and_checkpoints_and_leaves_everything_as_it_was() {
    let disk = Disk::in_memory_up_to(400 << 10);
    let mut partition = create(&disk, ASKED);
    let noise = |id: i32| {
        let mut number = id as u32;
        let letter = || {
            number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            char::from(b'!' + (number >> 24) as u8 % 90)
        };
        std::iter::repeat_with(letter).take(1_500).collect::<String>()
    };
    let mut id = 0;
    let error = loop {
        id += 1;
        if let Err(error) = put(&mut partition, id, &noise(id)) {
            break error;
        }
    };
    let is_no_space = |error: &Error| match error {
        Error::Log(halite_wal::Error::NoFile(error)) | Error::Disk(error) => {
            matches!(**error, DiskError::NoSpace { .. })
        }
        _ => false,
    };
    assert!(is_no_space(&error), "{error}");
    let expected = rows(&partition);
    assert_eq!(expected.len() as i32, id - 1);
    let error = partition.checkpoint().unwrap_err();
    assert!(is_no_space(&error), "{error}");
    assert!(partition.method().checkpoint_failure().is_some_and(is_no_space));
    let builder = TableSchema::builder("u").column("id", Type::Int32).primary_key(["id"]);
    let large = (0..200).fold(builder, |builder, number| {
        builder.column(&format!("column {number} {}", "c".repeat(40)), Type::Int8)
    });
    assert!(is_no_space(&partition.create_table(large.build().unwrap()).unwrap_err()));
    assert_eq!(partition.verify().unwrap(), expected.len() as u64);
    assert_eq!(checkpoints(&disk), [checkpoint::files::name_of(1)]);
    drop(partition);
    let mut partition = open(&disk, ASKED).unwrap();
    assert_eq!(rows(&partition), expected);
    // Removals are short, and make room for a checkpoint, which makes room in the log.
    let before = partition.footprint().unwrap().log;
    for id in 1..id - 5 {
        let table = table(&partition);
        partition.begin().unwrap();
        partition.delete(&table, &key(&table, id)).unwrap();
        if partition.commit().is_err() {
            break;
        }
    }
    let _ = partition.checkpoint();
    let log = partition.footprint().unwrap().log;
    assert!(log <= before, "{log} {before}");
}

#[test]
fn full_memory_refuses_a_transaction_and_takes_removals() {
    let disk = Disk::in_memory();
    let mut partition = create(&disk, Options { memory_bytes: 8 << 20, ..ASKED });
    let text = "t".repeat(2_000);
    let mut id = 0;
    let error = loop {
        id += 1;
        if let Err(error) = put(&mut partition, id, &text) {
            break error;
        }
    };
    assert!(matches!(error, Error::Heap(_)), "{error}");
    assert_eq!(partition.verify().unwrap(), id as u64 - 1);
    (1..id / 2).for_each(|id| remove(&mut partition, id));
    (1..id / 3).for_each(|id| put(&mut partition, id, &text).unwrap());
    let expected = rows(&partition);
    partition.sync().unwrap();
    kill(partition);
    let mut partition = open(&disk, Options { memory_bytes: 8 << 20, ..ASKED }).unwrap();
    assert_eq!(rows(&partition), expected);
    // What a dropped table had is there for another one.
    partition.truncate_table("t").unwrap();
    while !partition.reclaim().unwrap() {}
    (1..id / 2).for_each(|id| put(&mut partition, id, &text).unwrap());
    partition.verify().unwrap();
}

#[test]
fn after_any_call_that_fails_a_prefix_of_the_commits_is_there() {
    const ERRNOS: [i32; 2] = [28, 5];
    let options = Options { checkpoint_bytes: 2 << 10, ..SMALL };
    for errno in ERRNOS {
        let (mut failing, mut lost, mut refused, mut given_up) = (0, 0, 0, 0);
        loop {
            let folder = tempfile::tempdir_in("/dev/shm").unwrap();
            let failures = Failures::default();
            let disk = Disk::failing_folder(folder.path(), true, Some(failures.clone())).unwrap();
            let mut partition = create(&disk, options);
            put(&mut partition, 0, "before").unwrap();
            partition.sync().unwrap();
            let mut states = vec![rows(&partition)];
            let mut was_given_up = false;
            failures.fail(failing, 1, errno);
            for number in 0..24 {
                let (id, text) = (number % 9, format!("{number:04}").repeat(50));
                let before = states.last().unwrap().clone();
                let mut after = before.clone();
                after.retain(|(there, _)| *there != i64::from(id));
                after.push((id.into(), text.clone()));
                after.sort();
                if put(&mut partition, id, &text).is_ok() {
                    states.push(after);
                } else if partition.get(&table(&partition), &key(&table(&partition), 0)).is_ok() {
                    refused += 1;
                    assert_eq!(rows(&partition), before);
                } else {
                    states.push(after);
                    break;
                }
                was_given_up |= partition.method().checkpoint_failure().is_some();
                if number % 4 == 3 && partition.sync().is_ok() {
                    states.drain(..states.len() - 1);
                }
            }
            given_up += u32::from(was_given_up);
            lost += u32::from(partition.sync().is_err());
            failures.stop();
            let has_failed = !failures.failed().is_empty();
            drop((partition, disk));
            let disk = Disk::folder(folder.path(), false).unwrap();
            let mut partition = open(&disk, options).unwrap();
            let there = rows(&partition);
            assert!(states.contains(&there), "call {failing}: {there:?}");
            assert_eq!(partition.verify().unwrap(), there.len() as u64);
            put(&mut partition, 1, "it goes on").unwrap();
            partition.checkpoint().unwrap();
            if !has_failed {
                break;
            }
            failing += 1;
        }
        println!("{failing} calls: {lost} lost, {refused} refused, {given_up} given up");
        assert!(lost > 5 && (given_up > 5 || errno != ERRNOS[0]), "{errno}: {lost}, {given_up}");
    }
}

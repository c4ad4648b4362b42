//! Checkpoints under way, damaged and foreign ones; the bounds of recovery; syncs; a full disk and full memory.

use halite_disk::Error as DiskError;
use halite_sim::Failures;

use super::*;
use crate::{Change, Partition, TableSchema, Type, values};

const STORE: u128 = 7;

const SMALL: Options = Options {
    node_len: 128,
    memory_bytes: 16 << 20,
    log_file_bytes: 4 << 10,
    checkpoint_bytes: 16 << 10,
    step_bytes: 500,
};

/// Options without checkpoints that begin by themselves.
const ASKED: Options = Options { checkpoint_bytes: 1 << 40, ..SMALL };

fn create(disk: &Disk, options: Options) -> Partition<InP> {
    let mut partition = Partition::new(InP::create(disk, STORE, options).unwrap()).unwrap();
    let builder = TableSchema::builder("t")
        .column("id", Type::Int32)
        .column("number", Type::Int64)
        .column("text", Type::VarChar(2_000));
    let schema = builder.primary_key(["id"]).index("by_number", ["number"]).build().unwrap();
    partition.create_table(schema).unwrap();
    partition
}

fn open(disk: &Disk, options: Options) -> Result<Partition<InP>> {
    Partition::new(InP::open(disk, STORE, options)?)
}

/// Ends a partition as the end of its process does.
fn kill(partition: Partition<InP>) {
    std::mem::forget(partition);
}

fn table(partition: &Partition<InP>) -> Table {
    Table::clone(partition.catalog().table("t").unwrap())
}

fn key(table: &Table, id: i32) -> Vec<u8> {
    table.schema().primary_key().encode(&values![id]).unwrap()
}

fn put(partition: &mut Partition<InP>, id: i32, text: &str) -> Result<()> {
    let table = table(partition);
    let row = Row::from_values(table.schema(), &values![id, i64::from(id) * 7, text]).unwrap();
    partition.begin()?;
    partition.delete(&table, &key(&table, id))?;
    partition.insert(&table, &row)?;
    partition.commit().map(drop)
}

fn update(partition: &mut Partition<InP>, id: i32, text: &str) {
    let table = table(partition);
    partition.begin().unwrap();
    assert!(partition.update(&table, &key(&table, id), &[Change::new(2, text)]).unwrap());
    partition.commit().unwrap();
}

fn remove(partition: &mut Partition<InP>, id: i32) {
    let table = table(partition);
    partition.begin().unwrap();
    assert!(partition.delete(&table, &key(&table, id)).unwrap());
    partition.commit().unwrap();
}

fn rows(partition: &Partition<InP>) -> Vec<(i64, String)> {
    let (table, mut rows) = (table(partition), Vec::new());
    let scanned = partition.scan(&table, None, &KeyRange::all(), Direction::Forward, |_, row| {
        rows.push((row.int(0)?, row.text(2)?.to_owned()));
        Ok(std::ops::ControlFlow::Continue(()))
    });
    scanned.unwrap();
    rows
}

fn read(disk: &Disk, name: &str) -> Vec<u8> {
    let file = disk.open(name).unwrap();
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

fn write(disk: &Disk, name: &str, bytes: &[u8]) {
    let _ = disk.remove(name);
    let mut writer = disk.create(name).unwrap();
    writer.write(bytes).unwrap();
    writer.sync().unwrap();
}

/// The names of the files of checkpoints.
fn checkpoints(disk: &Disk) -> Vec<String> {
    let names = disk.list().unwrap().into_iter().map(|(name, _)| name);
    names.filter(|name| name.starts_with("CHECKPOINT-")).collect()
}

#[test]
fn every_flipped_and_missing_byte_of_a_checkpoint_is_named_or_of_no_meaning() {
    let disk = Disk::in_memory();
    let mut partition = create(&disk, ASKED);
    (0..30).for_each(|id| put(&mut partition, id, &"text ".repeat(id as usize)).unwrap());
    partition.checkpoint().unwrap();
    update(&mut partition, 3, "behind the checkpoint");
    let expected = rows(&partition);
    drop(partition);
    let [name] = &checkpoints(&disk)[..] else { panic!("there is one") };
    let bytes = read(&disk, name);
    let mut unnoticed = Vec::new();
    let damages =
        (0..bytes.len()).map(|at| (at, true)).chain((0..bytes.len()).map(|at| (at, false)));
    for (at, is_flipped) in damages {
        let mut damaged = bytes.clone();
        match is_flipped {
            true => damaged[at] ^= 1 << (at % 8),
            false => damaged.truncate(at),
        }
        write(&disk, name, &damaged);
        match open(&disk, ASKED) {
            Ok(partition) => {
                assert!(is_flipped, "{at}");
                assert_eq!(rows(&partition), expected, "{at}");
                unnoticed.push(at);
            }
            Err(Error::Damaged { .. } | Error::Foreign { .. }) => {}
            Err(error) => panic!("{at}: {error}"),
        }
    }
    // Time, system and strength in the head of the stream, and references to other places with the same bytes.
    assert!(unnoticed.len() < bytes.len() / 20, "{unnoticed:?}");
    write(&disk, name, &[&bytes[..], b"more"].concat());
    assert!(matches!(open(&disk, ASKED), Err(Error::Damaged { .. })));
    write(&disk, name, &bytes);
    assert_eq!(rows(&open(&disk, ASKED).unwrap()), expected);
}

#[test]
fn a_foreign_or_missing_checkpoint_is_named_and_an_older_one_is_no_substitute() {
    let (disk, other) = (Disk::in_memory(), Disk::in_memory());
    assert!(matches!(open(&disk, ASKED), Err(Error::Foreign { .. })));
    let mut partition = create(&disk, ASKED);
    put(&mut partition, 1, "one").unwrap();
    partition.checkpoint().unwrap();
    put(&mut partition, 2, "two").unwrap();
    let older = read(&disk, &checkpoint::files::name_of(2));
    partition.checkpoint().unwrap();
    let expected = rows(&partition);
    drop(partition);
    let newest = checkpoint::files::name_of(3);
    assert_eq!(checkpoints(&disk), std::slice::from_ref(&newest));
    let whole = read(&disk, &newest);
    drop(InP::create(&other, STORE + 1, ASKED).unwrap());
    let foreign = read(&other, &checkpoint::files::name_of(1));
    write(&disk, &checkpoint::files::name_of(2), &older);
    for (bytes, part) in [
        (&foreign[..], "another store"),
        (&older, "checkpoint 2 under another name"),
        (&whole[..whole.len() - 1], "damaged"),
        (b"anything", "no checkpoint"),
        (b"", "no checkpoint"),
    ] {
        write(&disk, &newest, bytes);
        let error = open(&disk, ASKED).map(drop).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
    // One that was not finished is no checkpoint, and gone afterwards.
    write(&disk, &newest, &whole);
    write(&disk, "CHECKPOINT-000004.new", &whole[..whole.len() / 2]);
    assert_eq!(rows(&open(&disk, ASKED).unwrap()), expected);
    assert_eq!(checkpoints(&disk), [newest]);
    assert!(matches!(InP::create(&disk, STORE, ASKED), Err(Error::Exists { .. })));
    let error = InP::open(&disk, STORE + 1, ASKED).map(drop).unwrap_err();
    assert!(matches!(error, Error::Foreign { .. }), "{error}");
    // Without its checkpoints, a folder with a log is no place for a new partition.
    disk.remove(&checkpoint::files::name_of(3)).unwrap();
    assert!(matches!(InP::create(&disk, STORE, ASKED), Err(Error::Exists { .. })));
}

#[test]
fn a_later_version_of_a_checkpoint_is_refused() {
    let disk = Disk::in_memory();
    drop(create(&disk, ASKED));
    let name = checkpoint::files::name_of(1);
    let mut bytes = read(&disk, &name);
    bytes[8] = 2;
    let check = Seed::NONE.checksum(&bytes[..40]);
    bytes[40..48].copy_from_slice(&check.to_le_bytes());
    write(&disk, &name, &bytes);
    let error = open(&disk, ASKED).map(drop).unwrap_err();
    assert!(matches!(error, Error::Version { version: 2, known: 1, .. }), "{error}");
}

/// Rows change on both sides of a checkpoint that is under way, which a kill ends after any number of commits.
#[test]
fn a_kill_at_any_step_of_a_checkpoint_loses_nothing() {
    let mut under_way = 0;
    for commits in 0..60 {
        let disk = Disk::in_memory();
        let mut partition = create(&disk, ASKED);
        (0..40).for_each(|id| put(&mut partition, id * 10, &"first ".repeat(20)).unwrap());
        partition.sync().unwrap();
        drop(partition);
        // Due at once.
        let mut partition = open(&disk, SMALL).unwrap();
        partition.checkpoint().unwrap();
        let mut number = 0_i32;
        for commit in 0..200 + commits {
            number = (number + 139) % 400;
            let id = number / 10 * 10;
            let is_there = rows(&partition).iter().any(|(there, _)| *there == i64::from(id));
            match (commit % 4, is_there) {
                (0, true) => remove(&mut partition, id),
                (1 | 2, true) => {
                    update(&mut partition, id, &format!("changed by {commit} ").repeat(9))
                }
                _ => put(&mut partition, id, &format!("put by {commit} ").repeat(9)).unwrap(),
            }
        }
        partition.sync().unwrap();
        let expected = rows(&partition);
        let names = checkpoints(&disk);
        under_way += names.iter().filter(|name| name.ends_with(".new")).count();
        assert!(partition.method().checkpoint_failure().is_none());
        kill(partition);
        let mut partition = open(&disk, SMALL).unwrap();
        assert_eq!(rows(&partition), expected, "{commits}");
        assert_eq!(partition.verify().unwrap(), expected.len() as u64);
        assert!(partition.method().recovery().rows > 0);
        assert_eq!(checkpoints(&disk).len(), 1);
    }
    assert!((10..50).contains(&under_way), "{under_way} of 60");
}

#[test]
fn recovery_and_files_are_bounded_by_checkpoints() {
    let disk = Disk::in_memory();
    let mut partition = create(&disk, SMALL);
    let mut log_bytes_max = 0;
    for id in 0..3_000 {
        put(&mut partition, id % 50, &format!("{id:04}").repeat(25)).unwrap();
        log_bytes_max = log_bytes_max.max(partition.footprint().unwrap().log);
    }
    partition.sync().unwrap();
    assert!(partition.method().checkpoint_failure().is_none());
    kill(partition);
    let partition = open(&disk, SMALL).unwrap();
    let Recovery { rows, batches, changes } = partition.method().recovery();
    // 240 bytes a transaction, and those of the steps of a checkpoint that was under way.
    assert!((48..=50).contains(&rows) && batches < 150 && changes == batches, "{rows} {batches}");
    assert!(log_bytes_max < 96 << 10, "{log_bytes_max}");
    drop(partition);
    let mut partition = open(&disk, ASKED).unwrap();
    partition.checkpoint().unwrap();
    kill(partition);
    let partition = open(&disk, ASKED).unwrap();
    assert_eq!(partition.method().recovery(), Recovery { rows: 50, batches: 0, changes: 0 });
}

#[test]
fn commits_sync_nothing_and_share_one_sync() {
    let disk = Disk::in_memory();
    let mut partition = create(&disk, Options { checkpoint_bytes: 1 << 40, ..Options::default() });
    for id in 0..100 {
        let before = disk.traffic().syncs;
        (0..10).for_each(|row| put(&mut partition, id * 10 + row, "text").unwrap());
        assert_eq!(disk.traffic().syncs, before);
        partition.sync().unwrap();
        partition.sync().unwrap();
        assert_eq!(disk.traffic().syncs, before + 1);
    }
    let before = disk.traffic().syncs;
    partition.checkpoint().unwrap();
    // The file, and the folder for its name; the log has nothing new.
    assert_eq!(disk.traffic().syncs, before + 2);
}

#[test]
fn commits_without_a_sync_are_lost_whole() {
    let disk = Disk::in_memory();
    let mut partition = create(&disk, ASKED);
    put(&mut partition, 1, "durable").unwrap();
    partition.sync().unwrap();
    put(&mut partition, 2, "lost").unwrap();
    kill(partition);
    let partition = open(&disk, ASKED).unwrap();
    assert_eq!(rows(&partition), [(1, "durable".to_owned())]);
    drop(partition);
    let mut partition = open(&disk, ASKED).unwrap();
    put(&mut partition, 3, "kept by a close").unwrap();
    drop(partition);
    assert_eq!(rows(&open(&disk, ASKED).unwrap()).len(), 2);
}

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
fn a_log_that_does_not_fit_the_rows_or_is_damaged_is_named() {
    let disk = Disk::in_memory();
    let mut partition = create(&disk, ASKED);
    put(&mut partition, 1, "one").unwrap();
    let table = table(&partition);
    drop(partition);
    let whole: Vec<_> = disk.list().unwrap().into_iter().map(|(name, _)| name).collect();
    let whole: Vec<_> = whole.into_iter().map(|name| (read(&disk, &name), name)).collect();
    let restore = || whole.iter().for_each(|(bytes, name)| write(&disk, name, bytes));
    let row = |text| Row::from_values(table.schema(), &values![1, 7_i64, text]).unwrap();
    let (one, two) = (row("two"), row("three"));
    for after in [Some(&two), None] {
        restore();
        let mut method = InP::open(&disk, STORE, ASKED).unwrap();
        let mut writes = WriteSet::default();
        // The row is another one.
        writes.replace(&table, &key(&table, 1), (Some(&one), after), || Some(one.clone())).unwrap();
        method.commit(&writes).unwrap();
        drop(method);
        let error = open(&disk, ASKED).map(drop).unwrap_err();
        assert!(error.to_string().contains("not the one that a transaction found"), "{error}");
    }
    restore();
    let (bytes, name) = whole.iter().find(|(_, name)| name.starts_with("LOG-")).unwrap();
    disk.remove(name).unwrap();
    let error = open(&disk, ASKED).map(drop).unwrap_err();
    assert!(matches!(error, Error::Log(halite_wal::Error::Missing { .. })), "{error}");
    write(&disk, name, bytes);
    assert_eq!(rows(&open(&disk, ASKED).unwrap()).len(), 1);
}

#[test]
fn a_log_that_lost_what_a_checkpoint_has_is_damaged() {
    let disk = Disk::in_memory();
    let mut partition = create(&disk, ASKED);
    put(&mut partition, 1, "one").unwrap();
    partition.sync().unwrap();
    let log = "LOG-000001";
    let before = read(&disk, log);
    put(&mut partition, 2, "two").unwrap();
    partition.checkpoint().unwrap();
    drop(partition);
    write(&disk, log, &before);
    let error = open(&disk, ASKED).map(drop).unwrap_err();
    assert!(matches!(error, Error::Log(halite_wal::Error::Damaged { .. })), "{error}");
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
        assert!(lost > 5 && given_up > 5, "{failing} calls: {lost} lost, {given_up} given up");
    }
}

//! Damaged, foreign and missing files.

use super::*;

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
fn a_damaged_log_is_named_behind_a_close_and_ends_there_behind_a_crash() {
    let disk = Disk::in_memory();
    let mut partition = create(&disk, ASKED);
    (0..10).for_each(|id| put(&mut partition, id, "text").unwrap());
    partition.sync().unwrap();
    let expected = rows(&partition);
    let end = partition.method().log.position();
    drop(partition);
    let name = format!("LOG-{:06}", end.file);
    let whole = read(&disk, &name);
    for at in 0..end.len as usize {
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (at % 8);
        for damaged in [&flipped[..], &whole[..at]] {
            write(&disk, &name, damaged);
            let opened = open(&disk, ASKED).map(drop);
            assert!(matches!(opened, Err(Error::Damaged { .. } | Error::Log(_))), "{at}");
        }
    }
    disk.remove(&name).unwrap();
    assert!(open(&disk, ASKED).is_err());
    let note = read(&disk, "CLOSED");
    for at in 0..note.len() {
        let mut flipped = note.clone();
        flipped[at] ^= 1;
        for damaged in [&flipped[..], &note[..at]] {
            write(&disk, "CLOSED", damaged);
            assert!(matches!(open(&disk, ASKED), Err(Error::Damaged { .. })), "{at}");
        }
    }
    write(&disk, &name, &whole);
    write(&disk, "CLOSED", &note);
    assert_eq!(rows(&open(&disk, ASKED).unwrap()), expected);
    // A crash leaves the note of an earlier close, or none.
    disk.remove("CLOSED").unwrap();
    write(&disk, &name, &whole[..end.len as usize - 1]);
    assert_eq!(rows(&open(&disk, ASKED).unwrap()).len(), expected.len() - 1);
}

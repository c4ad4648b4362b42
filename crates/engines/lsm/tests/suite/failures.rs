//! Disks that fail, processes that are killed, files that are damaged, missing, or another store's.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::common::{MemRun, Model, STORE, Taken, compare, scan, small_options, visible};
use halite_disk::{Disk, DiskModel};
use halite_lsm::levels::{Change, Direction, Error, Levels, LevelsOptions, Report, Result, repair};
use halite_pmem::{Domain, Medium};
use halite_sst::{DELETE, PUT, RangeDelete, SEQUENCE_MAX};
use proptest::prelude::*;

const CONTINUE: ControlFlow<()> = ControlFlow::Continue(());

fn key(number: u64) -> Vec<u8> {
    format!("key {number:03}").into_bytes()
}

/// Run `number` of a history: of 30 keys, with some deleted, and a range now and then.
fn run(number: u64) -> MemRun {
    let mut run = MemRun::default();
    for n in 0..30 {
        let (sequence, at) = (number * 100 + n + 1, (n * 7 + number * 13) % 80);
        let kind = if (n + number).is_multiple_of(5) { DELETE } else { PUT };
        let value = vec![number as u8; if kind == PUT { 15 + n as usize } else { 0 }];
        run.add(&key(at), sequence, kind, &value);
    }
    if number % 3 == 2 {
        let (start, end) = (key(number % 50).into(), key(number % 50 + 6).into());
        run.deletes.push(RangeDelete { start, end, sequence: number * 100 + 50 });
    }
    run
}

fn open(disk: &Disk, options: &LevelsOptions) -> Result<(Levels, Report)> {
    Levels::open(disk, STORE, options.clone(), Taken::default().source())
}

fn change(number: u64) -> Change {
    Change { memtables: Some(number), words: vec![("runs".to_owned(), number)] }
}

/// Adds run `number`, and compacts after it.
fn apply(levels: &Levels, number: u64) -> Result<()> {
    match number % 2 {
        0 => levels.merge_run(0, &run(number), &change(number))?,
        _ => levels.add_run(0, &run(number), &change(number))?,
    }
    levels.compact().map(|_| ())
}

/// The model of runs 0 up to `runs`.
fn model(runs: u64) -> Model {
    let mut model = Model::default();
    (0..runs).for_each(|number| model.add(0, &run(number)));
    model
}

/// Files: number, name, bytes.
type Image = Vec<(u32, Arc<str>, Vec<u8>)>;

/// The bytes of all files.
fn image(disk: &Disk) -> Image {
    let files = disk.list().unwrap().into_iter().enumerate();
    files
        .map(|(at, (name, len))| {
            let mut bytes = vec![0; len as usize];
            disk.open(&name).unwrap().read_at(0, &mut bytes).unwrap();
            (at as u32, name.as_str().into(), bytes)
        })
        .collect()
}

fn disk_of(files: &Image) -> Disk {
    let disk = Disk::in_memory();
    for (_, name, bytes) in files {
        let mut writer = disk.create(name).unwrap();
        writer.write(bytes).unwrap();
        writer.finish().unwrap();
    }
    disk
}

/// A closed store after some runs: its files.
fn sample(runs: u64) -> Image {
    let disk = Disk::in_memory();
    let (levels, _) = open(&disk, &small_options()).unwrap();
    (0..runs).for_each(|number| apply(&levels, number).unwrap());
    levels.close().unwrap();
    image(&disk)
}

/// How a history is disturbed.
#[derive(Clone, Copy, Debug)]
enum Disturbance {
    /// A write, a rename, a removal fails, and then works again.
    Write,
    /// A sync fails.
    Sync,
    /// The process is killed.
    Kill,
}

/// Any failure, at any time, is an error, and the step succeeds when it is repeated; reads meanwhile are right.
#[test]
fn what_fails_leaves_the_old_state_and_is_done_when_it_is_done_again() {
    for disturbance in [Disturbance::Write, Disturbance::Sync, Disturbance::Kill] {
        let failures: usize = (0..130).map(|after| disturbed(disturbance, after)).sum();
        assert!(failures > 30, "{disturbance:?}: {failures} failures");
    }
}

/// A history that is disturbed after so many events, or syncs: how many steps failed.
fn disturbed(disturbance: Disturbance, after: u32) -> usize {
    const RUNS: u64 = 8;
    let medium = Medium::new(Domain::Memory, 1 << 20).unwrap();
    let open_model = || {
        let disk = Disk::model(&DiskModel::of(medium.machine()));
        let (levels, report) = open(&disk, &small_options()).unwrap();
        assert!(report.damaged.is_empty() && report.foreign.is_empty(), "{report:?}");
        (disk, levels)
    };
    let (mut disk, mut levels) = open_model();
    (0..4).for_each(|number| apply(&levels, number).unwrap());
    match disturbance {
        Disturbance::Sync => medium.machine().fail_sync_after(Some(after)),
        _ => medium.machine().cut_power_after(after),
    }
    let runs = |levels: &Levels| levels.word("runs").unwrap() + 1;
    let mut failures = 0;
    while runs(&levels) < RUNS {
        let before = runs(&levels);
        let Err(error) = apply(&levels, before) else { continue };
        assert!(matches!(error, Error::Disk(_)), "{error}");
        compare(&levels, &model(runs(&levels)), &[0], &[]);
        failures += 1;
        let is_killed = matches!(disturbance, Disturbance::Kill);
        if !is_killed {
            medium.restore_power();
            medium.machine().fail_sync_after(None);
        }
        // Where the names in the folder are not certain, the store has to be opened again.
        if is_killed || disk.sync().is_err() {
            drop((levels, disk));
            medium.restore_power();
            (disk, levels) = open_model();
            assert!((before..=before + 1).contains(&runs(&levels)));
            compare(&levels, &model(runs(&levels)), &[0], &[]);
        }
    }
    medium.restore_power();
    medium.machine().fail_sync_after(None);
    while levels.compact().unwrap() {}
    compare(&levels, &model(RUNS), &[0], &[]);
    levels.close().unwrap();
    let (disk, levels) = open_model();
    assert!(levels.check(&mut |_| CONTINUE).is_empty());
    let tables: u64 = levels.stats().levels.iter().map(|level| level.tables).sum();
    let names: Vec<_> = disk.list().unwrap();
    assert_eq!(names.len() as u64, tables + 2, "{names:?}");
    failures
}

fn with_file(files: &Image, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> Image {
    let mut files = files.clone();
    change(&mut files.iter_mut().find(|file| *file.1 == *name).unwrap().2);
    files
}

fn without(files: &Image, name: &str) -> Image {
    files.iter().filter(|file| *file.1 != *name).cloned().collect()
}

fn names(files: &Image, part: &str) -> Vec<String> {
    files.iter().map(|file| file.1.to_string()).filter(|name| name.contains(part)).collect()
}

/// Opens, and reads everything: an error that names a file, or the right answers.
fn open_and_read(files: &Image, right: &Model) -> Option<Error> {
    match open(&disk_of(files), &small_options()) {
        Ok((levels, _)) => {
            compare(&levels, right, &[0], &[]);
            None
        }
        Err(error) => Some(error),
    }
}

#[test]
fn a_manifest_or_current_damaged_in_any_place_is_named() {
    let (files, right) = (sample(4), model(4));
    assert!(open_and_read(&files, &right).is_none());
    let manifest = names(&files, "MANIFEST").remove(0);
    for name in [&manifest[..], "CURRENT"] {
        let len = files.iter().find(|file| *file.1 == *name).unwrap().2.len();
        for at in 0..len {
            for damaged in [
                with_file(&files, name, |bytes| bytes[at] ^= 1 << (at % 8)),
                with_file(&files, name, |bytes| bytes.truncate(at)),
            ] {
                let error = open_and_read(&damaged, &right);
                assert!(error.as_ref().is_some_and(|e| e.file() == Some(name)), "{at}: {error:?}");
            }
        }
        // Bytes behind the end are an edit that was not finished.
        let longer = with_file(&files, name, |bytes| bytes.extend([7; 40]));
        assert_eq!(open_and_read(&longer, &right).is_some(), name == "CURRENT");
        let error = open_and_read(&without(&files, name), &right);
        match name {
            "CURRENT" => assert!(matches!(error, Some(Error::NoManifest))),
            _ => assert!(matches!(error, Some(Error::Missing { file }) if file == name)),
        }
    }
}

/// An edit that was being appended is cut; those before it count.
#[test]
fn a_torn_edit_is_none() {
    let disk = Disk::in_memory();
    let options = LevelsOptions { manifest_bytes_max: 1 << 20, ..small_options() };
    let (levels, _) = open(&disk, &options).unwrap();
    let mut lens = Vec::new();
    let manifest = |disk: &Disk| {
        let list = disk.list().unwrap();
        list.into_iter().find(|(name, _)| name.starts_with("MANIFEST")).unwrap()
    };
    for number in 0..3 {
        levels.add_run(0, &run(number), &change(number)).unwrap();
        lens.push(manifest(&disk).1 as usize);
    }
    drop(levels);
    let files = image(&disk);
    for len in lens[0]..lens[2] {
        let torn = with_file(&files, &manifest(&disk).0, |bytes| bytes.truncate(len));
        let disk = disk_of(&torn);
        let (levels, _) = open(&disk, &options).unwrap();
        let runs = if len < lens[1] { 1 } else { 2 };
        assert_eq!(levels.memtables(0), Some(runs - 1));
        compare(&levels, &model(runs), &[0], &[]);
        levels.add_run(0, &run(runs), &change(runs)).unwrap();
        drop(levels);
        let (levels, report) = open(&disk, &options).unwrap();
        assert!(report.damaged.is_empty());
        compare(&levels, &model(runs + 1), &[0], &[]);
    }
}

/// Reads everything key by key: how many reads failed, all of them for this file. Others are right.
fn failed_reads(levels: &Levels, right: &Model, file: &str) -> usize {
    let mut failed = 0;
    for key in right.keys(0) {
        match levels.get(0, &key, SEQUENCE_MAX) {
            Ok(found) => assert_eq!(visible(found), right.get(0, &key, SEQUENCE_MAX)),
            Err(error) => {
                assert_eq!(error.file(), Some(file));
                failed += 1;
            }
        }
    }
    for direction in [Direction::Forward, Direction::Reverse] {
        match scan(levels, 0, (None, None), direction, SEQUENCE_MAX) {
            Ok(pairs) => assert!(
                pairs
                    .iter()
                    .all(|(key, pair)| { right.get(0, key, SEQUENCE_MAX).as_ref() == Some(pair) })
            ),
            Err(error) => assert_eq!(error.file(), Some(file)),
        }
    }
    failed
}

#[test]
fn damaged_and_missing_tables_fail_only_for_who_needs_them_and_are_left_out_by_a_repair() {
    let (files, right) = (sample(5), model(5));
    let keys = right.keys(0).len();
    for name in names(&files, ".sst") {
        let len = files.iter().find(|file| *file.1 == *name).unwrap().2.len();
        let mut broken = vec![without(&files, &name)];
        for at in (0..len).step_by(31) {
            broken.push(with_file(&files, &name, |bytes| bytes[at] ^= 16));
            broken.push(with_file(&files, &name, |bytes| bytes.truncate(at)));
        }
        for broken in broken {
            let disk = disk_of(&broken);
            let (levels, report) = open(&disk, &small_options()).unwrap();
            let whole_len = broken.iter().find(|file| *file.1 == *name).map(|file| file.2.len());
            assert_eq!(report.damaged.len(), usize::from(whole_len != Some(len)));
            assert!(report.damaged.iter().all(|error| error.file() == Some(&name)));
            assert!(failed_reads(&levels, &right, &name) < keys);
            let found = levels.check(&mut |_| CONTINUE);
            assert_eq!(found.iter().map(Error::file).collect::<Vec<_>>(), [Some(&name[..])]);
            // New data goes on, above the tables that cannot be read.
            levels.merge_run(0, &run(5), &change(5)).unwrap();
            let six = model(6);
            for entry in &run(5).entries {
                assert_eq!(
                    visible(levels.get(0, &entry.0, SEQUENCE_MAX).unwrap()),
                    six.get(0, &entry.0, SEQUENCE_MAX)
                );
            }
            // A compaction may have had no need of the filter that is damaged, and has written the table anew.
            let left = levels.check(&mut |_| CONTINUE).len();
            drop(levels);

            let repaired = repair(&disk, STORE, &small_options()).unwrap();
            assert!(!repaired.is_rebuilt);
            assert_eq!(repaired.lost.len(), left);
            assert!(repaired.lost.iter().all(|error| error.file() == Some(&name)));
            let aside = format!("{name}.damaged");
            assert_eq!(disk.open(&aside).is_ok(), whole_len.is_some() && left > 0);
            let (levels, report) = open(&disk, &small_options()).unwrap();
            assert!(report.damaged.is_empty() && levels.check(&mut |_| CONTINUE).is_empty());
            assert_eq!((levels.memtables(0), levels.word("runs")), (Some(5), Some(5)));
            while levels.compact().unwrap() {}
            for entry in &run(5).entries {
                assert_eq!(
                    visible(levels.get(0, &entry.0, SEQUENCE_MAX).unwrap()),
                    six.get(0, &entry.0, SEQUENCE_MAX)
                );
            }
        }
    }
}

/// Whenever a repair is killed, and whether the store is opened before it is done again or not, a damaged table stays.
#[test]
fn a_repair_that_is_killed_removes_nothing_that_it_sets_aside() {
    let files = sample(5);
    let name = names(&files, ".sst").remove(0);
    let damaged = with_file(&files, &name, |bytes| bytes[0] ^= 16);
    let wanted = &damaged.iter().find(|file| *file.1 == *name).unwrap().2;
    let manifest = names(&files, "MANIFEST").remove(0);
    let no_manifest = with_file(&damaged, &manifest, |bytes| bytes[60] ^= 1);
    for (broken, is_rebuilt) in [(&damaged, false), (&no_manifest, true)] {
        for after in 0.. {
            let medium = Medium::new(Domain::Memory, 1 << 20).unwrap();
            let model = DiskModel::of(medium.machine());
            model.restore(broken.iter().cloned());
            medium.machine().cut_power_after(after);
            let killed = repair(&Disk::model(&model), STORE, &small_options());
            medium.restore_power();
            let disk = Disk::model(&DiskModel::of(medium.machine()));
            let opened = open(&disk, &small_options()).map(drop);
            let repaired = repair(&disk, STORE, &small_options()).unwrap();
            assert!(repaired.is_rebuilt == is_rebuilt || opened.is_ok(), "{after}: {repaired:?}");
            let kept = image(&disk);
            let aside = kept.iter().find(|file| file.1.starts_with(&name));
            assert!(aside.is_some_and(|file| file.2 == *wanted), "{after}: {:?}", names(&kept, ""));
            let (levels, report) = open(&disk, &small_options()).unwrap();
            assert!(report.damaged.is_empty() && levels.check(&mut |_| CONTINUE).is_empty());
            if killed.is_ok() {
                assert!(after > 5, "{after}");
                break;
            }
        }
    }
}

#[test]
fn without_its_manifest_a_store_is_repaired_from_its_tables() {
    for runs in 1..9 {
        let (files, right) = (sample(runs), model(runs));
        let manifest = names(&files, "MANIFEST").remove(0);
        for broken in [
            without(&files, "CURRENT"),
            without(&files, &manifest),
            without(&without(&files, "CURRENT"), &manifest),
            with_file(&files, &manifest, |bytes| bytes[60] ^= 1),
            with_file(&files, "CURRENT", |bytes| bytes[33] ^= 1),
        ] {
            let disk = disk_of(&broken);
            assert!(open(&disk, &small_options()).is_err());
            let repaired = repair(&disk, STORE, &small_options()).unwrap();
            assert!(repaired.is_rebuilt && repaired.lost.len() == 1, "{repaired:?}");
            let (levels, report) = open(&disk, &small_options()).unwrap();
            assert!(report.damaged.is_empty() && report.foreign.is_empty(), "{report:?}");
            compare(&levels, &right, &[0], &[]);
            assert!(levels.check(&mut |_| CONTINUE).is_empty());
            let again = repair(&disk, STORE, &small_options()).unwrap();
            assert!(!again.is_rebuilt && again.lost.is_empty());
        }
    }
}

#[test]
fn what_belongs_to_other_stores_is_named_and_stays() {
    const OTHER: u128 = 77;
    let foreign = {
        let disk = Disk::in_memory();
        let taken = Taken::default();
        let (levels, _) = Levels::open(&disk, OTHER, small_options(), taken.source()).unwrap();
        (0..3).for_each(|number| apply(&levels, number).unwrap());
        levels.close().unwrap();
        image(&disk)
    };
    let (files, right) = (sample(3), model(3));
    let is_foreign = |error: Option<Error>, name: &str| matches!(&error, Some(Error::Foreign { file, found: OTHER, .. }) if file == name);
    assert!(is_foreign(open_and_read(&foreign, &right), "CURRENT"));
    assert!(matches!(
        repair(&disk_of(&foreign), STORE, &small_options()),
        Err(Error::Foreign { .. })
    ));
    // Their manifest under the name of ours, and a table of theirs under the name of one of ours.
    let manifest = names(&files, "MANIFEST").remove(0);
    let theirs = |part: &str| foreign.iter().find(|file| file.1.contains(part)).unwrap().2.clone();
    let swapped = with_file(&files, &manifest, |bytes| *bytes = theirs("MANIFEST"));
    assert!(is_foreign(open_and_read(&swapped, &right), &manifest));
    let table = names(&files, ".sst").remove(0);
    let disk = disk_of(&with_file(&files, &table, |bytes| *bytes = theirs(".sst")));
    let (levels, _) = open(&disk, &small_options()).unwrap();
    let found = levels.check(&mut |_| CONTINUE);
    assert!(is_foreign(found.into_iter().next(), &table));
    failed_reads(&levels, &right, &table);
    drop(levels);
    // Files of another store beside ours, and files that no store knows.
    let mut beside = files.clone();
    let (other, junk): (Arc<str>, Arc<str>) = ("123456.sst".into(), "000999.sst".into());
    beside.push((90, Arc::clone(&other), theirs(".sst")));
    beside.push((91, Arc::clone(&junk), vec![1; 500]));
    beside.push((92, "notes.txt".into(), vec![2; 5]));
    let disk = disk_of(&beside);
    let (levels, report) = open(&disk, &small_options()).unwrap();
    assert_eq!(report.foreign, [&*junk, &*other]);
    compare(&levels, &right, &[0], &[]);
    levels.close().unwrap();
    assert_eq!(names(&image(&disk), "").len(), beside.len());
}

proptest! {
    /// Several bytes anywhere in any files: an error that names one of them, or the right answers.
    #[test]
    fn damage_in_several_places_is_never_a_wrong_answer(
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 1_u8..), 1..8),
    ) {
        let (mut files, right) = (sample(5), model(5));
        for (file, at, bits) in flips {
            let at_file = file.index(files.len());
            let bytes = &mut files[at_file].2;
            let at = at.index(bytes.len());
            bytes[at] ^= bits;
        }
        match open(&disk_of(&files), &small_options()) {
            Err(error) => prop_assert!(error.file().is_some(), "{}", error),
            Ok((levels, _)) => {
                for key in right.keys(0) {
                    match levels.get(0, &key, SEQUENCE_MAX) {
                        Ok(found) => prop_assert_eq!(visible(found), right.get(0, &key, SEQUENCE_MAX)),
                        Err(error) => prop_assert!(error.file().is_some(), "{}", error),
                    }
                }
            }
        }
    }
}

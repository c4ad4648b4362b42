//! Files that share few descriptors, and a kernel that has none left, no memory, or signals to deliver.

use std::fs;
use std::path::Path;

use halite_disk::{Disk, Error, File};
use halite_sim::{Call, Failures};
use tempfile::TempDir;

const EINTR: i32 = 4;
const EAGAIN: i32 = 11;
const ENOMEM: i32 = 12;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
const ERRNOS: [i32; 5] = [EINTR, EAGAIN, ENOMEM, ENFILE, EMFILE];

/// A folder in memory, where there is one, so that the disk itself does not fail.
fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn write(disk: &Disk, name: &str, bytes: &[u8]) {
    let mut writer = disk.create(name).unwrap();
    writer.write(bytes).unwrap();
    writer.finish().unwrap();
}

fn byte(file: &File) -> Result<u8, Error> {
    let mut byte = [0];
    file.read_at(0, &mut byte).map(|()| byte[0])
}

/// The descriptors of this process that are open on files of a folder.
fn descriptors_in(folder: &Path) -> usize {
    let links = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let targets = links.filter_map(|link| fs::read_link(link.path()).ok());
    targets.filter(|target| target.starts_with(folder) && target != folder).count()
}

#[test]
fn many_files_are_read_through_few_descriptors() {
    const FILES: u8 = 40;
    const LIMIT: usize = 5;
    let folder = folder();
    let folder = folder.path().canonicalize().unwrap();
    let disk = Disk::folder(&folder, false).unwrap();
    disk.keep_open(LIMIT);
    (0..FILES).for_each(|number| write(&disk, &number.to_string(), &[number; 10]));
    let open = |number: u8| disk.open_shared(&number.to_string()).unwrap();
    let mut files: Vec<File> = (0..FILES).map(open).collect();
    assert_eq!(disk.kept_open(), (LIMIT, LIMIT));
    let before = disk.traffic().opens;
    for round in 0..3 {
        for (number, file) in files.iter().enumerate() {
            assert_eq!((byte(file).unwrap(), file.len()), (number as u8, 10), "{round}");
            assert!(descriptors_in(&folder) <= LIMIT);
        }
    }
    assert_eq!(disk.traffic().opens - before, 3 * u64::from(FILES), "a walk finds none open");
    // A file that is read again and again stays open.
    let before = disk.traffic().opens;
    for at in 4..20 {
        (0..4).for_each(|often| assert_eq!(byte(&files[often]).unwrap(), often as u8));
        assert_eq!(byte(&files[at]).unwrap(), at as u8);
    }
    let opened = disk.traffic().opens - before;
    assert!((20..=40).contains(&opened), "{opened} opened for 80 reads");
    // Dropped files free their descriptors for others.
    files.truncate(3);
    assert!(disk.kept_open().1 <= 3);
    drop(files);
    assert_eq!((disk.kept_open().1, descriptors_in(&folder)), (0, 0));
}

#[test]
fn threads_read_what_others_have_closed() {
    let folder = folder();
    let disk = Disk::folder(folder.path(), false).unwrap();
    disk.keep_open(2);
    (0..8).for_each(|number| write(&disk, &number.to_string(), &[number; 10]));
    let files: Vec<File> = (0..8).map(|n| disk.open_shared(&n.to_string()).unwrap()).collect();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let files = &files;
            scope.spawn(move || {
                for at in 0..2_000 {
                    let number = (at * 5 + thread * 3) % 8;
                    assert_eq!(byte(&files[number]).unwrap(), number as u8);
                }
            });
        }
    });
    assert!(disk.kept_open().1 <= 2);
}

#[test]
fn another_file_is_not_taken_for_one_that_was_closed() {
    let folder = folder();
    let disk = Disk::folder(folder.path(), false).unwrap();
    disk.keep_open(1);
    ["a", "b"].into_iter().for_each(|name| write(&disk, name, b"12345"));
    let a = disk.open_shared("a").unwrap();
    let b = disk.open_shared("b").unwrap();
    let beside = folder.path().join("a.new");
    fs::write(&beside, "54321").unwrap();
    fs::rename(&beside, folder.path().join("a")).unwrap();
    assert!(matches!(byte(&a), Err(Error::Replaced { .. })));
    assert_eq!(byte(&b).unwrap(), b'1');
    fs::remove_file(folder.path().join("b")).unwrap();
    assert_eq!(byte(&b).unwrap(), b'1', "it is open");
}

#[test]
fn a_few_files_that_are_kept_open_give_way_to_others_when_there_are_no_descriptors() {
    const FILES: u8 = 12;
    let folder = folder();
    let failures = Failures::default();
    let disk = Disk::failing_folder(folder.path(), false, Some(failures.clone())).unwrap();
    (0..FILES).for_each(|number| write(&disk, &number.to_string(), &[number; 10]));
    let open = |number: u8| disk.open_shared(&number.to_string()).unwrap();
    let files: Vec<File> = (0..FILES).map(open).collect();
    assert_eq!(disk.kept_open().1, 12);
    failures.fail(0, 2, EMFILE);
    write(&disk, "log", b"1");
    assert_eq!((failures.failed().len(), disk.kept_open().1), (2, 10));
    failures.fail(0, 3, ENFILE);
    drop(disk.open("log").unwrap());
    assert_eq!(disk.kept_open().1, 7);
    // These descriptors are not the cause of the shortage, so at most four of them are closed for one
    // opening.
    for errno in [EMFILE, ENFILE] {
        let before = disk.kept_open().1;
        failures.fail(0, u64::MAX, errno);
        let error = disk.create("other").unwrap_err();
        assert!(matches!(&error, Error::TooManyFiles { .. }), "{error}");
        assert!(error.to_string().contains("too many open files"), "{error}");
        assert_eq!(disk.kept_open().1, before.saturating_sub(4));
    }
    assert_eq!(disk.kept_open().1, 0);
    assert!(matches!(byte(&files[0]), Err(Error::TooManyFiles { .. })));
    failures.stop();
    let read = |number: u8| assert_eq!(byte(&files[usize::from(number)]).unwrap(), number);
    (0..FILES).for_each(read);
    write(&disk, "other", b"2");
}

/// The operations on files, each repeatable.
type Step = fn(&Disk) -> Result<(), Error>;

const STEPS: [Step; 6] = [
    |disk| {
        let mut writer = disk.create("new")?;
        let written = writer.reserve(1 << 20).and_then(|()| {
            writer.write(&[7; 300_000])?;
            writer.sync()
        });
        // A file whose writing fails is written anew.
        written.inspect_err(|_| disk.remove("new").unwrap())
    },
    |disk| disk.rename("new", "named"),
    |disk| disk.sync(),
    |disk| {
        let file = disk.open("named")?;
        let mut bytes = vec![0; 300_000];
        file.read_at(0, &mut bytes)?;
        assert_eq!((bytes, file.len()), (vec![7; 300_000], 300_000));
        assert_eq!(disk.list()?, [("named".to_owned(), 300_000)]);
        Ok(())
    },
    |disk| disk.append("named", 200_000)?.sync(),
    |disk| disk.remove("named"),
];

/// Every call may fail, for each reason. A step that fails has changed nothing, reports why, and succeeds
/// when it is repeated. A signal, and a write that lacks memory for the moment, are not even noticed.
#[test]
fn every_call_may_fail_and_leaves_what_was() {
    let mut calls = 0;
    for errno in ERRNOS {
        for after in 0.. {
            let folder = folder();
            let failures = Failures::default();
            failures.fail(after, 1, errno);
            let open =
                || Disk::failing_folder(&folder.path().join("a"), true, Some(failures.clone()));
            let opened = open();
            let mut failed = usize::from(opened.is_err());
            let mut disk = opened.or_else(|_| open()).unwrap();
            for step in STEPS {
                let Err(error) = step(&disk) else { continue };
                failed += 1;
                match errno {
                    EMFILE | ENFILE => {
                        assert!(matches!(error, Error::TooManyFiles { .. }), "{error}")
                    }
                    _ => assert!(
                        matches!(&error, Error::Io { source, .. } if source.raw_os_error() == Some(errno)),
                        "{error}"
                    ),
                }
                if disk.sync().is_err() {
                    // The state of the names is unknown, so the disk is opened anew.
                    assert_eq!(failures.failed(), [Call::Sync]);
                    drop(disk);
                    disk = open().unwrap();
                }
                step(&disk).unwrap();
            }
            match failures.failed()[..] {
                // If the space cannot be reserved, the write decides.
                [Call::Resize] => assert!(failed <= 1),
                [call] if call != Call::Write && errno != EINTR => assert_eq!(failed, 1),
                _ => assert_eq!(failed, 0, "{errno} {after}"),
            }
            if failures.failed().is_empty() {
                calls = after;
                break;
            }
        }
    }
    assert!(calls > 20, "{calls}");
}

//! Files keep their written bytes, in a folder and in memory, and wrong input has errors with names.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use halite_disk::{Disk, Error, Traffic};

fn bytes(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at as u8).wrapping_mul(31).wrapping_add((at >> 8) as u8) ^ seed).collect()
}

fn read(disk: &Disk, name: &str) -> Vec<u8> {
    let file = disk.open(name).unwrap();
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

/// Runs a test in a folder and in memory.
fn with_disks(test: impl Fn(Disk)) {
    let folder = tempfile::tempdir().unwrap();
    test(Disk::folder(&folder.path().join("files"), true).unwrap());
    test(Disk::in_memory());
}

#[test]
fn what_is_written_in_pieces_of_any_length_reads_back() {
    with_disks(|disk| {
        let all = bytes(3_000_000, 7);
        let mut writer = disk.create("table").unwrap();
        let (mut at, mut step) = (0, 1);
        while at < all.len() {
            let end = (at + step).min(all.len());
            writer.write(&all[at..end]).unwrap();
            assert_eq!(writer.len(), end as u64);
            (at, step) = (end, step * 3 % 400_000 + 1);
        }
        writer.sync().unwrap();
        let file = writer.finish().unwrap();
        assert_eq!(file.len(), all.len() as u64);
        let mut middle = vec![0; 70_000];
        file.clone().read_at(1_234_567, &mut middle).unwrap();
        assert_eq!(middle, all[1_234_567..][..70_000]);
        assert_eq!(read(&disk, "table"), all);
        assert_eq!(disk.list().unwrap(), [("table".to_owned(), all.len() as u64)]);
    });
}

#[test]
fn folders_of_a_disk_have_files_of_their_own() {
    with_disks(|disk| {
        let [first, second] = ["0", "1"].map(|name| disk.subfolder(name, true).unwrap());
        for (folder, text) in [(&disk, "all"), (&first, "one"), (&second, "two")] {
            let mut writer = folder.create("log").unwrap();
            writer.write(text.as_bytes()).unwrap();
            writer.sync().unwrap();
            folder.sync().unwrap();
        }
        first.rename("log", "old").unwrap();
        assert_eq!(first.list().unwrap(), [("old".to_owned(), 3)]);
        assert!(matches!(first.open("log"), Err(Error::Missing { .. })));
        assert_eq!((read(&first, "old"), read(&second, "log")), (b"one".to_vec(), b"two".to_vec()));
        assert_eq!(disk.list().unwrap(), [("log".to_owned(), 3)]);
        second.remove("log").unwrap();
        assert_eq!((second.list().unwrap().len(), read(&disk, "log")), (0, b"all".to_vec()));
        assert!(matches!(disk.subfolder("a/b", true), Err(Error::Name { .. })));
    });
}

#[test]
fn a_file_that_is_opened_again_is_cut_and_goes_on_there() {
    with_disks(|disk| {
        let first = bytes(2_500_000, 1);
        let mut writer = disk.create("log").unwrap();
        writer.write(&first).unwrap();
        drop(writer.finish().unwrap());
        let mut writer = disk.append("log", 2_400_001).unwrap();
        assert_eq!(writer.len(), 2_400_001);
        writer.write(b"more").unwrap();
        writer.sync().unwrap();
        drop(writer);
        assert_eq!(read(&disk, "log"), [&first[..2_400_001], b"more"].concat());
        let error = disk.append("log", 2_400_006).unwrap_err();
        assert!(matches!(error, Error::Short { len: 2_400_006, file_len: 2_400_005, .. }));
        assert_eq!(read(&disk, "log").len(), 2_400_005);
    });
}

#[test]
fn space_that_is_set_aside_is_the_files_and_no_bytes_of_it() {
    with_disks(|disk| {
        let mut writer = disk.create("log").unwrap();
        for round in 1..4 {
            writer.reserve(round * 100_000).unwrap();
            writer.write(&bytes(70_000, 1)).unwrap();
            assert_eq!(writer.len(), round * 70_000);
        }
        writer.give_back().unwrap();
        writer.write(b"more").unwrap();
        writer.sync().unwrap();
        assert_eq!(read(&disk, "log").len(), 210_004);
    });
    let disk = Disk::in_memory_up_to(1_000);
    let mut log = disk.create("log").unwrap();
    log.reserve(800).unwrap();
    let mut other = disk.create("other").unwrap();
    other.write(&[1; 300]).unwrap();
    assert!(matches!(other.flush(), Err(Error::NoSpace { .. })));
    assert!(matches!(log.reserve(1_001), Err(Error::NoSpace { .. })));
    log.write(&[2; 700]).unwrap();
    log.flush().unwrap();
    log.give_back().unwrap();
    let mut third = disk.create("third").unwrap();
    third.write(&[3; 300]).unwrap();
    third.flush().unwrap();
    assert!(matches!(log.reserve(701), Err(Error::NoSpace { .. })));
}

#[test]
fn what_only_the_buffer_has_is_not_in_the_file() {
    with_disks(|disk| {
        let mut writer = disk.create("log").unwrap();
        writer.write(b"synced").unwrap();
        writer.sync().unwrap();
        writer.write(b"buffered").unwrap();
        drop(writer);
        assert_eq!(read(&disk, "log"), b"synced");
    });
}

#[test]
fn a_rename_replaces_and_an_open_file_outlives_its_name() {
    with_disks(|disk| {
        for (name, value) in [("current", b"old"), ("new", b"new")] {
            let mut writer = disk.create(name).unwrap();
            writer.write(value).unwrap();
            writer.sync().unwrap();
        }
        let old = disk.open("current").unwrap();
        disk.rename("new", "current").unwrap();
        disk.sync().unwrap();
        assert_eq!(disk.list().unwrap(), [("current".to_owned(), 3)]);
        assert_eq!(read(&disk, "current"), b"new");
        let mut bytes = [0; 3];
        old.read_at(0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"old");
        disk.remove("current").unwrap();
        assert_eq!(disk.list().unwrap(), []);
        old.read_at(0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"old");
    });
}

#[test]
fn names_that_are_none_or_not_there_or_taken_are_refused() {
    with_disks(|disk| {
        let long = "n".repeat(256);
        for name in ["", ".", "..", "a/b", "/etc/passwd", "../up", "a\0b", &long] {
            assert!(matches!(disk.create(name), Err(Error::Name { .. })), "{name:?}");
            assert!(matches!(disk.append(name, 0), Err(Error::Name { .. })), "{name:?}");
            assert!(matches!(disk.open(name), Err(Error::Name { .. })), "{name:?}");
            assert!(matches!(disk.remove(name), Err(Error::Name { .. })), "{name:?}");
            assert!(matches!(disk.rename(name, "a"), Err(Error::Name { .. })), "{name:?}");
            assert!(matches!(disk.rename("a", name), Err(Error::Name { .. })), "{name:?}");
        }
        assert!(matches!(disk.open("a"), Err(Error::Missing { .. })));
        assert!(matches!(disk.append("a", 0), Err(Error::Missing { .. })));
        assert!(matches!(disk.remove("a"), Err(Error::Missing { .. })));
        assert!(matches!(disk.rename("a", "b"), Err(Error::Missing { .. })));
        disk.create(&"n".repeat(255)).unwrap();
        disk.create("a").unwrap();
        let error = disk.create("a").unwrap_err();
        assert!(matches!(error, Error::Exists { .. }));
        assert!(error.to_string().contains("/a: something is already here"), "{error}");
        assert_eq!(disk.list().unwrap().len(), 2);
    });
}

#[test]
fn bytes_outside_a_file_are_a_named_error() {
    with_disks(|disk| {
        let mut writer = disk.create("short").unwrap();
        writer.write(&[1; 100]).unwrap();
        let file = writer.finish().unwrap();
        file.read_at(100, &mut []).unwrap();
        for (at, len) in [(0, 101), (100, 1), (u64::MAX, 2), (1 << 40, 1)] {
            let error = file.read_at(at, &mut vec![0; len]).unwrap_err();
            assert!(
                matches!(error, Error::Short { at: from, file_len: 100, .. } if from == at),
                "{error}"
            );
        }
        // Another handle cuts it while it is open.
        drop(disk.append("short", 50).unwrap());
        file.read_at(0, &mut [0; 50]).unwrap();
        let error = file.read_at(40, &mut [0; 20]).unwrap_err();
        assert!(matches!(error, Error::Short { at: 40, len: 20, file_len: 50, .. }), "{error}");
    });
}

#[test]
fn traffic_counts_bytes_calls_and_syncs() {
    with_disks(|disk| {
        let mut writer = disk.create("file").unwrap();
        writer.write(&[1; 10]).unwrap();
        let buffered = disk.traffic();
        assert_eq!(buffered, Traffic::default());
        writer.sync().unwrap();
        disk.sync().unwrap();
        let file = writer.finish().unwrap();
        file.read_at(2, &mut [0; 5]).unwrap();
        let Traffic { bytes_written, writes, bytes_read, reads, syncs, opens } =
            disk.traffic() - buffered;
        assert_eq!((bytes_written, writes, bytes_read, reads), (10, 1, 5, 1));
        assert_eq!((syncs, opens), (2, 0));
    });
}

#[test]
fn what_is_written_again_is_traffic_of_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Disk::folder(folder.path(), false).unwrap();
    let mut writer = disk.create("log").unwrap();
    writer.write(&bytes(3 << 20, 3)).unwrap();
    writer.sync().unwrap();
    drop(writer);
    let before = disk.traffic();
    drop(disk.append("log", (2 << 20) + 5).unwrap());
    let Traffic { bytes_written, writes, bytes_read, reads, syncs, opens } =
        disk.traffic() - before;
    assert_eq!((bytes_written, bytes_read), ((2 << 20) + 5, (2 << 20) + 5));
    assert_eq!((writes, reads, syncs, opens), (3, 3, 0, 0));
}

#[test]
fn a_folder_is_made_with_those_that_it_is_in_only_if_that_is_wanted() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("a/b/c");
    let error = Disk::folder(&path, false).unwrap_err();
    assert!(matches!(&error, Error::Missing { path: missing } if *missing == path), "{error}");
    let disk = Disk::folder(&path, true).unwrap();
    assert_eq!(disk.path(), path);
    drop(disk.create("file").unwrap());
    drop(disk);
    let disk = Disk::folder(&path, true).unwrap();
    assert_eq!(disk.list().unwrap(), [("file".to_owned(), 0)]);
}

#[test]
fn a_file_in_the_place_of_the_folder_is_a_named_error() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("file");
    fs::write(&path, "not a folder").unwrap();
    for create in [false, true] {
        let error = Disk::folder(&path, create).unwrap_err();
        assert!(matches!(error, Error::NotAFolder { .. }), "{error}");
        let error = Disk::folder(&path.join("below"), create).unwrap_err();
        assert!(matches!(error, Error::NotAFolder { .. }), "{error}");
    }
    assert_eq!(fs::read(&path).unwrap(), b"not a folder");
}

#[test]
fn a_folder_has_one_disk_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Disk::folder(folder.path(), false).unwrap();
    let writer = disk.create("file").unwrap();
    assert!(matches!(Disk::folder(folder.path(), false), Err(Error::Locked { .. })));
    drop(disk);
    assert!(matches!(Disk::folder(folder.path(), false), Err(Error::Locked { .. })));
    let file = writer.finish().unwrap();
    // A disk that only reads locks no other out.
    Disk::folder(folder.path(), false).unwrap();
    assert!(file.is_empty());
}

#[test]
fn what_is_read_only_is_a_named_error() {
    let folder = tempfile::tempdir().unwrap();
    let set_mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode));
    fs::write(folder.path().join("log"), "log").unwrap();
    set_mode(&folder.path().join("log"), 0o444).unwrap();
    let disk = Disk::folder(folder.path(), false).unwrap();
    assert!(matches!(disk.append("log", 1), Err(Error::ReadOnly { .. })));
    assert_eq!(read(&disk, "log"), b"log");
    drop(disk);
    set_mode(folder.path(), 0o555).unwrap();
    assert!(matches!(Disk::folder(folder.path(), true), Err(Error::ReadOnly { .. })));
    set_mode(folder.path(), 0o755).unwrap();
}

#[test]
fn what_others_put_into_the_folder_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("README"), "foreign").unwrap();
    fs::create_dir(at("lost+found")).unwrap();
    symlink(at("README"), at("link")).unwrap();
    let pipe = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), pipe, 0o644.into(), 0).unwrap();
    let disk = Disk::folder(folder.path(), true).unwrap();
    assert_eq!(disk.list().unwrap(), [("README".to_owned(), 7)]);
    for name in ["lost+found", "link", "pipe"] {
        assert!(matches!(disk.open(name), Err(Error::NotAFile { .. })), "{name}");
        assert!(matches!(disk.append(name, 0), Err(Error::NotAFile { .. })), "{name}");
        assert!(matches!(disk.create(name), Err(Error::Exists { .. })), "{name}");
    }
    assert!(disk.remove("lost+found").is_err());
    assert!(matches!(disk.create("README"), Err(Error::Exists { .. })));
    drop(disk.create("ours").unwrap());
    assert!(disk.rename("ours", "lost+found").is_err());
    disk.rename("ours", "theirs").unwrap();
    disk.sync().unwrap();
    assert_eq!(fs::read(at("README")).unwrap(), b"foreign");
    assert!(at("lost+found").is_dir() && at("link").is_symlink());
}

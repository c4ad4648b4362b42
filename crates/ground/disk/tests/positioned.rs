//! Files that are written at any place keep what is written there, in a folder, past the page cache, in memory and in a
//! model.

use std::fs;
use std::path::Path;
use std::thread;

use halite_disk::{Access, AlignedBuffer, Disk, DiskModel, Error, FileEvent, PositionedFile};
use halite_sim::{Call, Failures, Machine, Trace, What};
use rustix::io::Errno;

const KIB: u64 = 1 << 10;

fn bytes(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at as u8).wrapping_mul(31).wrapping_add((at >> 8) as u8) ^ seed).collect()
}

fn read(file: &PositionedFile, at: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    file.read_at(at, &mut bytes).unwrap();
    bytes
}

/// Runs a test on every kind of file.
fn with_files(test: impl Fn(&Disk, PositionedFile)) {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::default();
    let disks = [
        Disk::folder(&folder.path().join("files"), true).unwrap(),
        Disk::in_memory(),
        Disk::model(&DiskModel::of(&machine)),
    ];
    for disk in disks {
        for (name, access) in [("cached", Access::Cached), ("direct", Access::Direct)] {
            let file = disk.create_positioned(name, access).unwrap();
            println!("{file:?}");
            assert!(!file.is_direct() || access == Access::Direct);
            test(&disk, file);
        }
    }
}

#[test]
fn bytes_are_found_where_they_were_written_and_zeros_between_them() {
    with_files(|disk, file| {
        let (first, second) = (bytes(12 << 10, 1), bytes(4 << 10, 2));
        file.write_at(16 * KIB, &first).unwrap();
        file.write_at(20 * KIB, &second).unwrap();
        file.write_at(64 * KIB, &second).unwrap();
        assert_eq!(file.len(), 68 * KIB);
        assert_eq!(read(&file, 0, 16 << 10), vec![0; 16 << 10]);
        assert_eq!(read(&file, 16 * KIB, 4 << 10), first[..4 << 10]);
        assert_eq!(read(&file, 20 * KIB, 4 << 10), second);
        assert_eq!(read(&file, 24 * KIB, 4 << 10), first[8 << 10..]);
        // Of a direct file, too, any range can be read.
        assert_eq!(read(&file, 24 * KIB + 5, 1000), first[(8 << 10) + 5..][..1000]);
        assert_eq!(read(&file, 68 * KIB - 1, 1), second[second.len() - 1..]);
        file.write_at(1 << 40, &[]).unwrap();
        let mut behind = [0; 2];
        let short = file.read_at(68 * KIB - 1, &mut behind).unwrap_err();
        assert!(matches!(short, Error::Short { file_len, .. } if file_len == 68 * KIB), "{short}");
        file.sync().unwrap();
        let name = file.path().file_name().unwrap().to_str().unwrap().to_owned();
        drop(file);
        let file = disk.open_positioned(&name, Access::Cached).unwrap();
        assert_eq!((file.len(), file.is_direct()), (68 * KIB, false));
        assert_eq!(read(&file, 20 * KIB, 4 << 10), second);
    });
}

#[test]
fn space_is_set_aside_as_zeros_and_zeros_are_written_over_bytes() {
    with_files(|disk, file| {
        file.preallocate(64 * KIB).unwrap();
        file.preallocate(4 * KIB).unwrap();
        assert_eq!(file.len(), 64 * KIB);
        assert_eq!(read(&file, 0, 64 << 10), vec![0; 64 << 10]);
        let ones = vec![1; 64 << 10];
        file.write_at(0, &ones).unwrap();
        file.write_zeros(8 * KIB..16 * KIB).unwrap();
        assert_eq!(read(&file, 4 * KIB, 4 << 10), ones[..4 << 10]);
        assert_eq!(read(&file, 8 * KIB, 8 << 10), vec![0; 8 << 10]);
        assert_eq!(read(&file, 16 * KIB, 48 << 10), ones[..48 << 10]);
        // Behind the end they make the file longer, and bytes that are written again stay as they are.
        let before = disk.traffic();
        file.write_zeros(64 * KIB..1024 * KIB).unwrap();
        assert_eq!((disk.traffic() - before).bytes_written, 960 * KIB);
        assert_eq!((disk.traffic() - before).writes, 4);
        file.rewrite(0..1024 * KIB).unwrap();
        assert_eq!((disk.traffic() - before).bytes_read, 1024 * KIB);
        file.begin_write_back(0..1024 * KIB);
        file.sync().unwrap();
        assert_eq!((disk.traffic() - before).syncs, 1);
        assert_eq!(file.len(), 1024 * KIB);
        assert_eq!(read(&file, 0, 8 << 10), ones[..8 << 10]);
        assert_eq!(read(&file, 64 * KIB, 960 << 10), vec![0; 960 << 10]);
    });
}

#[test]
fn space_that_is_set_aside_has_blocks_on_the_device() {
    use std::os::unix::fs::MetadataExt;
    let folder = tempfile::tempdir().unwrap();
    let disk = Disk::folder(folder.path(), false).unwrap();
    let file = disk.create_positioned("log", Access::Cached).unwrap();
    file.write_at(1024 * KIB - 1, &[0]).unwrap();
    let blocks = |file: &PositionedFile| fs::metadata(file.path()).unwrap().blocks() * 512;
    let sparse = blocks(&file);
    assert!(sparse < 512 * KIB, "{sparse}");
    file.preallocate(2048 * KIB).unwrap();
    assert!(blocks(&file) >= sparse + 1024 * KIB, "{} of {sparse}", blocks(&file));
}

#[test]
fn threads_write_side_by_side_and_make_the_file_longer() {
    with_files(|_, file| {
        thread::scope(|scope| {
            for seed in 0..4_u8 {
                let file = &file;
                scope.spawn(move || {
                    for number in 0..8 {
                        let at = (number * 4 + u64::from(seed)) * 4 * KIB;
                        file.write_at(at, &bytes(4 << 10, seed)).unwrap();
                        file.sync().unwrap();
                    }
                });
            }
        });
        assert_eq!(file.len(), 128 * KIB);
        for number in 0..32 {
            let there = read(&file, number * 4 * KIB, 4 << 10);
            assert_eq!(there, bytes(4 << 10, number as u8 % 4), "{number}");
        }
    });
}

#[test]
fn a_direct_file_takes_buffers_at_any_address_and_whole_units_only() {
    with_files(|_, file| {
        let mut buffer = AlignedBuffer::zeroed(8 << 10, 4096);
        buffer.copy_from_slice(&bytes(8 << 10, 3));
        file.write_at(0, &buffer).unwrap();
        file.write_at(8 * KIB, &buffer[1..][..4 << 10]).unwrap();
        let mut back = AlignedBuffer::zeroed(8 << 10, 4096);
        file.read_at(0, &mut back).unwrap();
        assert_eq!(*back, *buffer);
        assert_eq!(read(&file, 8 * KIB, 4 << 10), buffer[1..][..4 << 10]);
        let Some(alignment) = file.alignment() else { return };
        for (at, len) in [(alignment.offset / 2, alignment.offset), (0, alignment.offset + 1)] {
            let refused = [
                file.write_at(at, &vec![0; len as usize]),
                file.write_zeros(at..at + len),
                file.rewrite(at..at + len),
                file.preallocate(64 * KIB + 1),
            ];
            for refused in refused {
                assert!(matches!(refused, Err(Error::Unaligned { .. })), "{refused:?}");
            }
        }
        assert_eq!(file.len(), 12 * KIB);
    });
}

/// A disk whose calls of the kernel fail.
fn failing(folder: &Path) -> (Disk, Failures) {
    let failures = Failures::default();
    (Disk::failing_folder(folder, false, Some(failures.clone())).unwrap(), failures)
}

#[test]
fn after_a_sync_that_fails_the_file_takes_no_change_any_more() {
    let folder = tempfile::tempdir().unwrap();
    for access in [Access::Cached, Access::Direct] {
        let (disk, failures) = failing(folder.path());
        let name = format!("{access:?}");
        let file = disk.create_positioned(&name, access).unwrap();
        file.write_at(0, &bytes(4 << 10, 1)).unwrap();
        file.sync().unwrap();
        file.write_at(0, &bytes(4 << 10, 2)).unwrap();
        failures.fail_every(Call::Sync, Errno::IO.raw_os_error());
        let error = file.sync().unwrap_err();
        assert!(error.to_string().contains(": cannot sync the file: "), "{error}");
        assert_eq!(failures.failed(), [Call::Sync]);
        failures.stop();
        let other = file.clone();
        let refused = [
            other.sync(),
            other.write_at(0, &bytes(4 << 10, 3)),
            other.write_zeros(0..4 * KIB),
            other.rewrite(0..4 * KIB),
            other.preallocate(64 * KIB),
            other.check(),
        ];
        for refused in refused {
            assert!(matches!(refused, Err(Error::Failed { .. })), "{refused:?}");
        }
        // Reads go on, and so do other files.
        assert_eq!(read(&file, 0, 4 << 10), bytes(4 << 10, 2));
        let again = disk.open_positioned(&name, access).unwrap();
        again.rewrite(0..4 * KIB).unwrap();
        again.sync().unwrap();
    }
}

#[test]
fn a_call_that_fails_has_a_name_and_leaves_a_file_that_works() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, failures) = failing(folder.path());
    let file = disk.create_positioned("log", Access::Cached).unwrap();
    file.write_at(0, &bytes(8 << 10, 1)).unwrap();
    type IsNamed = fn(&Error) -> bool;
    let cases: [(Errno, IsNamed); 4] = [
        (Errno::NOSPC, |error| matches!(error, Error::NoSpace { .. })),
        (Errno::DQUOT, |error| matches!(error, Error::NoSpace { .. })),
        (Errno::ROFS, |error| matches!(error, Error::ReadOnly { .. })),
        (Errno::IO, |error| matches!(error, Error::Io { .. })),
    ];
    for (errno, is_named) in cases {
        failures.fail_every(Call::Resize, errno.raw_os_error());
        let error = file.preallocate(64 * KIB).unwrap_err();
        assert!(is_named(&error), "{errno}: {error}");
        failures.fail_every(Call::Write, errno.raw_os_error());
        let error = file.write_at(4 * KIB, &bytes(8 << 10, 2)).unwrap_err();
        assert!(is_named(&error), "{errno}: {error}");
        failures.stop();
        assert_eq!((file.len(), fs::metadata(file.path()).unwrap().len()), (8 * KIB, 8 * KIB));
    }
    // A signal is no failure, and without `fallocate` the zeros are written.
    failures.fail(0, 3, Errno::INTR.raw_os_error());
    file.write_at(4 * KIB, &bytes(8 << 10, 2)).unwrap();
    file.sync().unwrap();
    assert_eq!(failures.failed().len(), 3);
    failures.fail_every(Call::Resize, Errno::OPNOTSUPP.raw_os_error());
    let before = disk.traffic();
    file.preallocate(1024 * KIB).unwrap();
    assert_eq!((disk.traffic() - before).bytes_written, 1012 * KIB);
    assert_eq!((file.len(), read(&file, 4 * KIB, 8 << 10)), (1024 * KIB, bytes(8 << 10, 2)));
    failures.stop();
    file.sync().unwrap();
}

#[test]
fn a_lack_of_space_shows_at_preallocation_behind_the_end_and_in_a_hole() {
    let machine = Machine::default();
    let model = DiskModel::of(&machine);
    let (disk, limited) = (Disk::model(&model), Disk::in_memory_up_to(64 * KIB));
    model.limit(Some(64 * KIB));
    for disk in [disk, limited] {
        let full = |answer: Result<(), Error>| {
            assert!(matches!(answer, Err(Error::NoSpace { .. })), "{answer:?}");
        };
        let file = disk.create_positioned("log", Access::Cached).unwrap();
        full(file.preallocate(65 * KIB));
        assert_eq!(file.len(), 0);
        file.preallocate(32 * KIB).unwrap();
        // A hole takes no room until it is written to.
        file.write_at(255 * KIB, &[1; 1 << 10]).unwrap();
        assert_eq!((file.len(), disk.memory_bytes()), (256 * KIB, 33 * KIB));
        full(file.write_at(100 * KIB, &[1; 32 << 10]));
        file.write_at(100 * KIB, &[1; 31 << 10]).unwrap();
        full(file.write_at(31 * KIB, &[2; 2 << 10]));
        full(file.write_at(256 * KIB, &[1]));
        full(disk.create_positioned("other", Access::Cached).unwrap().write_at(0, &[1]));
        // Space that was set aside, or written before, has its room.
        file.write_at(0, &[3; 32 << 10]).unwrap();
        file.write_at(120 * KIB, &[3; 11 << 10]).unwrap();
        assert_eq!(read(&file, 99 * KIB, 2 << 10), [vec![0; 1 << 10], vec![1; 1 << 10]].concat());
        drop(disk.append("log", 130 * KIB).unwrap());
        assert_eq!(disk.memory_bytes(), 62 * KIB);
        drop(file);
        disk.remove("log").unwrap();
        assert_eq!(disk.memory_bytes(), 0);
    }
}

#[test]
fn what_happens_to_a_modelled_file_is_recorded() {
    let machine = Machine::default();
    let model = DiskModel::of(&machine);
    let disk = Disk::model(&model);
    let file = disk.create_positioned("log", Access::Direct).unwrap();
    assert!(file.is_direct());
    file.preallocate(2048).unwrap();
    file.write_at(512, &[1; 512]).unwrap();
    file.write_zeros(0..512).unwrap();
    file.begin_write_back(0..2048);
    file.sync().unwrap();
    machine.fail_sync_after(Some(0));
    assert!(matches!(file.sync(), Err(Error::Io { .. })));
    assert!(matches!(file.sync(), Err(Error::Failed { .. })));
    machine.cut_power();
    let file = disk.open_positioned("log", Access::Cached).unwrap();
    let cut = [file.preallocate(4096), file.write_at(0, &[1]), file.rewrite(0..1), file.sync()];
    assert!(cut.iter().all(|cut| matches!(cut, Err(Error::PowerCut { .. }))), "{cut:?}");
    assert_eq!((file.len(), disk.memory_bytes()), (2048, 2048));
    let mut trace = Trace::default();
    machine.take_trace(&mut trace);
    let happened = trace.events.iter().filter_map(|event| match event.what {
        What::Disk { number, bytes, len, .. } => {
            assert_eq!(event.site.file(), file!());
            Some((model.event(number).unwrap(), trace.stored(bytes, len).to_vec()))
        }
        _ => None,
    });
    let expected = [
        (FileEvent::Create { file: 0, name: "log".into() }, vec![]),
        (FileEvent::Preallocate { file: 0, len: 2048 }, vec![]),
        (FileEvent::Write { file: 0, at: 512 }, vec![1; 512]),
        (FileEvent::Write { file: 0, at: 0 }, vec![0; 512]),
        (FileEvent::Sync { file: 0 }, vec![]),
        (FileEvent::SyncFailed { file: 0 }, vec![]),
    ];
    assert_eq!(happened.collect::<Vec<_>>(), expected);
}

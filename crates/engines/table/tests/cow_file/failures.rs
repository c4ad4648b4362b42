//! A call of the kernel that fails leaves the file as it was, or as the batch has it.

use halite_sim::Failures;
use halite_table::index::Error;

use super::*;

const NO_SPACE: i32 = 28;
const IO: i32 = 5;

fn fill(file: &mut CowFile, byte: u8) -> halite_table::index::Result<()> {
    for number in 0..40_u8 {
        file.put(0, &[number], &vec![byte; 20 * usize::from(number)])?;
    }
    file.put(1, &[byte], b"there")?;
    file.commit()
}

fn state(file: &CowFile) -> Vec<(Vec<u8>, Vec<u8>)> {
    [entries_of(file, 0), entries_of(file, 1)].concat()
}

#[test]
fn after_any_call_that_fails_the_file_is_as_before_the_batch_or_after_it() {
    for errno in [NO_SPACE, IO] {
        let (mut failing, mut refused) = (0, 0);
        loop {
            let folder = tempfile::tempdir().expect("a folder");
            let failures = Failures::default();
            let disk = Disk::failing_folder(folder.path(), true, Some(failures.clone()));
            let disk = disk.expect("a folder");
            let mut file = create(&disk, 512);
            fill(&mut file, 1).expect("a batch");
            let before = state(&file);
            failures.fail(failing, 1, errno);
            let committed = fill(&mut file, 2);
            failures.stop();
            if failures.failed().is_empty() {
                committed.expect("a batch without a failure");
                break;
            }
            if let Err(error) = committed {
                file.abort();
                assert_eq!(state(&file), before, "call {failing}: {error}");
                // After a sync that failed nothing is written.
                if let Err(error) = fill(&mut file, 3) {
                    refused += 1;
                    let is_named = matches!(
                        error,
                        Error::Unknown { .. } | Error::Disk(halite_disk::Error::Failed { .. })
                    );
                    assert!(is_named, "call {failing}: {error}");
                    file.abort();
                    assert_eq!(state(&file), before, "call {failing}");
                } else {
                    file.verify().expect("a whole file");
                }
            }
            let there = state(&file);
            drop(file);
            let mut file = open(&disk);
            file.verify().expect("a whole file");
            let found = state(&file);
            let is_new = found.iter().any(|(_, value)| value.first() == Some(&2));
            assert!(found == there || is_new, "call {failing}");
            fill(&mut file, 4).expect("it goes on");
            file.verify().expect("a whole file");
            failing += 1;
        }
        assert!(failing >= 4 && refused >= 2, "{failing} calls, {refused} refused");
    }
}

#[test]
fn without_room_on_the_device_a_batch_is_aborted_and_the_file_stays_good() {
    let disk = Disk::in_memory_up_to(120_000);
    let mut file = create(&disk, 512);
    fill(&mut file, 1).expect("a batch");
    let before = state(&file);
    let refused = (0..).find_map(|number: u32| {
        file.put(2, &number.to_be_bytes(), &[7; 400]).expect("a put in DRAM");
        if number % 10 == 9 { file.commit().err() } else { None }
    });
    let refused = refused.expect("the room ends");
    assert!(matches!(refused, Error::Disk(halite_disk::Error::NoSpace { .. })), "{refused}");
    assert_eq!(state(&file), before);
    let whole = file.verify().expect("a whole file");
    drop(file);
    let mut file = open(&disk);
    assert_eq!(file.verify().expect("a whole file"), whole);
    // Entries can be removed one by one, and make room for others.
    for number in 0..20_u8 {
        assert!(file.remove(0, &[number]).expect("a removal"));
        file.commit().expect("a batch that frees as many pages as it takes");
    }
    file.clear(0).expect("a tree without entries");
    file.commit().expect("a commit");
    file.put(2, b"more", &[1; 4000]).expect("a put");
    file.commit().expect("a commit");
    file.verify().expect("a whole file");
}

#[test]
fn a_map_of_a_batch_that_failed_never_counts() {
    for failing in 0.. {
        let folder = tempfile::tempdir().expect("a folder");
        let failures = Failures::default();
        let disk = Disk::failing_folder(folder.path(), true, Some(failures.clone()));
        let disk = disk.expect("a folder");
        let mut file = create(&disk, 256);
        // A group has 1,912 pages: the second value is in the second group, and free pages are in the first.
        for (key, len) in [(b"first", 150_000), (b"other", 700_000)] {
            file.put(1, key, &vec![1; len]).expect("a put");
            file.commit().expect("a commit");
        }
        file.remove(1, b"first").expect("a removal");
        file.commit().expect("a commit");
        assert!(file.pages().0 > 1912);
        file.remove(1, b"other").expect("a removal");
        failures.fail(failing, 1, IO);
        let committed = file.commit();
        failures.stop();
        let has_failed = !failures.failed().is_empty();
        assert_eq!(committed.is_err(), has_failed, "{committed:?}");
        drop(file);
        let mut file = open(&disk);
        file.put(0, b"key", b"in the first group").expect("a put");
        file.commit().expect("a commit");
        drop(file);
        let file = open(&disk);
        file.verify().expect("a whole file");
        if !has_failed {
            assert!(failing >= 4, "{failing} calls");
            break;
        }
    }
}

#[test]
fn a_batch_whose_change_failed_can_only_be_aborted() {
    let disk = Disk::in_memory();
    let mut file = create(&disk, 256);
    fill(&mut file, 1).expect("a batch");
    drop(file);
    // All nodes are damaged: what the batch has to read is not there.
    let bytes = disk.open_positioned("trees", halite_disk::Access::Cached).expect("the file");
    let nodes = 256 * 34..bytes.len();
    let whole = {
        let mut whole = vec![0; (nodes.end - nodes.start) as usize];
        bytes.read_at(nodes.start, &mut whole).expect("bytes");
        whole
    };
    let mut file = open(&disk);
    bytes.write_zeros(nodes.clone()).expect("zeros");
    assert!(matches!(file.put(0, b"key", b""), Err(Error::Damaged { .. })));
    bytes.write_at(nodes.start, &whole).expect("bytes");
    file.put(0, b"key", b"").expect("a put below a page that is whole");
    file.commit().expect("a commit");
    file.verify().expect("a whole file");
}

//! A log against the list of what was appended to it: after it ended, was cut anywhere, or lost a file.

use std::collections::BTreeSet;
use std::thread;

use halite_disk::Disk;
use halite_wal::{Error, Found, HEADER, Identity, Known, Shape, Stopped, Wal};

const LOG: Identity = Identity { store_id: 7, sequence_max: 1 << 40 };
const FILE: u64 = 4096;
const SHAPE: Shape = Shape { file_bytes: FILE, kept_bytes: 2 * FILE };

/// A batch: its first sequence, how many records it has, and its payload.
type Batch = (u64, u32, Vec<u8>);

fn batch(sequence: u64) -> Batch {
    (sequence, 1 + sequence as u32 % 3, vec![sequence as u8; sequence as usize % 50])
}

fn read_known(disk: &Disk, known: Known) -> (Found, Vec<Batch>) {
    let mut batches = Vec::new();
    let found = Found::read(disk, LOG, known, |batch| {
        batches.push((batch.sequence, batch.records, batch.payload.to_vec()));
        Ok::<_, ()>(())
    });
    (found.unwrap_or_else(|why| panic!("{why:?}")), batches)
}

fn read(disk: &Disk) -> (Found, Vec<Batch>) {
    read_known(disk, Known::default())
}

fn open(disk: &Disk) -> Wal {
    Wal::open(disk, LOG, read(disk).0, SHAPE).unwrap()
}

fn append(wal: &Wal, (sequence, records, payload): &Batch) -> u64 {
    let len = payload.len() as u64;
    if wal.lacks(len, 0) {
        wal.grow(len, 0).unwrap();
    }
    wal.place(len).unwrap();
    wal.append(*sequence, *records, |to| to.extend_from_slice(payload))
}

/// A log of as many batches as fill so many files, and some in the next one, and all of them by file.
fn written(disk: &Disk, files: u64) -> Vec<Vec<Batch>> {
    let wal = open(disk);
    let (mut next, mut all) = (1, vec![Vec::new()]);
    loop {
        let batch = batch(next);
        append(&wal, &batch);
        if wal.number() > all.len() as u64 {
            all.push(Vec::new());
        }
        next += u64::from(batch.1);
        let of_file = all.last_mut().unwrap();
        of_file.push(batch);
        if next % 7 == 0 {
            wal.sync().unwrap();
        }
        if wal.number() > files && of_file.len() == 9 {
            wal.sync().unwrap();
            return all;
        }
    }
}

fn content(disk: &Disk, name: &str) -> Vec<u8> {
    let file = disk.open(name).unwrap();
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

/// Puts a file in place of the one of that name, if there is one.
fn put(disk: &Disk, name: &str, bytes: &[u8]) {
    let _ = disk.remove(name);
    let mut writer = disk.create(name).unwrap();
    writer.write(bytes).unwrap();
    writer.sync().unwrap();
}

fn names(disk: &Disk) -> Vec<String> {
    disk.list().unwrap().into_iter().map(|(name, _)| name).collect()
}

#[test]
fn what_was_appended_and_synced_comes_back_in_order() {
    let disk = Disk::in_memory();
    let all = written(&disk, 2);
    let (found, batches) = read(&disk);
    assert_eq!(batches, all.concat());
    let (last, records, _) = batches.last().unwrap();
    assert!(!found.is_broken() && found.next() == last + u64::from(*records));
    let wal = Wal::open(&disk, LOG, found, SHAPE).unwrap();
    assert_eq!(wal.number(), 3);
    wal.release(3, true).unwrap();
    assert_eq!(read(&disk).1, all[2]);
    let other = Identity { store_id: 8, ..LOG };
    let foreign = Found::read(&disk, other, Known::default(), |_| Err(()));
    assert!(foreign.is_ok_and(|found| found.next() == 0), "no batch of another store is replayed");
    let stopped = Found::read(&disk, LOG, Known::default(), |batch| Err(batch.sequence));
    assert!(matches!(stopped, Err(Stopped::Replay(first)) if first == all[2][0].0));
}

#[test]
fn a_log_of_a_version_without_ends_of_files_is_read_and_goes_on() {
    let disk = Disk::in_memory();
    let all = written(&disk, 2);
    // Such a file has its batches, and nothing else.
    for (name, of_file) in ["LOG-000001", "LOG-000002", "LOG-000003"].iter().zip(&all) {
        let len: usize = of_file.iter().map(|(.., payload)| HEADER + payload.len()).sum();
        let bytes = content(&disk, name)[..len].to_vec();
        put(&disk, name, &bytes);
    }
    let (found, batches) = read(&disk);
    assert_eq!(batches, all.concat());
    let next = found.next();
    append(&Wal::open(&disk, LOG, found, SHAPE).unwrap(), &batch(next));
    put(&disk, "LOG-000003", b"");
    assert_eq!(read(&disk).1, all[..2].concat(), "one was just begun");
}

#[test]
fn threads_that_wait_for_the_log_share_its_syncs() {
    let disk = Disk::in_memory();
    let wal = open(&disk);
    let ends: Vec<u64> = (0..8).map(|number| append(&wal, &(number * 2 + 1, 2, vec![7]))).collect();
    let before = disk.traffic().syncs;
    // All are appended before any is synced: the first to sync leads, and the others follow.
    thread::scope(|scope| {
        for end in ends {
            let wal = &wal;
            scope.spawn(move || wal.sync_to(end).unwrap());
        }
    });
    assert_eq!(disk.traffic().syncs - before, 1);
    let sequences: BTreeSet<u64> = read(&disk).1.iter().map(|batch| batch.0).collect();
    assert_eq!(sequences, (0..8).map(|number| number * 2 + 1).collect());
}

#[test]
fn many_threads_find_their_batches_durable_and_need_fewer_syncs() {
    const THREADS: u64 = 8;
    const EACH: u64 = 200;
    let disk = Disk::in_memory();
    let wal = open(&disk);
    let turn = parking_lot::Mutex::new(1);
    let before = disk.traffic().syncs;
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..EACH {
                    let end = {
                        let mut next = turn.lock();
                        *next += 1;
                        append(&wal, &(*next - 1, 1, vec![3; 20]))
                    };
                    wal.sync_to(end).unwrap();
                }
            });
        }
    });
    assert_eq!(read(&disk).1.len() as u64, THREADS * EACH);
    // No more than one for each, beside those of new files.
    assert!(disk.traffic().syncs - before <= THREADS * EACH + 4 * wal.number());
}

#[test]
fn a_torn_end_is_cut_and_a_hole_before_it_is_damage() {
    let disk = Disk::in_memory();
    let all = written(&disk, 1);
    let (first, second) = (content(&disk, "LOG-000001"), content(&disk, "LOG-000002"));
    let batches_len: usize = all[1].iter().map(|(.., payload)| HEADER + payload.len()).sum();
    for len in 0..batches_len {
        put(&disk, "LOG-000002", &second[..len]);
        let (found, batches) = read(&disk);
        assert!(!found.is_broken());
        assert_eq!(batches, all.concat()[..batches.len()]);
        let wal = Wal::open(&disk, LOG, found, SHAPE).unwrap();
        let (number, end) = wal.end();
        let rest = content(&disk, "LOG-000002")[end as usize..].to_vec();
        assert!(number == 2 && rest.iter().all(|byte| *byte == 0), "the rest is cut");
        let known = Known { end: (2, batches_len as u64), ..Known::default() };
        assert!(read_known(&disk, known).0.is_broken(), "the store was closed with all of it");
    }
    put(&disk, "LOG-000002", &second);
    let first_len: usize = all[0].iter().map(|(.., payload)| HEADER + payload.len()).sum();
    for at in 0..first_len + HEADER {
        let mut damaged = first.clone();
        damaged[at] ^= 4;
        put(&disk, "LOG-000001", &damaged);
        let (found, batches) = read(&disk);
        assert!(found.is_broken() && batches.len() <= all[0].len(), "byte {at}");
        assert_eq!(batches, all[0][..batches.len()]);
        let opened = Wal::open(&disk, LOG, found, SHAPE);
        assert!(matches!(opened, Err(Error::Damaged { file, .. }) if file == "LOG-000001"));
    }
    disk.remove("LOG-000001").unwrap();
    assert!(!read(&disk).0.is_broken(), "it may have been released");
    let (found, _) = read_known(&disk, Known { first: 1, ..Known::default() });
    let opened = Wal::open(&disk, LOG, found, SHAPE);
    assert!(matches!(opened, Err(Error::Missing { file }) if file == "LOG-000001"));
}

/// A batch of a group may be whole where one before it is not: the sectors of a write reach the device in any order.
#[test]
fn a_whole_batch_behind_a_torn_one_does_not_come_back() {
    let disk = Disk::in_memory();
    let all: Vec<_> = (1..5).map(|sequence| (sequence, 1, vec![sequence as u8; 100])).collect();
    let wal = open(&disk);
    for batch in &all {
        append(&wal, batch);
    }
    wal.sync().unwrap();
    drop(wal);
    let mut torn = content(&disk, "LOG-000001");
    torn[2 * (HEADER + 100) + HEADER] ^= 1;
    put(&disk, "LOG-000001", &torn);
    let wal = open(&disk);
    assert_eq!(read(&disk).1, all[..2]);
    // One of the same length, which ends where the whole one begins.
    let third = (3, 1, vec![77; 100]);
    append(&wal, &third);
    wal.sync().unwrap();
    assert_eq!(read(&disk).1, [&all[..2], &[third]].concat());
}

#[test]
fn a_file_that_serves_again_gives_none_of_its_old_batches() {
    let disk = Disk::in_memory();
    let wal = open(&disk);
    let mut next = 1;
    let mut all = Vec::new();
    while wal.number() < 9 {
        let batch = batch(next);
        let number = wal.number();
        append(&wal, &batch);
        next += u64::from(batch.1);
        if wal.number() > number {
            all.clear();
        }
        all.push(batch);
        wal.sync().unwrap();
        wal.release(wal.number(), true).unwrap();
        assert_eq!(read(&disk).1, all, "{:?}", names(&disk));
    }
    assert_eq!(names(&disk), ["LOG-000009", "LOG-000010"]);
    assert_eq!(wal.bytes(), 2 * FILE);
    let (number, len) = wal.close().unwrap();
    assert_eq!((number, names(&disk)), (9, vec!["LOG-000009".to_owned()]));
    assert_eq!(content(&disk, "LOG-000009").len() as u64, len);
    assert_eq!(read(&disk).1, all);
}

#[test]
fn a_file_that_is_not_kept_gives_its_space_back() {
    let disk = Disk::in_memory();
    written(&disk, 4);
    let wal = Wal::open(&disk, LOG, read(&disk).0, SHAPE).unwrap();
    let before = wal.bytes();
    wal.release(3, false).unwrap();
    assert_eq!((names(&disk)[0].as_str(), wal.bytes()), ("LOG-000003", before - 2 * FILE));
    wal.release(5, true).unwrap();
    assert_eq!(wal.bytes(), before - 2 * FILE, "kept, under later numbers");
}

#[test]
fn a_log_that_stopped_anywhere_between_two_files_goes_on() {
    let disk = Disk::in_memory();
    let all = written(&disk, 1);
    let second = content(&disk, "LOG-000002");
    // The first file was ended, and the next one was not there yet, or had nothing.
    for there in [None, Some(&b""[..]), Some(&[0; 4096]), Some(&second[100..200])] {
        let _ = disk.remove("LOG-000002");
        there.iter().for_each(|bytes| put(&disk, "LOG-000002", bytes));
        let (found, batches) = read(&disk);
        assert_eq!(batches, all[0]);
        let next = found.next();
        let wal = Wal::open(&disk, LOG, found, SHAPE).unwrap();
        assert_eq!(wal.end(), (2, 0));
        let more = batch(next);
        append(&wal, &more);
        wal.sync().unwrap();
        assert_eq!(read(&disk).1, [&all[0][..], &[more]].concat());
    }
    // The first file was not ended, and others wait behind it, of which a crash took a length.
    put(&disk, "LOG-000002", b"");
    put(&disk, "LOG-000003", &[0; 4096]);
    let first = content(&disk, "LOG-000001");
    put(&disk, "LOG-000001", &first[..first.len() / 2]);
    let (found, batches) = read(&disk);
    assert!(!found.is_broken() && !batches.is_empty());
    let found_next = found.next();
    let wal = Wal::open(&disk, LOG, found, SHAPE).unwrap();
    assert_eq!(wal.number(), 1);
    for sequence in found_next..found_next + 100 {
        append(&wal, &(sequence, 1, vec![7; 100]));
    }
    wal.sync().unwrap();
    assert_eq!((wal.number() > 2, read(&disk).1.len()), (true, batches.len() + 100));
    drop(wal);
    disk.list().unwrap().iter().for_each(|(name, _)| disk.remove(name).unwrap());
    put(&disk, "LOG-000001", &first[..first.len() / 2]);
    put(&disk, "LOG-000002", &second);
    assert!(read(&disk).0.is_broken(), "a later file has batches, which none is between");
}

#[test]
fn a_file_that_was_ended_is_made_durable_before_a_batch_follows_it() {
    let syncs_of_opening = |follows: bool| {
        let disk = Disk::in_memory();
        written(&disk, 1);
        if !follows {
            // Its process ended before the next file had a batch, and perhaps before the sync.
            put(&disk, "LOG-000002", b"");
        }
        let found = read(&disk).0;
        let before = disk.traffic().syncs;
        let wal = Wal::open(&disk, LOG, found, SHAPE).unwrap();
        assert_eq!(wal.number(), 2);
        disk.traffic().syncs - before
    };
    assert_eq!(syncs_of_opening(false), syncs_of_opening(true) + 1);
}

#[test]
fn a_file_that_lost_its_end_is_named_and_not_the_one_behind_it() {
    let disk = Disk::in_memory();
    let all = written(&disk, 3);
    let whole = content(&disk, "LOG-000002");
    let half = HEADER + all[1][0].2.len();
    for left in [0, half] {
        put(&disk, "LOG-000002", &whole[..left]);
        let error = Wal::open(&disk, LOG, read(&disk).0, SHAPE).err().unwrap();
        assert!(matches!(&error, Error::Damaged { file, .. } if file == "LOG-000002"), "{error}");
        assert!(error.to_string().contains("LOG-000003"), "{error}");
    }
}

#[test]
fn a_repair_keeps_what_is_whole_and_sets_the_rest_aside() {
    let disk = Disk::in_memory();
    let all = written(&disk, 2);
    let len: usize = all[1].iter().map(|(.., payload)| HEADER + payload.len()).sum();
    let mut damaged = content(&disk, "LOG-000002");
    damaged[len - 1] ^= 1;
    put(&disk, "LOG-000002", &damaged);
    let aside = |name: &str| format!("{name}.aside");
    for for_good in [false, true] {
        let (error, names) = read(&disk).0.repair(&disk, aside, for_good).unwrap();
        assert!(matches!(error, Some(Error::Damaged { file, .. }) if file == "LOG-000002"));
        assert_eq!(names, ["LOG-000003.aside", "LOG-000002.aside"]);
    }
    let (found, batches) = read(&disk);
    assert!(!found.is_broken());
    assert_eq!(batches, all.concat()[..all[0].len() + all[1].len() - 1]);
    assert_eq!(content(&disk, "LOG-000002.aside"), damaged);
    assert!(
        found.repair(&disk, aside, true).unwrap().0.is_none(),
        "there is nothing left to repair"
    );
}

#[test]
fn space_that_is_set_aside_is_there_when_the_disk_is_full() {
    let disk = Disk::in_memory_up_to(1 << 20);
    let wal = open(&disk);
    assert_eq!(wal.spare(), (1 << 20) / 64);
    assert!(wal.lacks(0, wal.spare()) && wal.missing_spare() == wal.spare());
    wal.grow(100, wal.spare()).unwrap();
    assert!(!wal.lacks(100, wal.spare()) && wal.missing_spare() == 0 && !wal.is_spare_low());
    let mut filler = disk.create("filler").unwrap();
    let room = (1 << 20) - wal.bytes();
    filler.write(&vec![0; room as usize]).unwrap();
    filler.sync().unwrap();
    let no_space = |grown| match grown {
        Err(Error::NoFile(why)) => matches!(*why, halite_disk::Error::NoSpace { .. }),
        _ => false,
    };
    assert!(no_space(wal.grow(100_000, 0)));
    // Batches that leave nothing go to the files that were set aside.
    let (mut next, mut told) = (1, 0);
    while !wal.lacks(500, 0) {
        append(&wal, &(next, 1, vec![7; 500]));
        told += u64::from(wal.is_spare_low());
        next += 1;
    }
    assert!(no_space(wal.grow(500, 0)));
    wal.sync().unwrap();
    assert!(next > wal.spare() / 600 && told > 0);
    assert_eq!(read(&disk).1.len() as u64, next - 1);
    // As soon as no batch is needed any more, the log has room again.
    wal.release(wal.number(), true).unwrap();
    assert!(!wal.lacks(500, 0));
    append(&wal, &(next, 1, vec![7; 500]));
    wal.sync().unwrap();
}

#[test]
fn a_batch_of_any_length_has_its_place() {
    let disk = Disk::in_memory();
    let wal = open(&disk);
    let mut all = Vec::new();
    for (at, len) in [10, 5000, 1, 4096 - HEADER, 3, 300_000, 20_000, 7].into_iter().enumerate() {
        let batch = (at as u64 + 1, 1, vec![at as u8; len]);
        append(&wal, &batch);
        all.push(batch);
        wal.sync().unwrap();
        assert_eq!(read(&disk).1, all);
    }
    let files: u64 = disk.list().unwrap().iter().map(|(_, len)| len).sum();
    assert_eq!(wal.bytes(), files);
}

#[test]
fn a_file_that_a_killed_process_may_have_ended_without_a_sync_is_made_durable() {
    let disk = Disk::in_memory();
    let wal = open(&disk);
    let mut next = 1;
    loop {
        if wal.lacks(40, 0) {
            wal.grow(40, 0).unwrap();
        }
        wal.place(40).unwrap();
        if wal.number() == 2 {
            break;
        }
        wal.append(next, 1, |to| to.extend_from_slice(&[1; 40]));
        next += 1;
    }
    drop(wal);
    let cost = || {
        let before = disk.traffic();
        drop(open(&disk));
        let after = disk.traffic();
        after.syncs - before.syncs
    };
    // The second file has no batch: nothing tells that the end of the first is durable.
    let syncs = cost();
    let wal = open(&disk);
    append(&wal, &(next, 1, vec![1; 40]));
    wal.sync().unwrap();
    drop(wal);
    assert_eq!(cost(), syncs - 1);
}

//! A log against the list of what was appended to it: after it ended, was cut anywhere, or lost a file.

use std::collections::BTreeSet;
use std::thread;

use halite_disk::Disk;
use halite_wal::{Error, Found, Identity, Known, Stopped, Wal};

const LOG: Identity = Identity { store_id: 7, sequence_max: 1 << 40 };

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

fn append(wal: &Wal, (sequence, records, payload): &Batch) -> u64 {
    wal.append(*sequence, *records, |to| to.extend_from_slice(payload))
}

/// A log of so many batches in each file, and all of them.
fn written(disk: &Disk, counts: &[u64]) -> Vec<Batch> {
    let wal = Wal::open(disk, LOG, read(disk).0).unwrap();
    let (mut next, mut all) = (1, Vec::new());
    for (number, count) in counts.iter().enumerate() {
        if number > 0 {
            wal.roll().unwrap();
        }
        for _ in 0..*count {
            let batch = batch(next);
            append(&wal, &batch);
            next += u64::from(batch.1);
            all.push(batch);
        }
        wal.sync().unwrap();
    }
    all
}

fn content(disk: &Disk, name: &str) -> Vec<u8> {
    let file = disk.open(name).unwrap();
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

/// Puts a file in place of the one of that name.
fn put(disk: &Disk, name: &str, bytes: &[u8]) {
    disk.remove(name).unwrap();
    let mut writer = disk.create(name).unwrap();
    writer.write(bytes).unwrap();
    writer.sync().unwrap();
}

#[test]
fn what_was_appended_and_synced_comes_back_in_order() {
    let disk = Disk::in_memory();
    let all = written(&disk, &[20, 1, 30]);
    let (found, batches) = read(&disk);
    assert_eq!(batches, all);
    let (last, records, _) = all.last().unwrap();
    assert!(!found.is_broken() && found.next() == last + u64::from(*records));
    let wal = Wal::open(&disk, LOG, found).unwrap();
    assert_eq!((wal.number(), wal.release(3).unwrap()), (3, 1));
    assert_eq!(read(&disk).1, all[21..]);
    let other = Identity { store_id: 8, ..LOG };
    let foreign = Found::read(&disk, other, Known::default(), |_| Err(()));
    assert!(foreign.is_ok_and(|found| found.next() == 0), "no batch of another store is replayed");
    let stopped = Found::read(&disk, LOG, Known::default(), |batch| Err(batch.sequence));
    assert!(matches!(stopped, Err(Stopped::Replay(first)) if first == all[21].0));
}

#[test]
fn threads_that_wait_for_the_log_share_its_syncs() {
    let disk = Disk::in_memory();
    let wal = Wal::open(&disk, LOG, read(&disk).0).unwrap();
    let before = disk.traffic().syncs;
    // All are appended before any is synced: the first to sync leads, and the others follow.
    let ends: Vec<u64> = (0..8).map(|number| append(&wal, &(number * 2 + 1, 2, vec![7]))).collect();
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
fn a_torn_end_is_cut_and_a_hole_before_it_is_damage() {
    let disk = Disk::in_memory();
    let all = written(&disk, &[5, 5]);
    let (first, second) = (content(&disk, "LOG-000001"), content(&disk, "LOG-000002"));
    for len in 0..second.len() {
        put(&disk, "LOG-000002", &second[..len]);
        let (found, batches) = read(&disk);
        assert!(!found.is_broken());
        assert_eq!(batches, all[..batches.len()]);
        let end = Wal::open(&disk, LOG, found).unwrap().end();
        assert_eq!(end.1 as usize, content(&disk, "LOG-000002").len(), "the rest is cut");
        let known = Known { end: (2, second.len() as u64), ..Known::default() };
        assert!(read_known(&disk, known).0.is_broken(), "the store was closed with all of it");
    }
    put(&disk, "LOG-000002", &second);
    for at in 0..first.len() {
        let mut damaged = first.clone();
        damaged[at] ^= 4;
        put(&disk, "LOG-000001", &damaged);
        let (found, batches) = read(&disk);
        assert!(found.is_broken() && batches.len() < 5, "byte {at}");
        assert_eq!(batches, all[..batches.len()]);
        assert!(matches!(Wal::open(&disk, LOG, found), Err(Error::Damaged { .. })));
    }
    disk.remove("LOG-000001").unwrap();
    assert!(!read(&disk).0.is_broken(), "it may have been released");
    let (found, _) = read_known(&disk, Known { first: 1, ..Known::default() });
    let opened = Wal::open(&disk, LOG, found);
    assert!(matches!(opened, Err(Error::Missing { file }) if file == "LOG-000001"));
}

#[test]
fn a_repair_keeps_what_is_whole_and_sets_the_rest_aside() {
    let disk = Disk::in_memory();
    let all = written(&disk, &[5, 5, 5]);
    let mut damaged = content(&disk, "LOG-000002");
    *damaged.last_mut().unwrap() ^= 1;
    put(&disk, "LOG-000002", &damaged);
    let aside = |name: &str| format!("{name}.aside");
    for for_good in [false, true] {
        let (error, names) = read(&disk).0.repair(&disk, aside, for_good).unwrap();
        assert!(matches!(error, Some(Error::Damaged { file, .. }) if file == "LOG-000002"));
        assert_eq!(names, ["LOG-000003.aside", "LOG-000002.aside"]);
    }
    let (found, batches) = read(&disk);
    assert!(!found.is_broken());
    assert_eq!(batches, all[..9]);
    assert_eq!(content(&disk, "LOG-000002.aside"), damaged);
    assert!(
        found.repair(&disk, aside, true).unwrap().0.is_none(),
        "there is nothing left to repair"
    );
}

#[test]
fn space_that_is_set_aside_goes_on_to_the_next_file() {
    let disk = Disk::in_memory_up_to(1 << 20);
    let wal = Wal::open(&disk, LOG, read(&disk).0).unwrap();
    assert_eq!(wal.spare(), (1 << 20) / 64);
    let end = wal.end_behind(wal.spare());
    assert!(wal.lacks(end) && wal.missing_spare() == wal.spare());
    wal.reserve(end).unwrap();
    assert!(!wal.lacks(end) && wal.missing_spare() == 0 && !wal.is_spare_low());
    assert!(matches!(wal.reserve(2 << 20), Err(halite_disk::Error::NoSpace { .. })));
    append(&wal, &(1, 1, vec![0; 6000]));
    assert!(wal.is_spare_low() && !wal.is_spare_low(), "it is told once");
    wal.sync().unwrap();
    wal.roll().unwrap();
    assert!(wal.missing_spare() > 6000, "what the batch took is missing");
    assert!(wal.missing_spare() < 7000, "the rest is set aside for the new file");
    assert_eq!(read(&disk).1.len(), 1);
}

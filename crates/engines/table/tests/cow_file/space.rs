//! Pages are used again: the file does not grow with the number of batches.

use super::*;

fn key(number: u64) -> Vec<u8> {
    format!("user{number:08}").into_bytes()
}

#[test]
fn a_file_under_updates_reaches_a_size_and_keeps_it() {
    for (page_len, value_len) in [(512, 40), (4096, 400), (4096, 9000)] {
        let disk = Disk::in_memory();
        let mut file = create(&disk, page_len);
        for number in 0..500 {
            file.put(0, &key(number), &vec![1; value_len]).expect("a put");
        }
        file.commit().expect("a commit");
        let (mut len_after_1000, mut state) = (0, 7_u64);
        for round in 0..3000 {
            for _ in 0..10 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let value = vec![round as u8; value_len / 2 + (state >> 50) as usize % value_len];
                file.put(0, &key((state >> 33) % 500), &value).expect("a put");
                file.remove(0, &key((state >> 20) % 500)).expect("a removal");
                file.put(0, &key((state >> 20) % 500), &value).expect("a put");
            }
            file.commit().expect("a commit");
            if round == 1000 {
                len_after_1000 = file.pages().0;
            }
        }
        let live = file.verify().expect("a whole file").pages;
        let len = file.pages().0;
        assert!(
            len <= len_after_1000 + len_after_1000 / 20,
            "{len_after_1000} pages grew to {len}"
        );
        assert!(u64::from(len) < live * 2, "{live} pages take {len}");
        // The file has some pages in reserve.
        let file_pages = disk.list().expect("names")[0].1 / page_len as u64;
        assert!((len.into()..=u64::from(len) + 64).contains(&file_pages), "{file_pages}");
    }
}

#[test]
fn pages_wait_for_the_snapshots_that_may_read_them_and_for_no_others() {
    let disk = Disk::in_memory();
    let mut file = create(&disk, 256);
    for number in 0..200 {
        file.put(0, &key(number), b"1").expect("a put");
    }
    file.commit().expect("a commit");
    let (old, before) = (file.snapshot(), entries_of(&file, 0));
    for round in 0..50_u8 {
        for number in 0..200 {
            file.put(0, &key(number), &[round; 9]).expect("a put");
        }
        file.commit().expect("a commit");
    }
    let new = file.snapshot();
    // The pages of each directory since the old one wait, as it is the oldest.
    assert!(file.pages().2 > 1000, "{:?}", file.pages());
    assert_eq!(entries_of_snapshot(&old, 0), before);
    drop(old);
    file.put(0, b"another", b"").expect("a put");
    file.commit().expect("a commit");
    let waiting = file.pages().2;
    assert!(waiting > 0 && waiting < 10, "{waiting} pages wait for the new snapshot");
    drop(new);
    file.put(0, b"another", b"1").expect("a put");
    file.commit().expect("a commit");
    assert_eq!(file.pages().2, 0);
    file.verify().expect("a whole file");
}

#[test]
fn a_commit_writes_the_pages_that_changed_and_syncs_twice() {
    let disk = Disk::in_memory();
    let mut file = create(&disk, 4096);
    for number in 0..20_000 {
        file.put(0, &key(number), &[7; 100]).expect("a put");
    }
    file.commit().expect("a commit");
    for (updates, pages_max) in [(1, 3 + 1 + 1), (200, 200 + 20 + 1 + 1 + 1)] {
        let before = disk.traffic();
        for number in 0..updates {
            file.put(0, &key(number * 97), &[8; 100]).expect("a put");
        }
        file.commit().expect("a commit");
        let after = disk.traffic();
        let bytes = after.bytes_written - before.bytes_written;
        assert_eq!(after.syncs - before.syncs, 2);
        assert!(bytes <= (pages_max + 1) * 4096, "{updates} updates write {bytes} bytes");
    }
}

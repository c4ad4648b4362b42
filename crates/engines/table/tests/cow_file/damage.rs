//! Damage is a named error, or is mended; it is never data.

use halite_disk::{Access, PositionedFile};
use halite_table::index::Error;

use super::*;

/// A tree, a key and its value.
type Entry = (u32, Vec<u8>, Vec<u8>);

/// A file with all kinds of pages, and its contents.
fn sample(disk: &Disk) -> Vec<Entry> {
    let mut file = create(disk, 256);
    for number in 0..60_u8 {
        file.put(number.into(), &[number; 3], b"a root of its own").expect("a put");
        file.put(0, &[number; 20], &[number; 30]).expect("a put");
    }
    file.put(1, &[9; 900], &[3; 2000]).expect("a put");
    file.put(1, &[9; 901], &[4; 200]).expect("a put");
    file.commit().expect("a commit");
    for number in 0..30_u8 {
        file.put(0, &[number; 20], b"another").expect("a put");
    }
    file.remove(0, &[50; 20]).expect("a removal");
    file.commit().expect("a commit");
    all(&file).expect("the file is whole")
}

fn all(file: &CowFile) -> Result<Vec<Entry>, Error> {
    let mut found = Vec::new();
    for tree in 0..60 {
        let mut scan = file.scan(tree, ALL, Direction::Forward)?;
        while let Some((key, value)) = scan.next()? {
            found.push((tree, key.to_vec(), value.into_owned()));
        }
    }
    Ok(found)
}

fn bytes(disk: &Disk) -> PositionedFile {
    disk.open_positioned("trees", Access::Cached).expect("the file")
}

/// Opens, checks and reads the file.
fn read(disk: &Disk) -> Result<Vec<Entry>, Error> {
    let file = CowFile::open(disk, "trees", STORE, options(256))?;
    let found = all(&file);
    let verified = file.verify();
    if found.is_ok() && verified.is_err() {
        // Nothing of what was read is on the page.
        assert!(matches!(verified, Err(Error::Damaged { .. })));
    }
    found.and_then(|found| verified.map(|_| found))
}

#[test]
fn every_damaged_byte_is_a_named_error_or_changes_nothing() {
    let disk = Disk::in_memory();
    let expected = sample(&disk);
    let file = bytes(&disk);
    let (mut named, mut mended) = (0, 0);
    // Behind the last page that was ever used nothing is read.
    let used = u64::from(open(&disk).pages().0) * 256;
    for at in 0..used {
        let mut byte = [0];
        file.read_at(at, &mut byte).expect("a byte");
        file.write_at(at, &[byte[0] ^ (1 << (at % 8))]).expect("a damaged byte");
        match read(&disk) {
            Ok(found) => {
                assert_eq!(found, expected, "byte {at}");
                mended += 1;
            }
            Err(Error::Damaged { .. }) => named += 1,
            Err(error) => panic!("byte {at}: {error}"),
        }
        file.write_at(at, &byte).expect("the byte as it was");
    }
    // Most pages are in use; the master records are there twice, and 8 KiB.
    assert!(named > 10_000 && mended > 8_000, "{named} named, {mended} mended");
    assert_eq!(read(&disk).expect("the file is whole again"), expected);
}

#[test]
fn foreign_and_truncated_files_are_refused() {
    let disk = Disk::in_memory();
    sample(&disk);
    let whole = bytes(&disk);
    // Behind the last page that was ever used there is a reserve, which nothing misses.
    let used = u64::from(open(&disk).pages().0) * 256;
    for len in (0..used).step_by(100) {
        let mut part = vec![0; len as usize];
        whole.read_at(0, &mut part).expect("bytes");
        let short = disk.create_positioned("short", Access::Cached).expect("a file");
        short.write_at(0, &part).expect("bytes");
        let opened = CowFile::open(&disk, "short", STORE, Options::default());
        let is_named =
            matches!(opened, Err(Error::Foreign { .. } | Error::Damaged { page: 0, .. }));
        assert!(is_named, "{len} bytes: {opened:?}");
        disk.remove("short").expect("its name");
    }
    let foreign = disk.create_positioned("short", Access::Cached).expect("a file");
    foreign.write_at(0, &[b'x'; 20_000]).expect("bytes");
    let opened = CowFile::open(&disk, "short", STORE, Options::default());
    assert!(matches!(opened, Err(Error::Foreign { .. })), "{opened:?}");
    let missing = CowFile::open(&disk, "missing", STORE, Options::default());
    assert!(matches!(missing, Err(Error::Disk(halite_disk::Error::Missing { .. }))));
    let other = CowFile::open(&disk, "trees", STORE + 1, Options::default());
    assert!(matches!(other, Err(Error::OtherStore { found: STORE, .. })), "{other:?}");
    let there = CowFile::create(&disk, "trees", STORE, Options::default());
    assert!(matches!(there, Err(Error::Disk(halite_disk::Error::Exists { .. }))));
}

#[test]
fn pages_of_another_store_are_no_pages_of_this_one() {
    let (disk, other) = (Disk::in_memory(), Disk::in_memory());
    let expected = sample(&disk);
    let mut file = CowFile::create(&other, "trees", STORE + 1, options(256)).expect("a file");
    for number in 0..200_u8 {
        file.put(0, &[number; 20], &[number; 30]).expect("a put");
    }
    file.commit().expect("a commit");
    assert_eq!((file.store_id(), file.page_len()), (STORE + 1, 256));
    drop(file);
    let (to, from) = (bytes(&disk), bytes(&other));
    let mut named = 0;
    for page in 34..to.len().min(from.len()) / 256 {
        let (mut before, mut foreign) = ([0; 256], [0; 256]);
        to.read_at(page * 256, &mut before).expect("a page");
        from.read_at(page * 256, &mut foreign).expect("a page");
        to.write_at(page * 256, &foreign).expect("a page of the other");
        match read(&disk) {
            Ok(found) => assert_eq!(found, expected, "page {page}"),
            Err(Error::Damaged { .. }) => named += 1,
            Err(error) => panic!("page {page}: {error}"),
        }
        to.write_at(page * 256, &before).expect("the page as it was");
    }
    assert!(named > 20, "{named}");
}

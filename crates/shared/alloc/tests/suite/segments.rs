//! The guarantees of the manager of segments.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use halite_alloc::{DEVICES_MAX, Error, FORMAT_VERSION, ROOTS_MAX, SEGMENT, Segments};
use halite_pmem::PoolOptions;
use proptest::prelude::*;
use tempfile::TempDir;

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    (folder, path)
}

fn options(segments: u64) -> PoolOptions {
    let mut options = PoolOptions::default();
    options.size_max = segments * SEGMENT;
    options
}

fn create(path: &Path, max: u64) -> Arc<Segments> {
    let segments = Segments::create(path, &options(max)).unwrap();
    segments.install().unwrap();
    segments
}

fn open(path: &Path) -> Result<Arc<Segments>, Error> {
    Segments::open(path, &options(32))
}

fn poke(path: &Path, at: u64, bytes: &[u8]) {
    OpenOptions::new().write(true).open(path).unwrap().write_all_at(bytes, at).unwrap();
}

#[test]
fn what_is_committed_is_there_after_reopening_and_what_is_not_is_free() {
    let (_folder, path) = folder();
    let segments = create(&path, 32);
    let device = segments.device(3);
    for logical in [7, 0] {
        let grant = device.get(logical).unwrap();
        let mut fresh = grant.claim(0, 8).unwrap();
        let filled = fresh.write_stream(0, &u64::from(logical).to_le_bytes());
        segments.pool().fence([filled]).unwrap();
        drop(fresh);
        grant.commit().unwrap();
    }
    let uncommitted = device.get(9).unwrap();
    let (salt, uuid, available) = (segments.salt(), segments.uuid(), segments.available());
    drop((uncommitted, device, segments));

    let segments = open(&path).unwrap();
    let device = segments.device(3);
    assert_eq!((segments.salt(), segments.uuid()), (salt, uuid));
    assert_eq!(device.logical_segments(), [0, 7]);
    assert_eq!(device.claim(7, 0, 8).unwrap().bytes(), 7_u64.to_le_bytes());
    assert_eq!(segments.available(), available + 1, "the uncommitted segment is free");
    assert!(segments.device(2).logical_segments().is_empty());
    assert!(matches!(device.claim(9, 0, 8), Err(Error::Damaged { .. })));
    assert!(matches!(device.claim(7, SEGMENT - 4, 8), Err(Error::Damaged { .. })));
}

#[test]
fn leaks_are_found_and_reclaimed() {
    let (_folder, path) = folder();
    let segments = create(&path, 32);
    let device = segments.device(0);
    (0..5).for_each(|logical| device.get(logical).unwrap().commit().unwrap());
    let before = segments.available();
    assert_eq!(device.retain(|logical| logical % 2 == 0).unwrap(), 2);
    assert_eq!(segments.available(), before + 2);
    drop((device, segments));
    assert_eq!(open(&path).unwrap().device(0).logical_segments(), [0, 2, 4]);
}

#[test]
fn a_pool_grows_to_its_limit_and_no_further() {
    let (_folder, path) = folder();
    let segments = create(&path, 5);
    let device = segments.device(0);
    (0..4).for_each(|logical| device.get(logical).unwrap().commit().unwrap());
    assert_eq!(segments.available(), 0);
    assert!(matches!(device.get(4).err().unwrap(), Error::Full { .. }));
    device.release(1).unwrap();
    device.get(4).unwrap().commit().unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), 5 * SEGMENT);
}

#[test]
fn a_segment_that_moves_takes_along_what_it_holds() {
    let (_folder, path) = folder();
    let segments = create(&path, 2);
    let device = segments.device(0);
    let grant = device.get(3).unwrap();
    let mut fresh = grant.claim(64, 8).unwrap();
    fresh.write(0, b"contents");
    segments.pool().fence([fresh.flush(0..8)]).unwrap();
    drop(fresh);
    grant.commit().unwrap();
    device.renumber(3, 7).unwrap();
    drop((device, segments));
    let segments = open(&path).unwrap();
    assert_eq!(segments.device(0).logical_segments(), [7]);
    assert_eq!(segments.device(0).claim(7, 64, 8).unwrap().bytes(), b"contents");
}

#[test]
fn roots_are_kept() {
    let (_folder, path) = folder();
    let segments = create(&path, 4);
    for root in 0..ROOTS_MAX as u64 {
        segments.set_root(&format!("root-{root}"), root).unwrap();
    }
    segments.set_root("root-3", 33).unwrap();
    assert!(matches!(segments.set_root("one more", 0), Err(Error::Root { .. })));
    assert!(matches!(segments.set_root(&"x".repeat(25), 0), Err(Error::Root { .. })));
    assert!(matches!(segments.set_root("\0a", 0), Err(Error::Root { .. })));
    drop(segments);
    let segments = open(&path).unwrap();
    assert_eq!((segments.root("root-3"), segments.root("root-15")), (Some(33), Some(15)));
    assert_eq!((segments.root("none"), segments.root("")), (None, None));
}

#[test]
fn one_good_copy_of_the_superblock_suffices_and_mends_the_other() {
    for (copy, at) in [(0, 0), (0, 100), (0, 9), (32 << 10, 3), (32 << 10, 600)] {
        let (_folder, path) = folder();
        create(&path, 4).set_root("root", 5).unwrap();
        poke(&path, copy + at, &[0xa5]);
        assert_eq!(open(&path).unwrap().root("root"), Some(5));
        let other = (32 << 10) - copy;
        poke(&path, other + 16, &[0; 4096]);
        assert_eq!(open(&path).unwrap().root("root"), Some(5), "the damaged copy was mended");
    }
}

#[test]
fn strangers_are_named() {
    let (_folder, path) = folder();
    let write = |bytes: &[u8]| fs::write(&path, bytes).unwrap();
    write(&vec![0; SEGMENT as usize]);
    assert!(matches!(open(&path).err().unwrap(), Error::Foreign { .. }));
    write(&b"SQLite format 3\0".repeat(SEGMENT as usize / 16));
    assert!(matches!(open(&path).err().unwrap(), Error::Foreign { .. }));
    fs::remove_file(&path).unwrap();

    drop(create(&path, 4));
    let next = (FORMAT_VERSION + 1).to_le_bytes();
    poke(&path, 8, &next);
    poke(&path, 8 + (32 << 10), &next);
    let future = open(&path).err().unwrap();
    assert!(matches!(future, Error::FutureVersion { found, .. } if found == FORMAT_VERSION + 1));
    fs::remove_file(&path).unwrap();

    drop(create(&path, 4));
    poke(&path, 40, &[1; 8]);
    poke(&path, 40 + (32 << 10), &[2; 8]);
    assert!(matches!(open(&path).err().unwrap(), Error::Damaged { .. }));
}

#[test]
fn a_truncated_pool_is_named() {
    let (_folder, path) = folder();
    create(&path, 8).device(0).get(0).unwrap().commit().unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    file.set_len(SEGMENT).unwrap();
    let truncated = open(&path).err().unwrap();
    assert!(
        matches!(truncated, Error::Truncated { says, is, .. }
        if says == 2 * SEGMENT && is == SEGMENT),
        "{truncated}"
    );
}

#[test]
fn a_flipped_bit_of_the_table_is_named() {
    for bit in [0, 15, 16, 17, 24, 32, 63] {
        let (_folder, path) = folder();
        create(&path, 8).device(1).get(1).unwrap().commit().unwrap();
        let word_at = (64 << 10) + 8;
        let mut word = [0; 8];
        File::open(&path).unwrap().read_exact_at(&mut word, word_at).unwrap();
        word[bit / 8] ^= 1 << (bit % 8);
        poke(&path, word_at, &word);
        assert!(matches!(open(&path).err().unwrap(), Error::Damaged { .. }), "bit {bit}");
    }
}

#[test]
fn a_file_longer_than_its_superblock_says_is_adopted() {
    let (_folder, path) = folder();
    drop(create(&path, 8));
    File::options().write(true).open(&path).unwrap().set_len(3 * SEGMENT + 17).unwrap();
    let segments = open(&path).unwrap();
    let device = segments.device(0);
    (0..8).for_each(|logical| device.get(logical).unwrap().commit().unwrap());
    drop((device, segments));
    assert_eq!(open(&path).unwrap().device(0).logical_segments().len(), 8);
}

proptest! {
    #[test]
    fn a_device_is_a_map_that_survives_reopening(
        ops in prop::collection::vec((prop::sample::select(vec![0, 255, 256, DEVICES_MAX - 1]), 0..8_u32, 0..5_u8), 1..60)
    ) {
        let (_folder, path) = folder();
        let mut segments = create(&path, 32);
        let mut model = BTreeMap::new();
        for (device, logical, kind) in ops {
            match kind {
                0 | 1 if !model.contains_key(&(device, logical)) => {
                    let grant = segments.device(device).get(logical).unwrap();
                    if kind == 0 {
                        grant.commit().unwrap();
                        model.insert((device, logical), ());
                    }
                }
                2 => {
                    segments.device(device).release(logical).unwrap();
                    model.remove(&(device, logical));
                }
                3 if model.contains_key(&(device, logical)) => {
                    let to = (logical + 3) % 8;
                    if !model.contains_key(&(device, to)) {
                        segments.device(device).renumber(logical, to).unwrap();
                        model.remove(&(device, logical));
                        model.insert((device, to), ());
                    }
                }
                4 => {
                    drop(segments);
                    segments = open(&path).unwrap();
                }
                _ => {}
            }
            let found: Vec<_> = [0, 255, 256, DEVICES_MAX - 1]
                .into_iter()
                .flat_map(|device| {
                    let logical = segments.device(device).logical_segments();
                    logical.into_iter().map(move |logical| (device, logical))
                })
                .collect();
            prop_assert_eq!(found, model.keys().copied().collect::<Vec<_>>());
        }
    }
}

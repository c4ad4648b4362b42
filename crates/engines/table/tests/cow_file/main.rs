//! The copy-on-write trees in a file, from outside.

mod damage;
mod failures;
mod maps;
mod space;

use std::collections::BTreeMap;
use std::ops::Bound;

use halite_disk::Disk;
use halite_table::index::Direction;
use halite_table::index::cow_file::{CowFile, Options, Snapshot};

/// Entries by tree and key.
type Model = BTreeMap<(u32, Vec<u8>), Vec<u8>>;

const STORE: u128 = 0x00c0_ffee;

fn options(page_len: usize) -> Options {
    // A cache of 16 pages, the smallest one, has pages come and go.
    Options { page_len, cache_bytes: 0 }
}

fn create(disk: &Disk, page_len: usize) -> CowFile {
    CowFile::create(disk, "trees", STORE, options(page_len)).expect("a new file")
}

fn open(disk: &Disk) -> CowFile {
    CowFile::open(disk, "trees", STORE, options(256)).expect("the file opens")
}

const ALL: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Unbounded, Bound::Unbounded);

fn entries_of(file: &CowFile, tree: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut scan = file.scan(tree, ALL, Direction::Forward).expect("a scan");
    let mut found = Vec::new();
    while let Some((key, value)) = scan.next().expect("an entry") {
        found.push((key.to_vec(), value.into_owned()));
    }
    found
}

fn entries_of_snapshot(snapshot: &Snapshot, tree: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut scan = snapshot.scan(tree, ALL, Direction::Reverse).expect("a scan");
    let mut found = Vec::new();
    while let Some((key, value)) = scan.next().expect("an entry") {
        found.push((key.to_vec(), value.into_owned()));
    }
    found.reverse();
    found
}

fn entries_of_model(model: &Model, tree: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
    let of_tree = model.range((tree, Vec::new())..(tree + 1, Vec::new()));
    of_tree.map(|((_, key), value)| (key.clone(), value.clone())).collect()
}

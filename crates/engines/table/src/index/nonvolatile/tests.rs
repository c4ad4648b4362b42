use std::fs;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;

use halite_alloc::heap::{Heap, NvPtr, Owner, Publication};
use halite_alloc::{SEGMENT, Segments};
use halite_pmem::PoolOptions;
use tempfile::TempDir;

use super::*;
use crate::index::{Direction, Error, Range};

mod costs;
mod damage;
mod map;

/// A tree in the heap of a pool, which is removed with it.
struct Place {
    folder: TempDir,
    path: PathBuf,
    copies: u32,
    segments: Arc<Segments>,
    heap: Heap,
    tree: NonVolatileTree,
}

fn options() -> PoolOptions {
    let mut options = PoolOptions::default();
    options.size_max = 128 * SEGMENT;
    options
}

const ROOT: &str = "tree";
const OWNER: u32 = 7;
const ALL: Range<'static> = (Bound::Unbounded, Bound::Unbounded);

impl Place {
    fn new(node_len: usize) -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = folder.path().join("pool");
        let segments = Segments::create(&path, &options()).unwrap();
        segments.install().unwrap();
        let mut heap = Heap::open(&segments.device(1)).unwrap();
        let mut publication = Publication::new();
        let owner = Owner::new(OWNER).unwrap();
        let tree = NonVolatileTree::create(&mut heap, owner, node_len, &mut publication).unwrap();
        publication.set_root(ROOT, tree.header().word());
        heap.publish(&mut publication).unwrap();
        Self { folder, path, copies: 0, segments, heap, tree }
    }

    /// Opens the tree again after the process was killed: of reserved slots nothing is left.
    fn kill(&mut self) {
        self.copies += 1;
        let copy = self.folder.path().join(format!("copy {}", self.copies));
        fs::copy(&self.path, &copy).unwrap();
        self.path = copy;
        self.open();
    }

    fn open(&mut self) {
        self.segments = Segments::open(&self.path, &options()).unwrap();
        self.heap = Heap::open(&self.segments.device(1)).unwrap();
        let header = NvPtr::from_word(self.heap.root(ROOT).unwrap());
        self.tree = NonVolatileTree::open(&self.heap, header).unwrap();
    }

    fn prepare(&mut self, changes: &[Change<'_>]) -> Prepared {
        self.tree.prepare(&mut self.heap, changes).unwrap()
    }

    fn change(&mut self, changes: &[Change<'_>]) {
        let prepared = self.prepare(changes);
        prepared.show(&mut self.heap).unwrap();
        self.heap.fence().unwrap();
    }

    fn all(&self, range: Range<'_>, direction: Direction) -> Vec<(Vec<u8>, u64)> {
        let mut scan = self.tree.scan(&self.heap, range, direction).unwrap();
        let mut found = Vec::new();
        while let Some((key, value)) = scan.next().unwrap() {
            found.push((key.to_vec(), value));
        }
        found
    }

    /// Bytes of slots that are the tree's. Each of them is reached, and none is left that is not.
    fn accounted(&self) -> u64 {
        let mut reached = Vec::new();
        self.tree.check(&self.heap, |pointer| reached.push(pointer)).unwrap();
        let accounting = self.heap.check(reached).unwrap();
        assert_eq!(accounting.reserved, 0);
        accounting.reachable
    }
}

fn key_of(number: u64) -> Vec<u8> {
    [&b"a prefix "[..], &number.to_be_bytes()].concat()
}

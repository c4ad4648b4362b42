//! Requests of a leaf that is slow, or fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use halite_pmem::Pinned;
use halite_vdev::{BLOCK, Leaf, MemoryLeaf, Vdev};

use super::{AHEAD, THREADS, Writes};
use crate::allocation::{DeviceSpace, Purpose};
use crate::storage::{EXTENT_BYTES_MAX, Extent, Storage};

/// A disk in memory, which takes a millisecond for a request.
pub(crate) struct Slow {
    inner: MemoryLeaf,
    under_way: AtomicUsize,
    pub(crate) most_under_way: AtomicUsize,
    writes: AtomicU64,
    /// The number of the write that fails.
    fails: AtomicU64,
}

impl Slow {
    pub(crate) fn storage(on_threads: bool) -> (Arc<Self>, Storage) {
        let leaf = Arc::new(Self {
            inner: MemoryLeaf::new("slow", (64 << 20) / BLOCK as u64),
            under_way: AtomicUsize::new(0),
            most_under_way: AtomicUsize::new(0),
            writes: AtomicU64::new(0),
            fails: AtomicU64::new(u64::MAX),
        });
        let vdev = Arc::new(Vdev::single(Arc::clone(&leaf) as Arc<dyn Leaf>));
        let mut space = |_, _, blocks| Ok(DeviceSpace::new(blocks));
        let storage = Storage::new(vec![vec![vdev]], 1, 0, on_threads, &mut space).unwrap();
        (leaf, storage)
    }

    fn delayed<T>(&self, request: impl FnOnce() -> T) -> T {
        let now = self.under_way.fetch_add(1, Relaxed) + 1;
        self.most_under_way.fetch_max(now, Relaxed);
        std::thread::sleep(Duration::from_millis(1));
        let done = request();
        self.under_way.fetch_sub(1, Relaxed);
        done
    }
}

impl Leaf for Slow {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn is_memory(&self) -> bool {
        false
    }
    fn blocks(&self) -> u64 {
        self.inner.blocks()
    }
    fn blocks_max(&self) -> u64 {
        self.inner.blocks_max()
    }
    fn grow_to(&self, blocks: u64) -> halite_vdev::Result<()> {
        self.inner.grow_to(blocks)
    }
    fn write(&self, run: halite_vdev::Extent, bytes: &[u8]) -> halite_vdev::Result<()> {
        self.delayed(|| match self.writes.fetch_add(1, Relaxed) == self.fails.load(Relaxed) {
            true => {
                Err(halite_vdev::Error::BadLeaf { leaf: "slow".into(), why: "as planned".into() })
            }
            false => self.inner.write(run, bytes),
        })
    }
    fn read(&self, run: halite_vdev::Extent, at: usize, to: &mut [u8]) -> halite_vdev::Result<()> {
        self.delayed(|| self.inner.read(run, at, to))
    }
    fn patch(&self, _: halite_vdev::Extent, _: usize, _: &[u8]) -> halite_vdev::Result<bool> {
        Ok(false)
    }
    fn adopt(&self, _: halite_vdev::Extent) -> halite_vdev::Result<()> {
        Ok(())
    }
    fn free(&self, _: halite_vdev::Extent) -> bool {
        true
    }
    fn pin(
        &self,
        _: halite_vdev::Extent,
        _: usize,
        _: usize,
    ) -> halite_vdev::Result<Option<Pinned>> {
        Ok(None)
    }
    fn sync(&self, _: halite_sim::Site) -> halite_vdev::Result<()> {
        Ok(())
    }
    fn read_label(&self, at: usize, to: &mut [u8]) -> halite_vdev::Result<()> {
        self.inner.read_label(at, to)
    }
    fn write_label(&self, at: usize, bytes: &[u8]) -> halite_vdev::Result<()> {
        self.inner.write_label(at, bytes)
    }
}

/// Writes as many extents, each of a byte of its own. Stops at the first failure.
fn write(storage: &Storage, count: u8, len: usize) -> crate::Result<Vec<Extent>> {
    let (mut writes, mut extents) = (Writes::new(storage), Vec::new());
    for number in 0..count {
        let extent = storage.allocate(0, (len / BLOCK) as u32, Purpose::Data)?;
        writes.write(extent, &vec![number; len - 9])?;
        extents.push(extent);
        assert!(writes.bytes <= AHEAD, "{} bytes wait", writes.bytes);
    }
    writes.finish()?;
    Ok(extents)
}

#[test]
fn what_is_finished_is_written_side_by_side_and_within_the_bound() {
    for (on_threads, len) in [(true, 32 * BLOCK), (true, EXTENT_BYTES_MAX), (false, 32 * BLOCK)] {
        let (leaf, storage) = Slow::storage(on_threads);
        let extents = write(&storage, 30, len).unwrap();
        assert_eq!((leaf.writes.load(Relaxed), leaf.under_way.load(Relaxed)), (30, 0));
        let most = leaf.most_under_way.load(Relaxed);
        let expected = if on_threads { 2..=THREADS + 1 } else { 1..=1 };
        assert!(expected.contains(&most), "{most} at a time");
        let read = |(number, &extent)| {
            let check = Box::new(move |bytes: &[u8]| bytes[0] == number);
            (number, storage.submit_read("test", extent, check).unwrap())
        };
        let reads: Vec<_> = (0_u8..).zip(&extents).map(read).collect();
        for (number, pending) in reads {
            let bytes = pending.wait().unwrap();
            assert!(bytes[..len - 9].iter().all(|byte| *byte == number));
            assert_eq!(bytes[len - 9..], [0; 9]);
        }
        let wrong = storage.submit_read("a part", extents[0], Box::new(|_| false)).unwrap();
        let Err(crate::Error::Damaged { what, address, .. }) = wrong.wait() else { panic!() };
        assert_eq!((what, address), ("a part", extents[0].address));
    }
}

#[test]
fn each_write_that_fails_is_told_and_none_goes_on_behind_that() {
    for on_threads in [true, false] {
        for fails in 0..20 {
            let (leaf, storage) = Slow::storage(on_threads);
            leaf.fails.store(fails, Relaxed);
            let error = write(&storage, 20, 32 * BLOCK).unwrap_err();
            assert!(error.to_string().contains("as planned"), "{error}");
            assert_eq!(leaf.under_way.load(Relaxed), 0);
            let before = leaf.writes.load(Relaxed);
            assert!(before > fails);
            // The next ones do not hear of it.
            write(&storage, 3, BLOCK).unwrap();
            assert_eq!(leaf.writes.load(Relaxed), before + 3);
        }
    }
}

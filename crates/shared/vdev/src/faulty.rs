//! A leaf for tests, whose device can be made to fail, and whose bytes can be damaged.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use halite_pmem::Pinned;
use halite_sim::Site;

use crate::{Arrangement, BLOCK, Error, Extent, Leaf, MemoryLeaf, Result, Vdev};

/// Memory with faults.
pub(crate) struct Faulty {
    inner: MemoryLeaf,
    pub(crate) fails_writes: AtomicBool,
    pub(crate) fails_reads: AtomicBool,
    pub(crate) fails_syncs: AtomicBool,
    /// A block that cannot be read.
    pub(crate) unreadable: AtomicU64,
}

impl Faulty {
    pub(crate) fn new(name: &str, blocks_max: u64) -> Arc<Self> {
        Arc::new(Self {
            inner: MemoryLeaf::new(name, blocks_max),
            fails_writes: AtomicBool::new(false),
            fails_reads: AtomicBool::new(false),
            fails_syncs: AtomicBool::new(false),
            unreadable: AtomicU64::new(u64::MAX),
        })
    }

    /// Some leaves, and a vdev of them that has grown to `blocks`.
    pub(crate) fn vdev(
        arrangement: Arrangement,
        leaves: usize,
        blocks: u64,
    ) -> (Vec<Arc<Self>>, Vdev) {
        let leaves: Vec<_> =
            (0..leaves).map(|leaf| Self::new(&leaf.to_string(), 1 << 20)).collect();
        let devices = leaves.iter().map(|leaf| Some(Arc::clone(leaf) as Arc<dyn Leaf>)).collect();
        let vdev = Vdev::new(arrangement, devices).unwrap();
        vdev.grow_to(blocks).unwrap();
        (leaves, vdev)
    }

    /// Changes every byte of a block.
    pub(crate) fn damage(&self, block: u64) {
        let run = Extent { block, blocks: 1 };
        let mut bytes = [0; BLOCK];
        self.inner.read(run, 0, &mut bytes).unwrap();
        bytes.iter_mut().for_each(|byte| *byte = byte.wrapping_add(101));
        self.inner.write(run, &bytes).unwrap();
    }

    pub(crate) fn block(&self, block: u64) -> Vec<u8> {
        let mut bytes = vec![0; BLOCK];
        self.inner.read(Extent { block, blocks: 1 }, 0, &mut bytes).unwrap();
        bytes
    }

    fn fail(&self, switch: &AtomicBool) -> Result<()> {
        match switch.load(Relaxed) {
            true => {
                Err(Error::BadLeaf { leaf: self.inner.name().to_owned(), why: "as planned".into() })
            }
            false => Ok(()),
        }
    }
}

impl Leaf for Faulty {
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

    fn grow_to(&self, blocks: u64) -> Result<()> {
        self.fail(&self.fails_writes)?;
        self.inner.grow_to(blocks)
    }

    fn write(&self, run: Extent, bytes: &[u8]) -> Result<()> {
        self.fail(&self.fails_writes)?;
        self.inner.write(run, bytes)
    }

    fn read(&self, run: Extent, at: usize, to: &mut [u8]) -> Result<()> {
        self.fail(&self.fails_reads)?;
        let unreadable = self.unreadable.load(Relaxed);
        let first = run.block + (at / BLOCK) as u64;
        if (first..run.block + (at + to.len()).div_ceil(BLOCK) as u64).contains(&unreadable) {
            return Err(Error::BadLeaf { leaf: self.name().to_owned(), why: "a bad block".into() });
        }
        self.inner.read(run, at, to)
    }

    fn patch(&self, run: Extent, at: usize, bytes: &[u8]) -> Result<bool> {
        self.fail(&self.fails_writes)?;
        self.inner.patch(run, at, bytes)
    }

    fn adopt(&self, _: Extent) -> Result<()> {
        Ok(())
    }

    fn free(&self, _: Extent) -> bool {
        true
    }

    fn pin(&self, _: Extent, _: usize, _: usize) -> Result<Option<Pinned>> {
        Ok(None)
    }

    fn sync(&self, _: Site) -> Result<()> {
        self.fail(&self.fails_syncs)
    }

    fn read_label(&self, at: usize, to: &mut [u8]) -> Result<()> {
        self.fail(&self.fails_reads)?;
        self.inner.read_label(at, to)
    }

    fn write_label(&self, at: usize, bytes: &[u8]) -> Result<()> {
        self.fail(&self.fails_writes)?;
        self.inner.write_label(at, bytes)
    }
}

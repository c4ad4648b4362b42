//! An open storage pool: its vdevs, and which of their blocks are allocated.
//!
//! The life of an extent:
//!
//! ```text
//!  allocate, write        adopt             retire                    recycle
//!  ────────────────▶ taken ────▶ in a tree ───────▶ read by old views ────────▶ free, when two more checkpoints are durable
//!                      └── recycle: nothing came to lead to it ────────────────▶ free
//! ```
//!
//! Only extents that are in a tree are in the bitmaps that a checkpoint stores: what was taken for a tree that a crash
//! takes is free when the pool is opened. An extent is durable after the sync of a checkpoint, which is before anything
//! durable leads to it.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use halite_contract::Health;
use halite_pmem::Pinned;
use halite_sim::locks::Mutex;
use halite_vdev::{BLOCK, QUEUE_DEPTH, Queue, Vdev};

use super::requests::{Check, PendingRead, THREADS, read_error};
use super::traffic::Traffic;
use super::{Address, Extent, Extents};
use crate::allocation::{Classes, DeviceSpace, Growth, Orders, Purpose};
use crate::{Error, Result};

/// The classes of an open pool.
pub(crate) struct Storage {
    /// The vdevs of each class.
    vdevs: Vec<Vec<Arc<Vdev>>>,
    /// Their queues.
    queues: Vec<Vec<Queue>>,
    space: Mutex<Classes>,
    /// The most blocks of an extent, on any vdev.
    extent_blocks_max: u32,
    /// The generation that is being built.
    generation: AtomicU64,
    /// Extents that may be allocated again as soon as no reader pins a value in them, and the generation that has seen
    /// them last.
    pinned: Mutex<Vec<(Extent, Option<u64>)>>,
    /// Reads and migrated bytes of each class.
    pub(crate) traffic: Traffic,
    /// Whether the store takes writes: not after a failed sync, whose bytes a later one does not make durable.
    health: Arc<Health>,
}

/// The space of a vdev as it was stored, or of a new one.
pub(crate) type OpenSpace<'a> = &'a mut dyn FnMut(u8, u16, u64) -> Result<DeviceSpace>;

impl Storage {
    /// A pool of these vdevs, of whose space `open` knows what is allocated. Requests go on in threads of their own, or
    /// all is done by the threads that call.
    pub(crate) fn new(
        vdevs: Vec<Vec<Arc<Vdev>>>,
        generation: u64,
        reserve: u64,
        on_threads: bool,
        open: OpenSpace<'_>,
    ) -> Result<Self> {
        let mut space = Classes::new(Orders::default(), [reserve; super::CLASSES]);
        for (class, of_class) in (0..).zip(&vdevs) {
            for (number, vdev) in (0..).zip(of_class) {
                let shape = Arc::clone(vdev);
                let actual = Box::new(move |blocks| shape.actual_blocks(blocks));
                space.add(class, open(class, number, vdev.blocks())?, actual);
            }
            let blocks_max = of_class.iter().map(|vdev| vdev.capacity_max());
            space.set_capacity_max(class, blocks_max.fold(0, u64::saturating_add));
        }
        let generation = AtomicU64::new(generation);
        let blocks_max = vdevs.iter().flatten().map(|vdev| vdev.data_blocks_max()).min();
        let extent_blocks_max = blocks_max.unwrap_or(halite_vdev::EXTENT_BLOCKS_MAX);
        let pinned = Mutex::default();
        let threads = if on_threads { THREADS } else { 0 };
        let queue = |vdev: &Arc<Vdev>| Queue::new(Arc::clone(vdev), threads, QUEUE_DEPTH);
        let queues = vdevs.iter().map(|of_class| of_class.iter().map(queue).collect()).collect();
        Ok(Self {
            vdevs,
            queues,
            space: Mutex::new(space),
            extent_blocks_max,
            generation,
            pinned,
            traffic: Traffic::default(),
            health: Arc::default(),
        })
    }

    /// Whether the store takes writes.
    pub(crate) fn health(&self) -> &Arc<Health> {
        &self.health
    }

    /// The vdev of an address.
    pub(crate) fn vdev(&self, address: Address) -> Result<&Arc<Vdev>> {
        self.queue(address).map(Queue::vdev)
    }

    /// The queue of the vdev of an address.
    pub(super) fn queue(&self, address: Address) -> Result<&Queue> {
        let of_class = self.queues.get(usize::from(address.class()));
        let queue = of_class.and_then(|queues| queues.get(usize::from(address.vdev())));
        queue.ok_or_else(|| Error::Damaged {
            what: "pointer",
            address,
            why: "there is no such vdev".into(),
        })
    }

    /// The vdevs of each class.
    pub(crate) fn classes(&self) -> &[Vec<Arc<Vdev>>] {
        &self.vdevs
    }

    /// All vdevs.
    pub(crate) fn vdevs(&self) -> impl Iterator<Item = &Arc<Vdev>> {
        self.vdevs.iter().flatten()
    }

    /// Blocks of the vdevs of each class. Their bytes of now are durable behind the next sync.
    pub(crate) fn vdev_blocks(&self) -> Vec<Vec<u64>> {
        self.vdevs.iter().map(|vdevs| vdevs.iter().map(|vdev| vdev.blocks()).collect()).collect()
    }

    /// The space of the pool, for a checkpoint.
    pub(crate) fn space<T>(&self, run: impl FnOnce(&mut Classes) -> T) -> T {
        run(&mut self.space.lock())
    }

    /// The generation that is being built.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Whether so many bytes of data have room beside what is kept from data; vdevs grow for that, if they can.
    pub(crate) fn ensure_free(&self, bytes: u64) -> Result<bool> {
        let mut growth = VdevGrowth(self);
        self.space.lock().ensure_free(bytes.div_ceil(BLOCK as u64), &mut growth)
    }

    /// Blocks that an extent takes of its vdev.
    pub(crate) fn actual_blocks(&self, extent: Extent) -> u64 {
        let vdev = self.vdev(extent.address);
        vdev.map_or(0, |vdev| u64::from(vdev.actual_blocks(extent.blocks)))
    }

    /// Bytes that an extent may have now, preferably of a class: at least a block's.
    pub(crate) fn extent_bytes(&self, class: u8, purpose: Purpose) -> usize {
        let blocks = self.space.lock().extent_blocks(class, purpose);
        blocks.clamp(1, self.extent_blocks_max) as usize * BLOCK
    }

    /// Allocates an extent of so many blocks, to which nothing leads yet.
    pub(crate) fn allocate(&self, class: u8, blocks: u32, purpose: Purpose) -> Result<Extent> {
        let mut growth = VdevGrowth(self);
        self.space.lock().reserve(class, blocks, purpose, &mut growth)
    }

    /// Allocates an extent of a class, and of no other one, for these bytes of a move, and writes them.
    pub(crate) fn write_in(&self, class: u8, bytes: &[u8]) -> Result<Extent> {
        let blocks = bytes.len().div_ceil(BLOCK) as u32;
        let mut growth = VdevGrowth(self);
        let reserved = self.space.lock().reserve_in(class, blocks, &mut growth);
        let extent = reserved?;
        self.write_at(extent, bytes).inspect_err(|_| {
            // Nothing leads to it.
            let _ = self.recycle(extent, false);
        })?;
        Ok(extent)
    }

    /// Writes an allocated extent: these bytes, and zeros behind.
    pub(crate) fn write_at(&self, extent: Extent, bytes: &[u8]) -> Result<()> {
        let vdev = self.vdev(extent.address)?;
        let run = run_of(extent);
        let written = match bytes.len() == run.byte_len() {
            true => vdev.write(run, bytes),
            false => {
                let mut padded = vec![0; run.byte_len()];
                padded[..bytes.len()].copy_from_slice(bytes);
                vdev.write(run, &padded)
            }
        };
        written.map_err(Error::from)
    }

    /// Allocates an extent for these bytes, and writes them.
    pub(crate) fn write_for(&self, purpose: Purpose, class: u8, bytes: &[u8]) -> Result<Extent> {
        let extent = self.allocate(class, bytes.len().div_ceil(BLOCK) as u32, purpose)?;
        self.write_at(extent, bytes).inspect_err(|_| {
            // Nothing leads to it.
            let _ = self.recycle(extent, false);
        })?;
        Ok(extent)
    }

    /// Notes that trees lead to extents from now on.
    pub(crate) fn adopt(&self, extents: &[Extent]) -> Result<()> {
        let mut space = self.space.lock();
        extents.iter().try_for_each(|extent| space.adopt(*extent))
    }

    /// Notes that trees do not lead to an extent any more. Readers of earlier trees may.
    pub(crate) fn retire(&self, extent: Extent) -> Result<()> {
        self.space.lock().hide(extent)
    }

    /// Lets the blocks of an extent be allocated again, to which neither trees nor readers lead. If a checkpoint has seen
    /// it, they wait for the next two.
    pub(crate) fn recycle(&self, extent: Extent, is_seen: bool) -> Result<()> {
        let vdev = self.vdev(extent.address)?;
        let seen_until = is_seen.then(|| self.generation());
        if !vdev.free(run_of(extent)) {
            // A reader has a value in place. Its extent waits for it.
            self.pinned.lock().push((extent, seen_until));
            return Ok(());
        }
        self.space.lock().recycle(extent, seen_until)
    }

    /// Lets the blocks of extents be allocated again that values in place have kept.
    pub(crate) fn recycle_pinned(&self) -> Result<()> {
        let mut pinned = self.pinned.lock();
        let all = std::mem::take(&mut *pinned);
        for (extent, seen_until) in all {
            if self.vdev(extent.address)?.free(run_of(extent)) {
                self.space.lock().recycle(extent, seen_until)?;
            } else {
                pinned.push((extent, seen_until));
            }
        }
        Ok(())
    }

    /// Frees an extent that only checkpoints and their superblocks lead to.
    pub(crate) fn free(&self, extent: Extent) -> Result<()> {
        self.retire(extent)?;
        self.recycle(extent, true)
    }

    /// Takes an extent that the log leads to, which is written.
    pub(crate) fn claim(&self, extent: Extent) -> Result<()> {
        let mut space = self.space.lock();
        match space.reserve_at(extent) {
            true => Ok(()),
            false => Err(Error::Damaged {
                what: "extent of a logged value",
                address: extent.address,
                why: "its blocks are in use, or do not exist".into(),
            }),
        }
    }

    /// Makes everything durable that was written. After a failure the store takes no more writes.
    #[track_caller]
    pub(crate) fn sync(&self) -> Result<()> {
        for vdev in self.vdevs() {
            vdev.sync().inspect_err(|error| self.health.poison(error.to_string()))?;
        }
        Ok(())
    }

    /// Notes that the generation that was being built is durable, and begins the next.
    pub(crate) fn checkpoint_durable(&self) {
        let generation = self.generation();
        self.space.lock().checkpoint_durable(generation);
        self.generation.store(generation + 1, Ordering::Release);
    }
}

/// Lets vdevs grow where space is allocated.
struct VdevGrowth<'a>(&'a Storage);

impl Growth for VdevGrowth<'_> {
    fn grow(&mut self, class: u8, vdev: u16, least: u64) -> Result<Option<u64>> {
        let vdev = &self.0.vdevs[usize::from(class)][usize::from(vdev)];
        match vdev.grow_to(least) {
            Ok(()) => Ok(Some(vdev.blocks())),
            Err(halite_vdev::Error::NoSpace { .. }) => Ok(None),
            Err(error) => {
                self.0.health.poison(error.to_string());
                Err(error.into())
            }
        }
    }
}

/// An extent, as its vdev knows it.
pub(crate) fn run_of(extent: Extent) -> halite_vdev::Extent {
    halite_vdev::Extent { block: extent.address.block(), blocks: extent.blocks }
}

impl Extents for Storage {
    fn write(&self, class: u8, bytes: &[u8]) -> Result<Extent> {
        self.write_for(Purpose::Metadata, class, bytes)
    }

    fn begin(&self, class: u8, blocks: u32, bytes: &[u8]) -> Result<Option<Extent>> {
        let of_class = self.vdevs.get(usize::from(class));
        if !of_class.is_some_and(|vdevs| vdevs.iter().any(|vdev| vdev.appends())) {
            return Ok(None);
        }
        let extent = match self.allocate(class, blocks, Purpose::Metadata) {
            Err(Error::NoSpace { .. }) => return Ok(None),
            allocated => allocated?,
        };
        let begun =
            self.vdev(extent.address).and_then(|vdev| Ok(vdev.append(run_of(extent), 0, bytes)?));
        if !matches!(begun, Ok(true)) {
            self.recycle(extent, false)?;
        }
        Ok(begun?.then_some(extent))
    }

    fn tail(&self, extent: Extent) -> Option<usize> {
        self.vdev(extent.address).ok()?.tail(run_of(extent))
    }

    fn append(&self, extent: Extent, at: usize, bytes: &[u8]) -> Result<()> {
        let vdev = self.vdev(extent.address)?;
        match vdev.append(run_of(extent), at, bytes)? {
            true => Ok(()),
            // One update at a time appends, at the tail that it has found: the leaf does not take writes any more.
            false => Err(halite_vdev::Error::BadLeaf {
                leaf: vdev.to_string(),
                why: "it takes no bytes behind others; bring it online, or replace it".into(),
            }
            .into()),
        }
    }

    fn read(
        &self,
        what: &'static str,
        extent: Extent,
        at: usize,
        to: &mut [u8],
        check: &dyn Fn(&[u8]) -> bool,
    ) -> Result<()> {
        let vdev = self.vdev(extent.address)?;
        self.traffic.read(extent.address.class(), to.len());
        vdev.read(run_of(extent), at, to, check).map_err(|error| read_error(what, extent, error))
    }

    fn begin_read(
        &self,
        what: &'static str,
        extent: Extent,
        span: Range<usize>,
        check: Check,
    ) -> Option<PendingRead> {
        // Where an address is wrong, the read that is done when the bytes are needed says so.
        if self.is_direct(extent.address) {
            return None;
        }
        self.submit_span(what, extent, span, check).ok()
    }

    fn extent_bytes_max(&self) -> usize {
        self.extent_blocks_max as usize * BLOCK
    }

    fn extent_bytes(&self, class: u8) -> usize {
        Storage::extent_bytes(self, class, Purpose::Metadata)
    }

    fn pin(&self, extent: Extent, at: usize, len: usize) -> Option<Pinned> {
        let pinned = self.vdev(extent.address).ok()?.pin(run_of(extent), at, len).ok()??;
        self.traffic.read(extent.address.class(), len);
        Some(pinned)
    }
}

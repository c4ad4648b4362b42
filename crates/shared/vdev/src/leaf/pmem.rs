//! A leaf on persistent memory: segments of a pool's device, in which a run is a parcel.
//!
//! ```text
//! logical segment 0   labels: the first 256 KiB
//!                 1   blocks 0..512
//!                 2   blocks 512..1024, ...
//! ```
//!
//! A run is written once, as a parcel that is then kept: immutable, and readable in place under a pin. Or it is written
//! in steps, of which each is immutable then (`appended`).
//!
//! **Durability.** A processor waits for its own streaming stores only, so their proof cannot be left to the thread
//! that calls `sync`. Where a fence is an instruction, a write streams and fences before it returns, at the price of
//! one fence for an extent; `sync` has nothing to do for it. On an ordinary file a fence is a sync of the kernel, which
//! no extent can afford: there a write stores through the page cache, and `sync` flushes all pending runs with one.
//! Either way a run can be read and pinned as soon as its write has returned.
//!
//! **Reopening.** The pool does not know which runs hold extents, and a pointer may be damaged. So a read of a run that
//! is not kept copies the bytes and keeps nothing; only when they have passed their check the vdev adopts the run. A
//! damaged pointer thereby takes no space from a later write.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use halite_alloc::{Device, SEGMENT};
use halite_pmem::{Domain, Flushed, Fresh, Parcels, Pinned, Pool};
use halite_sim::Site;
use halite_sim::locks::{Mutex, RwLock};

use super::appended::AppendedRuns;
use super::{LABEL_AREA, Leaf, check, check_label};
use crate::{BLOCK, Error, Extent, Result, SEGMENT_BLOCKS};

/// The logical segment of labels; data begins at the next one.
const LABELS: u32 = 0;

const _: () =
    assert!(SEGMENT == SEGMENT_BLOCKS * BLOCK as u64, "a segment of a leaf is one of the pool");

/// The segments of a device of a pool. They are never given back.
pub struct PmemLeaf {
    name: String,
    device: Device,
    pool: Pool,
    blocks_max: u64,
    segments: RwLock<Vec<Arc<Parcels>>>,
    /// Runs that are written in steps.
    appended: AppendedRuns,
    /// Held while a run that is not kept is read, and while a kept one is given up. Taken before `unsynced`.
    taking: Mutex<()>,
    unsynced: Mutex<Unsynced>,
    /// Held during a sync: one that finds nothing to do waits for the one that does it.
    syncing: Mutex<()>,
}

/// The stores that the next sync makes durable.
struct Unsynced {
    labels: Fresh,
    /// The bytes of the labels that were stored.
    stored: Option<Range<u64>>,
    /// Runs that were stored through the page cache: their first blocks, and their blocks.
    runs: BTreeMap<u64, u32>,
}

impl PmemLeaf {
    /// Makes a leaf, with empty labels, of a device that has no segment. It has no blocks, and may have `blocks_max`;
    /// `path` is the pool's, for messages.
    ///
    /// # Errors
    /// [`Error::NoSpace`], those of the pool.
    pub fn create(path: &Path, device: Device, blocks_max: u64) -> Result<Self> {
        let name = name(path);
        let grant = device.get(LABELS).map_err(|error| no_space(&name, 0, error))?;
        let mut labels = grant.claim(0, SEGMENT)?;
        let zeroed = labels.zero(0..LABEL_AREA as u64);
        labels.pool().fence([zeroed])?;
        grant.commit()?;
        Ok(Self::new(name, device, blocks_max, labels, Vec::new()))
    }

    /// Opens a leaf. Its labels are made durable as they are found: a killed process may not have fenced them.
    ///
    /// # Errors
    /// [`Error::BadLeaf`] if its segments are not those of a leaf; those of the pool.
    pub fn open(path: &Path, device: Device, blocks_max: u64) -> Result<Self> {
        let logical = device.logical_segments();
        if let Some((expected, _)) =
            (0..).zip(&logical).find(|(expected, found)| expected != *found)
        {
            let why = format!("its segment {expected} is missing, a later one is not");
            return Err(Error::BadLeaf { leaf: name(path), why });
        }
        if logical.is_empty() {
            return Self::create(path, device, blocks_max);
        }
        let labels = device.claim(LABELS, 0, SEGMENT)?;
        labels.pool().fence_found(&[labels.flush(0..LABEL_AREA as u64)])?;
        let data = logical[1..].iter().map(|&logical| device.claim_parcels(logical));
        let segments = data.collect::<std::result::Result<_, _>>()?;
        Ok(Self::new(name(path), device, blocks_max, labels, segments))
    }

    fn new(
        name: String,
        device: Device,
        blocks_max: u64,
        labels: Fresh,
        segments: Vec<Arc<Parcels>>,
    ) -> Self {
        Self {
            name,
            appended: AppendedRuns::new(labels.pool().clone()),
            pool: labels.pool().clone(),
            device,
            blocks_max,
            segments: RwLock::new(segments),
            taking: Mutex::default(),
            unsynced: Mutex::new(Unsynced { labels, stored: None, runs: BTreeMap::new() }),
            syncing: Mutex::default(),
        }
    }

    /// The parcels of a run's segment, and where in it the run begins. The run was checked.
    fn segment(&self, run: Extent) -> (Arc<Parcels>, u64) {
        let segment = Arc::clone(&self.segments.read()[(run.block / SEGMENT_BLOCKS) as usize]);
        (segment, run.block % SEGMENT_BLOCKS * BLOCK as u64)
    }

    fn busy(&self, run: Extent, error: halite_pmem::Error) -> Error {
        match error {
            halite_pmem::Error::Claimed { .. } => {
                Error::Busy { leaf: self.name.clone(), block: run.block }
            }
            error => error.into(),
        }
    }
}

/// Ends the keeping of a run, if it is kept. Returns whether it is not any more.
fn reclaim(parcels: &Parcels, at: u64) -> bool {
    !parcels.is_kept(at, 1) || parcels.reclaim(at)
}

fn name(path: &Path) -> String {
    format!("pmem:{}", path.display())
}

fn no_space(leaf: &str, blocks: u64, error: halite_alloc::Error) -> Error {
    match error {
        halite_alloc::Error::Full { reason } => {
            Error::NoSpace { leaf: leaf.to_owned(), blocks, why: reason.to_string() }
        }
        error => error.into(),
    }
}

impl Leaf for PmemLeaf {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_memory(&self) -> bool {
        true
    }

    fn blocks(&self) -> u64 {
        (self.segments.read().len() as u64 * SEGMENT_BLOCKS).min(self.blocks_max)
    }

    fn blocks_max(&self) -> u64 {
        self.blocks_max
    }

    fn grow_to(&self, blocks: u64) -> Result<()> {
        // Logical numbers of segments have 32 bits.
        let limit = self.blocks_max.min(u64::from(u32::MAX) * SEGMENT_BLOCKS);
        if blocks > limit {
            let why = format!("its capacity is {limit} blocks");
            return Err(Error::NoSpace { leaf: self.name.clone(), blocks, why });
        }
        let mut segments = self.segments.write();
        while (segments.len() as u64) < blocks.div_ceil(SEGMENT_BLOCKS) {
            let logical = LABELS + 1 + segments.len() as u32;
            let got = self.device.get(logical);
            got.map_err(|error| no_space(&self.name, blocks, error))?.commit()?;
            segments.push(self.device.claim_parcels(logical)?);
        }
        Ok(())
    }

    fn write(&self, run: Extent, bytes: &[u8]) -> Result<()> {
        check(self, run, 0, bytes.len())?;
        let ((parcels, at), len) = (self.segment(run), bytes.len() as u64);
        let mut parcel = parcels.take(at, len);
        // A composite vdev writes an extent again that another leaf did not take the first time.
        if parcel.is_err() && parcels.is_kept(at, len) && self.free(run) {
            parcel = parcels.take(at, len);
        }
        let parcel = parcel.map_err(|error| self.busy(run, error))?;
        if self.pool.domain() == Domain::PageCache {
            parcel.write(bytes);
            self.unsynced.lock().runs.insert(run.block, run.blocks);
        } else {
            let (in_flight, flushed) = parcel.stream(bytes);
            let [proof] = self.pool.fence([flushed])?;
            in_flight.keep(&proof);
        }
        Ok(())
    }

    fn appends(&self) -> bool {
        true
    }

    fn append(&self, run: Extent, at: usize, bytes: &[u8]) -> Result<bool> {
        check(self, run, at, bytes.len())?;
        if at > 0 {
            return self.appended.append(run.block, at as u64, bytes);
        }
        let (parcels, start) = self.segment(run);
        let parcel = parcels.take(start, run.byte_len() as u64);
        let parcel = parcel.map_err(|error| self.busy(run, error))?;
        self.appended.begin(run.block, parcel.into_fresh(), bytes)?;
        Ok(true)
    }

    fn tail(&self, run: Extent) -> Option<usize> {
        self.appended.tail(run.block).map(|tail| tail as usize)
    }

    fn read(&self, run: Extent, at: usize, to: &mut [u8]) -> Result<()> {
        check(self, run, at, to.len())?;
        if self.appended.read(run.block, at as u64, to) {
            return Ok(());
        }
        let (parcels, start) = self.segment(run);
        let copy = |bytes: &[u8], to: &mut [u8]| to.copy_from_slice(&bytes[at..at + to.len()]);
        if let Some(pinned) = parcels.pin(start, run.byte_len() as u64) {
            copy(&pinned, to);
            return Ok(());
        }
        let _taking = self.taking.lock();
        // A thread that held the lock may have adopted or patched the run.
        if let Some(pinned) = parcels.pin(start, run.byte_len() as u64) {
            copy(&pinned, to);
            return Ok(());
        }
        let parcel = parcels.take(start, run.byte_len() as u64);
        copy(parcel.map_err(|error| self.busy(run, error))?.bytes(), to);
        Ok(())
    }

    fn patch(&self, run: Extent, at: usize, bytes: &[u8]) -> Result<bool> {
        check(self, run, at, bytes.len())?;
        let ((parcels, start), len) = (self.segment(run), run.byte_len() as u64);
        if self.appended.has(run.block) {
            return Ok(false);
        }
        // Readers that find nothing kept wait for this lock.
        let _taking = self.taking.lock();
        if !reclaim(&parcels, start) {
            return Ok(false);
        }
        let taken = parcels.take(start, len).map_err(|error| self.busy(run, error))?;
        let mut fresh = taken.into_fresh();
        let flushed = fresh.write_stream(at as u64, bytes);
        // On an ordinary file this is a sync of the kernel, which a repair can afford.
        let fenced = self.pool.fence([flushed]);
        drop(fresh);
        // The run is kept whatever became of the fence: it may be among those that the next sync has to flush.
        parcels.take(start, len).map_err(|error| self.busy(run, error))?.keep_found();
        fenced?;
        Ok(true)
    }

    fn adopt(&self, run: Extent) -> Result<()> {
        check(self, run, 0, 0)?;
        let ((parcels, at), len) = (self.segment(run), run.byte_len() as u64);
        if parcels.is_kept(at, len) || self.appended.has(run.block) {
            return Ok(());
        }
        let _taking = self.taking.lock();
        if !parcels.is_kept(at, len) {
            parcels.take(at, len).map_err(|error| self.busy(run, error))?.keep_found();
        }
        Ok(())
    }

    fn free(&self, run: Extent) -> bool {
        if check(self, run, 0, 0).is_err() {
            return true;
        }
        if !self.appended.free(run.block) {
            return false;
        }
        let (parcels, at) = self.segment(run);
        let _taking = self.taking.lock();
        let mut unsynced = self.unsynced.lock();
        let is_free = reclaim(&parcels, at);
        if is_free {
            unsynced.runs.remove(&run.block);
        }
        is_free
    }

    fn pin(&self, run: Extent, at: usize, len: usize) -> Result<Option<Pinned>> {
        check(self, run, at, len)?;
        let (parcels, start) = self.segment(run);
        if let Some(pinned) = parcels.pin(start, run.byte_len() as u64) {
            return Ok(Some(pinned.slice(at..at + len)));
        }
        Ok(self.appended.pin(run.block, at as u64..(at + len) as u64))
    }

    fn sync(&self, site: Site) -> Result<()> {
        let _syncing = self.syncing.lock();
        let mut flushed: Vec<Flushed> = Vec::new();
        {
            // A patch holds its run as not kept while it has this lock.
            let _taking = self.taking.lock();
            let mut unsynced = self.unsynced.lock();
            let stored = unsynced.stored.take();
            flushed.extend(stored.map(|stored| unsynced.labels.flush(stored)));
            for (block, blocks) in std::mem::take(&mut unsynced.runs) {
                let run = Extent { block, blocks };
                let (parcels, at) = self.segment(run);
                flushed.push(parcels.flush(at, run.byte_len() as u64));
            }
        }
        self.appended.flush(&mut flushed);
        if !flushed.is_empty() {
            self.pool.fence_all_for(&flushed, site)?;
        }
        Ok(())
    }

    fn read_label(&self, at: usize, to: &mut [u8]) -> Result<()> {
        check_label(at, to.len());
        to.copy_from_slice(self.unsynced.lock().labels.read(at as u64, to.len() as u64));
        Ok(())
    }

    fn write_label(&self, at: usize, bytes: &[u8]) -> Result<()> {
        check_label(at, bytes.len());
        let mut unsynced = self.unsynced.lock();
        let end = (at + bytes.len()) as u64;
        unsynced.labels.write(at as u64, bytes);
        let stored = unsynced.stored.take().unwrap_or(at as u64..end);
        unsynced.stored = Some(stored.start.min(at as u64)..stored.end.max(end));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::panic::Location;

    use halite_alloc::Segments;
    use halite_pmem::PoolOptions;

    use super::*;

    fn options() -> PoolOptions {
        let mut options = PoolOptions::default();
        options.size_max = 64 << 20;
        options
    }

    #[test]
    fn a_reopened_leaf_reads_its_runs_and_takes_no_space_for_a_wrong_pointer() {
        for domain in [Domain::Process, Domain::PageCache] {
            let folder = tempfile::tempdir_in("/dev/shm").unwrap();
            let path = folder.path().join("pool");
            let mut options = options();
            options.assume_domain = Some(domain);
            let segments = Segments::create(&path, &options).unwrap();
            segments.install().unwrap();
            let leaf = PmemLeaf::create(&path, segments.device(3), 4096).unwrap();
            leaf.grow_to(600).unwrap();
            let run = Extent { block: 520, blocks: 4 };
            leaf.write(run, &[5; 4 * BLOCK]).unwrap();
            leaf.write_label(0, &[6; 8192]).unwrap();
            leaf.sync(Location::caller()).unwrap();
            drop((leaf, segments));

            let segments = Segments::open(&path, &options).unwrap();
            let leaf = PmemLeaf::open(&path, segments.device(3), 4096).unwrap();
            assert_eq!(leaf.blocks(), 1024);
            let mut to = [0; 4];
            leaf.read_label(8190, &mut to).unwrap();
            assert_eq!(to, [6, 6, 0, 0]);
            // A pointer to the middle of the run, whose check fails.
            leaf.read(Extent { block: 522, blocks: 8 }, 0, &mut to).unwrap();
            leaf.read(run, 0, &mut to).unwrap();
            assert_eq!(to, [5; 4]);
            assert!(leaf.pin(run, 0, 4).unwrap().is_none(), "it is not adopted yet");
            leaf.adopt(run).unwrap();
            let pinned = leaf.pin(run, 4, 8).unwrap().unwrap();
            assert_eq!(*pinned, [5; 8]);
            assert!(!leaf.free(run) && !leaf.patch(run, 0, &[1]).unwrap(), "it is pinned");
            let over = leaf.write(Extent { block: 523, blocks: 1 }, &[0; BLOCK]);
            assert!(matches!(over, Err(Error::Busy { block: 523, .. })));
            drop(pinned);
            assert!(leaf.free(run) && leaf.free(run));
            leaf.write(Extent { block: 523, blocks: 1 }, &[7; BLOCK]).unwrap();
        }
    }

    #[test]
    fn a_repair_whose_fence_fails_leaves_a_run_that_the_next_sync_can_flush() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let failures = halite_sim::Failures::default();
        let mut options = options();
        (options.assume_domain, options.failures) =
            (Some(Domain::PageCache), Some(failures.clone()));
        let path = folder.path().join("pool");
        let segments = Segments::create(&path, &options).unwrap();
        segments.install().unwrap();
        let leaf = PmemLeaf::create(&path, segments.device(3), 4096).unwrap();
        leaf.grow_to(600).unwrap();
        let run = Extent { block: 520, blocks: 4 };
        leaf.write(run, &[5; 4 * BLOCK]).unwrap();
        failures.fail_every(halite_sim::Call::Sync, 5);
        assert!(leaf.patch(run, 0, &[6; 8]).is_err());
        failures.stop();
        assert!(
            leaf.sync(Location::caller()).is_err(),
            "the pool keeps in mind that a sync failed"
        );
        let mut to = [0; 16];
        leaf.read(run, 0, &mut to).unwrap();
        assert_eq!(to, [6, 6, 6, 6, 6, 6, 6, 6, 5, 5, 5, 5, 5, 5, 5, 5]);
    }

    #[test]
    fn a_full_pool_is_named_and_leaves_the_leaf_usable() {
        let mut options = options();
        (options.in_memory, options.size_max) = (true, 8 << 20);
        let path = Path::new("pool");
        let segments = Segments::create(path, &options).unwrap();
        let leaf = PmemLeaf::create(path, segments.device(3), u64::MAX).unwrap();
        assert!(matches!(leaf.grow_to(4096), Err(Error::NoSpace { blocks: 4096, .. })));
        // Segments 0 and 1 of the pool have its tables and the labels.
        assert_eq!(leaf.blocks(), 1024);
        leaf.write(Extent { block: 1023, blocks: 1 }, &[7; BLOCK]).unwrap();
    }
}
